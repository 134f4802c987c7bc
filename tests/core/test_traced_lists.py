"""A list of traced numbers is what an array of them is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import algorithms, graphs, local_training, participation, problems
from fedjax_links.core import checks, errors
from fedjax_links.participation import schedules
from tests.tiers import cases

PROBLEM = problems.quadratic([[0.0], [1.0], [4.0]])
CLIENT = local_training.local_sgd(0.1, local_steps=2)
UPLINKS = participation.bernoulli([0.9, 0.5, 0.7])
VALUES = jnp.array([0.2, 0.5, 0.6])

PATTERNS = {
    'probabilities': participation.bernoulli,
    'a schedule': lambda v: participation.bernoulli(
        schedules.sine(v, gamma=0.1, period=4)
    ),
    'markov': participation.markov,
    'rates': lambda v: participation.markov([0.5] * 3, v),
    'correlation times': lambda v: participation.markov([0.5] * 3, correlation_time=v),
    'cyclic': lambda v: participation.cyclic(v, cycle_length=5),
    'weights': lambda v: participation.minimum_separation(v, separation=0),
    'times': lambda v: participation.quorum(v, quorum=2),
    'edges': lambda v: participation.peers(UPLINKS, graphs.ring(3), prob=v),
    'shocks': lambda v: participation.shared_shocks(
        UPLINKS, [0, 1, 2], up_rate=v, down_rate=0.3
    ),
    'a recording': lambda v: participation.replay([[1, 0, 1]], [v]),
}
ALGORITHMS = {
    'losses': lambda v: algorithms.ca_fed(CLIENT, optimal_losses=v),
    'correlations': lambda v: algorithms.ca_fed(CLIENT, correlations=v),
    'initial rates': lambda v: algorithms.f3ast(CLIENT, budget=1, initial_rate=v),
}


def outputs(make_pattern, make_algorithm, values):
    """Simulates three rounds, and returns the models and the links."""
    result = fl.simulate(
        jax.random.key(0),
        make_algorithm(values),
        make_pattern(values),
        PROBLEM,
        num_rounds=3,
    )
    return result.state.algorithm.server, result.state.links.mask


@pytest.mark.parametrize('part', cases([*PATTERNS, *ALGORITHMS], ['rates']))
def test_a_list_of_tracers_is_an_array_of_them(part):
    make_pattern = PATTERNS.get(part, lambda v: UPLINKS)
    make_algorithm = ALGORITHMS.get(part, lambda v: algorithms.fedavg(CLIENT))

    def of_array(values):
        return outputs(make_pattern, make_algorithm, values)

    def of_list(values):
        return outputs(make_pattern, make_algorithm, list(values))

    expected = jax.jit(of_array)(VALUES)
    result = jax.jit(of_list)(VALUES)
    jax.tree.map(np.testing.assert_array_equal, result, expected)


@pytest.mark.slow
def test_lists_of_tracers_work_under_vmap_and_grad():
    def server(values):
        algorithm = algorithms.ca_fed(CLIENT, optimal_losses=list(values))
        return outputs(lambda v: UPLINKS, lambda v: algorithm, values)[0].sum()

    batch = jnp.stack([VALUES, 2 * VALUES])
    run = jax.jit(server)
    single = [run(row) for row in batch]
    np.testing.assert_allclose(jax.jit(jax.vmap(server))(batch), single, rtol=1e-6)
    assert jax.eval_shape(jax.grad(server), VALUES).shape == VALUES.shape


def test_lists_of_tracers_of_a_wrong_shape_are_named():
    def check(values):
        checks.per_client('field', list(values))
        checks.one_or_each('field', list(values), 3)
        with pytest.raises(errors.InvalidError, match='`field` must be one number'):
            checks.number('field', list(values))
        with pytest.raises(errors.InvalidError, match='`field` must be one number or'):
            checks.one_or_each('field', list(values), 2)
        with pytest.raises(errors.InvalidError, match='`field` must be a Python int'):
            checks.static_int('field', list(values))
        with pytest.raises(errors.InvalidError, match='`field` must hold numbers'):
            checks.shape('field', [list(values), [values[0]]])
        return values

    jax.jit(check)(VALUES)
