"""Small figures without noise of training: trajectories, networks, Markov links."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from configs.figures.wang2022 import exact_models
from configs.figures.xiang2024 import _estimates
from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from tests.papers.shipped import config, half_a_unit, numbers

CORNERS = np.array([[-1, 0], [1, 0], [0, np.sqrt(3)]])


def path(rate, factor, steps=1, num_rounds=15, period=3):
    """The server models of amplified FedAvg with one client in turn, [points, 2].

    A round that ends a period has two points, before and after the amplification.
    """
    model = np.array([1.0, 2.0])
    reference = model
    points = [model]
    for t in range(num_rounds):
        for _ in range(steps):
            model = model - rate * (model - CORNERS[t % 3])
        points.append(model)
        if t % period == period - 1:
            model = reference + factor * (model - reference)
            if factor != 1:
                points.append(model)
            reference = model
    return np.array(points)


@pytest.mark.parametrize(
    'name, distances',
    [
        ('wang2022_figure_b1', '.824 .413 .210 .437'),
        ('wang2022_figure_b2', '.824 .352 .0375 .0106'),
    ],
)
def test_trajectories_are_those_of_a_loop(name, distances):
    columns = numbers(name)
    settings = config(name)['figure']['settings']
    starts = [*np.flatnonzero(columns['round'] == 0), len(columns['round'])]
    assert len(starts) == len(settings) + 1
    ends = []
    for (rate, factor), start, stop in zip(
        settings, starts[:-1], starts[1:], strict=True
    ):
        points = path(rate, factor)
        results = {column: values[start:stop] for column, values in columns.items()}
        np.testing.assert_allclose(results['x'], points[:, 0], atol=1e-5)
        np.testing.assert_allclose(results['y'], points[:, 1], atol=1e-5)
        exact = np.column_stack([results['exact_x'], results['exact_y']])
        np.testing.assert_allclose(exact, points, atol=1e-13)
        assert results['round'][-1] == 15
        assert results['amplified'].sum() == (5 if factor != 1 else 0)
        assert set(results['round'][results['amplified'] == 1]) <= {3, 6, 9, 12, 15}
        ends.append(results['distance'][-1])
    for end, text in zip(ends, distances.split(), strict=True):
        assert abs(end - float(text)) < 2 * half_a_unit(text)  # some were rounded twice


def test_exact_points_are_those_of_a_chain_of_turns():
    turns = np.roll(np.eye(3), 1, axis=1)
    chain = link_chains.from_modes(turns, np.eye(3), start=[1.0, 0.0, 0.0])
    start = np.array([1.0, 2.0])
    for rate in (0.05, 0.5):
        curve = analysis.linear_curve(
            'fedavg', chain, CORNERS - start, rate, 2, num_rounds=15
        )
        models = exact_models(start, CORNERS, (1 - rate) ** 2, 1.0)
        np.testing.assert_allclose(models - start, curve.means['server'], atol=1e-13)


def test_more_local_steps_do_not_give_the_published_picture():
    columns = numbers('wang2022_figure_b2', local_steps=5)
    starts = np.flatnonzero(columns['round'] == 0)
    last_rows = [*(starts[1:] - 1), -1]
    ends = columns['distance'][last_rows]
    np.testing.assert_allclose(ends[2:], (21.1, 2497), rtol=3e-3)
    np.testing.assert_allclose(
        ends,
        [
            np.linalg.norm(path(0.05, eta, 5)[-1] - CORNERS.mean(axis=0))
            for eta in (1, 2, 5, 10)
        ],
        rtol=1e-3,
    )


def convolutions(side, *channels):
    return [(side, side, *pair) for pair in itertools.pairwise(channels)]


def dense(*widths):
    return list(itertools.pairwise(widths))


LISTED = {  # kernels of the papers' lists, or of their code; of a normalisation the width
    'wang2022_table_d2': {
        'FashionMNIST': convolutions(5, 1, 32, 32) + dense(1568, 128, 10),
        'CIFAR-10': convolutions(5, 3, 32, 64) + dense(4096, 512, 128, 10),
    },
    'xiang2024_networks': {
        'SVHN': convolutions(3, 3, 32, 32) + dense(2048, 128, 10),
        'CIFAR-10': convolutions(3, 3, 32, 32) + dense(2048, 256, 64, 10),
        'CINIC-10': convolutions(3, 3, 32, 32) + dense(2048, 512, 256, 10),
    },
    'sun2025_networks': {
        'MNIST': [(784, 1568), (1568,), (1568, 392), (392,), (392, 10)]
    },
}
TOTALS = {
    'wang2022_table_d2': (228_586, 2_218_314),
    'xiang2024_networks': (273_706, 551_786, 1_193_130),
    'sun2025_networks': (1_853_778,),
}


@pytest.mark.parametrize('name', LISTED)
def test_networks_have_the_sizes_of_the_papers(name):
    columns = numbers(name)
    assert set(columns['network']) == set(LISTED[name])
    for (network, kernels), total in zip(
        LISTED[name].items(), TOTALS[name], strict=True
    ):
        rows = columns['network'] == network
        assert columns['kernel'][rows].tolist() == [
            ' x '.join(map(str, k)) for k in kernels
        ]
        # A bias per output.
        listed = [math.prod(kernel) + kernel[-1] for kernel in kernels]
        np.testing.assert_array_equal(columns['parameters'][rows], listed)
        assert sum(listed) == total


def test_layers_are_in_the_order_in_which_they_act():
    columns = numbers('sun2025_networks')
    assert columns['layer'].tolist() == [
        'Dense_0',
        'BatchNorm_0',
        'Dense_1',
        'BatchNorm_1',
        'Dense_2',
    ]
    assert columns['kernel'].tolist() == [
        '784 x 1568',
        '1568',
        '1568 x 392',
        '392',
        '392 x 10',
    ]
    assert columns['output'].tolist() == ['1568', '1568', '392', '392', '10']
    columns = numbers('wang2022_table_d2')
    fashion = columns['network'] == 'FashionMNIST'
    assert columns['kernel'][fashion][1] == '5 x 5 x 32 x 32'
    assert columns['output'][fashion][1] == '14 x 14 x 32'


@pytest.mark.statistical
def test_markov_links_do_what_their_rates_say():
    columns = numbers('xiang2024_figure7')
    p = np.unique(columns['prob'])
    by_name = {
        quantity: {k: columns[k][columns['quantity'] == quantity] for k in columns}
        for quantity in np.unique(columns['quantity'])
    }
    # By hand, for p = .01, .02, .05, .1, .3, .5, .7, .9.
    up = np.array([1 / 99, 1 / 49, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05])
    down = np.array([1, 1, 0.95, 0.45, 7 / 60, 0.05, 3 / 140, 1 / 180])
    exact = {
        'up_rate': up,
        'down_rate': down,
        'share_up': p,
        'correlation': 1 - up - down,
        'rounds_up': 1 / down,
        'rounds_down': 1 / up,
    }
    bound = stats.t.isf(stats.norm.sf(4.5), 49)
    for quantity, values in exact.items():
        result = by_name[quantity]
        np.testing.assert_allclose(result['exact'], values, rtol=1e-12, atol=1e-12)
        off = np.abs(result['simulated'] - result['exact'])
        assert (off <= bound * result['standard_error'] + 1e-12).all(), quantity
        assert (result['standard_error'] < 0.06 * np.maximum(np.abs(values), 0.1)).all()
    # The error of a share: what a chain's memory leaves of 50 x 4,000 rounds.
    memory = 1 - up - down
    error = np.sqrt(p * (1 - p) * (1 + memory) / (1 - memory) / 200_000)
    np.testing.assert_allclose(by_name['share_up']['standard_error'], error, rtol=0.45)


def test_counts_of_two_short_links():
    result = _estimates(np.array([[1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 1, 0]]).T)
    # Up before the last round 3 + 4 times, down 2 + 1; falls 2 + 1, rises 1 + 1.
    assert result['down_rate'][0] == pytest.approx(3 / 7)
    assert result['up_rate'][0] == pytest.approx(2 / 3)
    assert result['share_up'][0] == pytest.approx(7 / 12)
    assert result['correlation'][0] == pytest.approx(1 - 3 / 7 - 2 / 3)
    assert result['rounds_up'][0] == pytest.approx(7 / 3)
    assert result['rounds_down'][0] == pytest.approx(3 / 2)
    # Two links: half the difference of 3 / 6 and 4 / 6.
    assert result['share_up'][1] == pytest.approx(1 / 12)
