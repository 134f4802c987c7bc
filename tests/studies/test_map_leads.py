"""Leads over the recorded maps: counted by hand, and as studies/map.md has them."""

import numpy as np
import pytest
from scipy import stats

from studies import map_leads
from tests import ROOT
from tests.tiers import cases


def test_points_are_counted_where_the_interval_leaves_zero_out(rng):
    behind = rng.normal(size=(1, 2, 3, 5))
    lift = np.array([[0.5, 0.0, -0.5], [0.0, 0.0, 0.25]])[None, ..., None]
    ahead = behind + lift + 0.05 * rng.normal(size=behind.shape)
    found = stats.ttest_rel(ahead, behind, axis=-1)
    low, high = found.confidence_interval(0.95)
    count, reach, of_all = map_leads.summary(ahead, behind)
    assert count == f'{np.sum(low > 0)}, {np.sum(high < 0)} of 6'
    means = 100 * (ahead - behind).mean(axis=-1)
    assert reach.startswith(f'{means.min():+.1f} ± ')
    assert f' to {means.max():+.1f} ± ' in reach
    again = stats.ttest_rel(ahead.mean(axis=(0, 1, 2)), behind.mean(axis=(0, 1, 2)))
    half = 100 * np.diff(again.confidence_interval(0.95))[0] / 2
    assert of_all == f'{means.mean():+.2f} ± {half:.2f}'


@pytest.mark.parametrize('which', cases(map_leads.MAPS, ['correlation']))
def test_the_page_has_these_rows(which):
    page = (ROOT / 'studies' / 'map.md').read_text().splitlines()
    assert f'| {" | ".join(map_leads.TITLES)} |' in page
    recorded = [line for line in page if line.startswith(f'| {which} |')]
    assert recorded == list(map_leads.rows(which, map_leads.both(which)))


def test_maps_of_other_draws_are_no_pair(monkeypatch):
    levels = {'a': {'fedavg': np.zeros(3)}, 'a_newer': {'fedavg': np.zeros(3), 'focus': np.ones(3)}}
    monkeypatch.setattr(map_leads, 'levels', levels.get)
    assert map_leads.both('a') == levels['a_newer']
    levels['a_newer']['fedavg'] = np.ones(3)
    with pytest.raises(ValueError, match='must be two maps of the same draws'):
        map_leads.both('a')
