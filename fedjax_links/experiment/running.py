"""Runs an experiment: every algorithm is tuned, then run, lane by lane or side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import base, errors, memory, runs
from fedjax_links.experiment import choosing
from fedjax_links.experiment import lanes as lanes_
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.lanes import Lane
from fedjax_links.experiment.programs import Group, Programs

_SAVE_SECONDS = 5.0
_MOST_LINKS = 2**27


class Callback:
    """What can listen to a run; each method does nothing unless it is overridden."""

    def on_start(self, experiment: Experiment) -> None:
        """Before anything runs."""

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Before the lanes of a stage of an algorithm, which simulate ``num_rounds`` in all."""

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """After every period of every lane; ``record`` has ``round`` and what is logged.

        A lane that was done before an interruption is reported once, with its last round.
        """

    def on_end(self, results: runs.Results) -> None:
        """After everything."""


def run(
    experiment: Experiment,
    folder: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    *,
    side_by_side: bool | None = None,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run`.

    Args:
      experiment: the experiment.
      folder: as in `Experiment.run`.
      callbacks: likewise.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.

    Returns:
      The metrics.

    Raises:
      ValueError: as `Experiment.run`.
    """
    store = runs.Memory() if folder is None else _open(experiment, folder)
    try:
        for callback in callbacks:
            callback.on_start(experiment)
        programs = Programs(experiment, side_by_side=side_by_side)
        if folder is not None:
            store.keep_links(_links(experiment, programs))
        for label in experiment.algorithms:
            tried = lanes_.tuning_lanes(experiment, label)
            _run_lanes(programs, tried, store, callbacks)
            chosen = choose(experiment, label, runs.as_columns(store.lines))
            _run_lanes(programs, lanes_.main_lanes(experiment, label, chosen), store, callbacks)
            programs.forget()
    finally:
        store.close()
    path = None if folder is None else Path(folder)
    results = runs.Results(runs.as_columns(store.lines), experiment.facts(), path)
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


def _run_lanes(
    programs: Programs,
    lanes: Sequence[Lane],
    store: runs.Memory,
    callbacks: Sequence[Callback],
) -> None:
    if not lanes:
        return
    for callback in callbacks:
        total = sum(lane.num_rounds for lane in lanes)
        callback.on_stage(lanes[0].algorithm, lanes[0].stage, total)
    for group in _groups(programs, lanes):
        _run_group(programs, group, store, callbacks)


def _run_group(
    programs: Programs, lanes: Sequence[Lane], store: runs.Memory, callbacks: Sequence[Callback]
) -> None:
    """Advances lanes to their last round, from the last checkpoint if there is one."""
    num_rounds, period = lanes[0].num_rounds, programs.experiment.eval_every
    behind = [store.rounds(lane.name) for lane in lanes]
    done = min(behind)
    if done:
        for lane in lanes:
            _tell(callbacks, lane, {'round': done})
    if done == num_rounds:
        return
    if max(behind) != done:
        requirement = 'go on with the lanes side by side that it was begun with'
        raise errors.invalid('workdir', requirement, [lane.name for lane in lanes])
    group = Group(programs, lanes)
    if done:
        shapes = group.shapes()
        group.restore([store.restore(lane.name, s) for lane, s in zip(lanes, shapes, strict=True)])
    else:
        group.start()
    clock = runs.SaveClock(_SAVE_SECONDS)
    while done < num_rounds:
        records = group.period(done)
        done += period
        store.append(
            [runs.line_of(lane.labels, done, r) for lane, r in zip(lanes, records, strict=True)]
        )
        ended = done == num_rounds
        if ended or clock.is_due():
            with clock:
                needed = not ended or lanes[0].stage == lanes_.MAIN
                states = group.states() if needed else [None] * len(lanes)
                names = [lane.name for lane in lanes]
                store.save(dict(zip(names, states, strict=True)), done)
        for lane, record in zip(lanes, records, strict=True):
            _tell(callbacks, lane, {'round': done, **record})


def _tell(callbacks: Sequence[Callback], lane: Lane, record: Mapping[str, Any]) -> None:
    for callback in callbacks:
        callback.on_period(lane, record)


def _groups(programs: Programs, lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Lanes that run together: one each, or as many with one program as memory allows."""
    if not programs.side_by_side:
        return [[lane] for lane in lanes]
    by_program: dict[Any, list[Lane]] = {}
    for lane in lanes:
        by_program.setdefault(programs.key(lane), []).append(lane)
    found = []
    for members in by_program.values():
        most = memory.lanes_that_fit(programs.lane_bytes(members[0]), len(members))
        found += [members[i : i + most] for i in range(0, len(members), most)]
    return found


def _open(experiment: Experiment, folder: str | Path) -> runs.RunFolder:
    return runs.RunFolder(folder, facts=experiment.facts(), config=experiment.config)


def _links(experiment: Experiment, programs: Programs) -> dict[str, np.ndarray]:
    """The realised links of the first seed, or of every seed where asked for, one bit each."""
    point = experiment.grid_points[0]
    arrays: dict[str, np.ndarray] = {}
    seeds = experiment.seeds if 'links' in experiment.log else experiment.seeds[:1]
    for label in experiment.pattern_makers:
        pattern = experiment.pattern_at(label, point)
        arrays['num_clients'] = np.array(pattern.num_clients)
        if pattern.num_clients * experiment.num_rounds > _MOST_LINKS and not experiment.log:
            continue
        for place, seed in enumerate(seeds):
            name = f'{label}/{seed}' if place else label
            masks, probs = _realised(programs, pattern, seed)
            arrays[f'mask/{name}'] = np.packbits(masks, axis=-1)
            if 'links' in experiment.log:
                arrays[f'prob/{name}'] = probs
            arrays[f'mean_prob/{name}'] = probs.mean(axis=0)
    return arrays


def _realised(programs: Programs, pattern: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Who takes part, bool[T, N], and the reported probabilities float[T, N]."""
    program, experiment = programs.links(pattern), programs.experiment
    key = jax.random.key(np.uint32(seed))
    keys = key[None] if programs.side_by_side else key
    carry, masks, probs = program.start(keys), [], []
    for first in range(0, experiment.num_rounds, experiment.eval_every):
        carry, links = program.draw(carry, keys, np.int32(first))
        if programs.side_by_side:
            links = jax.tree.map(lambda a: a[0], links)
        masks.append(np.asarray(base.participants(links)))
        probs.append(np.asarray(links.prob))
    return np.concatenate(masks), np.concatenate(probs)
