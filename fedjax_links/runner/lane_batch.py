"""Lanes that run together, some periods at a time."""

import functools
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import FederationState, PyTree
from fedjax_links.core import meshes
from fedjax_links.machines.devices import Place
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner.compilation import (
    LinkProgram,
    Measured,
    initial_params,
    most_periods,
    split,
)
from fedjax_links.runner.program_cache import Programs


class Group:
    """Lanes that run together: one, or several with the same program.

    Attributes:
      lanes: themselves.
      place: where they run.
      width: how many lanes their program has, those among them that stand in for none.
      program: what trains them.
      problem: theirs, side by side where they differ.
      most: how many periods can be started at once.
      round: rounds behind every lane, those of periods that were started among them.
      done: rounds behind every lane that were collected.
    """

    def __init__(
        self,
        programs: Programs,
        lanes: Sequence[Lane],
        place: Place | None = None,
        width: int | None = None,
    ) -> None:
        """Prepares the lanes; their states come with `start` or `restore`.

        Args:
          programs: where their program is kept.
          lanes: with one program.
          place: where they run; the first of the programs' by default.
          width: of their program; that of wider groups serves fewer lanes, and the last one fills
            it up. As many as there are by default.
        """
        experiment, self.lanes = programs.experiment, list(lanes)
        self.place, self.width = place or programs.places[0], width or len(lanes)
        self.round = self.done = 0
        self._programs, self._together = programs, programs.side_by_side
        self._period = experiment.eval_every
        every = self._filled(self.lanes)
        problems = [experiment.plan.problem_of(lane) for lane in every]
        varying = parametrized.varying(problems)
        self._is_joint = any(varying)
        self.problem = (
            parametrized.together(problems) if self._is_joint else problems[0]
        )
        self.program = programs.training(lanes[0], self.place, varying)
        self._columns = self._stack([split(experiment, lane)[0] for lane in every])
        key_of, streams = experiment.plan.draws.key_of, ('init', 'batches', 'links')
        keys = [[key_of(stream, x.seed, x.point) for x in every] for stream in streams]
        self._init_keys, self._keys = self._stack(keys[0]), self._stack(keys[1])
        patterns = [programs.links(experiment.plan.pattern_of(lane)) for lane in every]
        alike: dict[Any, list[int]] = {}
        for i, pattern in enumerate(patterns):
            alike.setdefault(pattern.structure, []).append(i)
        self._parts = list(alike.values())
        self._links: list[LinkProgram] = []
        self._constants: list[PyTree] = []
        for part in self._parts:
            constants = [patterns[i].constants for i in part]
            varying = parametrized.varying(constants)
            self._links.append(programs.link_program(patterns[part[0]], varying))
            self._constants.append(
                parametrized.together(constants) if any(varying) else constants[0]
            )
        self._link_keys = [
            self._stack([keys[2][i] for i in part]) for part in self._parts
        ]
        self._sample = patterns[0].sample
        self.most = most_periods(self._sample, self._period, self.width)
        self._states: FederationState | None = None
        self._carries: list[PyTree] = []
        self._advance: Any = None
        self._started: deque[tuple[int, Measured]] = deque()
        self._is_settled = False

    def settle(self) -> None:
        """Puts what all periods take where the lanes run; links are drawn on one device."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._is_joint:
            self.problem = self.place.put(self.problem)
        else:
            self.problem = self._programs.placed(self.problem, self.place)
        links = self._link_keys, self._constants
        self._link_keys, self._constants = jax.device_put(links, self.place.home)
        alone = self._keys, self._init_keys, self._columns
        self._keys, self._init_keys, self._columns = self.place.put(alone)

    def start(self) -> None:
        """Puts every lane before its first round."""
        self.settle()
        self._states = self._programs.start(self)
        parts = zip(self._links, self._constants, self._link_keys, strict=True)
        self._carries = [
            links.start(constants, keys) for links, constants, keys in parts
        ]

    def restore(self, states: Sequence[FederationState]) -> None:
        """Puts every lane where an earlier process left it."""
        self.settle()
        (self.round,) = (self.done,) = {int(state.round) for state in states}
        every = self._filled(states)
        carries = [
            self._stack([every[i].participation for i in part]) for part in self._parts
        ]
        self._carries = jax.device_put(carries, self.place.home)
        alone = [state._replace(participation=()) for state in every]
        if self.layout is None:
            self._states = self._stack(self.place.put(alone))
            return
        leaves = self.place.put(
            self.layout.to_device_leaves(alone[0]), self.layout.shardings
        )
        self._states = self.layout.from_device_leaves(leaves, is_padded=True)

    def inputs(self) -> tuple[Any, ...]:
        """The shapes of what the program of these lanes takes."""
        states = jax.eval_shape(self.program.start, *self.beginning())
        if self.layout is not None:
            lying = jax.tree.unflatten(
                jax.tree.structure(states), self.layout.shardings
            )
            states = jax.tree.map(
                lambda a, sharding: a.update(sharding=sharding), states, lying
            )
        lead = (*((self.width,) if self._together else ()), self.most, self._period)
        shape = functools.partial(jax.ShapeDtypeStruct, sharding=self.place.sharding)
        count = shape((), np.int32)
        links = jax.tree.map(lambda a: shape((*lead, *a.shape), a.dtype), self._sample)
        return states, self._keys, links, count, self._columns, self.problem

    def beginning(self) -> tuple[Any, ...]:
        """What the states of these lanes before their first round are made of."""
        params = None
        if not self.place.is_mesh:
            make = functools.partial(initial_params, self.problem.init_params)
            params = jax.eval_shape(make, self._init_keys)
        return params, self._init_keys, self._columns, self.problem

    @functools.cached_property
    def layout(self) -> meshes.Layout | None:
        """How the state of these lanes, of which a mesh has one, lies on it."""
        make = self.program.layout
        return None if make is None else make(*self.beginning())

    def states(self) -> list[FederationState]:
        """The lanes' states, with the patterns' carries; `meshes.LocalRows` of divided tables."""
        assert self._states is not None
        if not self._together:
            alone = self._states
            if self.layout is not None:
                alone = self.layout.fetch(alone)
            return [alone._replace(participation=self._carries[0])]
        states, carries = jax.device_get((self._states, self._carries))
        pairs = zip(carries, self._parts, strict=True)
        own = {i: _row(carry, k) for carry, part in pairs for k, i in enumerate(part)}
        every = range(len(self.lanes))
        return [_row(states, i)._replace(participation=own[i]) for i in every]

    def period(self) -> list[dict[str, Any]]:
        """Advances every lane by a period: `dispatch`, then `collect`."""
        self.dispatch()
        return self.collect()[0]

    def dispatch(self, periods: int = 1) -> None:
        """Starts periods on the device, `most` at the most, and does not wait."""
        first, count = jax.device_put(
            (np.int32(self.round), np.int32(periods)), self.place.home
        )
        parts = zip(
            self._links, self._constants, self._carries, self._link_keys, strict=True
        )
        drawn = [
            links.draw(constants, carry, keys, first, count, most=self.most)
            for links, constants, carry, keys in parts
        ]
        self._carries = [carry for carry, _ in drawn]
        links = drawn[0][1]
        if len(drawn) > 1:
            links = _joined(
                [links for _, links in drawn], tuple(itertools.chain(*self._parts))
            )
        if self.place.is_mesh:
            links, count = self.place.put((links, count))
        if self._advance is None:
            (self._advance,) = self._programs.compile([self])
        arguments = self._states, self._keys, links, count, self._columns, self.problem
        self._states, measured = self.place.start(self._advance, *arguments)
        self._started.append((periods, measured))
        self.round += periods * self._period

    def collect(self) -> list[list[dict[str, Any]]]:
        """Waits for the periods that were started first.

        Returns:
          Of each period one record per lane: sums over the rounds, evaluations, and whether all is
          finite; where it is not, ``first_bad_round``, the round (from 0) since which.
        """
        periods, measured = self._started.popleft()
        self.done += periods * self._period
        columns = self._columns_of(measured)
        return [
            [_record(columns, (i, k)) for i in range(len(self.lanes))]
            for k in range(periods)
        ]

    def evaluate(self) -> list[dict[str, Any]]:
        """The lanes' models as they are: records without sums over rounds."""
        given = self._init_keys, self._keys, self._columns, self.problem
        columns = self._columns_of(self.program.evaluate(*given))
        return [_record(columns, (i,)) for i in range(len(self.lanes))]

    def _columns_of(self, measured: Measured) -> dict[str, np.ndarray]:
        """What was measured, with a lane's axis, by the names in a line of metrics."""
        host = jax.device_get(measured)
        if not self._together:
            host = jax.tree.map(lambda a: a[None], host)
        sums = {} if host.sums is None else {**host.sums._asdict(), **host.sums.extra}
        return {
            'finite': host.finite,
            **{f'rounds/{name}': a for name, a in sums.items() if name != 'extra'},
            **{
                f'{model}/{name}': a
                for model, of in host.evals.items()
                for name, a in of.items()
            },
            'first_bad_round': host.first_bad_round,
        }

    def _filled(self, of_lanes: Sequence[Any]) -> list[Any]:
        """What the lanes have, for all of the width."""
        return [*of_lanes, *[of_lanes[-1]] * (self.width - len(of_lanes))]

    def _stack(self, trees: Sequence[PyTree]) -> PyTree:
        """What lanes have, as their program takes it."""
        if not self._together:
            return trees[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnames='places')
def _joined(parts: Sequence[PyTree], places: tuple[int, ...]) -> PyTree:
    """What lanes of several patterns have, in the order of lanes, of which the places are given."""
    order = np.argsort(places)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)


def _record(
    columns: Mapping[str, np.ndarray], place: tuple[int, ...]
) -> dict[str, Any]:
    record = {name: column[place] for name, column in columns.items()}
    if record['finite']:
        del record['first_bad_round']
    return record


def _row(rows: PyTree, place: int) -> Any:
    return jax.tree.map(lambda a: a[place], rows)
