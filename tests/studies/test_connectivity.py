"""The page of edges in place of uplinks has the tables that its record and theory give."""

import numpy as np
from scipy import stats

from fedjax_links import runs
from studies import connectivity
from tests import ROOT

PAGE = (ROOT / 'studies' / 'connectivity.md').read_text()


def test_the_page_has_the_tables():
    assert '\n'.join(connectivity.differences()) in PAGE
    assert '\n'.join(connectivity.codes()) in PAGE


def test_a_cell_is_counted_from_the_lanes():
    columns = runs.read(connectivity.RECORD).columns
    ends = []
    for algorithm in ('s2s', 'fedpbc'):
        rows = (columns['stage'] == 'main') & (columns['algorithm'] == algorithm)
        rows &= (columns['links.pattern.loss'] == 0.95) & (columns['links.prob'] == 0.1)
        rows &= columns['round'] == 500
        order = np.argsort(columns['seed'][rows])
        ends.append(100 * columns['client_mean/eval_accuracy'][rows][order])
    low, high = stats.ttest_rel(*ends).confidence_interval(0.95)
    (line,) = (
        row for row in connectivity.differences() if row.startswith('| 0.95 | 0.1 |')
    )
    assert line.split(' | ')[2].startswith(
        f'{(low + high) / 2:+.1f} ± {(high - low) / 2:.1f}'
    )
