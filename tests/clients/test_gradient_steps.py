"""Local steps take parameters of any real dtype, and refuse what no gradient step can use."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from tests import refusals

FEATURES = np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)
TARGETS = np.linspace(0, 2, 6, dtype=np.float32)
OWNERS = [0, 0, 1, 1, 2, 2]


def loss(params, batch):
    errors = batch.features @ params['w'] + params['b'] - batch.labels
    return jnp.mean(errors**2)


def problem_from(extra):
    def init(key):
        return {'w': jnp.zeros(3), **extra}

    return problems.from_arrays(
        FEATURES, TARGETS, OWNERS, init_params=init, loss_fn=loss
    )


def train(problem, algorithm='fedavg', rate=0.1, options=None, **client):
    program = local_training.local_sgd(rate, local_steps=2, **client)
    algorithm = fl.ALGORITHMS[algorithm](program, **(options or {}))
    links = participation.bernoulli([0.5, 0.6, 0.7])
    result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=4)
    return algorithm.models(result.state.algorithm)['server']


@pytest.mark.parametrize('algorithm', ['fedavg', 'scaffold', 'fedpbc', 'gossip'])
@pytest.mark.parametrize('half', [0.5, np.float64(0.5), np.array(0.5)])
def test_numbers_train_as_arrays_do(algorithm, half):
    expected = train(problem_from({'b': jnp.float32(0.5)}), algorithm)
    got = train(problem_from({'b': half}), algorithm)
    assert got['b'].dtype == jnp.float32
    np.testing.assert_array_equal(got['b'], expected['b'])
    np.testing.assert_array_equal(got['w'], expected['w'])


@pytest.mark.parametrize(
    'leaf',
    [
        jnp.int32(3),
        jnp.array(True),
        jnp.complex64(1),
        jax.random.key(0),
        jnp.zeros(2, jnp.float8_e4m3fn),
    ],
    ids=lambda leaf: str(leaf.dtype),
)
def test_parameters_without_a_gradient_are_refused(leaf):
    problem = problem_from({'b': jnp.zeros(()), 'n': leaf})
    with refusals.names('init_params', str(leaf.dtype), "'n'"):
        train(problem)


@pytest.mark.parametrize('optimizer', [optax.lbfgs(), optax.polyak_sgd()])
def test_an_optimizer_that_needs_the_loss_is_refused(optimizer):
    problem = problem_from({'b': jnp.zeros(())})
    with refusals.names('optimizer', "'value'"):
        train(problem, optimizer=optimizer)
    with refusals.names('server_optimizer', "'value'"):
        train(problem, 'fedopt', options={'server_optimizer': optimizer})


def test_a_schedule_of_a_rate_for_each_coordinate_is_refused():
    problem = problem_from({'b': jnp.zeros(())})
    with refusals.names('learning_rate', 'one number', 'float32[3]'):
        train(problem, rate=lambda round: jnp.full(3, 0.1))
