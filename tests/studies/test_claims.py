"""The table of claims: statistics by hand, rows as the page has them, its runs run again."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links import experiment, runs
from fedjax_links.datasets import npz
from studies import claim as claim_of
from studies import claimed_rates
from studies.claim import Claim, Side
from studies.claims import CLAIMS, MINUTES, TABLE_D1, table
from studies.paper_claims import xiang2024
from tests import ROOT
from tests.configs import shipped
from tests.datasets import real_images

PAGE = ROOT / 'docs' / 'papers.md'
ARCHIVES = sorted(path.name for path in claim_of.ARCHIVES.iterdir())
FIRST_OF_PAPER = [
    next(run for run in ARCHIVES if run.startswith(paper))
    for paper in ('sun2025', 'wang2022', 'xiang2023', 'xiang2024')
]
FEW = 20  # evaluations of a run that are run again; warm-ups end before
ON_IMAGES = {
    'sun2025_figure3_mnist_short': 'mnist',
    'wang2022_figure_d1_fashion_mnist_short': 'fashion_mnist',
}
"""Runs on published images, of which two evaluations are run again."""
BOUNDS = {'wang2022_figure_d1_fashion_mnist_short': 1e-2}
"""Bounds on differences, if not 2e-3; that of two lanes exceeds them in some metric.

A network at the rate 0.1 makes 0.006 of what another compiler rounds differently in 50 rounds. As
the record was compiled, the bits are those of the record.
"""
PATTERN = {'wang2022_figure_d2_gaussians': 'rate1'}
"""A record's label of one of the rates that the config has in its grid now."""


def patch_columns(monkeypatch, values):
    """Makes runs consist of two algorithms with values [algorithm, seed, evaluation]."""
    values = np.asarray(values, float)
    algorithm, seed, at = (axis.ravel() for axis in np.indices(values.shape))
    shuffled = np.random.default_rng(0).permutation(values.size)
    columns = {
        'stage': np.full(values.size, 'main'),
        'algorithm': np.array(['a', 'b'])[algorithm],
        'pattern': np.full(values.size, 'p'),
        'seed': seed,
        'round': 10 * (at + 1),
        'server/eval_accuracy': values.ravel(),
    }
    columns = {name: column[shuffled] for name, column in columns.items()}
    monkeypatch.setattr(claim_of, 'read', lambda run: columns)


def claim(**changes):
    return Claim(
        'item', 'text', 'run', {'': (Side('a', 'p'), Side('b', 'p'))}, **changes
    )


def test_the_difference_is_that_of_pairs_of_seeds(monkeypatch, rng):
    values = rng.normal(size=(2, 5, 20)) + 3 * rng.normal(size=(1, 5, 1))
    patch_columns(monkeypatch, values)
    (found,) = claim_of.outcomes(claim())
    ends = values[:, :, -2:].mean(axis=2)
    again = stats.ttest_rel(ends[0], ends[1])
    low, high = again.confidence_interval(0.95)
    assert found.difference == pytest.approx(100 * (ends[0] - ends[1]).mean())
    assert found.interval == pytest.approx(100 * (high - low) / 2)
    (turned,) = claim_of.outcomes(claim(sign=-1, scale=1.0))
    assert turned.difference == pytest.approx(-found.difference / 100)


def outcome(difference, p_value, margin=0.0):
    return claim_of.Outcome('', difference, 1.0, p_value, margin)


def test_p_values_agree_with_intervals_that_exclude_zero(monkeypatch, rng):
    signs = set()
    for shift in np.linspace(0, 1, 12):
        values = rng.normal(size=(2, 7, 1)) + np.array([[[shift]], [[0]]])
        patch_columns(monkeypatch, values)
        (found,) = claim_of.outcomes(claim())
        assert found.p_value == pytest.approx(stats.ttest_rel(*values[:, :, 0]).pvalue)
        assert (found.p_value < 0.05) == (abs(found.difference) > found.interval)
        # 1 % of it, in points.
        assert found.margin == pytest.approx(abs(values[1].mean()))
        signs.add(found.verdict(ordered=True))
    assert len(signs) > 1


def test_verdicts_follow_p_value_interval_and_margin():
    ahead, behind, near = (
        outcome(d, p) for d, p in ((2.0, 0.01), (-2.0, 0.01), (0.5, 0.4))
    )
    assert claim_of.verdict(claim(), [ahead, ahead]) == 'holds'
    assert claim_of.verdict(claim(), [behind]) == 'reversed'
    mixed = claim_of.verdict(claim(note='; so'), [ahead, near, near])
    assert mixed == 'holds 1 of 3, cannot be told 2 of 3; so'
    assert claim_of.verdict(claim(), [outcome(0.5, 0.4, margin=1.6)]) == 'equivalent'
    assert claim_of.verdict(claim(), [outcome(2.0, 0.01, margin=9.0)]) == 'holds'
    equal = [outcome(2.0, 0.01, margin) for margin in (3.1, 2.9, 0.9)]
    text = claim_of.verdict(claim(ordered=False), equal)
    assert text == 'equivalent 1 of 3, cannot be told 1 of 3, different 1 of 3'
    assert claim_of.verdict(claim(shows=False), [behind]) == 'stand-in cannot show it'


def test_four_sides_compare_two_leads(monkeypatch, rng):
    values = rng.normal(size=(2, 5, 20))
    patch_columns(monkeypatch, values)
    a = Side('a', 'p')
    b = Side('b', 'p')
    (found,) = claim_of.outcomes(claim()._replace(pairs={'': (a, b, b, a)}))
    ends = values[:, :, -2:].mean(axis=2)
    assert found.difference == pytest.approx(200 * (ends[0] - ends[1]).mean())


def test_steps_between_evaluations(monkeypatch):
    rough = np.arange(10) % 2
    patch_columns(monkeypatch, [[rough, rough], [rough / 2, rough / 8]])
    steps = claim(statistic=claim_of.fluctuation, scale=1.0)
    (found,) = claim_of.outcomes(steps)
    assert found.difference == pytest.approx(2)


def test_rounds_to_a_level_and_never(monkeypatch):
    patch_columns(
        monkeypatch,
        [[[0.1, 0.6, 0.4], [0.1, 0.2, 0.3]], [[0.7, 0.1, 0.1], [0.1, 0.1, 0.5]]],
    )
    (found,) = claim_of.outcomes(claim(target=0.5))
    assert found.difference == pytest.approx(-(np.log2(20 / 10) + np.log2(30 / 30)) / 2)
    # Means [0.1, 0.4, 0.35], [0.4, 0.1, 0.3].
    assert found.note == ' (0 of 2 seeds; never, never)'
    patch_columns(monkeypatch, [[[1.0, 0.6, 0.4]] * 2, [[1.0, 0.9, 0.8]] * 2])
    (found,) = claim_of.outcomes(claim(target=0.5, sign=-1))  # of a loss
    assert found.difference == 0
    assert found.note == ' (2 of 2 seeds; 30, never)'


def test_one_seed_that_waits_long_decides_nothing(monkeypatch):
    """Nine seeds that need twice the rounds and one that needs 50 times as many."""
    there = np.arange(1, 101) >= np.array([[[1]] * 10, [[2]] * 9 + [[50]]])
    patch_columns(monkeypatch, there)
    (found,) = claim_of.outcomes(claim(target=0.5))
    assert found.p_value == pytest.approx(2 / 2**10)  # as all ten have one sign
    assert found.verdict(ordered=True) == 'holds'
    assert found.note == ' (10 of 10 seeds; 10, 20)'


def test_stars_are_of_all_pairs_at_once():
    few = claim()
    many = claim()._replace(pairs=dict.fromkeys('abc', claim().pairs['']))
    found = [
        (few, [outcome(2.0, 0.02)]),
        (many, [outcome(2.0, p) for p in (0.001, 0.5, 0.04)]),
    ]
    assert claim_of.survivors(found) == [[True], [True, False, False]]
    assert 'Of the 4 differences, 3 have a p-value below 0.05' in claim_of.summary(
        found
    )
    assert '2 survive' in claim_of.summary(found)
    assert '+2.00 ± 1.00 *; ' in claim_of.shown(many, found[1][1], [True, False, False])


@pytest.fixture(scope='module')
def results():
    return claim_of.judged(CLAIMS)


def test_the_page_has_what_the_archives_say(results):
    page = PAGE.read_text()
    lines = page.splitlines()
    assert [line for line in lines if '](../studies/records/papers/' in line] == [
        *table(results)
    ][2:]
    assert claim_of.summary(results) in ' '.join(page.split())


def test_a_claim_names_the_first_of_each_pair_first():
    """As the page says of its numbers: positive if the first named is ahead."""
    names = {label: name for name, label in xiang2024.RIVALS.items()}
    names['fedpbc'] = 'FedPBC'
    num_pairs = 0
    for claim in xiang2024.claims():
        pairs = [sides for sides in claim.pairs.values() if len(sides) == 2]
        for first, second in pairs:
            if first.algorithm == second.algorithm or first.algorithm not in names:
                continue
            text = claim.text.replace(names[second.algorithm], 'second', 1)
            start = text.find(names[first.algorithm])
            assert start >= 0, claim.text
            assert 'second' not in text[:start], claim.text
            num_pairs += 1
    assert num_pairs > 50


def test_runs_of_equal_problem_links_and_rates_are_bit_equal():
    runs_of = (
        ('xiang2024_figure9_alpha_gaussians', 'value2'),
        ('xiang2024_table2_gaussians', 'bernoulli_sine'),
    )
    (rounds, some), (more_rounds, more) = (
        claim_of.course(run, Side('mifa', pattern), 'eval_accuracy')
        for run, pattern in runs_of
    )
    assert np.isin(rounds, more_rounds).all()
    np.testing.assert_array_equal(some, more[:, np.isin(more_rounds, rounds)])


def test_an_interval_with_tuning_is_that_of_the_report():
    page = (claim_of.ARCHIVES / 'xiang2024_table1_gaussians' / 'report.md').read_text()
    (line,) = (
        row
        for row in page.splitlines()
        if '| Cyclic no reset | FedPBC | client mean' in row
    )
    pair = Side('fedpbc', 'cyclic', 'client_mean'), Side('fedavg', 'cyclic')
    run = 'xiang2024_table1_gaussians'
    (found,) = claim_of.outcomes(claim()._replace(run=run, pairs={'': pair}))
    assert f'{found.difference:+.1f} ± ' in line
    assert f'[{found.interval:.1f}]' in line


def test_every_archive_belongs_to_a_claim():
    rate_runs = {TABLE_D1, 'wang2022_initial_rates_gaussians'}
    assert set(ARCHIVES) == set(MINUTES) == rate_runs | {found.run for found in CLAIMS}


def test_rates_are_those_of_the_main_runs(monkeypatch):
    columns = {
        'algorithm': np.array(['a', 'a', 'b', 'b']),
        'stage': np.array(['tuning', 'main', 'tuning', 'main']),
        'seed': np.array([7, 0, 7, 0]),
        'client.learning_rate': np.array([0.01, 0.01, 1.0, 1e-4]),  # tuning comes first
    }
    monkeypatch.setattr(claimed_rates, 'read', lambda run: columns)
    line = claimed_rates.rates('T', 'r', {'a': 0.01, 'b': 1e-5}, {'r': '9'})
    assert '| a 0.01 ↑; b 0.0001 | equal 1 of 2, by 1 seed |' in line


def test_one_rate_for_both_patterns_is_read_from_the_main_runs(monkeypatch):
    columns = {
        'pattern': np.array(['a', 'a', 'b', 'b']),
        'stage': np.array(['tuning', 'main', 'tuning', 'main']),
        'client.learning_rate': np.array([0.1, 0.01, 0.1, 0.01]),
    }
    monkeypatch.setattr(claimed_rates, 'read', lambda run: columns)
    line = claimed_rates.same_rates('T', 'r', 0.1, {'r': '9'})
    assert '| a 0.01; b 0.01 | holds, by 1 seed; another rate' in line
    columns['client.learning_rate'] = np.array([0.1, 0.01, 0.1, 0.1])
    line = claimed_rates.same_rates('T', 'r', 0.1, {'r': '9'})
    assert '| a 0.01; b 0.1 | reversed, by 1 seed |' in line


def test_the_printed_grid_is_read_from_the_ends_of_tuning(monkeypatch):
    """Two rates of the grid and a better one that is not in it; the last round counts."""
    rows = [
        (algorithm, pattern, rate, seed, at)
        for algorithm in ('fedavg', 'fedpbc')
        for pattern in ('invariant', 'varying')
        for rate in (0.001, 0.002, 0.005)
        for seed in (7, 8, 9)
        for at in (20, 500)
    ]
    best = {('fedavg', 0.005): 2.0, ('fedpbc', 0.001): 1.5}
    losses = []
    for algorithm, _, rate, seed, at in rows:
        loss = 0.1 if rate == 0.002 else best.get((algorithm, rate), 3.0)
        if algorithm == 'fedavg':
            loss += 0.001 * seed
        if at == 20:
            loss += 9
        losses.append(loss)
    names = ('algorithm', 'pattern', 'client.learning_rate', 'seed', 'round')
    columns = {
        n: np.array(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)
    }
    columns['stage'] = np.full(len(rows), 'tuning')
    columns |= {f'{m}/train_loss': np.array(losses) for m in ('server', 'client_mean')}
    monkeypatch.setattr(claimed_rates, 'read', lambda run: columns)
    line = claimed_rates.printed_grid({claimed_rates.FIGURE_3: '9'})
    assert '3a: FedPBC at 0.001, FedAvg at 0.005, +508 ± 2; 3b: ' in line
    assert '| holds, by 3 seeds;' in line


def config(run):
    """The config that a run's name stands for: a config's name and its words, joined by ``_``."""
    path = max(
        (p for p in shipped.PATHS if run.startswith(p.stem)), key=lambda p: len(p.stem)
    )
    words = run.removeprefix(path.stem).removeprefix('_')
    # Words that hold underscores themselves must not be split.
    for group in shipped.ARGUMENTS.get(path.stem, ()):
        for word in group:
            words = words.replace(word, word.replace('_', ' '))
    words = [word.replace(' ', '_') for word in words.split('_') if word]
    get_config = shipped.module(path).get_config
    return (get_config(','.join(words)) if words else get_config()).to_dict()


def shortened(settings, algorithm, columns, rows, few):
    """One lane of the config's first pattern at the rates of the record."""
    section = settings['algorithms'][algorithm]
    client = settings.get('client', {})
    pattern = next(iter(settings['patterns']))
    if 'tuning' in settings or 'grid' in settings:
        client = {**client, 'learning_rate': columns['client.learning_rate'][rows][0]}
    if 'server_lrs' in settings.get('tuning', {}):
        section = {**section, 'server_lr': columns['server_lr'][rows][0]}
    values = {
        'client': client,
        'algorithms': {algorithm: section},
        'patterns': {pattern: settings['patterns'][pattern]},
        'num_rounds': min(few * settings['eval_every'], settings['num_rounds']),
        'num_seeds': 1,
        'problems': {
            k: v for k, v in settings.get('problems', {}).items() if k == pattern
        },
    }
    dropped = (
        'baseline',
        'names',
        'reports',
        'caption',
        'quick',
        'tuning',
        'grid',
        *values,
    )
    selected = {name: value for name, value in settings.items() if name not in dropped}
    return selected | {name: value for name, value in values.items() if value}


def archives_with_marks():
    """All archives; those beyond the first one of a paper only before releases."""
    of_releases = pytest.mark.release('test_the_page_has_what_the_archives_say')
    params = []
    for run in ARCHIVES:
        marks = () if run in FIRST_OF_PAPER else of_releases
        params.append(pytest.param(run, marks=marks))
    return params


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize('run', archives_with_marks())
def test_the_first_rounds_of_a_run_again(run, monkeypatch, tmp_path_factory):
    settings = config(run)
    columns = runs.read(claim_of.ARCHIVES / run).columns
    if run in ON_IMAGES:
        real_images.load_or_skip(ON_IMAGES[run], tmp_path_factory)
        if not npz.npz_file(ON_IMAGES[run]).is_file():
            monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path_factory.getbasetemp()))
    names = ('fedavg', 'amplified', 'eta10', 'period50', 'beta1')
    algorithm = next(name for name in names if name in settings['algorithms'])
    pattern = PATTERN.get(run, next(iter(settings['patterns'])))
    rows = (columns['stage'] == 'main') & (columns['seed'] == 0)
    rows &= (columns['algorithm'] == algorithm) & (columns['pattern'] == pattern)
    few = 2 if run in ON_IMAGES else FEW
    rows &= columns['round'] <= few * settings['eval_every']
    section = shortened(settings, algorithm, columns, rows, few)
    again = experiment.build(section).run().columns
    np.testing.assert_array_equal(again['round'], columns['round'][rows])
    metrics = [name for name in columns if name.startswith('server/')]
    assert metrics
    bound = BOUNDS.get(run, 2e-3)
    for name in metrics:
        remaining = columns[name][rows]
        np.testing.assert_allclose(again[name], remaining, rtol=bound, atol=bound)
        assert np.ptp(remaining) > 0.01  # it learns, so that another lane would be seen


@pytest.mark.parametrize('run', BOUNDS)
def test_a_wide_bound_still_tells_lanes_apart(run):
    columns = runs.read(claim_of.ARCHIVES / run).columns
    early = columns['round'] <= 2 * config(run)['eval_every']
    values = np.array([columns[name] for name in columns if name.startswith('server/')])
    pattern = next(iter(config(run)['patterns']))
    rows = early & (columns['pattern'] == pattern)
    lanes = [values[:, rows & (columns['seed'] == seed)] for seed in range(4)]
    for other in lanes[1:]:
        assert np.abs(other - lanes[0]).max() > 2 * BOUNDS[run]
