"""F3AST against sorted lists: who is chosen, how ties fall, and which rate weighs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, problems, simulation
from fedjax_links.algorithms.f3ast import f3ast_senders, lowest
from fedjax_links.base import LinkSample
from tests import refusals
from tests.reference import harness, interval_loops, quadratic_loops


@pytest.mark.parametrize(
    'budget, beta, first',
    [(2, 0.05, 1.0), (1, 0.3, 0.2), (10, 0.01, np.linspace(0.2, 0.8, 7))],
)
def test_it_follows_the_listing(x64, budget, beta, first):
    setting = quadratic_loops.hard_setting()
    options = {} if np.all(first == 1.0) else {'initial_rate': first}
    expected, rates = interval_loops.f3ast(setting, budget, beta, first)
    np.testing.assert_array_equal(
        f3ast_senders(setting.mask, {'budget': budget, 'beta': beta, **options}).sum(
            axis=1
        ),
        np.minimum(setting.mask.sum(axis=1), budget),
    )
    make = functools.partial(algorithms.f3ast, budget=budget)
    result = harness.follow(
        setting, make, expected, beta=beta, server_lr=1.3, **options
    )
    np.testing.assert_allclose(result.state.algorithm.rate, rates, rtol=1e-12)
    active = setting.mask.sum(axis=1)
    np.testing.assert_array_equal(result.rounds.num_active, np.minimum(active, budget))
    np.testing.assert_array_equal(result.rounds.extra['num_available'], active)


def test_weights_start_small_from_ones_and_right_from_the_budget():
    """From rates of one, sums of weights grow as the docstring says; from budget / N they are one.

    The bounds leave room for ties, which fall otherwise from round to round.
    """
    mask = np.ones((1001, 100), bool)
    sums = {}
    for first in (1.0, 0.1):
        rate = np.full(100, first)
        sums[first] = []
        for selected in f3ast_senders(mask, {'initial_rate': first}):
            rate = 0.99 * rate + 0.01 * selected
            sums[first].append((selected / rate).sum() / 100)
    after = np.array(sums[1.0])[[0, 100, 300, 1000]]
    np.testing.assert_allclose(after, [0.10, 0.23, 0.67, 0.96], atol=0.03)
    assert all(0.85 < total < 1.1 for total in sums[0.1])


@pytest.mark.parametrize('value', [0.0, -0.1, 1.5, [0.5, 0.0]])
def test_no_first_rate(value):
    with refusals.names('initial_rate'):
        algorithms.f3ast(
            local_training.local_sgd(0.1, local_steps=1), initial_rate=value
        )


def test_first_rates_are_one_or_one_for_each_client():
    program = local_training.local_sgd(0.1, local_steps=1)
    algorithm = algorithms.f3ast(program, initial_rate=[0.5, 0.5])
    with refusals.names('initial_rate', '3'):
        algorithm.init(jnp.zeros(2), problems.quadratic(np.ones((3, 2))))


def test_ties_go_to_lowest_ids_then_to_the_longest_absent():
    problem = problems.quadratic(np.ones((6, 2)))
    algorithm = algorithms.f3ast(
        local_training.local_sgd(0.1, local_steps=1), budget=2, beta=0.5
    )
    state = algorithm.init(jnp.zeros(2), problem)
    links = LinkSample(mask=jnp.arange(6) > 0, prob=jnp.full(6, 0.5))
    round_step = jax.jit(algorithm.round_step)
    chosen = []
    for t in range(3):
        ctx = simulation.round_context(jax.random.key(0), t, links)
        faded = 0.5 * state.rate
        state, _ = round_step(state, ctx, problem)
        chosen.append(np.flatnonzero(state.rate > faded).tolist())
    assert chosen == [[1, 2], [3, 4], [1, 5]]


def test_with_a_budget_for_everyone_full_participation_is_fedavg(x64):
    setting = quadratic_loops.hard_setting()
    setting = setting._replace(mask=np.ones_like(setting.mask))
    expected = quadratic_loops.fedavg(setting)
    harness.follow(setting, algorithms.f3ast, expected, server_lr=1.3)


@pytest.mark.parametrize('budget', [1, 3, 9, 20])
def test_the_lowest_scores_are_those_of_a_stable_sort(rng, budget):
    for _ in range(20):
        scores = rng.choice([0.1, 0.2, 0.2000001, 1.0, np.inf], size=9)
        expected = np.zeros(9, bool)
        expected[np.argsort(scores.astype(np.float32), kind='stable')[:budget]] = True
        np.testing.assert_array_equal(lowest(jnp.asarray(scores), budget), expected)
