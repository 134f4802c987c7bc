"""Maps of links, clients and grids, read back from what was drawn, against NumPy."""

import itertools
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import plot, problems
from fedjax_links.base import DuplexLinkSample, LinkSample
from tests import refusals

MASK = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 1, 1]], bool)


def test_the_map_has_the_best_link_on_top(ax):
    plot.link_map(LinkSample(MASK, np.zeros((4, 3))), ax=ax)
    np.testing.assert_array_equal(ax.images[0].get_array(), MASK.T[[2, 1, 0]])
    plot.link_map(MASK, order=[0, 1, 2], num_rounds=2, ax=ax)
    np.testing.assert_array_equal(ax.images[1].get_array(), MASK[:2].T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ('round', 'client')


def test_directions_have_states(ax):
    mask = np.array([[1, 1, 0, 0]], bool)
    downlink = np.array([[1, 0, 1, 0]], bool)
    compute = np.ones((1, 4), bool)
    links = DuplexLinkSample(mask, np.zeros((1, 4)), downlink, compute)
    plot.link_map(links, order=range(4), ax=ax)
    np.testing.assert_array_equal(ax.images[0].get_array()[:, 0], [1, 2, 3, 0])
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ['takes part', 'delivers without having received', 'receives only']


def test_rates_are_shares_of_rounds(ax):
    plot.participation_rates(MASK, [0.1, 0.5, 0.9], ax=ax)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [1, 0.5, 0])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [0.9, 0.5, 0.1])


@pytest.mark.parametrize(
    'probs', [np.full(10, 0.5), np.full(10, 0.95), np.linspace(1, 0.1, 10)]
)
def test_the_legend_of_rates_hides_no_client(probs, rng):
    mask = rng.uniform(size=(50, 10)) < probs
    axes = plot.participation_rates(mask, probs)
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in axes.patches)
    dots = axes.transData.transform(axes.lines[0].get_xydata())
    assert legend.count_contains(dots) == 0


def test_gaps_are_counted_and_their_law_is_geometric(ax, rng):
    rounds = 4000
    p = 0.6
    mask = rng.uniform(size=(rounds, 2)) < p
    plot.gap_law(mask, rates=(np.full(2, p), 1 - p), ax=ax)
    gaps = np.concatenate([np.diff(np.flatnonzero(column)) for column in mask.T])
    shares = np.bincount(gaps)[1:] / gaps.size
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], shares)
    k = np.arange(1, shares.size + 1)
    all_gaps = np.arange(1, rounds)
    # A gap of g rounds has T - g places in a record of T rounds.
    law = (1 - p) ** (all_gaps - 1) * p * (rounds - all_gaps)
    shares_by_law = law[: shares.size] / law.sum()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), shares_by_law, rtol=1e-9)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), k + 0.5)
    assert ax.get_yscale() == 'log'


def test_the_law_counts_gaps_longer_than_any_in_the_record(ax):
    mask = np.zeros((1000, 1), bool)
    mask[[100, 110, 125]] = True
    p = 0.02
    plot.gap_law(mask, rates=(p, 1 - p), ax=ax)
    gaps = np.arange(1, 1000)
    law = (1 - p) ** (gaps - 1) * p * (1000 - gaps)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), law[:15] / law.sum())


def test_rates_that_have_no_gaps_have_no_line(ax):
    plot.gap_law(MASK, (0.0, 1.0), ax=ax)
    assert not ax.lines
    assert ax.patches


def test_memory_has_its_exact_line(ax, rng):
    mask = rng.uniform(size=(300, 3)) < 0.5
    plot.link_memory(mask, (np.full(3, 0.1), np.full(3, 0.2)), num_lags=4, ax=ax)
    _, measured, exact = ax.lines
    centred = mask - mask.mean(axis=0)
    expected = [
        np.mean([(centred[: 300 - k, i] * centred[k:, i]).mean() for i in range(3)])
        for k in range(5)
    ]
    np.testing.assert_allclose(
        measured.get_ydata(), np.array(expected) / expected[0], atol=1e-5
    )
    np.testing.assert_allclose(exact.get_ydata(), 0.7 ** np.arange(5))


def test_pictures_without_data_say_why(ax):
    plot.gap_law(np.eye(3, dtype=bool), ax=ax)
    plot.link_memory(np.ones((8, 2), bool), ax=ax)
    message = [text.get_text() for text in ax.texts]
    assert message == ['no client took part twice', 'no client changes its state']


def test_participants_by_round_and_by_phase(ax):
    plot.participants(MASK, mean=1.5, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, 1, 1, 2])
    assert set(ax.lines[1].get_ydata()) == {1.5}
    plot.participants(MASK, period=2, ax=ax)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), [1.5, 1.5])


def test_clouds_of_clients(ax):
    losses = {'fedavg': [3.0, 2.0, 1.0], 'mine': [1.0, 1.0, 4.0]}
    plot.participation_loss(MASK.sum(axis=0), losses, ax=ax)
    for line, values in zip(ax.lines, losses.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0, 2, 4])
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.lines[0].get_color() == plot.assign_styles(['fedavg'])['fedavg'].colour


def test_a_mixing_matrix_is_that_of_the_mask(ax):
    plot.mixing_matrix(np.array([True, False, True]), colorbar=False, ax=ax)
    by_hand = [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(ax.images[0].get_array(), by_hand)
    plot.mixing_matrix(np.array(by_hand) ** 2, colorbar=False, ax=ax)
    np.testing.assert_allclose(ax.images[1].get_array(), np.array(by_hand) ** 2)


def test_cells_have_values_texts_and_hatching():
    values = np.array([[1.0, -3.0], [np.nan, -0.01]])
    axes = plot.heat_map(
        values,
        x=('sigma', [0.5, 1]),
        y=('rate', [2, 3]),
        texts='+.1f',
        label='d, points',
        unclear=~(values < 1.0),  # also where there is no value
    )
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array().filled(np.nan), values)
    assert image.get_clim() == (-3, 3)
    assert [text.get_text() for text in axes.texts] == ['+1.0', '-3.0', '', '0.0']
    assert [patch.get_xy() for patch in axes.patches] == [(-0.5, -0.5)]
    assert [text.get_text() for text in axes.get_xticklabels()] == ['0.5', '1']
    assert (axes.get_xlabel(), axes.get_ylabel()) == ('sigma', 'rate')
    assert axes.figure.axes[1].get_ylabel() == 'd, points'
    red, _, blue, _ = image.to_rgba(values)[0, 1]
    assert red > blue


def test_texts_can_be_read_on_cells_without_a_value():
    values = [[0.0, np.nan, np.inf, -np.inf]]
    axes = plot.heat_map(values, texts=[list('abcd')], around_zero=False)
    assert [text.get_color() for text in axes.texts] == ['white'] + 3 * ['black']
    axes = plot.heat_map(values, texts='+.1f')
    assert [text.get_text() for text in axes.texts] == ['0.0', '', '+inf', '-inf']


@pytest.mark.parametrize(
    'levels, limits, ends',
    [
        ([[0.70, 0.75]], {}, (0.70, 0.75)),
        ([[0.70, 0.75]], {'most': 1.0, 'least': 0.5}, (0.5, 1.0)),
        ([[0.70, 0.75]], {'most': 1.0}, (0.70, 1.0)),
        ([[0.70, 0.75]], {'least': 0.5}, (0.5, 0.75)),
        ([[-3.0, np.nan]], {}, (-3.0, -2.0)),
        ([[np.nan]], {}, (0.0, 1.0)),
    ],
)
def test_colours_of_levels_span_them(levels, limits, ends):
    axes = plot.heat_map(np.array(levels), around_zero=False, **limits)
    assert axes.images[0].get_clim() == ends


def test_label_shares_of_a_problem(ax):
    problem = problems.digits(num_clients=5, alpha=0.3)
    plot.partition(problem, order=range(5), ax=ax)
    labels = np.asarray(problem.data.labels)
    counts = np.asarray(problem.counts)
    starts = np.append(0, np.cumsum(counts))
    shares = [
        np.bincount(labels[a:b], minlength=10) / (b - a)
        for a, b in itertools.pairwise(starts)
    ]
    np.testing.assert_allclose(ax.images[0].get_array(), np.transpose(shares))


def test_histograms_of_clients(ax):
    plot.volumes([4, 2, 6], order=[2, 0, 1], ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [6, 4, 2]
    assert set(ax.lines[0].get_ydata()) == {4}
    assert ax.get_xlabel() == 'client'
    many = plot.volumes(np.arange(50) + 1)  # in no order of classes
    assert many.get_xlabel() == 'client'
    bars = len(ax.patches)
    plot.classes_held([1, 2, 2], 3, ax=ax)
    assert [bar.get_height() for bar in ax.patches[bars:]] == [0, 1, 2, 0]


def texts():
    """Returns a problem of two texts, each with three tokens as labels."""
    return problems.from_arrays(
        np.zeros((2, 3), np.uint8),
        np.zeros((2, 3), np.int32),
        [0, 1],
        init_params=lambda key: jnp.zeros(()),
        loss_fn='token_cross_entropy',
        predict=lambda params, tokens: params + jnp.zeros((*tokens.shape, 4)),
    )


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: plot.link_map(np.ones(3)),
            '`links` must be a mask of shape [T, N], got shape [3].',
        ),
        (lambda: plot.gap_law(2 * MASK), '`mask` must hold truth values'),
        (
            lambda: plot.gap_law(MASK, ([0.5], 0.5)),
            '`rates` must have 3 entries each, got shape [1].',
        ),
        (
            lambda: plot.gap_law(MASK, ([0.5, 2, 0], 0.5)),
            '`rates` must lie in [0, 1], got 2.0 at client 1.',
        ),
        (
            lambda: plot.participants(MASK, period=9),
            '`period` must be at most 4, got 9.',
        ),
        (
            lambda: plot.participation_loss([4, 1, 2], {'fedavg': [1, 2]}),
            "`losses` must have one entry for each of 3 clients, got shape [2] for 'fedavg'.",
        ),
        (
            lambda: plot.mixing_matrix(np.ones((2, 3))),
            '`matrix` must be float[N, N], or a mask',
        ),
        (
            lambda: plot.heat_map([1, 2]),
            '`values` must be of shape [Y, X], got shape [2].',
        ),
        (
            lambda: plot.heat_map(np.eye(2), x=('a', [1])),
            '`x` must have 2 values, got 1.',
        ),
        (
            lambda: plot.heat_map(np.eye(2), unclear=[1]),
            '`unclear` must be of shape [2, 2], got [1].',
        ),
        (
            lambda: plot.partition(np.ones(3)),
            '`data` must be a problem with labels, or shares',
        ),
        (
            lambda: plot.partition(problems.quadratic(np.ones((3, 2)))),
            '`data` must have integer labels',
        ),
        (
            lambda: plot.partition(texts()),
            '`data` must have integer labels, one for each example, got Batch.',
        ),
        (
            lambda: plot.partition('digits'),
            "`data` must be a problem with labels, or shares of shape [N, C], got 'digits'.",
        ),
        (
            lambda: plot.volumes(None),
            '`counts` must be numbers of shape [N], got None.',
        ),
        (
            lambda: plot.heat_map('abc'),
            "`values` must be numbers of shape [Y, X], got 'abc'.",
        ),
    ],
)
def test_errors(call, message):
    with refusals.one_line(re.escape(message)):
        call()


def test_matplotlib_is_loaded_by_the_first_picture_only():
    code = (
        'import fedjax_links as fl, sys; fl.plot.assign_styles; '
        "assert 'matplotlib' not in sys.modules"
    )
    folder = str(next(iter(fl.__path__)) + '/..')
    subprocess.run([sys.executable, '-c', code], check=True, cwd=folder, timeout=600)
    assert 'plot' in dir(fl)


def test_each_edge_is_drawn_once_between_its_clients():
    neighbours = [[1, 2], [0, 1], [0, 2]]
    rates = [[0.25, 1.0], [0.25, 0.0], [1.0, 0.0]]
    axes = plot.peer_graph(neighbours, rates, rates=[0.0, 0.5, 1.0])
    segments = np.array(axes.collections[0].get_segments())
    positions = np.stack(
        [np.cos(2 * np.pi * np.arange(3) / 3), np.sin(2 * np.pi * np.arange(3) / 3)]
    )
    np.testing.assert_allclose(
        segments, [positions.T[[0, 1]], positions.T[[0, 2]]], atol=1e-12
    )
    np.testing.assert_allclose(axes.collections[0].get_alpha(), [0.25, 1.0])
    # 6 + 60 * rate
    assert axes.collections[1].get_sizes().tolist() == [6, 36, 66]
    with pytest.raises(ValueError, match=r'`edge_rates` must have shape \[3, 2\]'):
        plot.peer_graph(neighbours, [[1.0]])
