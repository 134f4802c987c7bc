"""Leads over the recorded maps: as counted from their columns alone, and as studies/map.md has them."""

import re

import numpy as np
import pytest
from scipy import stats

from fedjax_links import runs
from studies import map_leads
from tests import ROOT
from tests.tiers import cases

MAPS = cases(map_leads.MAPS, map_leads.MAPS[-1:])


def levels(columns, label, share):
    """By point a dictionary of final levels by seed."""
    model = 'client_mean' if label == 'fedpbc' else 'server'
    own = (columns['algorithm'] == label) & (columns['stage'] == 'main')
    ends = np.unique(columns['round'][own])
    own &= np.isin(columns['round'], ends[-round(share * len(ends)) :])
    names = [k for k in ('problem.alpha', 'problem.bayes_accuracy') if k in columns]
    names += [k for k in columns if k.startswith('links.')]
    found = {}
    for row in np.flatnonzero(own):
        point = tuple(columns[name][row] for name in names)
        by_seed = found.setdefault(point, {}).setdefault(int(columns['seed'][row]), [])
        by_seed.append(columns[f'{model}/eval_accuracy'][row])
    return {p: {s: np.mean(v) for s, v in by.items()} for p, by in found.items()}


@pytest.mark.parametrize('which', MAPS)
def test_one_number_over_all_points_by_seed(which):
    run = runs.read(map_leads.FOLDER / which)
    share = run.facts['until']['tail']
    own, base = (levels(run.columns, label, share) for label in ('fedpbc', 'scaffold'))
    assert own.keys() == base.keys()
    count = min(len(by) for by in (*own.values(), *base.values()))
    first, second = (
        np.mean([[by[seed] for seed in range(count)] for by in found.values()], axis=0)
        for found in (own, {point: base[point] for point in own})
    )
    again = stats.ttest_rel(first, second)
    half = 100 * np.diff(again.confidence_interval(0.95))[0] / 2
    text = map_leads.of_all(map_leads.read(which)[1], 'fedpbc', 'scaffold')
    mean, width = map(float, re.findall(r'[+-]?\d+\.\d+', text)[:2])
    np.testing.assert_allclose([mean, width], [100 * (first - second).mean(), half], atol=0.051)


@pytest.mark.parametrize('which', MAPS)
def test_lanes_are_those_of_the_columns(which):
    run = runs.read(map_leads.FOLDER / which)
    every = [levels(run.columns, label, 0.01) for label in run.facts['algorithms']]
    used = sum(len(by) for found in every for by in found.values())
    decided, pairs, lanes, fixed = map_leads.lanes(which)
    points = len(every[0])
    assert (lanes, pairs) == (used, points * (len(every) - 1))
    assert decided <= pairs and fixed % (points * len(every)) == 0


@pytest.mark.parametrize('which', MAPS)
def test_the_page_has_these_rows(which):
    page = (ROOT / 'studies' / 'map.md').read_text().splitlines()
    assert f'| {" | ".join(map_leads.TITLES)} |' in page
    recorded = [line for line in page if line.startswith(f'| {which} |')]
    assert recorded == list(map_leads.rows(which))
