"""Runs that a theorem covers stay below its bound; others name the first broken assumption."""

import math

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import (
    check,
    gradient_runs,
    problem_constants,
    regularity,
    sun2025,
    xiang2024,
)
from tests import refusals
from tests.refusals import refuses


def problem():
    return problem_constants.quadratic_constants([[0.0], [4.0]])


def test_journal_check_of_a_covered_run_bounds_the_run():
    rho = analysis.mixing_rate([0.5, 0.3])
    cap = xiang2024.step_size_cap(smoothness=1.0, local_steps=2, mixing_rate=rho)
    masks = np.random.default_rng(0).uniform(size=(50, 2)) < [0.5, 0.3]
    clients = gradient_runs.quadratic_clients([[0.0], [4.0]], cap, 2)
    squares = gradient_runs.fedpbc_gradient_squares(masks, clients)
    run = analysis.TheoremRun(
        cap,
        2,
        50,
        realised=squares.mean(),
        rounds_are_independent=True,
        mixing_rate=rho,
    )
    result = analysis.check_theorem('xiang2024', problem(), run)
    assert result.covers
    assert result.first_broken is None
    assert result.factor >= 1
    assert result.rate_cap == cap
    faster = analysis.check_theorem(
        'xiang2024', problem(), run._replace(learning_rate=2 * cap)
    )
    assert not faster.covers
    assert faster.first_broken.statement == 'rate at most the cap'


def test_unknown_facts_neither_hold_nor_break():
    run = analysis.TheoremRun(0.1, 1, 10)
    result = analysis.check_theorem('xiang2024', problem(), run)
    assert not result.covers
    assert result.first_broken is None
    assert math.isnan(result.bound)
    assert math.isnan(result.factor)


def test_local_steps_of_a_narrow_type_are_the_same_number():
    facts = {'rounds_are_independent': True, 'mixing_rate': 0.5}
    narrow = analysis.TheoremRun(1e-6, np.int16(200), 500, **facts)
    result = analysis.check_theorem('xiang2023', problem(), narrow)
    run = narrow._replace(local_steps=200)
    assert result == analysis.check_theorem('xiang2023', problem(), run)


def test_conference_check_includes_the_limit_of_lemma_5():
    """The theorem's own five limits allow up to 0.0124 here, Lemma 5 only 0.0105."""
    known = problem_constants.quadratic_constants([0.0, 4.0], [0.3, 0.3])
    num_rounds = 504
    run = analysis.TheoremRun(
        math.sqrt(2 / (30 * num_rounds)),
        30,
        num_rounds,
        rounds_are_independent=True,
        mixing_rate=0.0016,
    )
    result = analysis.check_theorem('xiang2023', known, run)
    assert 0.0115 < run.learning_rate < result.rate_cap
    assert result.first_broken.statement == 'rate at most the limit of Lemma 5'
    slower = run._replace(
        num_rounds=4 * num_rounds, learning_rate=run.learning_rate / 2
    )
    assert analysis.check_theorem('xiang2023', known, slower).covers


def test_memory_is_the_first_broken_assumption():
    run = analysis.TheoremRun(
        1e-9, 1, 10, rounds_are_independent=False, mixing_rate=0.5
    )
    for theorem in ('xiang2023', 'xiang2024'):
        result = analysis.check_theorem(theorem, problem(), run)
        assert result.first_broken.statement == 'rounds are independent'


def test_amplified_check_of_turns_bounds_the_run():
    masks = np.array([[1, 0], [0, 1]] * 20, bool)
    weights = regularity.participation_weights(masks)
    known = problem()
    pattern = regularity.pattern_constants(weights, known.gradient_differences, 2)
    clients = gradient_runs.quadratic_clients([[0.0], [4.0]], 0.02, 2)
    squares = gradient_runs.amplified_fedavg_gradient_squares(
        masks, clients, period=2, amplification=10.0
    )
    run = analysis.TheoremRun(
        0.02,
        2,
        40,
        realised=squares[::2].mean(),
        period=2,
        amplification=10.0,
        pattern=pattern,
    )
    result = analysis.check_theorem('wang2022', known, run)
    assert result.covers
    assert result.factor >= 1
    broken = run._replace(amplification=100.0)
    result = analysis.check_theorem('wang2022', known, broken)
    assert result.first_broken.statement == 'gamma eta at most 1 / (L I P)'


def test_separation_check_names_a_chain_that_never_mixes():
    run = analysis.TheoremRun(1e-9, 1, 10**6, largest_gradient=2.0)
    chain = analysis.minimum_separation_chain([1.0, 2.0, 3.0], 1)
    known = problem_constants.quadratic_constants([0.0, 1.0, 5.0])
    assert analysis.check_theorem('sun2025', known, run._replace(chain=chain)).covers
    cyclic = analysis.minimum_separation_chain([1.0, 2.0], 1)
    result = analysis.check_theorem('sun2025', problem(), run._replace(chain=cyclic))
    assert result.first_broken.statement == 'the chain mixes'


@pytest.mark.parametrize('theorem', ['sun2025', 'sun2025_debiased'])
def test_separation_check_of_a_covered_run_bounds_the_run(theorem):
    """Links by the paper's sampling, full gradients, the largest rate covered."""
    weights = [0.25, 0.25, 0.5]
    targets = [1.0, 2.0, 3.0]
    chain = analysis.minimum_separation_chain(weights, 1)
    known = problem_constants.quadratic_constants(targets)
    run = analysis.TheoremRun(1e-5, 1, 2000, chain=chain, largest_gradient=2.0)
    cap = analysis.check_theorem(theorem, known, run).rate_cap
    rng = np.random.default_rng(0)
    last = None
    masks = np.zeros((2000, 3), bool)
    for mask in masks:
        # The client of the last round is not available.
        free = np.array(weights)
        if last is not None:
            free[last] = 0.0
        last = rng.choice(3, p=free / free.sum())
        mask[last] = True
    rates = np.full(3, cap)
    if theorem == 'sun2025_debiased':
        rates = cap / (3 * chain.marginal)
    clients = gradient_runs.quadratic_clients(targets, rates, 1)
    squares = gradient_runs.amplified_fedavg_gradient_squares(masks, clients)
    # The theorem bounds the mean over rounds 0 to T - tau - 1.
    realised = squares[: 2000 - sun2025.least_lag(chain)].mean()
    run = run._replace(learning_rate=cap, realised=realised)
    result = analysis.check_theorem(theorem, known, run)
    assert result.covers
    assert result.factor >= 1
    faster = run._replace(learning_rate=1.01 * cap)
    result = analysis.check_theorem(theorem, known, faster)
    assert result.first_broken.statement == 'rate at most the cap'


def test_equal_clients_need_no_debiasing():
    """Rounding may take ``1 / (N pi_i)`` below 1, as with nine clients."""
    chain = analysis.minimum_separation_chain([1.0] * 9, 1)
    known = problem_constants.quadratic_constants(np.arange(9.0))
    run = analysis.TheoremRun(1e-6, 1, 1000, chain=chain)
    debiased = analysis.check_theorem('sun2025_debiased', known, run)
    plain = analysis.check_theorem('sun2025', known, run._replace(largest_gradient=0.0))
    assert debiased.rate_cap == plain.rate_cap
    assert debiased.bound == pytest.approx(plain.bound, rel=1e-12)


def linear_problem(loss):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(12, 2))
    owners = np.repeat(np.arange(3), 4)
    labels = rng.integers(2, size=12)
    options = {'loss': loss, 'l2': 0.5}
    return features, labels, owners, options


@pytest.mark.parametrize('loss', ['softmax', 'logistic', 'least_squares'])
def test_journal_check_of_linear_models_bounds_their_run(loss):
    *data, options = linear_problem(loss)
    known = problem_constants.linear_model_constants(*data, **options)
    rho = analysis.mixing_rate([0.5, 0.3, 0.9])
    run = analysis.TheoremRun(1e-9, 2, 20, rounds_are_independent=True, mixing_rate=rho)
    cap = analysis.check_theorem('xiang2024', known, run).rate_cap
    clients = gradient_runs.linear_clients(*data, cap, 2, **options)
    masks = np.random.default_rng(4).uniform(size=(20, 3)) < [0.5, 0.3, 0.9]
    squares = gradient_runs.fedpbc_gradient_squares(masks, clients)
    run = run._replace(learning_rate=cap, realised=squares.mean())
    result = analysis.check_theorem('xiang2024', known, run)
    # The theorem also assumes L >= 1, which not each of these losses has.
    assert result.covers == (known.smoothness >= 1)
    assert result.factor >= 1


def test_amplified_check_of_linear_models_bounds_their_run():
    *data, options = linear_problem('softmax')
    known = problem_constants.linear_model_constants(*data, **options)
    masks = np.eye(3, dtype=bool)[np.arange(30) % 3]
    weights = regularity.participation_weights(masks)
    pattern = regularity.pattern_bounds(weights, known.dissimilarity, 3)
    clients = gradient_runs.linear_clients(*data, 0.004, 2, **options)
    squares = gradient_runs.amplified_fedavg_gradient_squares(
        masks, clients, period=3, amplification=5.0
    )
    run = analysis.TheoremRun(
        0.004, 2, 30, realised=squares[::3].mean(), period=3, amplification=5.0
    )
    result = analysis.check_theorem('wang2022', known, run._replace(pattern=pattern))
    assert result.covers
    assert result.factor >= 1


def test_noise_without_bound_is_the_first_broken_assumption():
    *data, options = linear_problem('least_squares')
    known = problem_constants.linear_model_constants(*data, **options, batch_size=2)
    run = analysis.TheoremRun(1e-9, 1, 10, mixing_rate=0.5)
    for theorem, statement in (
        ('xiang2023', 'gradient noise is bounded'),
        ('wang2022', 'gradient noise is bounded'),
        ('sun2025', 'gradients are full'),
    ):
        result = analysis.check_theorem(theorem, known, run)
        assert result.first_broken.statement == statement
        assert math.isnan(result.bound)


def test_unknown_theorems_are_refused():
    names = "'xiang2023', 'xiang2024', 'wang2022', 'sun2025', 'sun2025_debiased'"
    with refuses(f"`theorem` must be one of {names}, got 'sun'."):
        analysis.check_theorem('sun', problem(), analysis.TheoremRun(0.1, 1, 1))


@pytest.mark.parametrize('theorem', check.THEOREMS)
@pytest.mark.parametrize(
    'field, value, requirement',
    [
        ('learning_rate', -0.01, 'be positive and finite'),
        ('learning_rate', 0.0, 'be positive and finite'),
        ('learning_rate', 'fast', 'hold numbers'),
        ('local_steps', 0, 'be an integer of at least 1'),
        ('num_rounds', 2.5, 'be an integer of at least 1'),
        ('period', 0, 'be an integer of at least 1'),
        ('amplification', -1.0, 'be positive and finite'),
        ('realised', [0.1], 'be one number'),
        ('realised', -0.1, 'be at least 0'),
        ('rounds_are_independent', 'no', 'be True or False'),
        ('mixing_rate', 1.5, 'lie in [0, 1]'),
        ('largest_gradient', -1.0, 'be at least 0'),
        ('pattern', 3, 'be a `PatternConstants`'),
        ('chain', 3, 'be a `MinimumSeparationChain`'),
    ],
)
def test_fields_of_a_run_are_refused_by_name(theorem, field, value, requirement):
    """Sun et al.'s theorem would cover a negative rate, whose bound is not computed."""
    chain = analysis.minimum_separation_chain([0.2, 0.2, 0.3, 0.3], 1)
    run = analysis.TheoremRun(1e-5, 5, 2000, chain=chain)._replace(**{field: value})
    with refusals.names(f'run.{field}', requirement):
        analysis.check_theorem(theorem, problem(), run)
