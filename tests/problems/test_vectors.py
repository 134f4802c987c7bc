"""The quadratic problem against its formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import local_training, problems
from tests import refusals

TARGETS = np.array([[1.0, 0.0], [3.0, -2.0], [-1.0, 5.0]])


def test_loss_gradient_and_metrics(x64):
    problem = problems.quadratic(TARGETS)
    x = np.array([0.5, 1.5])
    value_and_gradient = jax.jit(jax.value_and_grad(problem.loss_fn))
    for i, u in enumerate(TARGETS):
        batch = problem.data[i : i + 1]
        loss, gradient = value_and_gradient(x, batch)
        np.testing.assert_allclose(loss, 0.5 * np.sum((x - u) ** 2))
        np.testing.assert_allclose(gradient, x - u, rtol=1e-12)
    measure = jax.jit(problem.metrics)
    metrics = measure(x, problem.eval_data)
    np.testing.assert_allclose(
        metrics['loss'], np.mean(0.5 * np.sum((x - TARGETS) ** 2, axis=1))
    )
    np.testing.assert_allclose(
        metrics['distance'], np.linalg.norm(x - TARGETS.mean(axis=0))
    )
    at_optimum = measure(TARGETS.mean(axis=0), problem.eval_data)
    np.testing.assert_allclose(at_optimum['distance'], 0, atol=1e-15)


@pytest.mark.parametrize('batch_size', [None, 3])
def test_local_steps_contract_towards_the_own_target(x64, batch_size):
    problem = problems.quadratic(TARGETS, initial_point=[2.0, 2.0])
    program = local_training.local_sgd(0.3, local_steps=4, batch_size=batch_size)
    start = problem.init_params(jax.random.key(9))
    run = jax.jit(program.run)
    for i, u in enumerate(TARGETS):
        update = run(start, jnp.int32(i), jnp.int32(0), jax.random.key(0), problem)
        np.testing.assert_allclose(update.params, u + 0.7**4 * (start - u), rtol=1e-12)


def test_the_start_is_zero_unless_given():
    np.testing.assert_array_equal(
        problems.quadratic(TARGETS).init_params(jax.random.key(0)), 0
    )
    inputs = problems.quadratic(TARGETS, initial_point=[2, -1])
    start = inputs.init_params(jax.random.key(0))
    np.testing.assert_array_equal(start, [2, -1])
    assert start.dtype == inputs.data.dtype == jnp.float32


def test_parameters_are_double_under_x64(x64):
    problem = problems.quadratic(TARGETS)
    assert (
        problem.init_params(jax.random.key(0)).dtype == problem.data.dtype == np.float64
    )


def test_every_client_owns_its_target():
    problem = problems.quadratic(TARGETS)
    assert problem.num_clients == 3
    np.testing.assert_array_equal(problem.offsets, [0, 1, 2])
    np.testing.assert_array_equal(problem.counts, 1)


@pytest.mark.parametrize(
    'targets, start, message',
    [
        (
            [1.0, 2.0],
            None,
            r'^`targets` must have shape \[num_clients, d\], got \[2\]\.$',
        ),
        (
            np.ones((0, 2)),
            None,
            r'^`targets` must have shape \[num_clients, d\], got \[0, 2\]\.$',
        ),
        (TARGETS, [1.0], r'^`initial_point` must have shape \[2\], got \[1\]\.$'),
    ],
)
def test_shapes_that_do_not_fit_are_refused(targets, start, message):
    with pytest.raises(ValueError, match=message):
        problems.quadratic(targets, initial_point=start)


@pytest.mark.parametrize('argument', ['targets', 'initial_point'])
@pytest.mark.parametrize('value', [np.nan, np.inf, -1e39])
def test_coordinates_are_numbers_of_single_precision(argument, value):
    arguments = {'targets': [[1.0], [0.0]], 'initial_point': [0.0]}
    arguments[argument] = np.full_like(arguments[argument], value)
    with refusals.names(argument, 'lie in [-3.40282e+38, 3.40282e+38]'):
        problems.quadratic(**arguments)


@pytest.mark.parametrize('value', [np.nan, 1e39, 1e-39])
def test_curvatures_are_positive_in_single_precision(value):
    with refusals.names('curvature', 'must ', 'at client 1'):
        problems.quadratic([[1.0], [0.0]], curvature=[1.0, value])


def test_larger_targets_need_double_precision(x64):
    problem = problems.quadratic([[1e100], [0.0]])
    loss = jax.jit(problem.metrics)(np.zeros(1), problem.eval_data)['loss']
    np.testing.assert_allclose(loss, 0.25e200)
