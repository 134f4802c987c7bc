"""Tables by algorithm and pattern: the pages have them, and a cell is as counted from the lanes."""

import functools

import numpy as np
import pytest
from scipy import stats

from fedjax_links import runs
from studies import by_pattern
from tests import ROOT

PAGES = {
    'ages': 'ages',
    'quorum': 'quorum',
    'shocks': 'shocks',
    'comparison': 'comparison',
    'fashion_mnist_rules': 'real_images',
    'fashion_mnist_cnn': 'real_images',
    'papers/xiang2024_table1_gaussians': 'table1_gaussians',
    'table1_rules': 'table1_gaussians',
    'table1_decided': 'table1_gaussians',
    'table1_noisy': 'table1_noisy',
}


@functools.cache
def table_rows(record):
    """The lines of the table of a record, which tests share."""
    return list(by_pattern.rows(record))


@pytest.mark.parametrize('record', PAGES)
def test_the_page_has_the_table(record):
    page = (ROOT / 'studies' / f'{PAGES[record]}.md').read_text()
    assert '\n'.join(table_rows(record)) in page


def test_the_page_of_outages_has_each_algorithm_against_itself():
    page = (ROOT / 'studies' / 'shocks.md').read_text()
    assert '\n'.join(by_pattern.against('shocks', 'alone')) in page


def test_a_difference_is_that_of_paired_seeds():
    columns = runs.read(by_pattern.RECORDS / 'comparison').columns
    ends = []
    for algorithm in ('focus', 'fedavg'):
        rows = (columns['stage'] == 'main') & (columns['pattern'] == 'cyclic')
        rows &= (columns['algorithm'] == algorithm) & (columns['round'] > 1007 - 5 * 19)
        order = np.lexsort((columns['round'][rows], columns['seed'][rows]))
        values = columns['server/eval_accuracy'][rows][order].reshape(10, 5)
        ends.append(100 * values.mean(axis=1))
    low, high = stats.ttest_rel(*ends).confidence_interval(0.95)
    (line,) = (row for row in table_rows('comparison') if row.startswith('| focus |'))
    assert f'{(low + high) / 2:+.1f} ± {(high - low) / 2:.1f} [' in line
