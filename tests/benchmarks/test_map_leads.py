"""Leads over the recorded maps: counted by hand, and as docs/map.md has them."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import map_leads
from fedjax_links.report import cells
from tests.cli.command import ROOT
from tests.tiers import cases


def test_points_are_counted_where_the_interval_leaves_zero_out(rng):
    behind = rng.normal(size=(1, 2, 3, 5))
    lift = np.array([[0.5, 0.0, -0.5], [0.0, 0.0, 0.25]])[None, ..., None]
    ahead = behind + lift + 0.05 * rng.normal(size=behind.shape)
    found = stats.ttest_rel(ahead, behind, axis=-1)
    low, high = found.confidence_interval(0.95)
    count, reach = map_leads.summary(ahead, behind)
    assert count == f'{np.sum(low > 0)}, {np.sum(high < 0)} of 6'
    means = 100 * (ahead - behind).mean(axis=-1)
    assert reach.startswith(f'{means.min():+.1f} ± ')
    assert f' to {means.max():+.1f} ± ' in reach


@pytest.mark.parametrize('which', cases(map_leads.MAPS, ['correlation']))
def test_the_page_has_these_rows(which):
    page = (ROOT / 'docs' / 'map.md').read_text().splitlines()
    recorded = [line for line in page if line.startswith(f'| {which} |')]
    assert recorded == list(map_leads.rows(which, map_leads.both(which)))


def test_rules_are_paired_at_the_panels_that_both_maps_have(monkeypatch, tmp_path, rng):
    monkeypatch.setattr(map_leads, 'FOLDER', tmp_path)
    (tmp_path / 'a_newer').mkdir()
    first = {name: rng.normal(size=(3, 2, 2, 4)) for name in ('fedavg', 'fedpbc')}
    newer = {'fedavg': first['fedavg'][[2]], 'focus': rng.normal(size=(1, 2, 2, 4))}
    panels = [('links', value) for value in (0.05, 0.1, 1.0)]
    axes = ('x', [0, 1]), ('y', [0, 1]), 'alpha', None
    levels = {
        'a': cells.Cells(first, panels, *axes),
        'a_newer': cells.Cells(newer, panels[2:], *axes),
    }
    monkeypatch.setattr(map_leads, 'levels', levels.get)
    found = map_leads.both('a')
    assert list(found) == ['fedavg', 'fedpbc', 'focus']
    np.testing.assert_array_equal(found['focus']['fedpbc'], first['fedpbc'][[2]])
    lines = list(map_leads.rows('a', found))
    assert [line.split(' | ')[1] for line in lines] == ['fedpbc', 'focus']
    assert ' of 12 ' in lines[0]
    assert ' of 4 ' in lines[1]
    newer['fedavg'] = newer['fedavg'] + 1
    with pytest.raises(ValueError, match='must be two maps of the same draws'):
        map_leads.both('a')
