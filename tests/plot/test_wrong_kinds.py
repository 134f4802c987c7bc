"""Pictures refuse what they cannot show, in one line that names the argument."""

import numpy as np
import pytest
from matplotlib import pyplot

from fedjax_links import plot
from tests import refusals

MASK = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]]) > 0
CURVES = {'fedavg': [0.1, 0.2, 0.3], 'fedpbc': [0.2, 0.3, 0.4]}
GRID = np.arange(6.0).reshape(2, 3)
NEIGHBOURS = [[1, 2], [0, 2], [0, 1]]
SHARES = np.full((3, 2), 0.5)
NAN = float('nan')
RAGGED = [[0.1], [0.1, 0.2]]
NO_NUMBERS = ['ab', ['a', 'b', 'c'], {'a': 1}, [1j, 2, 3], RAGGED, None]
NO_NAMES = [3, True, NAN, ['a', 'b'], {'a': 1}, np.zeros(2)]
NO_ORDER = [
    'abc',
    True,
    3,
    [True, False, True],
    [0.0, 1.0],
    [-1, 0],
    [0, 3],
    [[0, 1]],
    [],
]
NO_TRUTH = ['ab', RAGGED, np.full((2, 3), 'no'), np.full((2, 3), NAN), GRID]

CALLS = {
    'values': (
        lambda v: plot.metric_bars(v, ['one']),
        [
            None,
            3,
            'fedavg',
            [[0.1]],
            {},
            {'a': [['x']]},
            {'a': RAGGED},
            {'a': [0.1]},
            {'a': [[]]},
        ],
    ),
    'groups': (
        lambda v: plot.metric_bars({'a': [[0.1, 0.2]]}, v),
        [None, 3, 'g', [3], [None], {'g'}],
    ),
    'metric of bars': (lambda v: plot.metric_bars({'a': [[1]]}, ['g'], v), NO_NAMES),
    'metric of curves': (lambda v: plot.learning_curves(CURVES, v), NO_NAMES),
    'metric of differences': (
        lambda v: plot.paired_differences(CURVES, metric=v),
        NO_NAMES,
    ),
    'names': (
        lambda v: plot.metric_bars({'a': [[1]]}, ['g'], names=v),
        [3, 'a', ['a'], np.zeros(2)],
    ),
    'counts of rounds': (
        lambda v: plot.participation_loss(v, {'a': [1, 2, 3]}),
        [*NO_NUMBERS, [-1, 2, 3], [NAN, 1, 2], [True, False, True], 3],
    ),
    'losses': (
        lambda v: plot.participation_loss([1, 2, 3], v),
        [None, 3, 'abc', [1, 2, 3], {}, {'a': ['x', 'y', 'z']}],
    ),
    'value_name': (
        lambda v: plot.participation_loss([1], {'a': [1]}, value_name=v),
        NO_NAMES,
    ),
    'x_name': (lambda v: plot.learning_curves(CURVES, x_name=v), NO_NAMES),
    'label': (lambda v: plot.heat_map(GRID, label=v), NO_NAMES),
    'name': (lambda v: plot.participation_rates(MASK, name=v), NO_NAMES),
    'data of curves': (
        plot.learning_curves,
        [{'a': {}}, {'a': {'server': [1, 2], 'client_mean': [1, 2, 3]}}],
    ),
    'data of differences': (
        lambda v: plot.paired_differences(v, 'a'),
        [{'a': [1, 2], 'b': [1, 2, 3]}, {'a': [], 'b': []}],
    ),
    'data of partition': (
        plot.partition,
        [[[10, 20], [3, 4]], [[-1, 2], [0, 1]], [[NAN, NAN], [0, 1]], RAGGED],
    ),
    'mix': (plot.pooled_classes, [*NO_NUMBERS, 3, [[0.5, 0.5]], [3, 4], [NAN, 1]]),
    'counts of examples': (plot.volumes, [*NO_NUMBERS, 3, [], [-1, 2], [NAN, 1]]),
    'distances': (plot.label_distances, [*NO_NUMBERS, 0.5, [], [[0.1]], [-1], [3]]),
    'numbers': (
        lambda v: plot.classes_held(v, 3),
        [None, 3, [], [0.5, 1], [-1, 2], [1, 9], [[1, 2]], ['a'], [True, False]],
    ),
    'num_classes': (
        lambda v: plot.classes_held([1, 2], v),
        [None, True, 'a', -1, 2.5, [3], 2**40],
    ),
    'order of partition': (lambda v: plot.partition(np.eye(3), order=v), NO_ORDER),
    'order of volumes': (lambda v: plot.volumes([3, 4, 5], order=v), NO_ORDER),
    'order of links': (lambda v: plot.link_map(MASK, order=v), NO_ORDER),
    'mask': (plot.gap_law, ['ab', RAGGED, None, 3, []]),
    'probs': (
        lambda v: plot.participation_rates(MASK, v),
        ['ab', 0.5, [0.5] * 4, [-0.5] * 3, [7.0] * 3, [True] * 3, RAGGED],
    ),
    'rates of gaps': (
        lambda v: plot.gap_law(MASK, v),
        [0.5, 'a', [], ([0.5] * 3,), (0.5, 0.5, 0.5), ('a', 'b'), (NAN, 0.5)],
    ),
    'rates of memory': (lambda v: plot.link_memory(MASK, v), [True, 3, (0.5,), 'a']),
    'expected': (
        lambda v: plot.participants(MASK, period=2, expected=v),
        [*NO_NUMBERS[:-1], 3, [1.0], [1.0, 2.0, 3.0], True],
    ),
    'period': (
        lambda v: plot.participants(MASK, period=v),
        [0, len(MASK) + 1, 2.0, 'a'],
    ),
    'expected without period': (
        lambda v: plot.participants(MASK, expected=v),
        [[1.0, 2.0]],
    ),
    'mean': (
        lambda v: plot.participants(MASK, mean=v),
        ['abc', [1, 2], [], NAN, True, 1j],
    ),
    'neighbours': (
        lambda v: plot.peer_graph(v, SHARES),
        [[[1, 9], [0, 2], [0, 1]], [[-1, 2], [0, 2], [0, 1]], [1, 2], RAGGED, None],
    ),
    'edge_rates': (
        lambda v: plot.peer_graph(NEIGHBOURS, v),
        [-SHARES, 14 * SHARES, NAN * SHARES, 0.5, SHARES[:2], 'ab', None],
    ),
    'rates of peers': (
        lambda v: plot.peer_graph(NEIGHBOURS, SHARES, rates=v),
        ['a', [0.5, 0.5], [-0.5] * 3, [NAN] * 3, 50.0, True],
    ),
    'matrix': (plot.mixing_matrix, [-np.eye(2), NAN * np.eye(2), RAGGED, [], [2, 1]]),
    'x': (
        lambda v: plot.heat_map(GRID, x=v),
        [3, 'abc', [1, 2, 3], ('s', 3), ('s', 'abc'), ('s', {1, 2, 3}), (3, [1, 2, 3])],
    ),
    'texts': (
        lambda v: plot.heat_map(GRID, texts=v),
        ['q', '%.1f', '{:.1f}', [['a']], ['abc', 'def'], 3, True],
    ),
    'unclear': (lambda v: plot.heat_map(GRID, unclear=v), NO_TRUTH),
    'equivalent': (lambda v: plot.heat_map(GRID, equivalent=v), NO_TRUTH),
    'colours': (
        lambda v: plot.heat_map(GRID, colours=v),
        [
            'red',
            [['red'] * 3] * 2,
            0.5,
            np.ones((2, 3)),
            np.ones((2, 3, 4)),
            np.full((2, 3, 3), 200),
            np.full((2, 3, 3), NAN),
        ],
    ),
    'most': (lambda v: plot.heat_map(GRID, most=v), ['a', [1, 2], NAN, -3, True]),
    'least': (
        lambda v: plot.heat_map(GRID, around_zero=False, least=v, most=3),
        ['a', [1, 2], NAN, 4, True],
    ),
    'least of differences': (lambda v: plot.heat_map(GRID, least=v), [0.0, -3.0]),
    'model': (lambda v: plot.learning_curves(CURVES, model=v), ['a', np.zeros(2), 3]),
    'rounds': (lambda v: plot.learning_curves(CURVES, rounds=v), [RAGGED, 'a', 3]),
    'above': (lambda v: plot.learning_curves(CURVES, above=v), [NAN, 'a', [1, 2]]),
    'baseline': (
        lambda v: plot.paired_differences(CURVES, v),
        ['', 'a', [], 3, np.zeros(2)],
    ),
    'wide': (
        lambda v: plot.paired_differences(CURVES, 'fedavg', wide={'fedpbc': v}),
        [-0.1, 'a', [0.1]],
    ),
    'labels': (plot.assign_styles, [None, 3, 'fedavg', [1, 2]]),
    'colour': (lambda v: plot.LabelStyle(v).marker, ['red', 3, None]),
}


@pytest.mark.parametrize('call', CALLS)
def test_what_cannot_be_shown_costs_one_line(call):
    draw, values = CALLS[call]
    for value in values:
        with refusals.names(call.partition(' ')[0]):
            draw(value)
    assert not pyplot.get_fignums(), 'an empty figure is left'


def test_differences_that_are_all_zero_are_white(ax):
    image = plot.heat_map([[0.0, 0.0]], most=0, ax=ax).images[0]
    np.testing.assert_allclose(image.to_rgba(0.0)[:3], image.cmap(0.5)[:3])


@pytest.mark.parametrize('least, most', [(None, 3.0), (7.0, None)])
def test_one_limit_of_colours_beyond_all_values_leaves_a_range(ax, least, most):
    values = np.full((2, 2), 5.0)
    axes = plot.heat_map(values, around_zero=False, least=least, most=most, ax=ax)
    low, high = axes.images[0].get_clim()
    assert low < high
    if most is None:
        assert low == least
    else:
        assert high == most
