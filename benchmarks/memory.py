"""Measures peak memory of programs, each in a separate process, data and compiler included.

python -m benchmarks.memory NAME runs one of them and measures nothing.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import fedjax_links as fl
from benchmarks import commands, common, micro, million, summary
from fedjax_links import algorithms, local_training, participation

FEDPBC = micro.Settings(
    num_clients=1000, num_samples=2, num_features=2000, batch_size=2
)
LANES = 100
PREVIOUS = {'fedpbc': 0.445, 'sweep': 0.381}
"""GiB at commit 5540510 on an x86-64 CPU, jax 0.10.2, Python 3.11."""

TARGETS = {'million': 2.0, 'most': 4.0}
WHAT = {
    'fedpbc': 'FedPBC, 1,000 clients that keep a model of 20,010 weights',
    'sweep': f'a sweep of {LANES} seeds of micro, 100 rounds',
    'million': 'a cohort of 100 of 1,000,000 clients',
    'most': 'a cohort of 100 of 100,000,000 clients, examples made',
}


def fedpbc() -> Any:
    """Runs twenty rounds in which all clients train."""
    client = local_training.local_sgd(0.1, local_steps=5, batch_size=FEDPBC.batch_size)
    links = participation.bernoulli(np.full(FEDPBC.num_clients, 0.1))
    run = jax.jit(
        lambda key, data: fl.simulate(
            key, algorithms.fedpbc(client), links, data, num_rounds=20
        )
    )
    return run(jax.random.key(0), micro.problem(FEDPBC))


def sweep() -> Any:
    """Runs seeds of `micro` as lanes."""
    settings = micro.Settings(num_rounds=100)
    client = local_training.local_sgd(
        settings.learning_rate,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
    )
    return fl.sweep(
        lambda: algorithms.fedavg(client),
        lambda: participation.uniform_cohort(
            settings.num_clients, settings.cohort_size
        ),
        micro.problem(settings),
        seeds=range(LANES),
        num_rounds=settings.num_rounds,
    )


def many() -> Any:
    """Runs a hundred rounds among a million clients, whose examples are stored."""
    settings = million.MANY
    pattern = million.patterns(settings)['minimum_separation, successive']
    return million.Rounds(jax.random.key(0), micro.problem(settings), settings, pattern)


def most() -> Any:
    """Runs a hundred rounds among a hundred million clients, whose examples are made."""
    settings = million.MOST
    data = million.generated_problem(settings)
    pattern = million.equal_weights(settings)
    return million.Rounds(jax.random.key(0), data, settings, pattern)


WORKS: dict[str, Callable[[], Any]] = {
    'fedpbc': fedpbc,
    'sweep': sweep,
    'million': many,
    'most': most,
}


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    rows = []
    for name in WORKS:
        if quick and name == 'most':
            continue
        peaks = [
            commands.run(['-m', 'benchmarks.memory', name]).gibibytes
            for _ in range(1 if quick else 2)
        ]
        rows.append(
            summary.values_row(
                f'{WHAT[name]}: peak of the process',
                peaks,
                'GiB',
                TARGETS.get(name),
                previous=PREVIOUS.get(name),
            )
        )
    return {'rows': rows}


if __name__ == '__main__':
    if sys.argv[1:] and sys.argv[1] in WORKS:
        jax.block_until_ready(jax.tree.leaves(WORKS[sys.argv[1]]()))
    else:
        common.main('memory', 'Peak memory of programs.', measure)
