"""Clients with their own numbers of local steps do exactly the first ones."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.core import prng
from tests.reference import statistics


@pytest.mark.parametrize('batch_size', [None, 1, 3])
@pytest.mark.parametrize('optimizer', [None, optax.adam])
def test_a_client_with_k_steps_equals_a_program_of_k_steps(batch_size, optimizer):
    problem = statistics.noisy_quadratic(statistics.TARGETS)
    kwargs = {'batch_size': batch_size, 'optimizer': optimizer}
    uneven = local_training.local_sgd(
        0.1, local_steps=5, client_steps=np.array([1, 5, 2, 4]), **kwargs
    )
    start = jnp.array([0.3, -0.2])
    run = jax.jit(uneven.run)
    key = prng.client_key(jax.random.key(3), 0)
    for client, steps in enumerate([1, 5, 2, 4]):
        even = local_training.local_sgd(0.1, local_steps=steps, **kwargs)
        ours = run(start, client, jnp.int32(0), key, problem)
        theirs = jax.jit(even.run)(start, client, jnp.int32(0), key, problem)
        assert ours.num_steps == theirs.num_steps == steps
        # Plain steps are the same to the bit. Adam divides by a root and by a power of the step's
        # number, which compilers round differently in loops of different lengths.
        rtol = 0 if optimizer is None else 1e-6
        np.testing.assert_allclose(ours.params, theirs.params, rtol=rtol, atol=0)
        np.testing.assert_allclose(ours.delta, theirs.delta, rtol=rtol, atol=0)
        np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-6)


def test_nothing_that_happens_after_the_last_step_can_leak():
    """Steps past a client's own may overflow; they are selected away, not multiplied by zero."""
    problem = problems.quadratic(np.full((2, 1), 1e30))
    program = local_training.local_sgd(
        1e9, local_steps=5, client_steps=np.array([1, 5])
    )
    key = jax.random.key(0)
    calm = program.run(jnp.full(1, 1e30), 0, jnp.int32(0), key, problem)
    np.testing.assert_array_equal(calm.delta, [0.0])
    assert np.isfinite(calm.loss)


def test_traced_steps_are_accepted():
    problem = problems.quadratic(np.ones((2, 1)))

    def server(steps):
        program = local_training.local_sgd(0.5, local_steps=3, client_steps=steps)
        result = simulation.simulate(
            jax.random.key(0),
            algorithms.fedavg(program),
            participation.always(2),
            problem,
            num_rounds=1,
        )
        return result.state.algorithm.server

    models = jax.vmap(server)(jnp.array([[1, 1], [2, 2], [1, 3]]))
    np.testing.assert_allclose(models[:, 0], [0.5, 0.75, (0.5 + 0.875) / 2], rtol=1e-6)


@pytest.mark.parametrize(
    'steps, message',
    [
        (np.array([1, 5]), r'`client_steps` must lie in \[1, 4\], got 5 at client 1'),
        (np.array([0, 4]), r'`client_steps` must lie in \[1, 4\], got 0 at client 0'),
        (np.array([1.0, 2.0]), '`client_steps` must hold integers, got dtype float'),
        (3, '`client_steps` must be a vector with one entry per client, got shape'),
    ],
)
def test_impossible_steps_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        local_training.local_sgd(0.1, local_steps=4, client_steps=steps)


def test_steps_for_other_clients_are_refused():
    program = local_training.local_sgd(
        0.1, local_steps=4, client_steps=np.array([1, 2, 3])
    )
    problem = problems.quadratic(np.ones((2, 1)))
    with pytest.raises(
        ValueError, match=r"`client_steps` .*problem's 2 clients, got 3"
    ):
        program.run(jnp.zeros(1), 0, jnp.int32(0), jax.random.key(0), problem)
