"""Local steps of compiled rounds move no array of the size of the models that they train."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.problems import models
from tests.tiers import cases

NUM_CLIENTS = 24
DIMENSION = 40
CHUNK = 8
LOOPS = {'fedavg': 3, 'fedpbc': 2}  # rounds, chunks of active clients, local steps
SIDE_BY_SIDE = {'fedavg': CHUNK, 'fedpbc': NUM_CLIENTS}

_OPERATION = re.compile(r'(?:ROOT )?%?[\w.\-]+ = b?f\d+\[([\d,]*)\]\S* ([\w\-]+)\(')
_CALL = re.compile(r'(body|condition|calls|to_apply)=%?([\w.\-]+)')


def operations(text):
    """By computation: its (operation, entries) with floating-point results, and its calls."""
    results = {}
    calls = {}
    name = None
    for line in text.splitlines():
        if head := re.match(r'(?:ENTRY )?%?([\w.\-]+) \(.*\{$', line):
            name = head[1]
            results[name], calls[name] = [], _CALL.findall(line)
        elif name is not None:
            calls[name] += _CALL.findall(line)
            if match := _OPERATION.match(line.strip()):
                results[name].append(
                    (match[2], math.prod(int(n) for n in match[1].split(',') if n))
                )
    return results, calls


def inside_loops(text, num_loops):
    """The operations that stand in at least so many loops within each other."""
    result, calls = operations(text)
    called = {callee for edges in calls.values() for _, callee in edges}
    depths = {}

    def visit(name, depth):
        if depth > depths.get(name, -1):
            depths[name] = depth
            for kind, callee in calls[name]:
                visit(callee, depth + (kind == 'body'))

    for name in result.keys() - called:
        visit(name, 0)
    return [
        op
        for name, depth in depths.items()
        if depth >= num_loops
        for op in result[name]
    ]


def moved(problem, name, batch_size):
    """Copies and transposes inside the local steps as large as the models trained in them."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    largest = max(math.prod(a.shape) for a in jax.tree.leaves(params))
    client = local_training.local_sgd(
        0.01, local_steps=20, batch_size=batch_size, chunk_size=SIDE_BY_SIDE[name]
    )
    links = participation.bernoulli(np.full(NUM_CLIENTS, 0.3))
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key, algorithms.ALGORITHMS[name](client), links, problem, num_rounds=3
        )
    )
    text = run.lower(jax.random.key(0), problem).compile().as_text()
    table = SIDE_BY_SIDE[name] * largest
    steps = inside_loops(text, LOOPS[name])
    assert any(entries >= table for _, entries in steps)  # the models are trained there
    return [op for op in steps if op[0] in ('copy', 'transpose') and op[1] >= table]


def quadratic():
    targets = np.random.default_rng(0).normal(size=(NUM_CLIENTS, DIMENSION))
    return problems.quadratic(targets)


def robust_regression():
    return problems.robust_regression(
        num_clients=NUM_CLIENTS, dimension=20, examples_per_client=10
    )


def softmax():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(NUM_CLIENTS), 10)
    features = rng.standard_normal((owners.size, 32), np.float32)
    labels = rng.integers(0, 5, owners.size)
    return problems.from_flax(features, labels, owners, module=models.Softmax(5))


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize('name', LOOPS)
@pytest.mark.parametrize(
    'build, batch_size',
    [(quadratic, None), (quadratic, 4), (robust_regression, None), (softmax, 4)],
)
def test_local_steps_move_no_models(build, batch_size, name):
    assert moved(build(), name, batch_size) == []


@pytest.mark.optimised
@pytest.mark.parametrize('name', cases(LOOPS, ['fedavg']))
def test_the_count_of_moves_can_fail(name):
    """A mean over an axis of examples that is squeezed out of the models' sum."""

    def loss(params, batch):
        return 0.5 * jnp.mean(jnp.sum(jnp.square(params[None] - batch), axis=-1))

    problem = dataclasses.replace(quadratic(), loss_fn=loss)
    assert moved(problem, name, None) == [('copy', SIDE_BY_SIDE[name] * DIMENSION)]
