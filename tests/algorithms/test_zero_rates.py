"""A local rate of zero, as at the end of a schedule, leaves what clients know of gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from tests.reference import harness, peer_loops, quadratic_loops

MAKERS = {
    'scaffold': algorithms.scaffold,
    'amplified_scaffold': lambda client: algorithms.amplified_scaffold(
        client, period=10, amplification=1.5
    ),
    'mifa': lambda client: algorithms.mifa(client, memory='gradient'),
}


@pytest.mark.parametrize('name', MAKERS)
def test_a_round_with_rate_zero_moves_nothing(x64, name):
    """Round 5 has rate zero. The counts of amplified SCAFFOLD and the round go on."""
    problem = problems.quadratic([[0.0], [1.0], [5.0]])
    client = local_training.local_sgd(
        lambda round: jnp.where(round == 5, 0.0, 0.05), local_steps=2
    )
    algorithm = MAKERS[name](client)
    key = jax.random.key(0)
    pattern = participation.always(3)
    links = simulation.realised_links(key, pattern, num_rounds=1)

    @jax.jit
    def advance(state):
        return simulation.advance(state, key, links, algorithm, problem)

    state = simulation.init(key, algorithm, pattern, problem)
    states = []
    for _ in range(6):
        state, _ = advance(state)
        states.append(state.algorithm._asdict())
    assert state.finite
    before, after = states[-2:]
    before.pop('num_uploads', None)
    assert jnp.any(before['server'] != 0)
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-14)
    for field, value in before.items():
        jax.tree.map(close, value, after[field])


@pytest.mark.parametrize('max_age', [0, 4])
def test_a_rate_of_zero_renews_no_remembered_gradient(x64, max_age):
    """A client that returns in such a round has no gradient, as its old one is forgotten."""
    setting = quadratic_loops.hard_setting()._replace(
        rate=lambda t: 0.0 if t % 7 == 3 else 0.1 / np.sqrt(t / 10 + 1)
    )
    expected = peer_loops.aged_mifa(setting, max_age, 'gradient')
    options = {'server_lr': 1.3, 'memory': 'gradient', 'max_age': max_age}
    harness.follow(setting, algorithms.mifa, expected, **options)
