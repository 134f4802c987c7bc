"""Runs an experiment: every algorithm is tuned, then run, lane by lane or side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from fedjax_links import base, errors, journal, memory, runs
from fedjax_links.base import PyTree
from fedjax_links.experiment import choosing
from fedjax_links.experiment import lanes as lanes_
from fedjax_links.experiment.definition import LINKS, Experiment
from fedjax_links.experiment.lanes import Lane
from fedjax_links.experiment.programs import Group, Programs

_SAVE_SECONDS = 5.0
_MOST_LINKS = 2**27


class Stop(Exception):  # noqa: N818, it is no error
    """Raised by a callback, it ends a run after its state was saved."""


class Callback:
    """What can listen to a run; each method does nothing unless it is overridden.

    An exception ends the run; what was saved stays, and the run goes on from there when it is
    started again. docs/runs.md shows one of a user's own.
    """

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


class Origin:
    """Where the lanes of a run begin; before their first round, unless they are forked.

    Attributes:
      round: rounds behind every lane when it begins.
      facts: what the run's folder says of it.
    """

    round: int = 0
    facts: Mapping[str, Any] = MappingProxyType({})

    def begin(self, lanes: Sequence[Lane], shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Where lanes of the main stage begin.

        Args:
          lanes: that advance together.
          shapes: of their states, by name.

        Returns:
          Rounds behind them, and their states; none of them for no rounds.
        """
        return 0, {}

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """The carry that a pattern begins with; None for a fresh one."""
        return None

    def tuning_lines(self, lanes: Sequence[Lane]) -> list[str]:
        """The lines of metrics of tuning lanes that are known already; none if they must run."""
        return []

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """Whether a folder has realised links that need not be drawn again."""
        return False


def run(
    experiment: Experiment,
    folder: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    *,
    side_by_side: bool | None = None,
    origin: Origin | None = None,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run`.

    Args:
      experiment: the experiment.
      folder: as in `Experiment.run`.
      callbacks: likewise; those that ``log`` names come before them.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.
      origin: where lanes begin, see `forking`; before their first round by default.

    Returns:
      The metrics.

    Raises:
      ValueError: as `Experiment.run`.
    """
    from fedjax_links.experiment import loggers

    callbacks = [*loggers.callbacks(experiment.log, folder), *callbacks]
    origin = origin or Origin()
    facts = {**experiment.facts(), **origin.facts}
    path = None if folder is None else Path(folder)
    store = (
        runs.Memory()
        if path is None
        else runs.RunFolder(path, facts=facts, config=experiment.config)
    )
    try:
        for callback in callbacks:
            callback.on_start(experiment)
        programs = Programs(experiment, side_by_side=side_by_side)
        if path is not None and not origin.has_links(path, experiment.num_rounds):
            store.keep_links(_links(experiment, programs, origin))
        for label in experiment.algorithms:
            tried = lanes_.tuning_lanes(experiment, label)
            _run_lanes(programs, tried, store, callbacks, origin)
            chosen = choose(experiment, label, runs.as_columns(store.lines))
            main = lanes_.main_lanes(experiment, label, chosen)
            _run_lanes(programs, main, store, callbacks, origin)
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


def _run_lanes(
    programs: Programs,
    lanes: Sequence[Lane],
    store: runs.Memory,
    callbacks: Sequence[Callback],
    origin: Origin,
) -> None:
    if not lanes:
        return
    is_new = not any(store.rounds(lane.name) for lane in lanes)
    if lanes[0].stage == lanes_.TUNING and is_new and (known := origin.tuning_lines(lanes)):
        store.append(known)
        store.save(dict.fromkeys([lane.name for lane in lanes]), lanes[0].num_rounds)
    for callback in callbacks:
        total = sum(lane.num_rounds for lane in lanes)
        callback.on_stage(lanes[0].algorithm, lanes[0].stage, total)
    for group in _groups(programs, lanes):
        _run_group(programs, group, store, callbacks, origin)


def _run_group(
    programs: Programs,
    lanes: Sequence[Lane],
    store: runs.Memory,
    callbacks: Sequence[Callback],
    origin: Origin,
) -> None:
    """Advances lanes to their last round, from the last checkpoint if there is one."""
    num_rounds, period = lanes[0].num_rounds, programs.experiment.eval_every
    done = store.rounds(lanes[0].name)
    if done < num_rounds:
        group = Group(programs, lanes)
        shapes = {lane.name: s for lane, s in zip(lanes, group.shapes(), strict=True)}
        done, states = store.restore(shapes)
        if not done and lanes[0].stage == lanes_.MAIN:
            done, states = origin.begin(lanes, shapes)
    if done:
        for lane in lanes:
            _tell(callbacks, lane, {'round': done})
    if done == num_rounds:
        return
    if done:
        group.restore(list(states.values()))
    else:
        group.start()
    clock = journal.SaveClock(_SAVE_SECONDS)
    while done < num_rounds:
        records = group.period(done)
        done += period
        store.append(
            [runs.line_of(lane.labels, done, r) for lane, r in zip(lanes, records, strict=True)]
        )
        due = done == num_rounds or clock.is_due()
        if due:
            with clock:
                _save(store, group, done)
        try:
            for lane, record in zip(lanes, records, strict=True):
                _tell(callbacks, lane, {'round': done, **record})
        except Stop:
            if not due:
                _save(store, group, done)
            raise


def _save(store: runs.Memory, group: Group, done: int) -> None:
    """Keeps the states of lanes, but of those that were tried in tuning and are done."""
    lane = group.lanes[0]
    needed = lane.stage == lanes_.MAIN or done < lane.num_rounds
    states = group.states() if needed else [None] * len(group.lanes)
    store.save(dict(zip([lane.name for lane in group.lanes], states, strict=True)), done)


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
    key = jax.random.key(np.uint32(seed))
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
