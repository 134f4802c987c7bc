"""The first state of a federation can be donated to a compiled program."""

import jax
import numpy as np
import pytest

from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.algorithms import ALGORITHMS

KEY = jax.random.key(0)
PROBLEM = problems.quadratic([[0.0], [1.0], [5.0]])
PATTERN = participation.bernoulli([0.5, 0.6, 0.7])


def make(name):
    entry = ALGORITHMS[name]
    make_client = entry.client_program or local_training.local_sgd
    client = make_client(0.1, local_steps=2, **entry.client_example)
    return entry(client, **entry.example)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_no_array_is_twice_in_the_first_state(name):
    state = simulation.init(KEY, make(name), PATTERN, PROBLEM)
    arrays = [id(leaf) for leaf in jax.tree.leaves(state)]
    assert len(set(arrays)) == len(arrays)


def test_a_donated_state_advances_as_a_copy_does():
    algorithm = make('amplified_fedavg')

    def advance(state):
        return simulation.run_round(state, KEY, algorithm, PATTERN, PROBLEM)[0]

    first = simulation.init(KEY, algorithm, PATTERN, PROBLEM)
    expected = jax.device_get(jax.jit(advance)(first))
    got = jax.jit(advance, donate_argnums=0)(first)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(got), expected)
    assert first.algorithm.server.is_deleted()
