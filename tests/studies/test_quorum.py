"""The page of quorums has the tables that its record gives, and times as order statistics say."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links import runs
from fedjax_links.config import registries
from fedjax_links.report import layouts, run_view
from studies import by_pattern, quorum
from tests import ROOT

PAGE = (ROOT / 'studies' / 'quorum.md').read_text()


@pytest.fixture(scope='module')
def view():
    return run_view.from_run(runs.read(quorum.RECORD))


@pytest.fixture(scope='module')
def minutes(view):
    return quorum.clocks(view)


def test_the_page_has_the_tables(view, minutes):
    assert '\n'.join(quorum.rows(view, minutes)) in PAGE
    assert '\n'.join(by_pattern.against('quorum', 'first 50')) in PAGE


def test_the_client_mean_is_behind_with_the_first_30_only(view):
    (table,) = layouts.comparison(view).tables
    differences = {
        pattern: (difference, verdict)
        for pattern, _, model, _, difference, verdict in table.rows
        if model == 'client mean'
    }
    difference, verdict = differences.pop('first 30')
    assert verdict == 'behind, by itself'
    assert difference.removesuffix(' *') == '-0.6 ± 0.4 [0.6]'
    assert 'with k = 30 it is 0.6 ± 0.4 [0.6] behind' in PAGE
    assert {verdict for _, verdict in differences.values()} == {
        'not decided',
        'equivalent',
    }


def test_a_round_lasts_as_long_as_its_kth_arrival(minutes):
    """The mean of 10,000 rounds beside NumPy's own draws of these devices, in standard errors."""
    step = registries.lognormal(50, median=0.1, sigma=1.0)
    uplink = registries.lognormal(50, median=2e4, sigma=1.0, seed=1)
    rng = np.random.default_rng(0)
    taken = (
        2600 / uplink
        + 2600 / 2e6
        + 5 * step * np.exp(0.3 * rng.standard_normal((20_000, 50)))
    )
    ordered = np.sort(taken, axis=1)
    for pattern, clock in minutes.items():
        durations = ordered[:, int(pattern.removeprefix('first ')) - 1]
        error = stats.sem(durations) * np.sqrt(3)  # of half as many rounds beside it
        assert abs(clock[:, -1].mean() * 60 / 1000 - durations.mean()) < 5 * error
