"""A model drawn uniformly from the server models: what it is, its law, and what stays as it was."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import algorithms, local_training, participation, problems, testing
from fedjax_links.core import prng
from tests import refusals
from tests.reference import harness, quadratic_loops

STREAM = 0x554E  # `uniform_iterate._STREAM`


@pytest.mark.parametrize('name', ['fedavg', 'fedpbc'])
def test_it_is_one_of_the_models_so_far_and_changes_none(x64, name):
    setting = quadratic_loops.hard_setting()
    make = getattr(algorithms, name)
    expected, _ = harness.run(setting, make, server_lr=1.0)

    def with_uniform_iterate(client, **options):
        return algorithms.uniform_iterate(make(client, **options))

    path, result = harness.run(setting, with_uniform_iterate, server_lr=1.0)
    np.testing.assert_array_equal(path, expected)

    starts = np.concatenate([[setting.start], path])
    index = 0
    for t, iterate in enumerate(np.asarray(result.evals['uniform_iterate'])):
        key = prng.round_key(jax.random.key(0), 'server', t)
        draw = prng.uniform(jax.random.fold_in(key, STREAM))
        if draw * (t + 1) < 1:
            index = t
        np.testing.assert_array_equal(iterate, starts[index])
    assert index > 0


@pytest.mark.statistical
def test_the_rule_draws_each_model_equally_often():
    """The rule that the test above checks draws each of nine models equally often.

    z-test of the frequencies at 4.5 standard errors: false alarm 6e-5.
    """
    num_rounds = 9
    num_seeds = 4000

    def draws(seed):
        def draw(t):
            key = prng.round_key(jax.random.key(seed), 'server', t)
            return prng.uniform(jax.random.fold_in(key, STREAM))

        return jax.vmap(draw)(np.arange(num_rounds))

    uniform = np.asarray(jax.jit(jax.vmap(draws))(np.arange(num_seeds)))
    is_replaced = uniform * np.arange(1, num_rounds + 1) < 1
    last = num_rounds - 1 - np.argmax(is_replaced[:, ::-1], axis=1)
    counts = np.bincount(last, minlength=num_rounds)
    error = np.sqrt(num_seeds * (1 - 1 / num_rounds) / num_rounds)
    assert np.abs(counts - num_seeds / num_rounds).max() < 4.5 * error


def test_an_algorithm_without_a_server_model_is_refused():
    fedavg = algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))
    nameless = fedavg._replace(models=lambda state: {'x': state.server})
    with refusals.names('algorithm', 'have a model `server`', "got ['x']"):
        fl.simulate(
            jax.random.key(0),
            algorithms.uniform_iterate(nameless),
            participation.bernoulli([0.5]),
            problems.quadratic([[0.0]]),
            num_rounds=1,
        )


@pytest.mark.slow
def test_it_keeps_the_promises_of_an_algorithm():
    testing.check_algorithm(
        lambda program: algorithms.uniform_iterate(algorithms.fedavg(program))
    )
