"""Functions of a user are checked while a problem is built, wherever they were defined."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import problems
from fedjax_links.core import errors
from tests import refusals

ROWS = np.ones((4, 2), np.float32)
OWNERS = [0, 0, 1, 1]

CELL = """
def by_example(params, batch):
    return batch.features @ params

class Loss:
    def __call__(self, params, batch):
        return batch.features @ params
"""


def mean(params, batch):
    return jnp.mean(batch.features @ params)


def random_mean(params, batch, key):
    return mean(params, batch)


def build(loss_fn=mean, random_loss_fn=None, metrics=None):
    return problems.from_arrays(
        ROWS,
        ROWS[:, 0],
        OWNERS,
        init_params=lambda key: jnp.zeros(2),
        loss_fn=loss_fn,
        random_loss_fn=random_loss_fn,
        metrics=metrics,
    )


def notebook():
    """Runs a cell as a notebook does: its functions are of the main module, in no file."""
    names = {'__name__': '__main__'}
    exec(compile(CELL, '/tmp/ipykernel_1/2.py', 'exec'), names)
    return names


@pytest.mark.parametrize('dtype', ['int32', 'complex64', 'bool'])
def test_a_loss_without_a_gradient_is_refused(dtype):
    with refusals.names('loss_fn', 'decimal point', dtype):
        build(lambda params, batch: mean(params, batch).astype(dtype))


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32'])
def test_a_loss_of_any_real_dtype_is_taken(dtype):
    build(lambda params, batch: mean(params, batch).astype(dtype))


def test_a_random_loss_returns_one_number():
    build(random_loss_fn=random_mean)
    with refusals.names('random_loss_fn', 'one number', 'float32[4]'):
        build(random_loss_fn=lambda params, batch, key: batch.features @ params)


def test_functions_of_a_notebook_are_checked():
    cell = notebook()
    for loss in (cell['by_example'], cell['Loss'](), functools.partial(cell['Loss']())):
        with refusals.names('loss_fn', 'one number', 'float32[4]'):
            build(loss)
    with refusals.names('metrics', 'numbers by name', 'float32[4]'):
        build(metrics=cell['by_example'])


def test_functions_of_libraries_are_not_a_users():
    assert not errors.is_users(jnp.mean)
    assert not errors.is_users(problems.quadratic)
    assert not errors.is_users(print)
    assert not errors.is_users(functools.partial(jnp.mean, axis=0))
