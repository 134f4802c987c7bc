"""The compiled programs of an algorithm: one period of one lane, or of several side by side.

The links of a period are drawn by the pattern's own small program and handed to the algorithm's,
so there are as many programs as algorithms plus patterns, and memory holds one period of links.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import FederationState, Key, Links, Participation, Problem, PyTree
from fedjax_links.core import memory, meshes, tree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.looking import tables
from fedjax_links.experiment.plan.families import Family
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import drawing, training
from fedjax_links.experiment.running.training import Program, split
from fedjax_links.machines import devices, processes
from fedjax_links.machines.devices import Place


class Programs:
    """The programs of an experiment, each built when it is first asked for.

    Attributes:
      side_by_side: whether lanes run in one program, elsewhere than on a CPU.
      places: where lanes run at the same time.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        side_by_side: bool | None = None,
        places: Sequence[Place] | None = None,
    ) -> None:
        """Builds nothing yet.

        Args:
          experiment: what runs.
          side_by_side: see above; never on a mesh.
          places: devices or meshes; all devices of this process by default.
        """
        self.experiment = experiment
        self.places = devices.places() if places is None else list(places)
        alone = jax.default_backend() == 'cpu' or self.places[0].is_mesh
        self.side_by_side = not alone if side_by_side is None else side_by_side
        self._links: dict[int, drawing.LinkProgram] = {}
        self._training: dict[Any, Program] = {}
        self._compiled: dict[Any, Any] = {}
        self._placed: dict[Any, Problem] = {}

    def key(self, lane: Lane) -> Any:
        """Lanes with the same key can share a program and its data."""
        _, built_in = split(self.experiment, lane)
        pattern = self.experiment.pattern_at(lane.pattern, lane.point, lane.seed)
        leaves, kind = jax.tree.flatten(self.links(pattern).sample)
        shapes = tuple(leaf.shape for leaf in leaves)
        return lane.algorithm, repr(built_in), self._problem_key(lane), kind, shapes

    def _problem_key(self, lane: Lane) -> Any:
        """Lanes side by side share a family, lanes one by one any arrays of the same shapes."""
        if self.side_by_side:
            return id(self.family(lane))
        problem = self.experiment.problem_at(lane.pattern, lane.point, lane.seed)
        leaves, kind = jax.tree.flatten(problem)
        return kind, tuple((leaf.shape, leaf.dtype) for leaf in leaves)

    def family(self, lane: Lane) -> Family:
        """The problems that lanes with this one's program have."""
        problem = self.experiment.problem_at(lane.pattern, lane.point, lane.seed)
        return self.experiment.family_of(problem)

    def training(self, lane: Lane, place: Place) -> Program:
        """The program of a lane; one device is like another, a mesh is not."""
        key = self.key(lane), place if place.is_mesh else None
        if key not in self._training:
            family = self.family(lane) if self.side_by_side else None
            self._training[key] = training.build(self.experiment, lane, place, family)
        return self._training[key]

    def links(self, pattern: Participation) -> drawing.LinkProgram:
        """The program of a pattern."""
        if id(pattern) not in self._links:
            self._links[id(pattern)] = drawing.program(
                pattern, self.experiment.eval_every, side_by_side=self.side_by_side
            )
        return self._links[id(pattern)]

    def compile(self, groups: Sequence['Group']) -> None:
        """Compiles a period of each group's lanes, for all their devices at the same time.

        Raises:
          ValueError: if one is known not to fit.
        """
        sizes = self._compile(groups)

        def check() -> None:
            for group, needed in sizes:
                tables.refuse_if_above(self.experiment, group, needed, group.place.num_copies)

        processes.agreed(check)

    def fit(self, groups: Sequence['Group']) -> bool:
        """Whether no group is known to be too large, each for its device; those are compiled."""
        free = memory.available_bytes()
        sizes = self._compile(groups)
        if free is None or all(needed <= free for _, needed in sizes):
            return True
        for group, _ in sizes:
            del self._compiled[self._whose(group)]
        return False

    def _compile(self, groups: Sequence['Group']) -> list[tuple['Group', int]]:
        """Compiles what is new; the bytes that its groups need, where these are known."""
        new: dict[Any, Group] = {}
        for group in groups:
            key = self._whose(group)
            if key not in self._compiled and key not in new:
                group.settle()
                new[key] = group
        done = devices.compile_all([g.program.advance.lower(*g.inputs()) for g in new.values()])
        self._compiled |= zip(new, done, strict=True)
        peaks = [
            (group, memory.peak_bytes(compiled, group.place.num_copies))
            for group, compiled in zip(new.values(), done, strict=True)
        ]
        return [(group, needed) for group, needed in peaks if needed is not None]

    def compiled(self, group: 'Group') -> Any:
        """One period of a group's lanes, compiled; refused if it is known not to fit."""
        self.compile([group])
        return self._compiled[self._whose(group)]

    def placed(self, problem: Problem, place: Place) -> Problem:
        """A problem where a lane runs."""
        key = id(problem), place
        if key not in self._placed:
            self._placed[key] = place.put(problem)
        return self._placed[key]

    def num_at_a_time(self, lane: Lane, num_lanes: int) -> int:
        """How many lanes like this one run in one program or, on a CPU, at the same time."""
        if self.side_by_side:
            return memory.lanes_that_fit(self.lane_bytes(lane), num_lanes)
        group = Group(self, [lane])
        copied, divided = self.lane_bytes(lane) + tree.num_bytes(group.problem), 0
        if (layout := group.layout) is not None:
            tables = layout.tables(group.shapes()[0]._replace(participation=()))
            divided = tree.num_bytes([table for table, _ in tables])
        wanted, copies = min(num_lanes, len(self.places)), self.places[0].num_copies
        return memory.lanes_that_fit(copies * (copied - divided) + divided, wanted)

    def lane_bytes(self, lane: Lane) -> int:
        """Bytes of a lane's state and of one period of its links, without the work of a round.

        Side by side with others, those of the data that it has for itself, too.
        """
        (state,) = Group(self.alone, [lane]).shapes()
        data = self.family(lane).own_bytes if self.side_by_side else 0
        links = self.experiment.eval_every * tree.num_bytes(state.links)
        return tree.num_bytes(state) + links + data

    @functools.cached_property
    def alone(self) -> 'Programs':
        """Of lanes that run one by one on a device, to ask for shapes."""
        return Programs(self.experiment, side_by_side=False)

    def forget(self) -> None:
        """Lets go of the programs of algorithms that are done."""
        self._training.clear()
        self._compiled.clear()
        self._placed.clear()

    def _whose(self, group: 'Group') -> Any:
        return self.key(group.lanes[0]), len(group.lanes), group.place


class Group:
    """Lanes that run together: one, or several with the same program.

    Attributes:
      lanes: themselves.
      place: where they run.
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
        self.lanes = list(lanes)
        self.place = place or programs.places[0]
        self._programs = programs
        self._together = programs.side_by_side
        self._lead = (len(lanes),) if self._together else ()
        self._period = programs.experiment.eval_every
        experiment, first = programs.experiment, lanes[0]
        problems = [experiment.problem_at(lane.pattern, lane.point, lane.seed) for lane in lanes]
        self.problem = problems[0]
        self._is_joint = self._together and any(programs.family(first).varies)
        if self._is_joint:
            self.problem = programs.family(first).together(problems)
        self.program = programs.training(first, self.place)
        self._columns = self._stack([split(experiment, lane)[0] for lane in lanes])
        self._init_keys = self._keys_of('init')
        self._keys = self._keys_of('batches')
        self._link_keys = self._keys_of('links')  # patterns draw on one device
        self._patterns = [
            experiment.pattern_at(lane.pattern, lane.point, lane.seed) for lane in lanes
        ]
        self._links = [programs.links(pattern) for pattern in self._patterns]
        self._states: FederationState | None = None
        self._carries: list[PyTree] = []
        self._advance: Any = None
        self._outputs: tuple[Any, Any] | None = None
        self._is_settled = False
        self.round = 0

    def start(self) -> None:
        """Puts every lane before its first round."""
        self.settle()
        self._states = self.program.start(*self._beginning())
        self._carries = self._by_pattern(lambda links, keys, _: links.start(keys))

    def _beginning(self) -> tuple[Any, ...]:
        return self._init_keys, self._columns, self.problem

    def _keys_of(self, stream: str) -> Key:
        seed_of = self._programs.experiment.draws.seed_of
        seeds = [np.uint32(seed_of(stream, lane.seed, lane.point)) for lane in self.lanes]
        keys: Key = self._stack([jax.random.key(seed) for seed in seeds])
        return keys

    def inputs(self) -> tuple[Any, ...]:
        """The shapes of what one period of these lanes takes."""
        sharding = self.place.sharding
        states = jax.eval_shape(self.program.start, *self._beginning())
        if self.layout is not None:
            lying = jax.tree.unflatten(jax.tree.structure(states), self.layout.shardings)
            states = jax.tree.map(lambda a, s: _shape(a.shape, a.dtype, s), states, lying)
        links = jax.tree.map(
            lambda a: _shape((*self._lead, self._period, *a.shape), a.dtype, sharding),
            self._links[0].sample,
        )
        return states, self._keys, links, self._columns, self.problem

    def shapes(self) -> list[FederationState]:
        """The shapes of the lanes' states, with the pattern's carry, as `states` gives them."""
        if self.place.is_mesh:
            return Group(self._programs.alone, self.lanes).shapes()
        states = jax.eval_shape(self.program.start, *self._beginning())
        if self._together:
            states = jax.tree.map(lambda a: _shape(a.shape[1:], a.dtype), states)
        key = jax.random.key(0)
        carries = [jax.eval_shape(pattern.init, key) for pattern in self._patterns]
        return [states._replace(participation=carry) for carry in carries]

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
        leaves = self.place.put(self.layout.entered(alone[0]), self.layout.shardings)
        self._states = self.layout.left(leaves, in_shares=True)

    def settle(self) -> None:
        """Puts what all periods take where the lanes run."""
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

    @functools.cached_property
    def layout(self) -> meshes.Layout | None:
        """How the state of these lanes, of which a mesh has one, lies on it."""
        make = self.program.layout
        return None if make is None else make(*self._beginning())

    def states(self) -> list[FederationState]:
        """The lanes' states, with the patterns' carries."""
        assert self._states is not None
        alone = [self._states]
        if self._together:
            places = range(len(self.lanes))
            alone = [jax.tree.map(lambda a, i=i: a[i], self._states) for i in places]
        if self.layout is not None:
            alone = [self.layout.whole(self._states, processes.whole)]
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
        assert self._states is not None
        links = self._next_links()
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
        assert self._states is not None
        assert self._outputs is not None
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
        }
        host = {name: np.asarray(value) for name, value in record.items()}
        first_bad = np.asarray(self._states.first_bad_round)
        if not self._together:
            return [_marked(host, first_bad)]
        return [
            _marked({k: v[i] for k, v in host.items()}, first_bad[i])
            for i in range(len(self.lanes))
        ]

    def _next_links(self) -> Links:
        """Links of the coming period, leaves [E, ...], or [L, E, ...] for lanes side by side."""
        drawn = self._by_pattern(
            lambda links, keys, carries: links.draw(carries, keys, np.int32(self.round))
        )
        self._carries = [carry for carry, _ in drawn]
        links: Links = self._stack([links for _, links in drawn])
        return self.place.put(links) if self.place.is_mesh else links

    def _by_pattern(self, do: Callable[[drawing.LinkProgram, Key, PyTree], PyTree]) -> list[PyTree]:
        """What a pattern's program does for the keys and carries of its lanes, lane by lane."""
        carries = self._carries or [()] * len(self.lanes)
        if not self._together:
            return [do(self._links[0], self._link_keys, carries[0])]
        found: dict[int, PyTree] = {}
        for program in {id(links): links for links in self._links}.values():
            places = [i for i, links in enumerate(self._links) if links is program]
            together = self._stack([carries[i] for i in places])
            done = do(program, self._link_keys[jnp.array(places)], together)
            for row, place in enumerate(places):
                found[place] = jax.tree.map(lambda a, row=row: a[row], done)
        return [found[place] for place in range(len(self.lanes))]

    def _stack(self, trees: Sequence[PyTree]) -> PyTree:
        if not self._together:
            return trees[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _marked(record: dict[str, Any], first_bad_round: np.ndarray) -> dict[str, Any]:
    return record if record['finite'] else {**record, 'first_bad_round': first_bad_round}


def _shape(shape: tuple[int, ...], dtype: Any, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
