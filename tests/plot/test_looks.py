"""The same algorithm looks the same everywhere, and no two look alike."""

import itertools

import numpy as np
import pytest
from matplotlib import colors

from fedjax_links import plot
from fedjax_links.algorithms import ALGORITHMS


def line(look, model='server'):
    return look.colour, str(look.line(model))


def test_each_registered_algorithm_has_a_look_of_its_own():
    alone = {name: plot.looks([name])[name] for name in ALGORITHMS}
    together = plot.looks(ALGORITHMS)
    backwards = plot.looks([*reversed(ALGORITHMS), 'mine', 'another'])
    for name in ALGORITHMS:
        assert alone[name] == together[name] == backwards[name]
    for model in ('server', 'client_mean'):
        assert len({line(look, model) for look in alone.values()}) == len(ALGORITHMS)
    assert len({(look.colour, look.hatch) for look in alone.values()}) == len(
        ALGORITHMS
    )
    assert len({(look.colour, look.marker) for look in alone.values()}) == len(
        ALGORITHMS
    )
    faces = np.array([look.face for look in alone.values()])
    for one, other in itertools.combinations(faces, 2):
        assert np.abs(one - other).max() > 0.05
    assert not {line(look) for look in together.values()} & {
        line(look, 'client_mean') for look in together.values()
    }


@pytest.mark.parametrize(
    'label', ['FedAvg', 'fedavg (rate 0.1)', 'fedavg-long', 'fedavg x']
)
def test_other_names_of_an_algorithm_have_its_look(label):
    assert plot.looks([label])[label] == plot.looks(['fedavg'])['fedavg']


def test_the_longest_name_counts():
    found = plot.looks(['fedavg_all (rate 1)', 'wait-for-all'])
    assert found['fedavg_all (rate 1)'] == plot.looks(['fedavg_all'])['fedavg_all']
    assert found['wait-for-all'] == plot.looks(['wait_for_all'])['wait_for_all']


def test_series_of_one_algorithm_differ_in_markers_alone():
    found = plot.looks([f'mifa (rate {rate})' for rate in range(5)])
    assert len({line(look) for look in found.values()}) == 1
    assert len({look.marker for look in found.values()}) == 5


def test_others_take_what_nobody_has():
    labels = ['fedavg', *(f'mine{k}' for k in range(23))]
    found = plot.looks(labels)
    assert found['fedavg'] == plot.looks(['fedavg'])['fedavg']
    assert len({line(look) for look in found.values()}) == 24
    assert plot.looks(labels) == found


def test_colours_are_told_apart_with_deuteranopia_and_protanopia():
    """Machado, Oliveira and Fernandes 2009, severity 1, on linear light."""
    matrices = (
        '0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.01182 0.04294 0.968881',
        '0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998',
    )
    shown = np.array([colors.to_rgb(colour) for colour in plot.COLOURS])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    for matrix in matrices:
        seen = np.clip(linear @ np.array(matrix.split(), float).reshape(3, 3).T, 0, 1)
        seen = np.where(
            seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055
        )
        for one, other in itertools.combinations(seen, 2):
            assert np.linalg.norm(one - other) > 0.1
