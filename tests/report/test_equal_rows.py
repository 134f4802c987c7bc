"""Rows of the same numbers are one comparison of a page."""

import numpy as np
import pytest

from fedjax_links import evaluation
from fedjax_links.report import layouts
from tests.report.made import ends, results

SEEDS = 8


def differences(rng, num_algorithms):
    """Levels of a baseline and of algorithms, [1, S, 1]."""
    base = rng.normal(0.7, 0.01, SEEDS)
    algorithms = [
        base + rng.normal(0.004 * k, 0.004, SEEDS) for k in range(num_algorithms)
    ]
    return base, algorithms


def stars(curves):
    """What a page writes of each label, without the labels themselves."""
    page = layouts.levels(results({k: ends(*values) for k, values in curves.items()}))
    table = page.tables[0]
    column = list(table.header).index('algorithm')
    return {row[column]: row[column + 1 :] for row in table.rows}, table.caption


@pytest.mark.parametrize('copies', [1, 4])
def test_equal_rows_count_once(copies):
    base, algorithms = differences(np.random.default_rng(1), 3)
    curves = {
        'fedavg': base,
        **{f'algorithm{k}': values for k, values in enumerate(algorithms)},
    }
    alone, caption = stars(curves)
    again = {f'twin{k}': algorithms[0] for k in range(copies)}
    result, with_twins = stars({**curves, **again})
    assert 'of 3 comparisons' in caption
    assert 'of 3 comparisons' in with_twins
    assert {label: result[label] for label in alone} == alone
    assert all(result[label] == result['algorithm0'] for label in again)
    text = 'rows of the same numbers are one comparison'
    assert text not in caption
    assert text in with_twins


def test_what_survives_is_that_of_the_distinct_rows():
    """Against Benjamini-Hochberg on the distinct p-values, over many pages."""
    changed = 0
    for seed in range(40):
        base, algorithms = differences(np.random.default_rng(seed), 4)
        p_values = [evaluation.p_value([values - base], [1.0]) for values in algorithms]
        survive = evaluation.benjamini_hochberg(p_values, 0.05)
        twins = {f'twin{k}': algorithms[0] for k in range(6)}
        curves = {
            'fedavg': base,
            **{f'algorithm{k}': values for k, values in enumerate(algorithms)},
        }
        result, _ = stars({**curves, **twins})
        marked = ['**' in ' '.join(result[f'algorithm{k}']) for k in range(4)]
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
    caption = layouts.levels(results(curves)).tables[0].caption
    assert 'of 2 comparisons' in caption
