"""Lanes that run together, a period at a time."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import FederationState, Key, Links, PyTree
from fedjax_links.core import meshes
from fedjax_links.experiment.plan import families
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running.programs import LinkProgram, Programs, split
from fedjax_links.machines import processes
from fedjax_links.machines.devices import Place


class Group:
    """Lanes that run together: one, or several with the same program.

    Attributes:
      lanes: themselves.
      place: where they run.
      program: what trains them.
      problem: theirs, side by side where they differ.
      round: rounds behind every lane, those of a period that was started among them.
    """

    def __init__(
        self, programs: Programs, lanes: Sequence[Lane], place: Place | None = None
    ) -> None:
        """Prepares the lanes; their states come with `start` or `restore`.

        Args:
          programs: where their program is kept.
          lanes: with one program.
          place: where they run; the first of the programs' by default.
        """
        experiment = programs.experiment
        self.lanes = list(lanes)
        self.place = place or programs.places[0]
        self.round = 0
        self._programs, self._together = programs, programs.side_by_side
        self._period = experiment.eval_every
        problems = [experiment.plan.problem_of(lane) for lane in lanes]
        varying = families.varying(problems)
        self._is_joint = any(varying)
        self.problem = families.together(problems) if self._is_joint else problems[0]
        self.program = programs.training(lanes[0], self.place, varying)
        self._columns = self._stack([split(experiment, lane)[0] for lane in lanes])
        self._init_keys, self._keys, self._link_keys = (
            self._stack([experiment.plan.draws.key_of(s, lane.seed, lane.point) for lane in lanes])
            for s in ('init', 'batches', 'links')
        )
        self._links = [programs.links(experiment.plan.pattern_of(lane)) for lane in lanes]
        self._states: FederationState | None = None
        self._carries: list[PyTree] = []
        self._advance: Any = None
        self._outputs: tuple[Any, Any] = {}, {}
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
        self._link_keys = jax.device_put(self._link_keys, self.place.home)
        alone = self._keys, self._init_keys, self._columns
        self._keys, self._init_keys, self._columns = self.place.put(alone)

    def start(self) -> None:
        """Puts every lane before its first round."""
        self.settle()
        self._states = self._programs.start(self, *self.beginning())
        self._carries = self._by_pattern(lambda links, keys, _: links.start(keys))

    def restore(self, states: Sequence[FederationState]) -> None:
        """Puts every lane where an earlier process left it."""
        self.settle()
        (self.round,) = {int(state.round) for state in states}
        carries = [state.participation for state in states]
        self._carries = jax.device_put(carries, self.place.home)
        alone = [state._replace(participation=()) for state in states]
        if self.layout is None:
            self._states = self._stack(self.place.put(alone))
            return
        leaves = self.place.put(self.layout.enter(alone[0]), self.layout.shardings)
        self._states = self.layout.leave(leaves, in_shares=True)

    def inputs(self) -> tuple[Any, ...]:
        """The shapes of what one period of these lanes takes."""
        states = jax.eval_shape(self.program.start, *self.beginning())
        if self.layout is not None:
            lying = jax.tree.unflatten(jax.tree.structure(states), self.layout.shardings)
            states = jax.tree.map(lambda a, s: _shape(a.shape, a.dtype, s), states, lying)
        lead = (len(self.lanes), self._period) if self._together else (self._period,)
        links = jax.tree.map(
            lambda a: _shape((*lead, *a.shape), a.dtype, self.place.sharding),
            self._links[0].sample,
        )
        return states, self._keys, links, self._columns, self.problem

    def beginning(self) -> tuple[Any, ...]:
        """What the states of these lanes before their first round are made of."""
        return self._init_keys, self._columns, self.problem

    @functools.cached_property
    def layout(self) -> meshes.Layout | None:
        """How the state of these lanes, of which a mesh has one, lies on it."""
        make = self.program.layout
        return None if make is None else make(*self.beginning())

    def states(self) -> list[FederationState]:
        """The lanes' states, with the patterns' carries."""
        assert self._states is not None
        alone = [self._states]
        if self._together:
            lanes = range(len(self.lanes))
            alone = [jax.tree.map(lambda a, i=i: a[i], self._states) for i in lanes]
        if self.layout is not None:
            alone = [self.layout.join(self._states, processes.whole)]
        return [
            state._replace(participation=carry)
            for state, carry in zip(alone, self._carries, strict=True)
        ]

    def period(self) -> list[dict[str, Any]]:
        """Advances every lane by a period: `dispatch`, then `collect`."""
        self.dispatch()
        return self.collect()

    def dispatch(self) -> None:
        """Starts a period on the device, and does not wait."""
        drawn = self._by_pattern(
            lambda links, keys, carries: links.draw(carries, keys, np.int32(self.round))
        )
        self._carries = [carry for carry, _ in drawn]
        links: Links = self._stack([links for _, links in drawn])
        if self.place.is_mesh:
            links = self.place.put(links)
        if self._advance is None:
            self._advance = self._programs.compiled(self)
        self._states, self._outputs = self._advance(
            self._states, self._keys, links, self._columns, self.problem
        )
        self.round += self._period

    def collect(self) -> list[dict[str, Any]]:
        """Waits for the period that was started.

        Returns:
          One record per lane: sums over the rounds, evaluations, and whether all is finite; where
          it is not, ``first_bad_round``, the round (from 0) since which.
        """
        sums, evals = self._outputs
        named = {name: value for name, value in sums._asdict().items() if name != 'extra'}
        return self._records({f'rounds/{k}': v for k, v in {**named, **sums.extra}.items()}, evals)

    def evaluate(self) -> list[dict[str, Any]]:
        """The lanes' models as they are: records without sums over rounds."""
        evals = self.program.evaluate(self._init_keys, self._keys, self._columns, self.problem)
        return self._records({}, evals)

    def _records(self, sums: Mapping[str, Any], evals: Any) -> list[dict[str, Any]]:
        assert self._states is not None
        record = {
            'finite': self._states.finite,
            **sums,
            **{f'{m}/{name}': value for m, named in evals.items() for name, value in named.items()},
            'first_bad_round': self._states.first_bad_round,
        }
        host = {name: np.asarray(value) for name, value in record.items()}
        rows = [host]
        if self._together:
            rows = [{k: v[i] for k, v in host.items()} for i in range(len(self.lanes))]
        for row in rows:
            if row['finite']:
                del row['first_bad_round']
        return rows

    def _by_pattern(self, do: Callable[[LinkProgram, Key, PyTree], PyTree]) -> list[PyTree]:
        """What a pattern's program does for the keys and carries of its lanes, lane by lane."""
        carries = self._carries or [()] * len(self.lanes)
        if not self._together:
            return [do(self._links[0], self._link_keys, carries[0])]
        found: dict[int, PyTree] = {}
        for program in {id(links): links for links in self._links}.values():
            places = [i for i, links in enumerate(self._links) if links is program]
            together = self._stack([carries[i] for i in places])
            done = do(program, self._link_keys[jnp.array(places)], together)
            found |= {i: jax.tree.map(lambda a, k=k: a[k], done) for k, i in enumerate(places)}
        return [found[place] for place in range(len(self.lanes))]

    def _stack(self, trees: Sequence[PyTree]) -> PyTree:
        """What lanes have, as their program takes it."""
        if not self._together:
            return trees[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _shape(shape: tuple[int, ...], dtype: Any, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
