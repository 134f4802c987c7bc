"""The checker against the functions it uses, and runs of quadratics against their listings."""

import math

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import (
    problem_constants,
    quadratic_runs,
    regularity,
    xiang2024,
)
from tests.analysis.refusals import refuses


def problem():
    return problem_constants.quadratic_constants([[0.0], [4.0]])


def test_journal_check_of_a_covered_run_bounds_the_run():
    rho = analysis.mixing_rate([0.5, 0.3])
    cap = xiang2024.step_size_cap(smoothness=1.0, local_steps=2, mixing_rate=rho)
    masks = np.random.default_rng(0).uniform(size=(50, 2)) < [0.5, 0.3]
    squares = quadratic_runs.fedpbc_gradient_squares(masks, [[0.0], [4.0]], cap, 2)
    run = analysis.TheoremRun(
        cap,
        2,
        50,
        realised=squares.mean(),
        rounds_are_independent=True,
        mixing_rate=rho,
    )
    found = analysis.check_theorem('xiang2024', problem(), run)
    assert found.covers
    assert found.first_broken is None
    assert found.factor >= 1
    assert found.rate_cap == cap
    faster = analysis.check_theorem(
        'xiang2024', problem(), run._replace(learning_rate=2 * cap)
    )
    assert not faster.covers
    assert faster.first_broken.statement == 'rate at most the cap'


def test_unknown_facts_are_neither_held_nor_broken():
    run = analysis.TheoremRun(0.1, 1, 10)
    found = analysis.check_theorem('xiang2024', problem(), run)
    assert not found.covers
    assert found.first_broken is None
    assert math.isnan(found.bound)
    assert math.isnan(found.factor)


def test_memory_is_the_first_broken_assumption():
    run = analysis.TheoremRun(
        1e-9, 1, 10, rounds_are_independent=False, mixing_rate=0.5
    )
    for theorem in ('xiang2023', 'xiang2024'):
        found = analysis.check_theorem(theorem, problem(), run)
        assert found.first_broken.statement == 'rounds are independent'


def test_amplified_check_of_turns_bounds_the_run():
    masks = np.array([[1, 0], [0, 1]] * 20, bool)
    weights = regularity.participation_weights(masks)
    known = problem()
    pattern = regularity.pattern_constants(weights, known.gradient_differences, 2)
    squares = quadratic_runs.amplified_fedavg_gradient_squares(
        masks, [[0.0], [4.0]], 0.02, 2, period=2, amplification=10.0
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
    found = analysis.check_theorem('wang2022', known, run)
    assert found.covers
    assert found.factor >= 1
    broken = run._replace(amplification=100.0)
    found = analysis.check_theorem('wang2022', known, broken)
    assert found.first_broken.statement == 'gamma eta at most 1 / (L I P)'


def test_separation_check_names_a_chain_that_never_mixes():
    run = analysis.TheoremRun(1e-9, 1, 10**6, largest_gradient=2.0)
    chain = analysis.minimum_separation_chain([1.0, 2.0, 3.0], 1)
    known = problem_constants.quadratic_constants([0.0, 1.0, 5.0])
    assert analysis.check_theorem('sun2025', known, run._replace(chain=chain)).covers
    cyclic = analysis.minimum_separation_chain([1.0, 2.0], 1)
    found = analysis.check_theorem('sun2025', problem(), run._replace(chain=cyclic))
    assert found.first_broken.statement == 'the chain mixes'


@pytest.mark.parametrize('period', [1, 3])
def test_amplified_runs_equal_the_listing(period):
    rng = np.random.default_rng(1)
    masks = rng.uniform(size=(12, 3)) < 0.6
    targets = rng.normal(size=(3, 2))
    found = quadratic_runs.amplified_fedavg_gradient_squares(
        masks, targets, 0.1, 4, period=period, amplification=2.5
    )
    model = np.zeros(2)
    total = np.zeros(2)
    for t in range(12):
        exact = np.sum((model - targets.mean(axis=0)) ** 2)
        np.testing.assert_allclose(found[t], exact, rtol=1e-12)
        deltas = []
        for target in targets[masks[t]]:
            local = model.copy()
            for _ in range(4):
                local = local - 0.1 * (local - target)
            deltas.append(local - model)
        update = np.mean(deltas, axis=0) if deltas else np.zeros(2)
        model = model + update
        total = total + update
        if (t + 1) % period == 0:
            model = model + 1.5 * total
            total = np.zeros(2)


def test_fedpbc_runs_equal_the_listing():
    rng = np.random.default_rng(2)
    masks = rng.uniform(size=(9, 3)) < 0.5
    targets = rng.normal(size=(3, 2))
    found = quadratic_runs.fedpbc_gradient_squares(masks, targets, 0.1, 3)
    clients = [np.zeros(2) for _ in range(3)]
    for t in range(9):
        bar = np.mean(clients, axis=0)
        exact = np.sum((bar - targets.mean(axis=0)) ** 2)
        np.testing.assert_allclose(found[t], exact, rtol=1e-12)
        for i in range(3):
            for _ in range(3):
                clients[i] = clients[i] - 0.1 * (clients[i] - targets[i])
        uploads = [i for i in range(3) if masks[t, i]]
        if uploads:
            server = np.mean([clients[i] for i in uploads], axis=0)
            for i in uploads:
                clients[i] = server


def test_unknown_theorems_are_refused():
    names = "'xiang2023', 'xiang2024', 'wang2022', 'sun2025'"
    with refuses(f"`theorem` must be one of {names}, got 'sun'."):
        analysis.check_theorem('sun', problem(), analysis.TheoremRun(0.1, 1, 1))
