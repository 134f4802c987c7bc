"""Times other programs for the same work: PyTorch compiled, Flower, FedJAX and pfl-research.

Each runs in an interpreter of its own (`benchmarks.interpreters`). Compiled PyTorch follows
`fashion` and `cifar` as `benchmarks.against_torch` has it. The others run FedAvg as
`benchmarks.peer_loops` does: 10 of 100 clients, 5 steps on the full data of 16 examples, so that
the only random choice is who trains, and all programs are given the same cohorts. Runs alternate. A
peer's clock starts after its first rounds.

On a machine with other work, ``taskset -c 0`` before the command gives all of them the same core;
threads that wait for each other in a loop take many times as long where a core is not theirs.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import (
    against_torch,
    cifar,
    common,
    fashion,
    images,
    interpreters,
    micro,
    summary,
)
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import Problem

TOLERANCE = 2e-5  # float32; training is convex and forgets rounding, as in `micro`
COMPILED: against_torch.Loops = {
    'torch_compiled': (
        'PyTorch compiled, channels last',
        {'compiled': True, 'channels_last': True},
    ),
}
"""Channels last alone: channels first, PyTorch 2.13 compiles `cifar`'s network to gradients that
are zero in its convolutions, which the proof refuses."""


class Peer(NamedTuple):
    """Describes another simulator.

    Attributes:
      label: what rows call it.
      num_rounds: T of a run; rounds take it from milliseconds to a quarter of a second.
      target: least ratio of the engine's speed to its, if there is one.
    """

    label: str
    num_rounds: int
    target: float | None = None


PEERS = {
    'flower': Peer("Flower's simulation", 30, target=900.0),
    'fedjax': Peer('FedJAX', 400, target=60.0),
    'pfl_research': Peer('pfl-research', 400),
}
UNTIMED = 10
"""Rounds of a peer before the clock starts."""

ENGINE_ROUNDS = 4_000
"""Rounds of the engine's timed run, which take about as long as a peer's start."""


def federation(settings: micro.Settings, num_rounds: int) -> dict[str, np.ndarray]:
    """Returns what all compute: data, the initial model, and who trains in every round."""
    rng = np.random.default_rng(0)
    shape = settings.num_clients, settings.num_samples, settings.num_features
    features = rng.standard_normal(shape, np.float32)
    truth = rng.standard_normal(
        (settings.num_features, settings.num_classes), np.float32
    )
    start = rng.standard_normal(
        (settings.num_features, settings.num_classes), np.float32
    )
    cohorts = [
        rng.choice(settings.num_clients, settings.cohort_size, replace=False)
        for _ in range(num_rounds)
    ]
    return {
        'features': features,
        'labels': np.argmax(features @ truth, axis=-1),
        'weights': start / 10,
        'bias': np.zeros(settings.num_classes, np.float32),
        'cohorts': np.stack(cohorts),
        'local_steps': np.array(settings.local_steps),
        'learning_rate': np.array(settings.learning_rate),
        'untimed': np.array(UNTIMED),
    }


def as_problem(arrays: dict[str, np.ndarray]) -> Problem:
    """Returns the same as a problem of the engine."""
    num_clients, num_samples, num_features = arrays['features'].shape
    start = {name: jnp.asarray(arrays[name]) for name in ('weights', 'bias')}
    return problems.from_arrays(
        arrays['features'].reshape(-1, num_features),
        arrays['labels'].reshape(-1).astype(np.int32),
        np.repeat(np.arange(num_clients), num_samples),
        init_params=lambda key: start,
        loss_fn=micro.loss,
    )


def engine(
    key: jax.Array, data: Problem, arrays: dict[str, np.ndarray], num_rounds: int
) -> Any:
    """Returns FedAvg's final model through `simulate`; the schedule is repeated."""
    cohorts = arrays['cohorts']
    mask = np.zeros((len(cohorts), len(arrays['features'])), bool)
    np.put_along_axis(mask, cohorts, True, axis=1)
    program = local_training.local_sgd(
        float(arrays['learning_rate']), local_steps=int(arrays['local_steps'])
    )
    links = participation.replay(mask)
    algorithm = algorithms.fedavg(program)
    result = simulation.simulate(key, algorithm, links, data, num_rounds=num_rounds)
    return result.state.algorithm.server


def compare(
    name: str, settings: micro.Settings, num_rounds: int, repeats: int
) -> dict[str, Any]:
    """Times the engine and a peer in turns, and proves them equal in each."""
    peer = PEERS[name]
    key = jax.random.key(0)
    arrays = federation(settings, num_rounds)
    data = as_problem(arrays)
    ours = jax.jit(lambda key, data: engine(key, data, arrays, num_rounds))(key, data)
    program, _ = common.compile_program(
        lambda key, data: engine(key, data, arrays, ENGINE_ROUNDS), key, data
    )
    jax.block_until_ready(program(key, data))
    gaps = []
    version = ''
    with interpreters.Session(name) as session:
        job = session.job(**arrays)

        def turn() -> float:
            nonlocal version
            outputs, took = session.run(job)
            peer_model = {part: outputs[part] for part in ours}
            gaps.append(
                common.require_close(peer_model, ours, tolerance=TOLERANCE, what=name)
            )
            version = str(outputs['version'])
            return took / (num_rounds - UNTIMED)

        calls: dict[str, Callable[[], Any]] = {
            name: turn,
            'engine': lambda: jax.block_until_ready(program(key, data)),
        }
        seconds = common.take_turns(calls, repeats=repeats)
    seconds['engine'] = [took / ENGINE_ROUNDS for took in seconds['engine']]
    rates = {
        which: round(1 / float(np.median(took)), 1) for which, took in seconds.items()
    }
    row = summary.ratio_row(
        f'FedAvg, 10 of 100 clients, {_cores()}: speed relative to {peer.label} {version}',
        seconds[name],
        seconds['engine'],
        peer.target,
        detail=f'{rates["engine"]:,.0f} and {rates[name]:.3g} rounds/s',
    )
    return {
        'settings': {
            **settings._asdict(),
            'num_rounds': num_rounds,
            'untimed': UNTIMED,
        },
        'version': version,
        'largest_difference': max(gaps),
        'tolerance': TOLERANCE,
        'rounds_per_second': rates,
        'rows': [row],
    }


def compiled(quick: bool) -> dict[str, Any]:
    """Times `fashion` and `cifar`'s FedAvg against PyTorch compiled."""
    small = fashion.WORKLOAD._replace(num_rounds=3)
    colour = cifar.WORKLOAD._replace(num_rounds=2)
    if quick:
        small = fashion.QUICK
        colour = cifar.QUICK
    records: dict[str, Any] = {}
    for name, module, workload, algorithm, links in (
        (
            'fashion',
            fashion.NETWORK,
            small,
            fashion.ALGORITHM,
            fashion.links(small, fashion.COHORT_SIZE),
        ),
        (
            'cifar',
            cifar.NETWORK,
            colour,
            images.AlgorithmOptions('fedavg'),
            cifar.links(colour),
        ),
    ):
        records[name] = against_torch.compare(
            module,
            workload,
            algorithm,
            links,
            repeats=1 if quick else 5,
            targets=[None],
            loops=COMPILED,
        )
    rows = [
        {**row, 'what': f'{name}, {_cores()}: {row["what"]}'}
        for name, record in records.items()
        for row in record.pop('rows')
    ]
    return {**records, 'rows': rows}


def _cores() -> str:
    count = common.num_cores()
    return f'{count} cores' if count > 1 else 'one core'


def parts(quick: bool) -> dict[str, Callable[[], dict[str, Any]]]:
    """Returns what makes the comparison with each peer."""
    settings = micro.Settings(num_samples=16)
    repeats = 1 if quick else 5
    comparisons: dict[str, Callable[[], dict[str, Any]]] = {
        'torch': functools.partial(compiled, quick)
    }
    for name, peer in PEERS.items():
        num_rounds = 2 * UNTIMED if quick else peer.num_rounds
        comparisons[name] = functools.partial(
            compare, name, settings, num_rounds, repeats
        )
    return comparisons


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record; names what is not installed as skipped.

    Raises:
      SystemExit: with one line if none of them is installed.
    """
    record: dict[str, Any] = {'skipped': []}
    rows: list[dict[str, Any]] = []
    for name, part in parts(quick).items():
        package = interpreters.missing(name)
        if package:
            python = interpreters.interpreter(name)
            print(
                f'{name}: skipped, {package} is not installed for {python}',
                file=sys.stderr,
            )
            record['skipped'].append(name)
            continue
        record[name] = part()
        rows += record[name].pop('rows')
    if not rows:
        raise SystemExit('peers: none of them is installed')
    return {**record, 'rows': rows}


if __name__ == '__main__':
    common.main('peers', 'Other programs at the same work.', measure)
