"""Spoilt configs run as meant or end in a one-line error."""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fedjax_links.core import errors
from tests.attacks import everyday, fuzz, made_files, mutations, rules
from tests.tiers import cases

CHECKED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SEEDS = st.integers(0, 2**32 - 1)


def assert_runs_or_ends_in_one_line(seed):
    case = mutations.mutated(seed)
    verdict = fuzz.judge(case.config, case.files)
    assert verdict.kind in (fuzz.LINE, fuzz.RUNS), (
        f'{seed}: {case.done}\n{verdict.text}'
    )


@pytest.mark.slow
@settings(CHECKED, max_examples=15)
@given(SEEDS)
def test_a_spoilt_config_runs_or_ends_in_one_line(seed):
    assert_runs_or_ends_in_one_line(seed)


@pytest.mark.slow
@pytest.mark.release('test_a_spoilt_config_runs_or_ends_in_one_line')
@settings(CHECKED, max_examples=150)
@given(SEEDS)
def test_many_spoilt_configs_run_or_end_in_one_line(seed):
    assert_runs_or_ends_in_one_line(seed)


@pytest.mark.parametrize(
    'base',
    cases(sorted(everyday.BASES.keys() - {'quadratic again'}), ['logged', 'npz']),
)
def test_the_unspoilt_configs_run(base):
    files = made_files.intact(random.Random(1))
    verdict = fuzz.judge(everyday.BASES[base](random.Random(1)), files)
    assert verdict == fuzz.Verdict(fuzz.RUNS, '')


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize('base', everyday.ON_FILES)
def test_configs_of_files_run_and_are_reported(base):
    rng = random.Random(3)
    config = everyday.BASES[base](rng)
    files = made_files.intact(rng)
    verdict = fuzz.judge(config, files, runs_too=True)
    assert verdict == fuzz.Verdict(fuzz.ENDS, '')


def test_a_report_that_hides_nan_is_noticed():
    good = '{"server/loss": 1.0}\n'
    bad = '{"server/loss": NaN}\n'
    assert not fuzz.hides_nan(good, '')
    assert fuzz.hides_nan(good + bad, 'all is well')
    assert not fuzz.hides_nan(bad, 'Diverged: fedavg')
    assert not fuzz.hides_nan('{"finite": false, "server/loss": NaN}', '')


@pytest.mark.parametrize(
    'changes, fault',
    [
        ({'client': {'learning_rate': float('inf')}}, 'is not finite'),
        ({'client': {'local_steps': 5.0}}, 'is no whole number'),
        ({'client': {'batch_size': True}}, 'is no whole number'),
        ({'client': {'learning_rate': '0.1'}}, 'is no positive number'),
        ({'client': {'lr': 0.1}}, "client: 'lr' is no option"),
        ({'epochs': 3}, "'epochs' is no field"),
        (
            {'links': {'name': 'uniform_cohort', 'cohort_size': 11}},
            'larger than the federation',
        ),
        (
            {'algorithms': {'wait_for_all': {'period': 30}}},
            'period longer than the run',
        ),
        ({'algorithms': {'a': {}, 'A': {}}}, 'labels overwrite each other'),
        ({'algorithms': {}}, 'nothing to run'),
        ({'grid': {}}, 'grid is empty'),
        ({'first_seed': 2**32 - 1, 'num_seeds': 2}, 'seeds beyond 32 bits'),
        ({'num_rounds': 7}, 'evaluations do not divide'),
        ({'names': [['fedavg', 3]]}, 'no pair of texts'),
    ],
)
def test_the_rules_find_nonsense(changes, fault):
    config = {
        'title': 'x',
        'problem': {'name': 'quadratic'},
        'links': 'always',
        'algorithms': {'fedavg': {}},
        'num_rounds': 20,
        'eval_every': 10,
    }
    assert rules.nonsense(config, 10) == []
    result = rules.nonsense({**config, **changes}, 10)
    assert any(fault in line for line in result), result


def test_kinds_of_ends_are_distinguished(monkeypatch):
    config = mutations.mutated(0).config
    for raised, kind in (
        (errors.invalid('config.x', 'be y', 1), fuzz.LINE),
        (errors.invalid('x', 'be y', 1), fuzz.NAMELESS),
        (ValueError('`config.x` must be y.'), fuzz.TRACEBACK),
        (KeyError('x'), fuzz.TRACEBACK),
        (UnicodeError('x'), fuzz.TRACEBACK),
    ):

        def drive(config, raised=raised):
            raise raised

        monkeypatch.setattr(fuzz, '_drive', drive)
        assert fuzz.judge(config).kind == kind
