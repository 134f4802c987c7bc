"""Compares a workload through the engine with PyTorch loops in another interpreter."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from flax import traverse_util

from benchmarks import common, images, interpreters, proofs, summary, torch_loop
from fedjax_links.base import Participation, Problem

Loops = Mapping[str, tuple[str, Mapping[str, bool]]]

PLAIN: Loops = {
    'torch': ('PyTorch', {}),
    'torch_channels_last': ('PyTorch, channels last', {'channels_last': True}),
}
"""Loops by name: what rows call them, and whether ``channels_last`` and ``compiled``."""


def write_job(
    session: interpreters.Session,
    params: Any,
    data: Problem,
    plan: images.Schedule,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    *,
    channels_last: bool = False,
    compiled: bool = False,
) -> Path:
    """Writes a job of `torch_loop` from the arguments of the engine, and returns it."""
    flat = traverse_util.flatten_dict(jax.device_get(params), sep='/')
    return session.job(
        **{torch_loop.PREFIX + name: array for name, array in flat.items()},
        **plan._asdict(),
        **algorithm._asdict(),
        features=np.asarray(data.data.features),
        labels=np.asarray(data.data.labels),
        learning_rate=workload.learning_rate,
        channels_last=channels_last,
        compiled=compiled,
    )


def run_job(session: interpreters.Session, job: Path) -> Any:
    """Runs a job; returns its model and its losses in the form of the engine's."""
    outputs, _ = session.run(job)
    params = {
        name.removeprefix(torch_loop.PREFIX): array
        for name, array in outputs.items()
        if name.startswith(torch_loop.PREFIX)
    }
    return traverse_util.unflatten_dict(params, sep='/'), outputs['losses']


def compare(
    module: nn.Module,
    workload: images.Workload,
    algorithm: images.AlgorithmOptions,
    links: Participation,
    *,
    repeats: int,
    targets: Sequence[float | None],
    loops: Loops = PLAIN,
) -> dict[str, Any]:
    """Proves the engine equal to the first loop, then times it and all loops in turns.

    Args:
      module: the network, of layers that `torch_loop.network` knows.
      workload: its size.
      algorithm: the algorithm.
      links: the pattern.
      repeats: timed runs of each.
      targets: least ratio of the engine's speed to that of each loop.
      loops: by name, what rows call them, and their layout.

    Returns:
      The record of one algorithm.
    """
    key = jax.random.key(0)
    data = images.problem(workload, module)
    with interpreters.Session('torch') as session:

        def in_torch(params, data, plan, workload, **options):
            return run_job(
                session,
                write_job(session, params, data, plan, workload, algorithm, **options),
            )

        _, options = next(iter(loops.values()))
        reference = functools.partial(in_torch, **options)
        twin = functools.partial(
            in_torch, channels_last=not options.get('channels_last', False)
        )
        proof = proofs.prove(key, module, workload, algorithm, links, reference, twin)
        program, compile_seconds = common.compile_program(
            lambda key, data: images.engine(key, data, workload, algorithm, links),
            key,
            data,
        )
        params = images.initial_params(key, data)
        plan = images.schedule(key, links, workload)
        jobs = {
            name: write_job(session, params, data, plan, workload, algorithm, **options)
            for name, (_, options) in loops.items()
        }
        calls: dict[str, Callable[[], Any]] = {
            'engine': lambda: jax.block_until_ready(program(key, data)),
            **{
                name: functools.partial(seconds_of, session, job)
                for name, job in jobs.items()
            },
        }
        for call in calls.values():
            call()
        seconds = common.take_turns(calls, repeats=repeats)
        last, _ = session.run(next(iter(jobs.values())))
    timings = {
        name: common.Timing(compile_seconds if name == 'engine' else 0.0, turns)
        for name, turns in seconds.items()
    }
    rows = [
        summary.ratio_row(
            f'{algorithm.name}, speed relative to {label}',
            timings[name].seconds,
            timings['engine'].seconds,
            target,
            detail=f'{workload.num_rounds / timings["engine"].median:.3g} rounds/s',
        )
        for (name, (label, _)), target in zip(loops.items(), targets, strict=True)
    ]
    return {
        'algorithm': algorithm._asdict(),
        **proof,
        'clients_trained_per_round': images.clients_trained(plan, algorithm),
        'threads': {'engine': common.num_cores(), 'torch': int(last['threads'])},
        'torch': str(last['version']),
        'programs': common.rates(timings, workload.num_rounds, digits=3),
        'rows': rows,
    }


def seconds_of(session: interpreters.Session, job: Path) -> float:
    """Returns the seconds that a job takes where it runs."""
    return session.run(job)[1]
