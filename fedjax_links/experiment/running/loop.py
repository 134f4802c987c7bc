"""Runs an experiment: every algorithm is tuned, then run."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import base, runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.experiment.definition import LINKS, Experiment
from fedjax_links.experiment.plan import choosing
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.running import advancing, in_step, stores
from fedjax_links.experiment.running.hooks import Callback, Origin
from fedjax_links.experiment.running.programs import Programs
from fedjax_links.machines import processes
from fedjax_links.machines.devices import Place

_MOST_LINKS = 2**27


def run(
    experiment: Experiment,
    folder: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    *,
    side_by_side: bool | None = None,
    origin: Origin | None = None,
    places: Sequence[Place] | None = None,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run`.

    Args:
      experiment: the experiment.
      folder: as in `Experiment.run`.
      callbacks: likewise; those that ``log`` names come before them.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.
      origin: where lanes begin, see `forking`; before their first round by default.
      places: the devices or meshes (`devices.places`) that lanes of an algorithm advance on at
        the same time; all devices of this process by default. Unless lanes run side by side,
        nothing that is kept depends on the number of devices, nor on the size of meshes.

    Returns:
      The metrics.

    Raises:
      ValueError: as `Experiment.run`.
    """
    from fedjax_links.experiment.running import loggers

    log = experiment.log if processes.is_leader() else ()
    callbacks = [*processes.agreed(lambda: loggers.callbacks(log, folder)), *callbacks]
    origin = origin or Origin()
    programs = Programs(experiment, side_by_side=side_by_side, places=places)
    facts = {**experiment.facts(), **origin.facts}
    if programs.places[0].is_mesh:
        facts[runs.ON_A_MESH] = True
    path = None if folder is None else Path(folder)

    def opened() -> stores.Memory:
        if path is None:
            return stores.Memory()
        return stores.RunFolder(path, facts=facts, config=experiment.config)

    is_alone = not processes.are_several()
    store = opened() if is_alone else in_step.Store(opened, [experiment.config, facts])
    callbacks = callbacks if is_alone else [in_step.Listeners(callbacks)]
    try:
        for callback in callbacks:
            callback.on_start(experiment)
        if path is not None and not origin.has_links(path, experiment.num_rounds):
            store.keep_links(_links(experiment, programs, origin))
        stages = advancing.Stages(programs, store, callbacks, origin)
        for label in experiment.algorithms:
            stages.run(lanes_.tuning_lanes(experiment, label))
            tried = functools.partial(choose, experiment, label, runs.as_columns(store.lines))
            chosen = processes.agreed(tried)
            stages.run(lanes_.main_lanes(experiment, label, chosen))
            programs.forget()
    finally:
        store.close()
    results = runs.Results(runs.as_columns(store.lines), facts, path)
    for callback in callbacks:
        callback.on_end(results)
    return results


def choose(
    experiment: Experiment, label: str, columns: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """The values that did best in tuning.

    Args:
      experiment: the experiment.
      label: the algorithm.
      columns: the metrics, those of its tuning among them.

    Returns:
      For each of its tuned points of the grid, the values of the columns that were tuned.

    Raises:
      ValueError: if every value tried diverged.
    """
    found = choosing.tried(columns, experiment.facts(), label)
    for tried in found:
        if tried.best is None:
            values = {name: column.tolist() for name, column in tried.columns.items()}
            raise errors.invalid('tuning', f'hold a value at which {label} converges', values)
    return [tried.chosen for tried in found]


def _links(experiment: Experiment, programs: Programs, origin: Origin) -> dict[str, np.ndarray]:
    """The realised links of the first seed, or of every seed where asked for, one bit each."""
    point = experiment.grid_points[0]
    arrays: dict[str, np.ndarray] = {}
    if origin.round:
        arrays |= {
            'first_round': np.array(origin.round),
            'num_rounds': np.array(experiment.num_rounds),
        }
    seeds = experiment.seeds if LINKS in experiment.log else experiment.seeds[:1]
    for label in experiment.pattern_makers:
        pattern = experiment.pattern_at(label, point)
        arrays['num_clients'] = np.array(pattern.num_clients)
        if (
            pattern.num_clients * experiment.num_rounds > _MOST_LINKS
            and LINKS not in experiment.log
        ):
            continue
        for place, seed in enumerate(seeds):
            name = f'{label}/{seed}' if place else label
            carry = origin.carry(label, seed)
            pattern = experiment.pattern_at(label, point, seed)
            masks, probs = _realised(programs, pattern, seed, origin.round, carry)
            arrays[f'mask/{name}'] = np.packbits(masks, axis=-1)
            if LINKS in experiment.log:
                arrays[f'prob/{name}'] = probs
            arrays[f'mean_prob/{name}'] = probs.mean(axis=0)
    return arrays


def _realised(
    programs: Programs, pattern: Any, seed: int, begin: int, carry: PyTree | None
) -> tuple[np.ndarray, np.ndarray]:
    """Who takes part, bool[T, N], and the reported probabilities float[T, N], from a round on."""
    program, experiment = programs.links(pattern), programs.experiment
    point = experiment.grid_points[0]
    key = jax.random.key(np.uint32(experiment.draws.seed_of('links', seed, point)))
    keys = key[None] if programs.side_by_side else key
    masks, probs = [], []
    if carry is None:
        carry = program.start(keys)
    elif programs.side_by_side:
        carry = jax.tree.map(lambda a: a[None], carry)
    for first in range(begin, experiment.num_rounds, experiment.eval_every):
        carry, links = program.draw(carry, keys, np.int32(first))
        if programs.side_by_side:
            links = jax.tree.map(lambda a: a[0], links)
        masks.append(np.asarray(base.participants(links)))
        probs.append(np.asarray(links.prob))
    return np.concatenate(masks), np.concatenate(probs)
