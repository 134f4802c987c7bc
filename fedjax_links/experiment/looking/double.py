"""Rounds in double precision on a CPU, in a process of its own: what `certifying` compares with.

It shares the definition of rules, models and links with the process that asks, and nothing that
runs them: neither the programs of a run, nor the device, nor the precision.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_links import simulation
from fedjax_links.base import PyTree
from fedjax_links.config import sections
from fedjax_links.core import prng
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.looking import standards
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running.traced import algorithm_of, split
from fedjax_links.storage import checkpoints

REQUEST = 'request.json'
_PLAINLY = '--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true'


def begin(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the process.

    Args:
      folder: with a `REQUEST`: ``source`` of the experiment as `standards.experiment_of` takes it,
        the folder ``beside`` that its names are found in, names of ``lanes`` whose links are
        ``drawn``, and of those that are ``run``; a file ``params-K.npz`` for the K-th of these. The
        process writes ``links-K.npz`` and ``rounds-K.npz``.
    """
    changed = {'JAX_PLATFORMS': 'cpu', 'JAX_ENABLE_X64': '1', 'XLA_FLAGS': _PLAINLY}
    options: dict[str, Any] = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.PIPE}
    command = [sys.executable, '-m', __name__, str(folder)]
    return subprocess.Popen(command, env={**os.environ, **changed}, **options)


def _links(experiment: Experiment, lane: Lane) -> PyTree:
    """The links of all rounds of a lane."""
    pattern = experiment.plan.pattern_of(lane)

    def draw(key: Any) -> PyTree:
        rounds = jnp.arange(lane.num_rounds, dtype=jnp.int32)
        carry = pattern.init(prng.pattern_key(key))
        return simulation.draw(carry, key, pattern, rounds)[1]

    return jax.jit(draw)(experiment.plan.draws.key_of('links', lane.seed, lane.point))


def _rounds(experiment: Experiment, lane: Lane, params: PyTree) -> dict[str, PyTree]:
    """All rounds of a lane: what its algorithm keeps before and after them, and evaluations."""
    plan, columns = experiment.plan, split(experiment, lane)[0]
    algorithm, params = algorithm_of(experiment, lane)(columns), _double(params)
    problem = _double(plan.problem_of(lane))
    problem = dataclasses.replace(problem, init_params=lambda _: params)
    init_key, key = (plan.draws.key_of(s, lane.seed, lane.point) for s in ('init', 'batches'))

    def run(init_key: Any, key: Any, links: PyTree) -> dict[str, PyTree]:
        state = simulation.init(init_key, algorithm, plan.pattern_of(lane), problem)
        after, _ = simulation.advance(state, key, links, algorithm, problem)
        evals = simulation.evaluate(after, key, algorithm, problem, plan.eval_fn(problem))
        return {'before': state.algorithm, 'after': after.algorithm, 'evals': evals}

    found: dict[str, PyTree] = jax.jit(run)(init_key, key, _links(experiment, lane))
    return found


def _double(values: PyTree) -> PyTree:
    def widened(a: Any) -> Any:
        return jnp.asarray(a, float) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(widened, values)


def main(folder: Path) -> None:
    """Answers a request."""
    asked: Mapping[str, Any] = json.loads((folder / REQUEST).read_text())

    def answer(name: str, found: PyTree) -> None:
        checkpoints.write_whole(folder / name, checkpoints.pack(found))

    with sections.importable(asked['beside']):
        experiment = standards.shortened(standards.experiment_of(asked['source']))
        lanes = {lane.name: lane for lane in standards.lanes_of(experiment)}
        for place, name in enumerate(asked['drawn']):
            answer(f'links-{place}.npz', _links(experiment, lanes[name]))
        for place, name in enumerate(asked['run']):
            problem = experiment.plan.problem_of(lanes[name])
            shapes = jax.eval_shape(problem.init_params, jax.random.key(0))
            leaves = checkpoints.leaves(folder / f'params-{place}.npz').values()
            params = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
            answer(f'rounds-{place}.npz', _rounds(experiment, lanes[name], params))


if __name__ == '__main__':
    main(Path(sys.argv[1]))
