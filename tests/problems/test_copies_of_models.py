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

NUM_CLIENTS = 24
DIMENSION = 40
CHUNK = 8
# Nested loops: rounds, chunks of active clients (where only these compute), local steps.
NUM_LOOPS = {'fedavg': 3, 'fedpbc': 2}
NUM_PARALLEL_MODELS = {'fedavg': CHUNK, 'fedpbc': NUM_CLIENTS}

_OPERATION = re.compile(r'(?:ROOT )?%?[\w.\-]+ = b?f\d+\[([\d,]*)\]\S* ([\w\-]+)\(')
_CALL = re.compile(r'(body|condition|calls|to_apply)=%?([\w.\-]+)')


def operations(text):
    """Parses the text of a compiled program.

    Returns:
      By computation, its operations with floating-point results as (name, number of entries); and
      its calls as (kind, callee).
    """
    results = {}
    calls = {}
    name = None
    for line in text.splitlines():
        head = re.match(r'(?:ENTRY )?%?([\w.\-]+) \(.*\{$', line)
        if head:
            name = head[1]
            results[name] = []
            calls[name] = _CALL.findall(line)
        elif name is not None:
            calls[name] += _CALL.findall(line)
            operation = _OPERATION.match(line.strip())
            if operation:
                shape = [int(size) for size in operation[1].split(',') if size]
                results[name].append((operation[2], math.prod(shape)))
    return results, calls


def inside_loops(text, num_loops):
    """The operations within at least so many nested loops."""
    result, calls = operations(text)
    called = {callee for edges in calls.values() for _, callee in edges}
    depths = {}

    def visit(name, depth):
        if depth > depths.get(name, -1):
            depths[name] = depth
            for kind, callee in calls[name]:
                visit(callee, depth + 1 if kind == 'body' else depth)

    for name in result.keys() - called:
        visit(name, 0)
    return [
        op
        for name, depth in depths.items()
        if depth >= num_loops
        for op in result[name]
    ]


def moved(problem, name, batch_size):
    """Copies and transposes inside the local steps that are as large as the models in training."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    largest = max(math.prod(a.shape) for a in jax.tree.leaves(params))
    client = local_training.local_sgd(
        0.01,
        local_steps=20,
        batch_size=batch_size,
        chunk_size=NUM_PARALLEL_MODELS[name],
    )
    links = participation.bernoulli(np.full(NUM_CLIENTS, 0.3))
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key, algorithms.ALGORITHMS[name](client), links, problem, num_rounds=3
        )
    )
    text = run.lower(jax.random.key(0), problem).compile().as_text()
    num_entries = NUM_PARALLEL_MODELS[name] * largest
    steps = inside_loops(text, NUM_LOOPS[name])
    assert any(entries >= num_entries for _, entries in steps)  # the models are there
    return [
        (operation, entries)
        for operation, entries in steps
        if operation in ('copy', 'transpose') and entries >= num_entries
    ]


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
@pytest.mark.parametrize('name', NUM_LOOPS)
@pytest.mark.parametrize(
    'build, batch_size',
    [(quadratic, None), (quadratic, 4), (robust_regression, None), (softmax, 4)],
)
def test_local_steps_move_no_models(build, batch_size, name):
    assert moved(build(), name, batch_size) == []


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize('name', NUM_LOOPS)
def test_the_count_of_moves_can_fail(name):
    """This loss, a mean over examples of a sum over features, makes XLA copy the models."""

    def loss(params, batch):
        return 0.5 * jnp.mean(jnp.sum(jnp.square(params[None] - batch), axis=-1))

    problem = dataclasses.replace(quadratic(), loss_fn=loss)
    copies = [('copy', NUM_PARALLEL_MODELS[name] * DIMENSION)]
    assert moved(problem, name, None) == copies
