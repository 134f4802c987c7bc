"""F3AST against sorted lists: who is chosen, how ties fall, and which rate weighs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, problems, simulation
from fedjax_links.algorithms.f3ast import lowest
from fedjax_links.base import LinkSample
from tests.reference import harness, interval_loops, quadratic_loops


@pytest.mark.parametrize('budget, beta', [(2, 0.05), (1, 0.3), (10, 0.01)])
def test_it_follows_the_listing(x64, budget, beta):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.f3ast(
        harness.client_program(setting), budget=budget, beta=beta, server_lr=1.3
    )
    expected, rates = interval_loops.f3ast(setting, budget, beta)
    result = harness.follow(setting, algorithm, expected)
    np.testing.assert_allclose(result.state.algorithm.rate, rates, rtol=1e-12)
    active = setting.mask.sum(axis=1)
    np.testing.assert_array_equal(result.rounds.num_active, np.minimum(active, budget))
    np.testing.assert_array_equal(result.rounds.extra['num_available'], active)


def test_equal_rates_go_to_the_lowest_ids_and_the_longest_unheard_come_next():
    problem = problems.quadratic(np.ones((6, 2)))
    algorithm = algorithms.f3ast(local_training.local_sgd(0.1, local_steps=1), budget=2, beta=0.5)
    state = algorithm.init(jnp.zeros(2), problem)
    links = LinkSample(mask=jnp.arange(6) > 0, prob=jnp.full(6, 0.5))
    chosen = []
    for round in range(3):
        ctx = simulation.round_context(jax.random.key(0), round, links)
        faded = 0.5 * state.rate
        state, _ = algorithm.round_step(state, ctx, problem)
        chosen.append(np.flatnonzero(state.rate > faded).tolist())
    assert chosen == [[1, 2], [3, 4], [1, 5]]


def test_with_a_budget_for_everyone_full_participation_is_fedavg(x64):
    setting = quadratic_loops.hard_setting()
    setting = setting._replace(mask=np.ones_like(setting.mask))
    algorithm = algorithms.f3ast(harness.client_program(setting), server_lr=1.3)
    harness.follow(setting, algorithm, quadratic_loops.fedavg(setting))


@pytest.mark.parametrize('budget', [1, 3, 9, 20])
def test_the_lowest_scores_are_those_of_a_stable_sort(rng, budget):
    for _ in range(20):
        scores = rng.choice([0.1, 0.2, 0.2000001, 1.0, np.inf], size=9)
        expected = np.zeros(9, bool)
        expected[np.argsort(scores.astype(np.float32), kind='stable')[:budget]] = True
        np.testing.assert_array_equal(lowest(jnp.asarray(scores), budget), expected)
