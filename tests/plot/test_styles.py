"""An algorithm looks the same everywhere, and no two look the same."""

import itertools

import numpy as np
import pytest
from matplotlib import colors

from fedjax_links import plot
from fedjax_links.algorithms import ALGORITHMS


def style_of(label):
    return plot.assign_styles([label])[label]


def line(style, model='server'):
    return style.colour, str(style.line(model))


def test_each_registered_algorithm_has_a_style_of_its_own():
    alone = {name: plot.assign_styles([name])[name] for name in ALGORITHMS}
    together = plot.assign_styles(ALGORITHMS)
    backwards = plot.assign_styles([*reversed(ALGORITHMS), 'mine', 'another'])
    for name in ALGORITHMS:
        assert alone[name] == together[name] == backwards[name]
    for model in ('server', 'client_mean'):
        assert len({line(style, model) for style in alone.values()}) == len(ALGORITHMS)
    assert len({style.colour for style in alone.values()}) == len(ALGORITHMS)
    assert len({(style.marker, str(style.line())) for style in alone.values()}) > 20
    faces = np.array([style.face for style in alone.values()])
    for one, other in itertools.combinations(faces, 2):
        assert np.abs(one - other).max() > 0.05
    assert not {line(style) for style in together.values()} & {
        line(style, 'client_mean') for style in together.values()
    }


@pytest.mark.parametrize(
    'label', ['FedAvg', 'fedavg (rate 0.1)', 'fedavg-long', 'fedavg x']
)
def test_other_names_of_an_algorithm_have_its_style(label):
    assert style_of(label) == style_of('fedavg')


def test_names_of_an_earlier_version_still_work():
    assert plot.looks is plot.assign_styles
    assert plot.level_bars is plot.metric_bars
    assert not {'looks', 'level_bars'} & {*plot.__all__}


def test_the_longest_name_counts():
    result = plot.assign_styles(['fedavg_all (rate 1)', 'wait-for-all'])
    assert result['fedavg_all (rate 1)'] == style_of('fedavg_all')
    assert result['wait-for-all'] == style_of('wait_for_all')


SERIES = [f'mifa (rate {rate})' for rate in range(5)]


@pytest.mark.parametrize(
    'labels',
    [
        ['fedavg', 'fedavg_all', 'fedavg_known', 's2a'],
        SERIES,
        [*SERIES, 'fedvarp', 'area', 'FedVARP'],
        ['fedavg', *(f'mine{k}' for k in range(31))],
        [*(f'fedavg (rate {rate})' for rate in range(20)), *list(ALGORITHMS)[:12]],
    ],
)
def test_no_two_of_a_picture_have_one_colour(labels):
    result = plot.assign_styles(labels)
    assert list(result) == labels
    assert len({style.colour for style in result.values()}) == len(labels)
    assert plot.assign_styles(labels) == result


def test_series_of_one_algorithm_have_shades_of_its_hue():
    result = plot.assign_styles(SERIES)
    assert result[SERIES[0]] == style_of('mifa')
    hue = style_of('mifa').hue
    assert [style.hue for style in result.values()][:4] == [hue] * 4


def test_a_registered_algorithm_keeps_its_colour_among_others():
    for name in ('fedavg', 'fedvarp'):
        alone = plot.assign_styles([name])[name]
        assert plot.assign_styles(['mine', *SERIES, name])[name] == alone


def test_more_things_than_colours_differ_in_markers():
    labels = [f'mine{k}' for k in range(3 * len(plot.COLOURS))]
    result = plot.assign_styles(labels)
    assert len({(style.colour, style.marker) for style in result.values()}) == len(
        labels
    )


# Machado, Oliveira and Fernandes 2009, severity 1, on linear light.
DEFICIENCIES = {
    'none': [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    'protanopia': [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    'deuteranopia': [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    'tritanopia': [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear_light(colours):
    shown = np.array([colors.to_rgb(colour) for colour in colours])
    return np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)


def oklab(linear):
    """Converts to Oklab (Ottosson 2020); 0.02 is a visible distance of areas that touch."""
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    opponents = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.cbrt(linear @ np.array(cones).T) @ np.array(opponents).T


OF_XIANG_2024 = [
    'fedavg',
    'fedavg_all',
    'fedavg_known',
    'fedau',
    'f3ast',
    'mifa',
    'fedpbc',
]
"""The algorithms of Table 1 of Xiang et al. 2024."""


@pytest.mark.parametrize('deficiency', DEFICIENCIES)
@pytest.mark.parametrize(
    ('colours', 'distance'),
    [
        (plot.COLOURS, 0.045),
        (plot.COLOURS[:8], 0.075),
        ([style.colour for style in plot.assign_styles(OF_XIANG_2024).values()], 0.07),
    ],
)
def test_the_colour_blind_can_distinguish_colours(deficiency, colours, distance):
    matrix = np.array(DEFICIENCIES[deficiency])
    seen = oklab(np.clip(linear_light(colours) @ matrix.T, 0, 1))
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > distance


def test_all_colours_stand_out_from_white():
    luminance = linear_light(plot.COLOURS) @ [0.2126, 0.7152, 0.0722]
    assert (1.05 / (luminance + 0.05) > 1.6).all()


@pytest.mark.parametrize('labels', [['fedavg'], ['fedavg', 'mifa']])
@pytest.mark.parametrize('seen', [[0], [2], [0, 2, 4, 5]])
def test_a_point_without_neighbours_has_a_marker(ax, labels, seen):
    values = np.full((2, 7), np.nan)
    values[:, seen] = 1.0
    plot.learning_curves(dict.fromkeys(labels, values), 'loss', ax=ax)
    alone = {index for index in seen if not {index - 1, index + 1} & {*seen}}
    for line in ax.lines:
        assert line.get_marker() not in ('', 'None')
        assert alone <= {*line.get_markevery()}
