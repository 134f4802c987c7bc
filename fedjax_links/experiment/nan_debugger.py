"""Looks into one round of a run: whose local step has the first value that is not finite.

The rounds from the last checkpoint on are simulated once more, the last with a program that reports
every client's local steps. Nothing in the folder changes.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import runs, simulation
from fedjax_links.base import (
    Array,
    FederationState,
    Key,
    Params,
    Problem,
    PyTree,
    RoundMetrics,
)
from fedjax_links.clients.batches import BatchLoss, watched
from fedjax_links.core import checks, errors, prng, tree
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.experiment.definition import Experiment
from fedjax_links.planning.description import count
from fedjax_links.planning.lanes import MAIN, Lane, from_record
from fedjax_links.planning.plan import Plan
from fedjax_links.runner.compilation import algorithm_maker, split_columns
from fedjax_links.storage import checkpoints

_MOST_LISTED = 10


def debug_round(
    experiment: Experiment, folder: str | Path, round: int
) -> Iterator[str]:
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
    facts, _ = runs.read_description(folder)
    _check_same_run(experiment.plan, facts, folder)
    checks.static_int('debug_round', round, minimum=0)
    records = _records_to_debug(folder, round)
    programs: dict[Any, _Rounds] = {}

    def look(record: runs.LaneRecord) -> str:
        lane = from_record(record)
        plan = experiment.plan
        _, built_in = split_columns(plan, lane)
        parts = plan.pattern_of(lane), plan.problem_of(lane)
        key = lane.algorithm, repr(built_in), *map(id, parts)
        if key not in programs:
            programs[key] = _Rounds(plan, lane)
        finding = programs[key].look(lane, record.states, round)
        return f'{lane.description}, round {round}: {finding}'

    return map(look, records)


def _check_same_run(plan: Plan, facts: RunFacts, folder: str | Path) -> None:
    """Refuses a folder of a fork, or of another experiment."""
    if 'at_round' in facts:
        requirement = 'hold a run that began before its first round'
        got = f'{folder}, a fork that began at round {facts["at_round"]}'
        raise errors.invalid('workdir', requirement, got)
    here = json.loads(json.dumps(plan.facts()))
    for name, value in facts.items():
        if name not in (*runs.MAY_DIFFER, runs.ON_A_MESH) and here.get(name) != value:
            requirement = (
                f'hold a run of this experiment, whose {name} is {here.get(name)!r}'
            )
            raise errors.invalid('workdir', requirement, f'{value!r} in {folder}')


def _records_to_debug(folder: str | Path, round: int) -> list[runs.LaneRecord]:
    """Returns the lanes that diverged in a round; if none did, main ones that have it behind them.

    Where there are no main lanes, those of tuning stand in for them.
    """
    records = runs.lanes(folder)
    reached = [record for record in records if record.round > round]
    if not reached:
        most = max((record.round for record in records), default=0)
        requirement = f'be below {most}, the number of rounds that the folder holds'
        raise errors.invalid('debug_round', requirement, round)
    diverged = [record for record in reached if _diverged_in(record, round)]
    main = [record for record in reached if record.labels['stage'] == MAIN]
    return diverged or main or reached


def _diverged_in(record: runs.LaneRecord, round: int) -> bool:
    """Whether the first bad round of a lane is this one."""
    return any(
        measured.get('first_bad_round') == round for measured in record.records.values()
    )


class _Rounds:
    """The rounds of lanes with one algorithm, pattern and problem."""

    def __init__(self, plan: Plan, lane: Lane) -> None:
        """Compiles nothing yet."""
        self._plan = plan
        self._problem = plan.problem_of(lane)
        self._steps: dict[tuple[int, int], PyTree] = {}
        pattern = plan.pattern_of(lane)
        sample = simulation.sample_shapes(pattern)
        make_algorithm = algorithm_maker(plan, lane)

        def start(keys: Key, columns: Point, problem: Problem) -> FederationState:
            algorithm = make_algorithm(columns)
            state = simulation.init(keys['init'], algorithm, sample, problem)
            return state._replace(
                participation=pattern.init(prng.pattern_key(keys['links']))
            )

        def advance(
            state: FederationState,
            keys: Key,
            columns: Point,
            problem: Problem,
            is_watched: bool,
        ) -> Any:
            algorithm = make_algorithm(columns)
            carry, links = simulation.draw(
                state.participation, keys['links'], pattern, state.round[None]
            )
            state = state._replace(participation=carry)
            with watched(self._watch) if is_watched else contextlib.nullcontext():
                return simulation.advance(
                    state, keys['batches'], links, algorithm, problem
                )

        self._start = jax.jit(start)
        self._advance = jax.jit(advance, static_argnums=4)

    def look(self, lane: Lane, saves: Mapping[int, Path], round: int) -> str:
        """Finds what is not finite in a round of a lane.

        Args:
          lane: one that this was built for, or that differs in traced values and the seed.
          saves: its checkpoints by rounds behind them.
          round: which one.

        Returns:
          A clause.
        """
        draws = self._plan.draws
        keys = {
            stream: draws.key_of(stream, lane.seed, lane.point)
            for stream in ('init', 'links', 'batches')
        }
        columns, _ = split_columns(self._plan, lane)
        inputs = keys, columns, self._problem
        before = [saves[done] for done in sorted(saves, reverse=True) if done <= round]
        first = self._begin(before, inputs)
        state = first
        while int(state.round) < round and tree.all_finite(state.algorithm):
            state, _ = self._advance(state, *inputs, False)
        bad = _first_in(state.algorithm)
        if bad:
            return f'{_describe_bad_start(first, state)} already: {bad}'
        self._steps.clear()
        after, metrics = jax.block_until_ready(self._advance(state, *inputs, True))
        jax.effects_barrier()
        return self._describe_round(after, metrics)

    def _describe_round(self, after: FederationState, metrics: RoundMetrics) -> str:
        """Says what is not finite in the local steps of a round, or behind them."""
        num_computing = int(metrics.num_computing[0])
        in_steps = self._in_steps(num_computing)
        if in_steps:
            return in_steps
        bad = _first_in(after.algorithm)
        if bad:
            clients = "all clients' losses and gradients are finite"
            return f'{clients}, but the state after the round is not: {bad}'
        if not np.isfinite(metrics.loss_sum).all():
            return 'the sum of the losses is not finite, while all else is'
        return f'everything is finite ({count(num_computing, "client")} trained)'

    def _begin(self, paths: Sequence[Path], inputs: Any) -> Any:
        """The first checkpoint that can be read, or the start."""
        for path in paths:
            with contextlib.suppress(
                checkpoints.DamagedError
            ):  # or gone: the last two are kept
                return checkpoints.load(path, jax.eval_shape(self._start, *inputs))
        return self._start(*inputs)

    def _watch(
        self, client: Array, local_steps: int, inputs: PyTree, batch_loss: BatchLoss
    ) -> tuple[PyTree, BatchLoss]:
        """Has every local step report which of its tensors are not finite."""

        def note(client: Any, step: Any, indices: Any) -> None:
            self._steps[int(client), int(step)] = indices

        def loss(params: Params, numbered: tuple[Array, PyTree]) -> Array:
            step, own = numbered
            fixed = jax.lax.stop_gradient(params)
            value, grad = jax.value_and_grad(batch_loss)(fixed, own)
            indices = jax.tree.map(_first_index, (fixed, value, grad))
            jax.debug.callback(note, client, step, indices)
            return batch_loss(params, own)

        return (jnp.arange(local_steps), inputs), loss

    def _in_steps(self, num_computing: int) -> str | None:
        """Describes the first client with a tensor that is not finite, and its first such step."""
        bad_steps = self._first_bad_steps(num_computing)
        if not bad_steps:
            return None
        client, *others = bad_steps
        step = bad_steps[client]
        text = f'client {client}, local step {step}: '
        text += self._in_step(self._steps[client, step], step)
        data, offset, length = self._problem.examples_of(client)
        first, last = int(offset), int(offset) + int(length)
        bad_data = _first_in(jax.tree.map(lambda a: a[first:last], data))
        if bad_data:
            text += f'; so are its data, by example: {bad_data}'
        if others:
            listed = ', '.join(map(str, others[:_MOST_LISTED]))
            more = ', ...' if len(others) > _MOST_LISTED else ''
            text += f'; {count(len(others), "more client")} too: {listed}{more}'
        return text

    def _first_bad_steps(self, num_computing: int) -> dict[int, int]:
        """Returns the first local step with a tensor that is not finite, by client."""
        trained = {client for client, _ in self._steps}
        if len(trained) > num_computing:  # the last client stands in for empty slots
            trained.discard(self._problem.num_clients - 1)
        bad_steps: dict[int, int] = {}
        for client, step in sorted(self._steps):
            is_bad = max(jax.tree.leaves(self._steps[client, step])) >= 0
            if client in trained and is_bad:
                bad_steps.setdefault(client, step)
        return bad_steps

    def _in_step(self, indices: PyTree, step: int) -> str:
        params = jax.eval_shape(self._problem.init_params, jax.random.key(0))
        model, loss, gradient = indices
        if bad := _first_in(params, model):
            before = 'it starts from' if step == 0 else 'the step before left'
            return f'the model that {before} is not finite: {bad}'
        found = ['the loss'] if loss >= 0 else []
        if bad := _first_in(params, gradient):
            found.append(f'the gradient of {bad}')
        return f'{" and ".join(found)} {"are" if len(found) > 1 else "is"} not finite'


def _describe_bad_start(first: FederationState, state: FederationState) -> str:
    """Says since when a state is not finite, which began as the first."""
    done = int(state.round)
    since = int(state.first_bad_round)
    if since >= 0:
        return f'the state is not finite since round {since}'
    if done == int(first.round):
        return f'the state of its checkpoint after {done} rounds is not finite'
    return f'the state is not finite since round {done - 1}'


def _first_index(leaf: Array) -> Array:
    """int32[], where the first entry that is not finite stands in a flat array; -1 for none."""
    bad = ~jnp.isfinite(leaf).ravel()
    return jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)


def _first_in(values: PyTree, indices: PyTree | None = None) -> str | None:
    """The first leaf that is not finite, with its first such entry.

    Args:
      values: the leaves, or their shapes alone.
      indices: of each leaf, as `_first_index` finds it.
    """
    indices = jax.tree.map(_first_index, values) if indices is None else indices
    leaves = checkpoints.leaves_of(values).items()
    for (path, leaf), index in zip(leaves, jax.tree.leaves(indices), strict=True):
        if index >= 0:
            entry = [int(i) for i in np.unravel_index(index, leaf.shape)]
            where = f' (first entry {entry})' if entry else ''
            return f'{path or "the array"}{where}'
    return None
