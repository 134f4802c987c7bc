"""Looks into one round of a run: whose local step has the first value that is not finite.

The round is simulated once more, from the last checkpoint before it, with a program that reports
every client's local steps. Nothing in the folder changes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import runs, simulation
from fedjax_links.base import (
    Array,
    FederationState,
    Key,
    Links,
    Params,
    Participation,
    Problem,
    PyTree,
)
from fedjax_links.clients.data import BatchLoss, watched
from fedjax_links.core import checks, errors, prng, tree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import training
from fedjax_links.storage import checkpoints

_MOST_LISTED = 10


def debug_round(experiment: Experiment, folder: str | Path, round: int) -> Iterator[str]:
    """Simulates a round of a run once more and names the first value that is not finite.

    Args:
      experiment: the one that the folder holds.
      folder: of a run, finished or not.
      round: index of the round, from 0, as ``first_bad_round`` in the metrics.

    Returns:
      A line for each lane that diverged in that round; for every lane that has the round behind it,
      if none did, without those of tuning where there are others.

    Raises:
      ValueError: if the folder holds another experiment, or no lane has that round behind it.
    """
    _check_same(experiment, folder)
    checks.static_int('debug_round', round, minimum=0)
    kept = runs.lanes(folder)
    here = [lane for lane in kept if lane.round > round]
    if not here:
        most = max((lane.round for lane in kept), default=0)
        requirement = f'be below {most}, the number of rounds that the folder holds'
        raise errors.invalid('debug_round', requirement, round)
    chosen = [lane for lane in here if _first_bad(lane) == round]
    chosen = chosen or [lane for lane in here if lane.labels['stage'] == lanes_.MAIN] or here
    return _look_at_all(experiment, chosen, round)


def _look_at_all(
    experiment: Experiment, lanes: Sequence[runs.KeptLane], round: int
) -> Iterator[str]:
    built: dict[Any, _Rounds] = {}
    for kept in lanes:
        lane = lanes_.of_kept(kept)
        problem = experiment.problem_at(lane.pattern, lane.point, lane.seed)
        pattern = experiment.pattern_at(lane.pattern, lane.point, lane.seed)
        _, built_in = training.split(experiment, lane)
        key = lane.algorithm, repr(built_in), id(pattern), id(problem)
        if key not in built:
            built[key] = _Rounds(experiment, lane)
        yield f'{lane.description}, round {round}: {built[key].look(lane, kept.states, round)}'


# The lanes of a folder.


def _check_same(experiment: Experiment, folder: str | Path) -> None:
    here = json.loads(json.dumps(experiment.facts()))
    for name, value in runs.described(folder)[0].items():
        if name not in (*runs.MAY_DIFFER, runs.ON_A_MESH) and here.get(name) != value:
            requirement = f'hold a run of this experiment, whose {name} is {here.get(name)!r}'
            raise errors.invalid('workdir', requirement, f'{value!r} in {folder}')


def _first_bad(lane: runs.KeptLane) -> int | None:
    """The first round of a lane that went wrong."""
    rows = map(json.loads, lane.lines)
    return next((row['first_bad_round'] for row in rows if 'first_bad_round' in row), None)


# One round.


class _Keys(NamedTuple):
    """Of the streams of draws that are keys of a seed."""

    init: Key
    links: Key
    batches: Key


def _with_key(pattern: Participation, key: Key) -> Participation:
    """A pattern that draws with a key of its own."""

    def sample(carry: PyTree, _: Key, round: Array) -> tuple[PyTree, Links]:
        return pattern.sample(carry, prng.round_key(key, 'participation', round), round)

    return pattern._replace(init=lambda _: pattern.init(prng.pattern_key(key)), sample=sample)


class _Rounds:
    """The rounds of lanes with one algorithm, pattern and problem."""

    def __init__(self, experiment: Experiment, lane: Lane) -> None:
        """Compiles nothing yet."""
        self._experiment = experiment
        self._problem = experiment.problem_at(lane.pattern, lane.point, lane.seed)
        self._steps: dict[tuple[int, int], np.ndarray] = {}
        drawn = experiment.pattern_at(lane.pattern, lane.point, lane.seed)
        _, built_in = training.split(experiment, lane)

        def algorithm(columns: Mapping[str, Any]) -> Any:
            return experiment.algorithm_at(lane.algorithm, {**built_in, **columns})

        def start(keys: _Keys, columns: Mapping[str, Any], problem: Problem) -> FederationState:
            pattern = _with_key(drawn, keys.links)
            return simulation.init(keys.init, algorithm(columns), pattern, problem)

        def turn(
            state: FederationState, keys: _Keys, columns: Mapping[str, Any], problem: Problem
        ) -> tuple[FederationState, Any]:
            pattern = _with_key(drawn, keys.links)
            return simulation.run_round(state, keys.batches, algorithm(columns), pattern, problem)

        def advance(
            state: FederationState,
            stop: Array,
            keys: _Keys,
            columns: Mapping[str, Any],
            problem: Problem,
        ) -> FederationState:
            final: FederationState = jax.lax.while_loop(
                lambda s: (s.round < stop) & tree.all_finite(s.algorithm),
                lambda s: turn(s, keys, columns, problem)[0],
                state,
            )
            return final

        self._start, self._advance = jax.jit(start), jax.jit(advance)
        self._turn = jax.jit(turn)

    def look(self, lane: Lane, saves: Mapping[int, Path], round: int) -> str:
        """What is not finite in a round of a lane.

        Args:
          lane: one that this was built for, or that differs in traced values and the seed.
          saves: its checkpoints by rounds behind them.
          round: which one.

        Returns:
          A clause.
        """
        columns, _ = training.split(self._experiment, lane)
        draws = self._experiment.draws
        seeds = (draws.seed_of(stream, lane.seed, lane.point) for stream in _Keys._fields)
        keys = _Keys(*(jax.random.key(np.uint32(seed)) for seed in seeds))
        inputs = keys, columns, self._problem
        before = [saves[done] for done in sorted(saves, reverse=True) if done <= round]
        first = self._begin(before, inputs)
        state = self._advance(first, np.int32(round), *inputs)
        if bad := _first_in(state.algorithm):
            return f'{_since(first, state)}: {bad}'
        self._steps.clear()
        with watched(self._watch):
            after, metrics = self._turn(state, *inputs)
        jax.block_until_ready(after)
        jax.effects_barrier()
        found = self._in_steps(int(metrics.num_computing))
        if found:
            return found
        if bad := _first_in(after.algorithm):
            clients = "all clients' losses and gradients are finite"
            return f'{clients}, but the state after the round is not: {bad}'
        if not np.isfinite(metrics.loss_sum):
            return 'the sum of the losses is not finite, while all else is'
        return f'everything is finite ({_count(int(metrics.num_computing), "client")} trained)'

    def _begin(self, paths: Sequence[Path], inputs: Any) -> FederationState:
        """The first checkpoint that can be read, or the start."""
        for path in paths:
            try:
                like = jax.eval_shape(self._start, *inputs)
                state: FederationState = checkpoints.load(path, like)
            except checkpoints.DamagedError:  # or gone: the last two are kept
                continue
            return state
        begun: FederationState = self._start(*inputs)
        return begun

    def _watch(
        self, client: Array, local_steps: int, inputs: PyTree, batch_loss: BatchLoss
    ) -> tuple[PyTree, BatchLoss]:
        """Has every local step report which of its tensors are not finite."""

        def note(client: Any, step: Any, places: Any) -> None:
            self._steps[int(client), int(step)] = np.asarray(places)

        def loss(params: Params, numbered: tuple[Array, PyTree]) -> Array:
            step, own = numbered
            fixed = jax.lax.stop_gradient(params)
            value, grad = jax.value_and_grad(batch_loss)(fixed, own)
            places = [_first_place(leaf) for leaf in jax.tree.leaves((fixed, value, grad))]
            jax.debug.callback(note, client, step, jnp.stack(places))
            return batch_loss(params, own)

        return (jnp.arange(local_steps), inputs), loss

    def _in_steps(self, num_computing: int) -> str | None:
        """The first client with a tensor that is not finite, and its first such local step."""
        trained = sorted({client for client, _ in self._steps})
        if len(trained) > num_computing:  # the last client stands in for empty slots
            trained = [i for i in trained if i != self._problem.num_clients - 1]
        bad = {
            client: min(steps)
            for client in trained
            if (steps := [s for (i, s), p in self._steps.items() if i == client and p.max() >= 0])
        }
        if not bad:
            return None
        client, *others = bad
        what = self._in_step(self._steps[client, bad[client]], bad[client])
        data = self._in_data(client)
        also = f'; {_count(len(others), "more client")} too: {_listed(others)}' if others else ''
        return f'client {client}, local step {bad[client]}: {what}{data}{also}'

    def _in_step(self, places: np.ndarray, step: int) -> str:
        params = jax.eval_shape(self._problem.init_params, jax.random.key(0))
        leaves = jax.tree_util.tree_leaves_with_path(params)
        entries = [
            (jax.tree_util.keystr(path), tuple(np.unravel_index(max(place, 0), leaf.shape)), place)
            for (path, leaf), place in zip(leaves * 2, np.delete(places, len(leaves)), strict=True)
        ]
        for name, entry, place in entries[: len(leaves)]:
            if place >= 0:
                before = 'it starts from' if step == 0 else 'the step before left'
                return f'the model that {before} is not finite: {_leaf(name, entry)}'
        found = ['the loss'] if places[len(leaves)] >= 0 else []
        for name, entry, place in entries[len(leaves) :]:
            if place >= 0:
                found.append(f'the gradient of {_leaf(name, entry)}')
                break
        return f'{" and ".join(found)} {"are" if len(found) > 1 else "is"} not finite'

    def _in_data(self, client: int) -> str:
        """A clause on a client's data, if they are not finite themselves."""
        data, offset, count = self._problem.examples_of(client)
        first, last = int(offset), int(offset) + int(count)
        own = jax.tree.map(lambda a: a[first:last], data)
        found = _first_in(own)
        return f'; so are its data, by example: {found}' if found else ''


def _first_place(leaf: Array) -> Array:
    """int32[], where the first entry that is not finite stands in a flat array; -1 for none."""
    bad = ~jnp.isfinite(leaf).ravel()
    return jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)


def _first_in(values: PyTree) -> str | None:
    """The first leaf that is not finite, with its first such entry."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(values):
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            continue
        bad = ~np.isfinite(np.asarray(leaf))
        if bad.any():
            entry = tuple(np.unravel_index(int(bad.argmax()), bad.shape))
            return _leaf(jax.tree_util.keystr(path), entry)
    return None


def _leaf(name: str, entry: Sequence[Any]) -> str:
    place = f' (first entry {[int(i) for i in entry]})' if entry else ''
    return f'{name or "the array"}{place}'


def _since(first: FederationState, state: FederationState) -> str:
    """Since when a state that a round begins with is not finite."""
    if int(state.first_bad_round) >= 0:
        since = int(state.first_bad_round)
    elif int(state.round) > int(first.round):
        since = int(state.round) - 1
    else:
        return f'the state of its checkpoint after {int(state.round)} rounds is not finite already'
    return f'the state is not finite since round {since} already'


def _listed(numbers: Sequence[int]) -> str:
    shown = ', '.join(map(str, numbers[:_MOST_LISTED]))
    return shown + (', ...' if len(numbers) > _MOST_LISTED else '')


def _count(number: int, word: str) -> str:
    return f'{number} {word}{"" if number == 1 else "s"}'
