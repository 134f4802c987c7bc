"""Runs rounds in double precision, in a process of its own, as a reference for certificates.

The rounds are of a config, or of all algorithms, patterns and models of this package. A lane is one
algorithm, pattern, grid point and seed. The process uses the same definitions of algorithms, models
and links as the certified programs. It shares nothing that runs them: neither the programs of a
run, nor the device, nor the precision.
"""

import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import local_training, problems, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Key, PyTree
from fedjax_links.config import recorded_links, resolver
from fedjax_links.core import checks
from fedjax_links.core.records import Section
from fedjax_links.datasets import Dataset
from fedjax_links.experiment import build
from fedjax_links.experiment.definition import Experiment
from fedjax_links.participation import PARTICIPATION
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner.compilation import algorithm_maker, traced_columns
from fedjax_links.storage import atomic_files, checkpoints

_REQUEST = 'request.json'
ERRORS = 'errors.txt'
"""The file of the process's error output. It is no pipe, as nothing reads it during the run."""
_NO_OPTIMISATION = (
    '--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true'
)
_NUM_ROUNDS = 4
_NUM_CLIENTS = 12
"""Few, for short runs, but enough that clients are absent and come back."""
_MODELS: Mapping[str, Any] = {
    'mlp': 'mlp',
    'mlp_bfloat16': {'name': 'mlp', 'dtype': 'bfloat16'},
    'cnn': {'name': 'cnn', 'channels': (8, 8), 'hidden': (32,)},
    'gru': {'name': 'gru', 'hidden': 16},
    'transformer': {'name': 'transformer', 'hidden': 16},
}
_PEERS = [name for name, entry in ALGORITHMS.items() if entry.traffic.peers]
STANDARD: Mapping[str, Mapping[str, Any]] = {
    'algorithms': {'algorithms': {name: name for name in ALGORITHMS}},
    'patterns': {'algorithms': {'fedavg': 'fedavg'}, 'patterns': [*PARTICIPATION]},
    'peers': {'algorithms': {name: name for name in _PEERS}, 'patterns': ['peers']},
    **{
        name: {'algorithms': {name: 'fedpbc'}, 'model': model}
        for name, model in _MODELS.items()
    },
}
"""Experiments that together have all algorithms, patterns and models of this package, by name."""
_FORMER_NAMES = {'rules': 'algorithms'}
"""Names in earlier commands, which are still accepted."""


def experiment_of(source: Section | str) -> Experiment:
    """Returns the experiment of a config, or an experiment of `STANDARD` by name."""
    if isinstance(source, str):
        name = _FORMER_NAMES.get(source, source)
        return _standard(name, **checks.entry('source', name, STANDARD))
    return build(source)


def _standard(
    title: str,
    algorithms: Mapping[str, str],
    patterns: Sequence[str] = ('bernoulli',),
    model: Any = 'softmax',
) -> Experiment:
    """Builds one of the standard experiments.

    Args:
      title: the experiment's title.
      algorithms: names of algorithms, by label.
      patterns: names of patterns.
      model: of the problem.
    """
    if title in ('gru', 'transformer'):
        rng = np.random.default_rng(0)
        texts = rng.integers(0, 10, (8 * _NUM_CLIENTS, 6), np.int32)
        owners = np.arange(len(texts), dtype=np.int32) % _NUM_CLIENTS
        dataset = Dataset(texts[:, :5], texts[:, 5], owners, num_classes=10)
        problem = problems.text(dataset=dataset, model=model)
    else:
        problem = problems.digits(
            num_clients=_NUM_CLIENTS, alpha=0.5, seed=0, model=model
        )

    def make_algorithm(name: str) -> Algorithm:
        entry = ALGORITHMS[name]
        make: Any = entry.client_program or local_training.local_sgd
        program = make(0.1, local_steps=3, batch_size=4, **entry.client_example)
        example: Algorithm = entry(program, **entry.example)
        return example

    return Experiment(
        title=title,
        problem=problem,
        patterns={name: PARTICIPATION[name].example(_NUM_CLIENTS) for name in patterns},
        algorithms={label: make_algorithm(name) for label, name in algorithms.items()},
        num_rounds=_NUM_ROUNDS,
        eval_every=_NUM_ROUNDS,
    )


def shortened(experiment: Experiment) -> Experiment:
    """Returns the same experiment with a few rounds of one seed."""
    short: dict[str, Any] = {'num_rounds': _NUM_ROUNDS, 'eval_every': _NUM_ROUNDS}
    if experiment.tuning is not None:
        short['tuning'] = dataclasses.replace(experiment.tuning, num_rounds=_NUM_ROUNDS)
    seeds = list(experiment.seeds)[:1]
    return dataclasses.replace(experiment, **short, seeds=seeds, config=None)


def lanes_of(experiment: Experiment) -> list[Lane]:
    """Returns the lanes of the main results, at the values that tuning tries first."""
    plan = experiment.plan
    return [
        lane for label in experiment.algorithms for lane in plan.schedule.main(label)
    ]


# The process.


def begin(
    folder: Path,
    source: Section | str,
    link_lanes: Sequence[Lane],
    run_lanes: Sequence[Lane],
) -> subprocess.Popen[bytes]:
    """Starts the process.

    Args:
      folder: for the files of the process. It reads ``params-LANE.npz``, the initial parameters of
        each lane that it runs. It writes ``links-LANE.npz``, ``before-LANE.npz``,
        ``after-LANE.npz``, ``evals-LANE.npz`` and `ERRORS`.
      source: as in `experiment_of`.
      link_lanes: lanes of the shortened experiment whose links the process draws.
      run_lanes: lanes of the shortened experiment that the process runs.
    """
    request = {
        'source': source,
        'module_folder': str(recorded_links.CONFIG_FOLDER.get() or Path.cwd()),
        'link_lanes': [lane.name for lane in link_lanes],
        'run_lanes': [lane.name for lane in run_lanes],
    }
    (folder / _REQUEST).write_text(json.dumps(request))
    changed = {
        'JAX_PLATFORMS': 'cpu',
        'JAX_ENABLE_X64': '1',
        'XLA_FLAGS': _NO_OPTIMISATION,
    }
    command = [sys.executable, '-m', __name__, str(folder)]
    with (folder / ERRORS).open('wb') as error_file:
        return subprocess.Popen(
            command,
            env={**os.environ, **changed},
            stdout=subprocess.DEVNULL,
            stderr=error_file,
        )


def main(folder: Path) -> None:
    """Draws links and runs lanes, as the request in a folder says."""
    request: Mapping[str, Any] = json.loads((folder / _REQUEST).read_text())

    def write(kind: str, name: str, values: PyTree) -> None:
        path = folder / f'{kind}-{name}.npz'
        atomic_files.write(path, checkpoints.pack(values))

    with resolver.importable(request['module_folder']):
        experiment = shortened(experiment_of(request['source']))
        lanes = {lane.name: lane for lane in lanes_of(experiment)}
        for name in request['link_lanes']:
            write('links', name, _links(experiment, lanes[name]))
        for name in request['run_lanes']:
            params = [*checkpoints.leaves(folder / f'params-{name}.npz').values()]
            for kind, values in _rounds(experiment, lanes[name], params).items():
                write(kind, name, values)


def _links(experiment: Experiment, lane: Lane) -> PyTree:
    """Draws the links of all rounds of a lane."""
    plan = experiment.plan
    draw = functools.partial(
        simulation.realised_links,
        participation=plan.pattern_of(lane),
        num_rounds=lane.num_rounds,
    )
    return jax.jit(draw)(plan.draws.key_of('links', lane.seed, lane.point))


def _rounds(
    experiment: Experiment, lane: Lane, leaves: Sequence[Any]
) -> dict[str, PyTree]:
    """Returns an algorithm's state before and after all rounds of a lane, and evaluations."""
    plan = experiment.plan
    columns = traced_columns(plan, lane)
    algorithm = algorithm_maker(plan, lane)(columns)
    problem = _double(plan.problem_of(lane))
    shapes = jax.eval_shape(problem.init_params, jax.random.key(0))
    params = jax.tree.unflatten(jax.tree.structure(shapes), _double(leaves))
    problem = dataclasses.replace(problem, init_params=lambda _: params)
    init_key = plan.draws.key_of('init', lane.seed, lane.point)
    batch_key = plan.draws.key_of('batches', lane.seed, lane.point)

    def run(init_key: Key, key: Key, links: PyTree) -> dict[str, PyTree]:
        state = simulation.init(init_key, algorithm, plan.pattern_of(lane), problem)
        after, _ = simulation.advance(state, key, links, algorithm, problem)
        evals = simulation.evaluate(
            after, key, algorithm, problem, plan.eval_fn(problem)
        )
        return {'before': state.algorithm, 'after': after.algorithm, 'evals': evals}

    links = _links(experiment, lane)
    states: dict[str, PyTree] = jax.jit(run)(init_key, batch_key, links)
    return states


def _double(values: PyTree) -> PyTree:
    """Returns a pytree with its floats in double precision."""

    def widened(a: PyTree) -> PyTree:
        return jnp.asarray(a, float) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(widened, values)


if __name__ == '__main__':
    main(Path(sys.argv[1]))
