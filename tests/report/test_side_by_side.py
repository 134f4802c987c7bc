"""Runs beside each other: paired where seeds and links agree, and only there."""

import numpy as np
import pytest
from scipy import stats

import fedjax_links as fl
from fedjax_links import local_training, participation, problems, runs
from fedjax_links.experiment.running import loop as running
from fedjax_links.report import side_by_side

PROBS = np.linspace(0.2, 0.9, 6)


def run(folder, *, rate=0.1, **changes):
    """FedAvg on quadratics, over links that are kept."""
    client = local_training.local_sgd(rate, local_steps=2)
    base = {
        'title': 'Quadratics',
        'problem': problems.quadratic(np.random.default_rng(0).normal(size=(6, 3))),
        'patterns': {'some': participation.bernoulli(PROBS)},
        'algorithms': {'fedavg': fl.ALGORITHMS['fedavg'](client)},
        'num_rounds': 6,
        'eval_every': 2,
        'seeds': (0, 3, 4),
    }
    fl.Experiment(**{**base, **changes}).run(folder)
    return folder


@pytest.fixture(scope='module')
def first(tmp_path_factory):
    return run(tmp_path_factory.mktemp('runs') / 'first')


def ends(folder):
    """The last distances in the order of seeds."""
    results = runs.read(folder)
    last = results['round'] == results['round'].max()
    order = np.argsort(results['seed'][last])
    return results['server/distance'][last][order]


def half(interval):
    return (interval.high - interval.low) / 2


def shown(mean, half_width):
    star = ' *' if abs(mean) > half_width else ''
    return f'{mean:+.4g} ± {half_width:.4g}{star}'


@pytest.mark.parametrize('seeds', [(0, 3, 4), pytest.param((4, 0, 3), marks=pytest.mark.slow)])
def test_runs_with_the_same_seeds_and_links_are_paired(first, tmp_path, seeds):
    run(tmp_path, rate=0.05, seeds=seeds)
    if seeds[0] != 0:  # then it kept the links of another seed than the first run
        found = side_by_side.table([first, tmp_path])
        assert found.refusals == (
            ['B is not paired with A on some: no links kept that both met with one seed.']
        )
        run(tmp_path / 'logged', rate=0.05, seeds=seeds, log=('links',))
        tmp_path = tmp_path / 'logged'
    found = side_by_side.table([first, tmp_path])
    assert found.refusals == []
    ours, theirs = ends(tmp_path), ends(first)
    paired = stats.ttest_rel(ours, theirs).confidence_interval()
    (row,) = found.table.rows
    assert row[-1] == shown((ours - theirs).mean(), half(paired))
    alone = stats.ttest_1samp(ours, 0).confidence_interval()
    assert row[-2] == f'{ours.mean():.4g} ± {half(alone):.4g}'
    assert found.table.header == ['pattern', 'algorithm', 'model', 'A', 'B', 'B minus A']
    assert f'A is {first} (6 rounds, 3 seeds); B is {tmp_path} (6 rounds, 3 seeds)' in (
        found.table.caption
    )


@pytest.mark.parametrize(
    'changes, reason',
    [
        ({'seeds': (0, 3, 5, 6)}, 'seeds differ (0, 3, 4 | 0, 3, 5, 6)'),
        (
            {'patterns': {'some': participation.bernoulli(PROBS[::-1])}},
            'links differ (seed 0, for the first time in round 0)',
        ),
        pytest.param(
            {'num_rounds': 8},
            'links differ (6 rounds of 6 clients | 8 rounds of 6 clients)',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_other_runs_are_not_and_the_reason_is_told(first, tmp_path, changes, reason):
    run(tmp_path, rate=0.05, **changes)
    found = side_by_side.table([first, tmp_path, first])
    assert found.refusals == [f'B is not paired with A on some: {reason}.']
    assert found.text().endswith(found.refusals[0])
    ours, theirs = ends(tmp_path), ends(first)
    welch = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    (row,) = found.table.rows
    mean = ours.mean() - theirs.mean()
    assert row[5] == f'{shown(mean, half(welch))} (unpaired)'
    assert row[7] == '+0 ± 0'


def test_without_links_nothing_is_paired(first, tmp_path, monkeypatch):
    monkeypatch.setattr(running, '_MOST_LINKS', 0)
    run(tmp_path)
    (line,) = side_by_side.table([first, tmp_path]).refusals
    assert line.endswith('on some: no links kept that both met with one seed.')


def test_what_only_some_runs_have_leaves_cells_empty(first, tmp_path):
    patterns = {
        'some': participation.bernoulli(PROBS),
        'others': participation.bernoulli(PROBS / 2),
    }
    run(tmp_path, patterns=patterns, names=(('others', 'Others'),))
    rows = side_by_side.table([first, tmp_path]).table.rows
    assert [(row[0], row[3] == '', row[5] == '') for row in rows] == [
        ('some', False, False),
        ('Others', True, True),
    ]


def test_a_mistake_costs_one_line(first, tmp_path):
    with pytest.raises(ValueError, match=r"`metric` has no 'distanse'; did you mean 'distance'\?"):
        side_by_side.table([first, first], metric='distanse')
    with pytest.raises(ValueError, match=r'`tail` must lie in \[0, 1\], got 2'):
        side_by_side.table([first, first], tail=2)
    with pytest.raises(ValueError, match=r'`folders` must be 2 to 26, got 1\.'):
        side_by_side.table([first])
    with pytest.raises(ValueError, match=r'`folder` must hold a run'):
        side_by_side.table([first, tmp_path])
