"""Runs small simulations of one federation, compiled once, and compares their results."""

import functools

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    local_training,
    participation,
    simulation,
)
from fedjax_links.testing import federation

NUM_CLIENTS = federation.NUM_CLIENTS
NUM_ROUNDS = federation.NUM_ROUNDS
PROBS = np.linspace(0.2, 0.8, NUM_CLIENTS)
SEED = 31
KEY = jax.random.key(SEED)
BERNOULLI = participation.bernoulli(PROBS)
MARKOV = participation.markov(PROBS, 0.3)
COHORTS = participation.uniform_cohort(NUM_CLIENTS, 2)
# Marks of a case that is compiled as for users, which takes long.
AS_USERS_COMPILE = pytest.mark.slow, pytest.mark.optimised


def program():
    """Local steps on batches of the federation's examples."""
    return local_training.local_sgd(0.2, local_steps=3, batch_size=2)


@functools.cache
def compiled(jit, make, links, num_rounds, eval_every, eval_fn):
    """Returns ``key, problem, state -> result``.

    Tests marked `optimised` replace `jax.jit`, so ``jit`` is part of the cache's key.
    """
    algorithm = make(program())
    return jit(
        lambda key, problem, state: simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=num_rounds,
            eval_every=eval_every,
            eval_fn=eval_fn,
            initial_state=state,
        )
    )


def run(
    make=algorithms.fedavg,
    links=BERNOULLI,
    *,
    num_rounds=NUM_ROUNDS,
    eval_every=None,
    eval_fn=None,
    key=KEY,
    problem=None,
    state=None,
):
    """Simulates an algorithm, made from local steps, on the federation."""
    problem = federation.problem() if problem is None else problem
    return compiled(jax.jit, make, links, num_rounds, eval_every, eval_fn)(
        key, problem, state
    )


def assert_identical(actual, expected):
    """Asserts that two trees have the same structure, dtypes and values."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def assert_close(actual, expected):
    """Asserts that two trees agree to rounding in single precision."""
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
