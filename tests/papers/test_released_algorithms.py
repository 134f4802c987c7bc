"""Departures of released code: each equals a loop of its program, and no loop of the algorithm."""

import functools

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    local_training,
    participation,
    problems,
    simulation,
    testing,
)
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.papers.sun2025 import released as sun2025
from fedjax_links.papers.xiang2024 import released as xiang2024
from tests.reference import harness, interval_loops, quadratic_loops, released_loops

GROUPS = np.array([0, 0, 1, 1, 2, 2, 3])
RELEASED = {
    'debiased_fedavg_horizon': AlgorithmEntry(
        sun2025.debiased_fedavg_horizon,
        example={'num_rounds': 20},
        full_participation_is_fedavg=False,
    ),
    'f3ast_positions_as_ids': AlgorithmEntry(
        xiang2024.f3ast_positions_as_ids,
        example={'budget': 3},
        full_participation_is_fedavg=False,
        uses_links=False,
    ),
    'fedavg_known_last_client': AlgorithmEntry(xiang2024.fedavg_known_last_client),
    'fedpbc_doubled_steps': AlgorithmEntry(
        xiang2024.fedpbc_doubled_steps, full_participation_is_fedavg=False
    ),
}


def test_probs_of_the_last_client_alone_rescale_fedavg_all(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = xiang2024.fedavg_known_last_client
    expected = interval_loops.fedavg_known(setting, wrong='last client')
    harness.follow(setting, algorithm, expected, server_lr=1.3)
    harness.assert_caught(interval_loops.fedavg_known(setting), expected)
    constant = setting._replace(
        prob=np.full_like(setting.prob, 0.25), server_lr=4 * 1.3
    )
    expected = quadratic_loops.fedavg_all(constant)
    harness.follow(constant, algorithm, expected, server_lr=1.3)


def test_probs_of_the_last_client_hold_for_named_cohorts():
    algorithm = xiang2024.fedavg_known_last_client(
        local_training.local_sgd(0.1, local_steps=1)
    )
    problem = problems.quadratic([[1.0], [1.0], [1.0], [1.0]])
    pattern = participation.uniform_cohort(4, 2)
    result = simulation.simulate(
        jax.random.key(0), algorithm, pattern, problem, num_rounds=1
    )
    # Two of four clients move by 0.1, divided by 4 and by their common probability 1/2.
    np.testing.assert_allclose(result.state.algorithm.server, [0.1], rtol=1e-6)


@pytest.mark.parametrize('budget', [1, 3, 10])
def test_positions_are_taken_for_ids(x64, budget):
    setting = quadratic_loops.hard_setting()
    make = functools.partial(xiang2024.f3ast_positions_as_ids, budget=budget)
    expected, intruders = released_loops.f3ast_positions_as_ids(setting, budget, 0.05)
    harness.follow(setting, make, expected, beta=0.05, server_lr=1.3)
    clean, _ = interval_loops.f3ast(setting, budget, 0.05)
    if budget < 10:
        assert intruders > 0  # clients trained that were not active
        harness.assert_caught(clean, expected)
    else:
        np.testing.assert_allclose(clean, expected, atol=1e-12)


def test_the_first_fedpbc_commit_moves_everyone_twice(x64):
    setting = quadratic_loops.hard_setting()._replace(server_lr=1.0)
    expected = released_loops.fedpbc_doubled_steps(setting)
    harness.follow(setting, xiang2024.fedpbc_doubled_steps, expected, server_lr=1.0)
    harness.assert_caught(quadratic_loops.fedpbc(setting)[0], expected)


@pytest.mark.parametrize('groups', [None, GROUPS])
def test_horizon_weights(x64, groups):
    setting = quadratic_loops.gentle_setting()._replace(rate=lambda t: 0.004)
    make = functools.partial(sun2025.debiased_fedavg_horizon, groups=groups)
    groups = np.arange(7) if groups is None else groups
    expected = released_loops.debiased_fedavg_horizon(setting, 80, groups)
    harness.follow(setting, make, expected, num_rounds=80)
    harness.assert_caught(interval_loops.debiased_fedavg(setting), expected)


def test_horizon_weights_are_the_papers_times_m_t_over_t_plus_1(x64):
    """One client per round: a local rate divided by ``M T / (t + 1)`` gives the clean method."""
    clean = quadratic_loops.gentle_setting()
    clean = clean._replace(
        mask=np.eye(7, dtype=bool)[np.random.default_rng(1).integers(7, size=80)]
    )
    rescaled = clean._replace(rate=lambda t: clean.rate(t) * (t + 1) / (7 * 80))
    expected = interval_loops.debiased_fedavg(clean)
    harness.follow(rescaled, sun2025.debiased_fedavg_horizon, expected, num_rounds=80)


@pytest.mark.slow
@pytest.mark.parametrize('check', ['empty_round_is_defined', 'state_type_is_stable'])
@pytest.mark.parametrize('name', RELEASED)
def test_engine_promises_hold(name, check):
    try:
        testing.ALGORITHM_CHECKS[check](testing.Runs(RELEASED[name]))
    except testing.DoesNotApply as reason:
        pytest.skip(str(reason))


def test_departures_are_not_registered_as_algorithms():
    assert not RELEASED.keys() & algorithms.ALGORITHMS.keys()


@pytest.mark.parametrize(
    'make, message',
    [
        (
            lambda program: sun2025.debiased_fedavg_horizon(program, num_rounds=0),
            '`num_rounds` must be at least 1, got 0',
        ),
        (
            lambda program: sun2025.debiased_fedavg_horizon(
                program, num_rounds=5, groups=[0.5, 1.0]
            ),
            '`groups` must have an integer dtype, got float64',
        ),
        (
            lambda program: xiang2024.fedpbc_doubled_steps(program, server_lr=-0.5),
            r'`server_lr` must be positive, got -0\.5',
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(local_training.local_sgd(0.1, local_steps=1))


def test_groups_of_other_clients_are_refused():
    algorithm = sun2025.debiased_fedavg_horizon(
        local_training.local_sgd(0.1, local_steps=1), num_rounds=5, groups=[0, 1, 1]
    )
    message = "`groups` must have one entry per client of the problem's 2, got 3"
    with pytest.raises(ValueError, match=message):
        algorithm.init(np.zeros(1), problems.quadratic(np.ones((2, 1))))
