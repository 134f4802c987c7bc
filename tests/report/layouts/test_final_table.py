"""The table for a paper has the final metrics, and marks what is best."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links.report import layouts
from fedjax_links.report.layouts import final
from tests.refusals import names
from tests.report.made import changed, ends, results, rows_of, server

SEEDS = 8
LEVELS = {'fedavg': 0.70, 'fedau': 0.72, 'mifa': 0.75, 'fedpbc': 0.751}


@pytest.fixture(scope='module')
def curves_and_view():
    """Four algorithms under three patterns; the noise of seeds is shared in part."""
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 0.03, (3, SEEDS, 1))
    curves = {}
    for label, level in LEVELS.items():
        noise = rng.normal(0, 0.01, (3, SEEDS, 1))
        curves[label] = level + shared + noise
    return curves, results(curves, patterns=['one', 'two', 'three'])


def best_by_hand(curves, pattern):
    """Labels of the best mean, and of all whose paired 95 % interval has zero."""
    values = {label: levels[pattern, :, 0] for label, levels in curves.items()}
    winner = max(values, key=lambda label: values[label].mean())
    best = {winner}
    for label in values:
        difference = values[winner] - values[label]
        error = difference.std(ddof=1) / np.sqrt(SEEDS)
        if difference.mean() <= stats.t.ppf(0.975, SEEDS - 1) * error:
            best.add(label)
    return best


def test_bold_are_the_best_and_what_may_equal_it(curves_and_view):
    curves, view = curves_and_view
    table = final(view, best='bold').tables[0]
    labels = list(curves)
    expected = {
        (labels.index(label), 1 + pattern)
        for pattern in range(3)
        for label in best_by_hand(curves, pattern)
    }
    assert 3 < len(expected) < 12  # Some patterns have several, and none has all.
    assert set(table.bold) == expected
    assert 'not corrected for their number' in table.caption


def test_rows_and_columns_are_exchanged(curves_and_view):
    _, view = curves_and_view
    table = final(view, best='bold').tables[0]
    other = final(view, rows='problem', columns='algorithm', best='bold').tables[0]
    assert table.header == ['algorithm', 'one', 'two', 'three']
    assert other.header == ['problem', *LEVELS]
    cells = np.array([row[1:] for row in table.rows])
    np.testing.assert_array_equal([row[1:] for row in other.rows], cells.T)
    assert {(column - 1, row + 1) for row, column in table.bold} == set(other.bold)


def test_every_form_marks_the_same_cells(curves_and_view):
    _, view = curves_and_view
    table = final(view, best='bold').tables[0]
    frame = table.data()
    for row, cells in enumerate(table.rows):
        for column, cell in enumerate(cells):
            is_bold = (row, column) in table.bold
            latex = cell.replace('±', r'$\pm$')
            assert (rf'\textbf{{{latex}}}' in table.latex()) == is_bold
            assert (f'**{cell}**' in table.markdown()) == is_bold
            assert (f'{cell} (best)' in table.text()) == is_bold
            if column:
                assert frame[f'{table.header[column]} (best)'][row] == is_bold


def test_numbers_are_those_of_the_table_with_differences(curves_and_view):
    _, view = curves_and_view
    compared = rows_of(layouts.comparison(view).tables[0])
    cells = {
        (row['pattern'], row['algorithm']): row['eval accuracy'] for row in compared
    }
    for row in rows_of(final(view).tables[0]):
        label = row.pop('algorithm')
        for pattern, cell in row.items():
            assert cell == cells[pattern, label]
    assert not final(view).tables[0].bold


def test_names_of_main_models_stand_behind_algorithms():
    levels = ends(0.5, 0.6)
    models = {
        name: {'eval_accuracy': levels + 0.1} for name in ('server', 'client_mean')
    }
    view = changed(
        results({'fedavg': server(levels), 'fedpbc': models}),
        names={'fedpbc': 'FedPBC'},
    )
    table = final(view).tables[0]
    assert table.header == ['algorithm', 'eval accuracy, %']
    titles = [row[0] for row in table.rows]
    assert titles == ['fedavg', 'FedPBC (client mean)']


def test_of_one_seed_the_best_stands_alone():
    view = results({'fedavg': ends(0.5), 'mifa': ends(0.6), 'fedau': ends(0.5999)})
    table = final(view, best='bold').tables[0]
    assert list(table.bold) == [(1, 1)]
    assert 'of one seed' in table.caption


def test_what_diverged_is_never_best():
    diverged = ends(np.nan, np.nan)
    view = results({'fedavg': diverged, 'mifa': ends(0.1, 0.2)})
    assert list(final(view, best='bold').tables[0].bold) == [(1, 1)]
    view = results({'fedavg': diverged, 'mifa': diverged})
    assert not list(final(view, best='bold').tables[0].bold)


def test_smaller_losses_are_better():
    losses = {
        'fedavg': {'server': {'eval_loss': ends(0.5, 0.53, 0.52)}},
        'mifa': {'server': {'eval_loss': ends(0.1, 0.11, 0.12)}},
    }
    view = changed(results(losses), metric='eval_loss')
    assert list(final(view, best='bold').tables[0].bold) == [(1, 1)]


def test_a_mistake_costs_a_line(curves_and_view):
    _, view = curves_and_view
    with names('rows', "has no 'algoritm'; did you mean 'algorithm'?"):
        final(view, rows='algoritm')
    with names('columns', "has no 'pattern'; valid names: algorithm"):
        final(view, rows='problem', columns='pattern')
    with names('columns', "has no 'algorithm'"):
        final(view, columns='algorithm')
    with names('best', "has no 'blod'; did you mean 'bold'?"):
        final(view, best='blod')
    directionless = changed(view, directions={'eval_accuracy': None})
    with names('config.direction', 'eval_accuracy'):
        final(directionless, best='bold')
