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
from fedjax_links.base import Array, FederationState, Params, Problem, PyTree
from fedjax_links.clients.batches import BatchLoss, watched
from fedjax_links.core import checks, errors, prng, tree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.planning.lanes import MAIN, Lane, of_kept
from fedjax_links.runner.compilation import algorithm_of, split
from fedjax_links.runner.preflight import count
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
    here = json.loads(json.dumps(experiment.plan.facts()))
    there_facts = runs.read_description(folder)[0]
    if 'at_round' in there_facts:
        requirement = 'hold a run that began before its first round'
        said = f'{folder}, a fork that began at round {there_facts["at_round"]}'
        raise errors.invalid('workdir', requirement, said)
    for name, value in there_facts.items():
        if name not in (*runs.MAY_DIFFER, runs.ON_A_MESH) and here.get(name) != value:
            requirement = (
                f'hold a run of this experiment, whose {name} is {here.get(name)!r}'
            )
            raise errors.invalid('workdir', requirement, f'{value!r} in {folder}')
    checks.static_int('debug_round', round, minimum=0)
    kept = runs.lanes(folder)
    there = [lane for lane in kept if lane.round > round]
    if not there:
        most = max((lane.round for lane in kept), default=0)
        requirement = f'be below {most}, the number of rounds that the folder holds'
        raise errors.invalid('debug_round', requirement, round)
    bad = [
        k
        for k in there
        if round in [r.get('first_bad_round') for r in k.records.values()]
    ]
    main = [lane for lane in there if lane.labels['stage'] == MAIN]
    built: dict[Any, _Rounds] = {}

    def look(found: runs.LaneRecord) -> str:
        lane = of_kept(found)
        problem, pattern = (
            experiment.plan.problem_of(lane),
            experiment.plan.pattern_of(lane),
        )
        key = lane.algorithm, repr(split(experiment, lane)[1]), id(pattern), id(problem)
        if key not in built:
            built[key] = _Rounds(experiment, lane)
        said = built[key].look(lane, found.states, round)
        return f'{lane.description}, round {round}: {said}'

    return map(look, bad or main or there)


class _Rounds:
    """The rounds of lanes with one algorithm, pattern and problem."""

    def __init__(self, experiment: Experiment, lane: Lane) -> None:
        """Compiles nothing yet."""
        self._experiment = experiment
        self._problem = experiment.plan.problem_of(lane)
        self._steps: dict[tuple[int, int], PyTree] = {}
        pattern = experiment.plan.pattern_of(lane)
        sample = simulation.sample_shapes(pattern)
        algorithm = algorithm_of(experiment, lane)

        def start(keys: Any, columns: Any, problem: Problem) -> FederationState:
            state = simulation.init(keys['init'], algorithm(columns), sample, problem)
            return state._replace(
                participation=pattern.init(prng.pattern_key(keys['links']))
            )

        def turn(
            state: Any, keys: Any, columns: Any, problem: Problem, is_watched: bool
        ) -> Any:
            own, rounds = algorithm(columns), state.round[None]
            carry, links = simulation.draw(
                state.participation, keys['links'], pattern, rounds
            )
            state = state._replace(participation=carry)
            with watched(self._watch) if is_watched else contextlib.nullcontext():
                return simulation.advance(state, keys['batches'], links, own, problem)

        self._start, self._turn = jax.jit(start), jax.jit(turn, static_argnums=4)

    def look(self, lane: Lane, saves: Mapping[int, Path], round: int) -> str:
        """What is not finite in a round of a lane.

        Args:
          lane: one that this was built for, or that differs in traced values and the seed.
          saves: its checkpoints by rounds behind them.
          round: which one.

        Returns:
          A clause.
        """
        key_of = self._experiment.plan.draws.key_of
        streams = 'init', 'links', 'batches'
        keys = {stream: key_of(stream, lane.seed, lane.point) for stream in streams}
        inputs = keys, split(self._experiment, lane)[0], self._problem
        before = [saves[done] for done in sorted(saves, reverse=True) if done <= round]
        first = state = self._begin(before, inputs)
        while int(state.round) < round and tree.all_finite(state.algorithm):
            state, _ = self._turn(state, *inputs, False)
        if bad := _first_in(state.algorithm):
            done, since = int(state.round), int(state.first_bad_round)
            said = f'is not finite since round {done - 1 if since < 0 else since}'
            if since < 0 and done == int(first.round):
                said = f'of its checkpoint after {done} rounds is not finite'
            return f'the state {said} already: {bad}'
        self._steps.clear()
        after, metrics = jax.block_until_ready(self._turn(state, *inputs, True))
        jax.effects_barrier()
        num_computing = int(metrics.num_computing[0])
        if found := self._in_steps(num_computing):
            return found
        if bad := _first_in(after.algorithm):
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

        def note(client: Any, step: Any, places: Any) -> None:
            self._steps[int(client), int(step)] = places

        def loss(params: Params, numbered: tuple[Array, PyTree]) -> Array:
            step, own = numbered
            fixed = jax.lax.stop_gradient(params)
            value, grad = jax.value_and_grad(batch_loss)(fixed, own)
            places = jax.tree.map(_first_place, (fixed, value, grad))
            jax.debug.callback(note, client, step, places)
            return batch_loss(params, own)

        return (jnp.arange(local_steps), inputs), loss

    def _in_steps(self, num_computing: int) -> str | None:
        """The first client with a tensor that is not finite, and its first such local step."""
        trained = sorted({client for client, _ in self._steps})
        if len(trained) > num_computing:  # the last client stands in for empty slots
            trained = [i for i in trained if i != self._problem.num_clients - 1]
        bad: dict[int, int] = {}
        for client, step in sorted(self._steps):
            if (
                client in trained
                and max(jax.tree.leaves(self._steps[client, step])) >= 0
            ):
                bad.setdefault(client, step)
        if not bad:
            return None
        client, *others = bad
        what = self._in_step(self._steps[client, bad[client]], bad[client])
        data, offset, held = self._problem.examples_of(client)
        first, last = int(offset), int(offset) + int(held)
        own = _first_in(jax.tree.map(lambda a: a[first:last], data))
        data = f'; so are its data, by example: {own}' if own else ''
        listed = ', '.join(map(str, others[:_MOST_LISTED]))
        more = ', ...' if others[_MOST_LISTED:] else ''
        also = (
            f'; {count(len(others), "more client")} too: {listed}{more}'
            if others
            else ''
        )
        return f'client {client}, local step {bad[client]}: {what}{data}{also}'

    def _in_step(self, places: PyTree, step: int) -> str:
        params = jax.eval_shape(self._problem.init_params, jax.random.key(0))
        model, loss, gradient = places
        if bad := _first_in(params, model):
            before = 'it starts from' if step == 0 else 'the step before left'
            return f'the model that {before} is not finite: {bad}'
        found = ['the loss'] if loss >= 0 else []
        if bad := _first_in(params, gradient):
            found.append(f'the gradient of {bad}')
        return f'{" and ".join(found)} {"are" if len(found) > 1 else "is"} not finite'


def _first_place(leaf: Array) -> Array:
    """int32[], where the first entry that is not finite stands in a flat array; -1 for none."""
    bad = ~jnp.isfinite(leaf).ravel()
    return jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)


def _first_in(values: PyTree, places: PyTree | None = None) -> str | None:
    """The first leaf that is not finite, with its first such entry.

    Args:
      values: the leaves, or their shapes alone.
      places: of each leaf, as `_first_place` finds it.
    """
    places = jax.tree.map(_first_place, values) if places is None else places
    leaves = checkpoints.leaves_of(values).items()
    for (path, leaf), place in zip(leaves, jax.tree.leaves(places), strict=True):
        if place >= 0:
            entry = [int(i) for i in np.unravel_index(place, leaf.shape)]
            where = f' (first entry {entry})' if entry else ''
            return f'{path or "the array"}{where}'
    return None
