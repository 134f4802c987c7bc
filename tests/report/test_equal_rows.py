"""Rows of the same numbers are one comparison of a page."""

import dataclasses

import numpy as np
import pytest

from fedjax_links import evaluation
from fedjax_links.report import layouts
from tests.report.made import ends, results

SEEDS = 8


def draw_accuracies(rng, num_algorithms):
    """Draws accuracies of a baseline, [S], and a list of those of algorithms."""
    base = rng.normal(0.7, 0.01, SEEDS)
    algorithms = [
        base + rng.normal(0.004 * k, 0.004, SEEDS) for k in range(num_algorithms)
    ]
    return base, algorithms


def rows_and_caption(accuracies):
    """Returns the cells behind each label of a page's table, and the table's caption."""
    curves = {label: ends(*values) for label, values in accuracies.items()}
    table = layouts.comparison(results(curves)).tables[0]
    column = list(table.header).index('algorithm')
    return {row[column]: row[column + 1 :] for row in table.rows}, table.caption


@pytest.mark.parametrize('copies', [1, 4])
def test_equal_rows_count_once(copies):
    base, algorithms = draw_accuracies(np.random.default_rng(1), 3)
    distinct = {'fedavg': base}
    for k, values in enumerate(algorithms):
        distinct[f'algorithm{k}'] = values
    twins = {f'twin{k}': algorithms[0] for k in range(copies)}
    expected, caption = rows_and_caption(distinct)
    rows, caption_with_twins = rows_and_caption({**distinct, **twins})
    assert 'of 3 comparisons' in caption
    assert 'of 3 comparisons' in caption_with_twins
    assert {label: rows[label] for label in expected} == expected
    assert all(rows[label] == rows['algorithm0'] for label in twins)
    text = 'rows of the same numbers are one comparison'
    assert text not in caption
    assert text in caption_with_twins


def test_equivalent_without_a_margin_is_explained():
    base, algorithms = draw_accuracies(np.random.default_rng(1), 1)
    text = 'equivalent: the same results for every seed'
    rows, caption = rows_and_caption({'fedavg': base, 'twin': base})
    assert rows['twin'][-1] == 'equivalent'
    assert text in caption
    rows, caption = rows_and_caption({'fedavg': base, 'other': algorithms[0]})
    assert rows['other'][-1] != 'equivalent'
    assert text not in caption


def test_what_survives_is_that_of_the_distinct_rows():
    """Against Benjamini-Hochberg on the distinct p-values, over many pages."""
    changed = 0
    for seed in range(40):
        base, algorithms = draw_accuracies(np.random.default_rng(seed), 4)
        p_values = [evaluation.p_value([values - base], [1.0]) for values in algorithms]
        survive = evaluation.benjamini_hochberg(p_values, 0.05)
        accuracies = {'fedavg': base}
        for k, values in enumerate(algorithms):
            accuracies[f'algorithm{k}'] = values
        for k in range(6):
            accuracies[f'twin{k}'] = algorithms[0]
        rows, _ = rows_and_caption(accuracies)
        marked = ['**' in ' '.join(rows[f'algorithm{k}']) for k in range(4)]
        assert marked == survive.tolist()
        doubled = evaluation.benjamini_hochberg([*p_values, *p_values[:1] * 6], 0.05)
        changed += doubled[:4].tolist() != survive.tolist()
    assert changed  # counted each, they would have changed what survives


def test_the_same_numbers_under_two_patterns_are_two_comparisons():
    both = np.tile([0.7, 0.71, 0.72, 0.7, 0.69, 0.7], (2, 1))[..., None]
    curves = {
        'fedavg': both,
        'fedpbc': both + np.linspace(0.01, 0.02, 6)[None, :, None],
    }
    caption = layouts.comparison(results(curves)).tables[0].caption
    assert 'of 2 comparisons' in caption


@pytest.mark.parametrize(
    'level, by_chance', [(0.99, '0.03'), (0.95, '0.15'), (0.8, '0.6')]
)
def test_chance_is_that_of_the_intervals_of_the_page(level, by_chance):
    """Three comparisons whose intervals miss the true mean with probability 1 - level each."""
    base, algorithms = draw_accuracies(np.random.default_rng(1), 3)
    curves = {'fedavg': base, **{f'algorithm{k}': a for k, a in enumerate(algorithms)}}
    view = results({label: ends(*values) for label, values in curves.items()})
    until = {'least': 2, 'margin': 0.0, 'level': level, 'tail': 0.1}
    view = dataclasses.replace(view, data=view.data.assign_attrs(until=until))
    caption = layouts.comparison(view).tables[0].caption
    assert f'the {100 * level:g} % interval' in caption
    assert f'by chance in {by_chance} of 3 comparisons' in caption
