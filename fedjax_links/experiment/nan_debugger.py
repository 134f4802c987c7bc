"""Finds the first local step of a round in which a value is not finite.

A lane is one simulation of a run (`planning.lanes.Lane`). The lane is simulated again, from its
last checkpoint before the round. In the round itself, all local steps of all clients report which
values are not finite. Nothing in the folder changes.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, runs, simulation
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
from fedjax_links.runner.compilation import (
    algorithm_maker,
    built_in_columns,
    traced_columns,
)
from fedjax_links.storage import checkpoints

_MAX_LISTED = 10


def debug_round(
    experiment: Experiment, folder: str | Path, round: int
) -> Iterator[str]:
    """Simulates a round of a run once more and names the first value that is not finite.

    Args:
      experiment: the one that the folder holds.
      folder: of a run, finished or not.
      round: index of the round, from 0, as ``first_bad_round`` in the metrics.

    Returns:
      A line for each lane that diverged in the round. If no lane did, a line for each main lane
      that completed the round, or for each lane of tuning if no main lane did.

    Raises:
      ValueError: if the folder holds a fork or another experiment, or no lane completed the round.
    """
    facts, _ = runs.read_description(folder)
    _check_same_run(experiment.plan, facts, folder)
    checks.static_int('debug_round', round, minimum=0)
    records = _records_to_debug(folder, round)
    programs: dict[Any, _Rounds] = {}

    def debug_lane(record: runs.LaneRecord) -> str:
        lane = from_record(record)
        plan = experiment.plan
        # Lanes share compiled programs if they differ in traced columns and seeds alone.
        built_in = built_in_columns(plan, lane)
        part_ids = id(plan.pattern_of(lane)), id(plan.problem_of(lane))
        key = lane.algorithm, repr(built_in), *part_ids
        if key not in programs:
            programs[key] = _Rounds(plan, lane)
        finding = programs[key].debug(lane, record.states, round)
        return f'{lane.description}, round {round}: {finding}'

    return map(debug_lane, records)


def _check_same_run(plan: Plan, facts: RunFacts, folder: str | Path) -> None:
    """Refuses a folder of a fork, or of another experiment."""
    if 'at_round' in facts:
        requirement = 'hold a run from its first round on'
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
    """Returns the lanes that diverged in a round.

    If no lane diverged, it returns the main lanes that completed the round. If no main lane
    completed it, it returns all other lanes that did.
    """
    records = runs.lanes(folder)
    completed = [record for record in records if record.round > round]
    if not completed:
        _refuse_round(folder, records, round)
    diverged = [record for record in completed if _diverged_in(record, round)]
    main = [record for record in completed if record.labels['stage'] == MAIN]
    return diverged or main or completed


def _refuse_round(
    folder: str | Path, records: Sequence[runs.LaneRecord], round: int
) -> NoReturn:
    """Raises for a round that no lane completed."""
    most = max((record.round for record in records), default=0)
    if most == 0:
        requirement = 'hold a lane that completed a round'
        raise errors.invalid('workdir', requirement, folder)
    requirement = f'be below {most}, the number of rounds that the folder holds'
    raise errors.invalid('debug_round', requirement, round)


def _diverged_in(record: runs.LaneRecord, round: int) -> bool:
    """Returns whether ``round`` is the first bad round of a lane."""
    return any(
        metrics.get('first_bad_round') == round for metrics in record.records.values()
    )


class _Rounds:
    """Simulates rounds of lanes with one algorithm, pattern and problem."""

    def __init__(self, plan: Plan, lane: Lane) -> None:
        """Defines the programs, which compile at their first call.

        Args:
          plan: the plan of the experiment.
          lane: one of the lanes.
        """
        self._plan = plan
        self._problem = plan.problem_of(lane)
        # By client and local step: `_first_bad_index` of the model, the loss and the gradient.
        self._bad_indices: dict[tuple[int, int], PyTree] = {}
        pattern = plan.pattern_of(lane)
        sample = simulation.sample_shapes(pattern)
        make_algorithm = algorithm_maker(plan, lane)

        def start(
            keys: Mapping[str, Key], columns: Point, problem: Problem
        ) -> FederationState:
            algorithm = make_algorithm(columns)
            state = simulation.init(keys['init'], algorithm, sample, problem)
            return state._replace(
                participation=pattern.init(prng.pattern_key(keys['links']))
            )

        def advance(
            state: FederationState,
            keys: Mapping[str, Key],
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

    def debug(self, lane: Lane, saves: Mapping[int, Path], round: int) -> str:
        """Finds what is not finite in a round of a lane.

        Args:
          lane: the lane that this object was made for, or another lane with the same program.
          saves: checkpoints of the lane, by rounds completed.
          round: index of the round.

        Returns:
          A clause that names the first value that is not finite.
        """
        draws = self._plan.draws
        keys = {
            stream: draws.key_of(stream, lane.seed, lane.point)
            for stream in ('init', 'links', 'batches')
        }
        columns = traced_columns(self._plan, lane)
        inputs = keys, columns, self._problem
        earlier = [saves[done] for done in sorted(saves, reverse=True) if done <= round]
        first = self._first_state(earlier, inputs)
        state = first
        while int(state.round) < round and tree.all_finite(state.algorithm):
            state, _ = self._advance(state, *inputs, False)
        bad = _name_first_bad(state.algorithm)
        if bad:
            return f'{_describe_bad_start(first, state)}: {bad}'
        self._bad_indices.clear()
        after, metrics = jax.block_until_ready(self._advance(state, *inputs, True))
        jax.effects_barrier()
        return self._describe_round(after, metrics)

    def _describe_round(self, after: FederationState, metrics: RoundMetrics) -> str:
        """Describes what is not finite in the local steps of a round, or after them."""
        num_computing = int(metrics.num_computing[0])
        bad_step = self._describe_steps(num_computing)
        if bad_step:
            return bad_step
        bad = _name_first_bad(after.algorithm)
        if bad:
            clients = "all clients' losses and gradients are finite"
            text = f'{clients}, but the state after the round is not: {bad}'
            ids = jnp.arange(self._problem.num_clients)
            if np.isnan(base.prob_of(after.links, ids)).any():
                text += '; the pattern does not know the probabilities of its links, by'
                text += ' which some algorithms divide'
            return text
        if not np.isfinite(metrics.loss_sum).all():
            return 'the sum of the losses is not finite, while all else is'
        return f'everything is finite ({count(num_computing, "client")} trained)'

    def _first_state(self, paths: Sequence[Path], inputs: Any) -> Any:
        """Reads the first checkpoint that can be read. Without any, returns the initial state."""
        for path in paths:
            # A checkpoint may be damaged, or have been removed after a later one.
            with contextlib.suppress(checkpoints.DamagedError):
                return checkpoints.load(path, jax.eval_shape(self._start, *inputs))
        return self._start(*inputs)

    def _watch(
        self, client: Array, local_steps: int, inputs: PyTree, batch_loss: BatchLoss
    ) -> tuple[PyTree, BatchLoss]:
        """Makes each local step report whether its model, loss and gradient are finite.

        Args:
          client: index of the client.
          local_steps: number of the client's steps.
          inputs: of the loss, leaves [local_steps, ...].
          batch_loss: ``(params, inputs of a step) -> loss``.

        Returns:
          The pair of step numbers and inputs; and a loss that takes such pairs, reports, and has
          the values of ``batch_loss``.
        """

        def note(client: Any, step: Any, indices: Any) -> None:
            self._bad_indices[int(client), int(step)] = indices

        def loss(params: Params, numbered_inputs: tuple[Array, PyTree]) -> Array:
            step, step_inputs = numbered_inputs
            fixed = jax.lax.stop_gradient(params)
            value, grad = jax.value_and_grad(batch_loss)(fixed, step_inputs)
            indices = jax.tree.map(_first_bad_index, (fixed, value, grad))
            jax.debug.callback(note, client, step, indices)
            return batch_loss(params, step_inputs)

        return (jnp.arange(local_steps), inputs), loss

    def _describe_steps(self, num_computing: int) -> str | None:
        """Describes the first step with a tensor that is not finite, of the first such client."""
        bad_steps = self._first_bad_steps(num_computing)
        if not bad_steps:
            return None
        client, *others = bad_steps
        step = bad_steps[client]
        text = f'client {client}, local step {step}: '
        text += self._describe_step(self._bad_indices[client, step], step)
        data, offset, num_examples = self._problem.examples_of(client)
        first = int(offset)
        last = first + int(num_examples)
        bad_data = _name_first_bad(jax.tree.map(lambda a: a[first:last], data))
        if bad_data:
            text += f'; neither are its data, by example: {bad_data}'
        if others:
            listed = ', '.join(map(str, others[:_MAX_LISTED]))
            more = ', ...' if len(others) > _MAX_LISTED else ''
            text += f'; {count(len(others), "more client")} too: {listed}{more}'
        return text

    def _first_bad_steps(self, num_computing: int) -> dict[int, int]:
        """Returns the first local step with a tensor that is not finite, by client."""
        trained = {client for client, _ in self._bad_indices}
        if len(trained) > num_computing:
            # The last client fills the empty slots of a cohort.
            trained.discard(self._problem.num_clients - 1)
        bad_steps: dict[int, int] = {}
        for client, step in sorted(self._bad_indices):
            is_bad = max(jax.tree.leaves(self._bad_indices[client, step])) >= 0
            if client in trained and is_bad:
                bad_steps.setdefault(client, step)
        return bad_steps

    def _describe_step(self, indices: PyTree, step: int) -> str:
        """Describes which of a step's model, loss and gradient are not finite."""
        params = jax.eval_shape(self._problem.init_params, jax.random.key(0))
        model, loss, gradient = indices
        bad_model = _name_first_bad(params, model)
        if bad_model:
            origin = 'it starts from' if step == 0 else 'the step before left'
            return f'the model that {origin} is not finite: {bad_model}'
        bad_parts: list[str] = []
        if loss >= 0:
            bad_parts.append('the loss')
        bad_gradient = _name_first_bad(params, gradient)
        if bad_gradient:
            bad_parts.append(f'the gradient of {bad_gradient}')
        verb = 'are' if len(bad_parts) > 1 else 'is'
        return f'{" and ".join(bad_parts)} {verb} not finite'


def _describe_bad_start(first: FederationState, state: FederationState) -> str:
    """Describes since when a state is not finite.

    Args:
      first: the state that the simulation began with.
      state: the state that the simulation reached, which is not finite.
    """
    completed = int(state.round)
    if completed == 0:
        return 'the initial state is not finite'
    if completed > int(first.round):
        # The simulation ended with the first round after which the state is not finite.
        return f'the state has not been finite since round {completed - 1}'
    rounds = count(completed, 'round')
    clause = f'the state of its checkpoint after {rounds} is not finite'
    first_bad_round = int(state.first_bad_round)
    if first_bad_round >= 0:
        # The first bad round counts the loss too, which may be infinite before the state is.
        clause += (
            f'; its server model or loss has not been since round {first_bad_round}'
        )
    return clause


def _first_bad_index(leaf: Array) -> Array:
    """Returns int32[], the flat index of the first entry that is not finite; -1 for none."""
    if leaf.size == 0:
        return jnp.int32(-1)
    bad = ~jnp.isfinite(leaf).ravel()
    return jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)


def _name_first_bad(values: PyTree, indices: PyTree | None = None) -> str | None:
    """Names the first leaf with an entry that is not finite, and the entry; else None.

    Args:
      values: the leaves, or their shapes alone.
      indices: `_first_bad_index` of each leaf; computed from the leaves by default.
    """
    if indices is None:
        indices = jax.tree.map(_first_bad_index, values)
    leaves = checkpoints.leaves_of(values).items()
    for (path, leaf), index in zip(leaves, jax.tree.leaves(indices), strict=True):
        if index >= 0:
            entry = [int(i) for i in np.unravel_index(index, leaf.shape)]
            where = f' (first entry {entry})' if entry else ''
            return f'{path or "the array"}{where}'
    return None
