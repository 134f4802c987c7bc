"""Tables of tuned rates, and marks of rates at an edge of their grid."""

import numpy as np

from fedjax_links import plot
from fedjax_links.planning.trials import TuningTrials
from fedjax_links.planning.tuning import SearchState
from fedjax_links.report.layouts import best, comparison, rates, spread
from tests.report.made import ends, results, rows_of


def tried(columns, scores, tied=(), by_seed=None, ties=()):
    """Tuning trials of two seeds on one pattern.

    Args:
      columns: the K values by name.
      scores: of each value, [K].
      tied: indices of values that tuning cannot tell from the best.
      by_seed: scores [K, 2] by seed; by default both seeds have ``scores``.
      ties: indices of statistical ties that run in the main stage.
    """
    scores = np.array(scores)
    by_seed = (
        scores[:, None].repeat(2, axis=1) if by_seed is None else np.array(by_seed)
    )
    best = int(np.nanargmax(scores))
    rivals = np.isin(np.arange(len(scores)), [best, *tied])
    state = SearchState(np.ones((len(scores), 2), bool), (best,), rivals)
    return TuningTrials(
        'links', {}, columns, scores, by_seed, best, rivals, np.array(ties, int), state
    )


def test_a_rate_at_an_edge_of_its_grid_is_marked_in_levels():
    grid = np.array([1.0, 0.1, 0.01])
    tuning = {
        name: [tried({'client.learning_rate': grid}, scores)]
        for name, scores in (('fedavg', [0.1, 0.3, 0.2]), ('mifa', [0.5, 0.4, 0.3]))
    }
    result = results(
        {name: ends(0.5, 0.52) for name in ('fedavg', 'mifa', 'given')}, tuning=tuning
    )
    table = comparison(result).tables[0]
    assert [row['algorithm'] for row in rows_of(table)] == ['fedavg', 'mifa ↑', 'given']
    assert 'edge' in table.caption
    del tuning['mifa']
    assert 'edge' not in comparison(result).tables[0].caption


def test_a_rate_at_an_edge_is_marked_where_it_was_tuned():
    """By pattern: of two on which an algorithm was tuned by itself, one chose at the edge."""
    grid = np.array([1.0, 0.1, 0.01])
    at_edge = tried({'client.learning_rate': grid}, [0.5, 0.4, 0.3])._replace(
        pattern='pattern0'
    )
    inside = tried({'client.learning_rate': grid}, [0.1, 0.3, 0.2])._replace(
        pattern='pattern1'
    )
    curves = {name: np.full((2, 2, 1), 0.5) for name in ('fedavg', 'mifa')}
    table = comparison(results(curves, tuning={'mifa': [at_edge, inside]})).tables[0]
    marks = [row['algorithm'] for row in rows_of(table)]
    assert marks == ['fedavg', 'mifa ↑', 'fedavg', 'mifa']
    alone = results(curves, tuning={'mifa': [at_edge]})  # on one pattern for all
    marks = [row['algorithm'] for row in rows_of(comparison(alone).tables[0])]
    assert marks == ['fedavg', 'mifa ↑', 'fedavg', 'mifa ↑']


def test_rates_show_the_choice_and_whether_it_is_at_an_edge():
    grid = {'client.learning_rate': np.array([0.01, 0.1, 1.0])}
    one_seed = {
        label: np.full((2, 1, 1), 0.5)
        for label in ('up', 'down', 'inside', 'given', 'server')
    }
    result = results(
        one_seed,
        rates=dict.fromkeys(one_seed, np.array([0.1, 0.05])),
        tuning={
            'up': [tried(grid, [0.1, np.nan, 0.3])],
            'down': [tried(grid, [0.5, 0.2, 0.3])],
            'inside': [tried(grid, [0.1, 0.9, 0.3], tied=[2])],
            'server': [
                tried(
                    {
                        'client.learning_rate': np.array([0.1, 0.1]),
                        'server_lr': np.array([0.5, 1.0]),
                    },
                    [0.1, 0.2],
                )
            ],
        },
        names={'up': 'wait-full'},
    )
    printed = {
        'name': 'fedjax_links.papers.wang2022.tables:table_d1',
        'dataset': 'CIFAR-10',
    }
    rows = {
        row['algorithm']: row
        for row in rows_of(rates(result, published=printed).tables[0])
    }
    assert rows['wait-full']['chosen'] == '1 ↑'
    assert rows['wait-full']['scores'] == '0.01: 10.0, 0.1: diverged, 1: 30.0'
    assert rows['wait-full']['paper'] == '0.05'
    assert rows['down']['chosen'] == '0.01 ↓'
    assert rows['down']['paper'] == ''
    assert rows['inside']['chosen'] == '0.1'
    assert rows['inside']['scores'] == '0.01: 10.0, 0.1: 90.0, 1: 30.0 ≈'
    assert rows['given']['chosen'] == '0.05, 0.1 (not tuned)'
    assert rows['server']['chosen'] == '0.1, server 1 ↑'
    assert rows['server']['scores'] == '0.1/0.5: 10.0, 0.1/1: 20.0'
    assert 'paper' not in rates(result).tables[0].header


NEAR = (0.1, 0.1 + 1e-9)
"""Two rates that six digits do not tell apart."""


def test_near_values_have_all_digits_in_every_table():
    grid = {'client.learning_rate': np.array([*NEAR, 1.0])}
    result = results(
        {'fedavg': ends(0.5, 0.52)}, tuning={'fedavg': [tried(grid, [0.1, 0.3, 0.2])]}
    )
    (row,) = rows_of(rates(result).tables[0])
    assert row['chosen'] == '0.100000001'
    assert [text.split(':')[0] for text in row['scores'].split(', ')] == [
        '0.1',
        '0.100000001',
        '1.0',
    ]
    members = {f'at {rate!r}': ('fedavg', {'rate': rate}) for rate in NEAR}
    of_grid = results({label: ends(0.5, 0.52) for label in members}, members=members)
    (row,) = rows_of(best(of_grid).tables[0])
    assert row['best point'] == 'rate = 0.1 ↓'


def test_near_values_have_all_digits_along_axes():
    ax = plot.heat_map([[1.0, 2.0]], x=('rate', NEAR), y=('', ['a']))
    assert [text.get_text() for text in ax.get_xticklabels()] == ['0.1', '0.100000001']


def test_near_values_have_rows_of_their_own_in_spreads():
    points = {
        f'{rate!r} {stream}': ('fedavg', {'rate': rate, 'redraw': stream})
        for rate in NEAR
        for stream in ('links', 'by_seed')
    }
    levels = {label: ends(0.5, 0.52 + k / 100) for k, label in enumerate(points)}
    rows = rows_of(spread(results(levels, members=points)).tables[0])
    names = [row['algorithm'] for row in rows]
    assert names == ['fedavg (rate 0.1)', 'fedavg (rate 0.100000001)']
    assert [row['links'] for row in rows] == ['1.41', '2.83']
    assert [row['by seed'] for row in rows] == ['2.12', '3.54']
