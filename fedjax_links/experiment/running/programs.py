"""The compiled programs of an experiment: of a pattern's links, and of an algorithm.

The links of some periods are drawn by the pattern's own small program and handed to the
algorithm's, so there are as many programs as algorithms plus patterns. How many periods they
advance is an argument: it changes no bit, and nothing is compiled again for it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.base import Array, FederationState, Key, Links, Participation, Problem, PyTree
from fedjax_links.core import errors, memory, meshes, prng, tree
from fedjax_links.experiment.plan import families, makers
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.machines import devices, processes
from fedjax_links.machines.devices import Place

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment
    from fedjax_links.experiment.running.groups import Group

_MOST_PERIODS = 64
_LINK_BYTES = 2**24


class LinkProgram(NamedTuple):
    """What draws the links of one pattern.

    Attributes:
      start: ``key -> carry`` before the first round, jitted.
      draw: ``(carry, key, first round, count, most=K) -> (carry, links)``, those of ``count``
        periods of E rounds, leaves [K, E, ...], jitted; a lane's axis comes before.
      sample: shapes and dtypes of a round's links.
    """

    start: Callable[[Key], PyTree]
    draw: Callable[..., tuple[PyTree, Links]]
    sample: Links


class Measured(NamedTuple):
    """What a period gives.

    Attributes:
      finite: bool[], whether the server model and all losses so far are finite.
      first_bad_round: int32[], the first round after which they are not; -1 if they are.
      sums: a `RoundMetrics` of sums over the rounds; None for no round.
      evals: what was measured of each model, by names.
    """

    finite: Any
    first_bad_round: Any
    sums: Any
    evals: Any


class Program(NamedTuple):
    """What trains the lanes of one algorithm, problem and set of built-in values.

    Attributes:
      start: ``(key, columns, problem) -> state`` before the first round, jitted.
      advance: ``(state, key, links, count, columns, problem) -> (state, measured)``, ``count`` of K
        periods, whose `Measured` has leaves [K, ...], jitted; the state is donated.
      evaluate: ``(key, keys of training, columns, problem) -> Measured`` of the state that
        ``start`` makes, jitted.
      layout: ``(key, columns, problem) -> how the state lies on a mesh``; None without one.
    """

    start: Any
    advance: Any
    evaluate: Any
    layout: Callable[..., meshes.Layout] | None


class Programs:
    """The programs of an experiment, each built when it is first asked for.

    Attributes:
      side_by_side: whether lanes run in one program, elsewhere than on a CPU.
      places: where lanes run at the same time.
    """

    def __init__(
        self,
        experiment: 'Experiment',
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
        self._links: dict[int, LinkProgram] = {}
        self._training: dict[Any, Program] = {}
        self._begun: dict[Any, Future[Any]] = {}
        self._compiled: dict[Any, Any] = {}
        self._placed: dict[Any, Problem] = {}
        self._threads = ThreadPoolExecutor(max(8, 2 * len(self.places)))

    def key(self, lane: Lane) -> Any:
        """Lanes with the same key can share a program."""
        _, built_in = split(self.experiment, lane)
        leaves, kind = jax.tree.flatten(self.links(self.experiment.plan.pattern_of(lane)).sample)
        shapes = tuple(leaf.shape for leaf in leaves)
        problem = families.kind_of(self.experiment.plan.problem_of(lane))
        return lane.algorithm, repr(built_in), problem, kind, shapes

    def one_of_each(self, lanes: Sequence[Lane]) -> list[Lane]:
        """The first lane of each program."""
        return list({self.key(lane): lane for lane in reversed(lanes)}.values())[::-1]

    def training(self, lane: Lane, place: Place, varying: Sequence[bool]) -> Program:
        """The program of a lane; one device is like another, a mesh is not.

        Args:
          lane: any that has it.
          place: where it runs.
          varying: for each leaf of the problem, whether lanes side by side differ in it.
        """
        key = self.key(lane), place if place.is_mesh else None, varying
        if key not in self._training:
            kind = jax.tree.structure(self.experiment.plan.problem_of(lane))
            axes = jax.tree.unflatten(kind, [0 if varies else None for varies in varying])
            together = axes if self.side_by_side else None
            self._training[key] = _program(self.experiment, lane, place, together)
        return self._training[key]

    def links(self, pattern: Participation) -> LinkProgram:
        """The program of a pattern."""
        if id(pattern) not in self._links:
            period, together = self.experiment.eval_every, self.side_by_side
            self._links[id(pattern)] = _link_program(pattern, period, side_by_side=together)
        return self._links[id(pattern)]

    def begin(self, group: 'Group', function: Any, inputs: Callable[[], Any]) -> None:
        """Begins to compile, in a thread, what is not compiled yet.

        All else is done here and now, under the settings of JAX that hold here.

        Args:
          group: whose program it is.
          function: ``start`` or ``advance`` of the program.
          inputs: gives what it takes, or the shapes.
        """
        key = function, *self._where(group)
        if key not in self._begun and key not in self._compiled:
            group.settle()
            self._begun[key] = self._threads.submit(function.lower(*inputs()).compile)

    def compile(self, groups: Sequence['Group']) -> None:
        """Compiles what trains each group's lanes, for all their devices at the same time.

        Raises:
          ValueError: if one is known not to fit.
        """
        for group in groups:
            self.begin(group, group.program.advance, group.inputs)
        every = {(group.program.advance, *self._where(group)): group for group in groups}
        new = {key: group for key, group in every.items() if key not in self._compiled}
        done = [self._begun.pop(key).result() for key in new]

        def check() -> None:
            free = memory.available_bytes()
            for group, compiled in zip(new.values(), done, strict=True):
                needed = memory.peak_bytes(compiled, group.place.num_copies)
                memory.refuse_if_above(free, needed or 0, group.lanes[0].algorithm)

        processes.do_in_all(check)
        self._compiled |= zip(new, done, strict=True)

    def fit(self, groups: Sequence['Group']) -> bool:
        """Whether no group is known to be too large, each for its device; those are compiled."""
        try:
            self.compile(groups)
        except errors.InvalidError:
            return False
        return True

    def compiled(self, group: 'Group') -> Any:
        """What trains a group's lanes, compiled; refused if it is known not to fit."""
        self.compile([group])
        return self._compiled[group.program.advance, *self._where(group)]

    def start(self, group: 'Group', *given: Any) -> FederationState:
        """The states of a group's lanes before their first round."""
        start = group.program.start
        self.begin(group, start, lambda: given)
        started: FederationState = self._begun[start, *self._where(group)].result()(*given)
        return started

    def placed(self, problem: Problem, place: Place) -> Problem:
        """A problem where a lane runs."""
        key = id(problem), place.devices
        if key not in self._placed:
            self._placed[key] = place.put(problem)
        return self._placed[key]

    def num_at_a_time(self, lane: Lane, num_lanes: int) -> int:
        """How many lanes like this one run in one program or, on a CPU, at the same time."""
        needed = lane_bytes(self.experiment, lane)
        if self.side_by_side:
            return memory.lanes_that_fit(needed, num_lanes)
        needed += tree.num_bytes(self.experiment.plan.problem_of(lane))
        wanted = min(num_lanes, len(self.places))
        return memory.lanes_that_fit(self.places[0].num_copies * needed, wanted)

    def forget(self, label: str) -> None:
        """Lets go of the programs of an algorithm that is done."""
        for key in [key for key in self._training if key[0][0] == label]:
            gone = self._training.pop(key)
            self._begun = {k: v for k, v in self._begun.items() if k[0] not in gone}
        self._compiled.clear()
        self._placed.clear()

    def _where(self, group: 'Group') -> Any:
        return group.width, group.place.devices


def split(experiment: 'Experiment', lane: Lane) -> tuple[dict[str, np.float32], dict[str, Any]]:
    """The columns of a lane's algorithm: arguments of its program, and what is built into it."""
    values = experiment.plan.algorithms[lane.algorithm].at(lane.point)
    traced = {k: np.float32(v) for k, v in values.items() if not makers.is_built_in(v)}
    return traced, {name: v for name, v in values.items() if name not in traced}


def algorithm_of(experiment: 'Experiment', lane: Lane) -> Callable[[Mapping[str, Any]], Any]:
    """What makes the algorithm of a lane at values of the columns that are arguments."""
    _, built_in = split(experiment, lane)
    return lambda columns: experiment.algorithm_at(lane.algorithm, {**built_in, **columns})


def state_shape(experiment: 'Experiment', lane: Lane) -> FederationState:
    """The shapes of a lane's state, with the pattern's carry."""
    algorithm, pattern = algorithm_of(experiment, lane), experiment.plan.pattern_of(lane)

    def start(key: Key, columns: Mapping[str, Any], problem: Problem) -> FederationState:
        return simulation.init(key, algorithm(columns), pattern, problem)

    columns, problem = split(experiment, lane)[0], experiment.plan.problem_of(lane)
    return jax.eval_shape(start, jax.random.key(0), columns, problem)


def lane_bytes(experiment: 'Experiment', lane: Lane) -> int:
    """Bytes of a lane's state and of one period of its links, without the work of a round."""
    state = state_shape(experiment, lane)
    return tree.num_bytes(state) + experiment.eval_every * tree.num_bytes(state.links)


def most_periods(sample: Links, period: int, width: int = 1) -> int:
    """K, how many periods a program can advance at once: their links are all there before.

    Args:
      sample: what a pattern draws in a round, or its shapes.
      period: rounds of one.
      width: lanes side by side.
    """
    size = width * period * tree.num_bytes(sample)
    return max(1, min(_MOST_PERIODS, _LINK_BYTES // max(1, size)))


def _link_program(pattern: Participation, period: int, *, side_by_side: bool) -> LinkProgram:
    """What draws the links of a pattern, ``period`` rounds at a time.

    Carries, keys and links of lanes side by side have a leading axis.
    """

    def start(key: Key) -> PyTree:
        return pattern.init(prng.pattern_key(key))

    def draw_links(
        carry: PyTree, key: Key, first: Array, count: Array, *, most: int
    ) -> tuple[PyTree, Links]:
        def turn(key: Key, carry: PyTree, place: Array) -> tuple[PyTree, Links]:
            rounds = first + place * period + jnp.arange(period, dtype=jnp.int32)
            return simulation.draw(carry, key, pattern, rounds)

        def of_lane(carry: PyTree, key: Key) -> tuple[PyTree, Links]:
            return _in_turn(functools.partial(turn, key), carry, count, most)

        return (jax.vmap(of_lane) if side_by_side else of_lane)(carry, key)

    begin = jax.vmap(start) if side_by_side else start
    draw = jax.jit(draw_links, static_argnames='most')
    return LinkProgram(jax.jit(begin), draw, simulation.sample_shapes(pattern))


def _program(experiment: 'Experiment', lane: Lane, place: Place, axes: Any) -> Program:
    """The program of a lane and of all that share it.

    Args:
      experiment: whose lane.
      lane: any of them.
      place: where they run.
      axes: where problems of lanes side by side have their lane, as `jax.vmap` takes it; None for
        lanes on their own.
    """
    algorithm, eval_fn = algorithm_of(experiment, lane), experiment.plan.eval_fn
    sample = simulation.sample_shapes(experiment.plan.pattern_of(lane))

    def start(on: Any, key: Key, columns: Mapping[str, Any], problem: Problem) -> FederationState:
        return simulation.init(key, algorithm(columns), sample, problem, mesh=on)

    def measure(state: FederationState, sums: Any, key: Key, own: Any, problem: Problem) -> Any:
        evals = simulation.evaluate(state, key, own, problem, eval_fn(problem))
        return Measured(state.finite, state.first_bad_round, sums, evals)

    def train(
        state: FederationState,
        key: Key,
        links: Links,
        count: Array,
        columns: Mapping[str, Any],
        problem: Problem,
    ) -> tuple[FederationState, Any]:
        own = algorithm(columns)

        def turn(state: FederationState, place: Array) -> tuple[FederationState, Measured]:
            drawn = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, place, 0, False), links)
            state, rounds = simulation.advance(state, key, drawn, own, problem)
            sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), rounds)
            return state, measure(state, sums, key, own, problem)

        return _in_turn(turn, state, count, len(jax.tree.leaves(links)[0]))

    def evaluate(key: Key, own: Key, columns: Mapping[str, Any], problem: Problem) -> Any:
        state = start(None, key, columns, problem)
        return measure(state, None, own, algorithm(columns), problem)

    begin: Any = functools.partial(start, place.mesh)
    advance: Any = train
    layout = None
    if place.mesh is not None:
        layout = functools.partial(meshes.Layout, functools.partial(start, None), place.mesh)
        lies, share = layout, lambda *given: (*train(*given), ())

        def advance(state: FederationState, key: Key, *given: Any) -> Any:
            return lies(key, *given[2:]).advance(share, state, key, *given)[:2]

    if axes is not None:
        begin = jax.vmap(begin, in_axes=(0, 0, axes))
        advance = jax.vmap(advance, in_axes=(0, 0, 0, None, 0, axes))
        evaluate = jax.vmap(evaluate, in_axes=(0, 0, 0, axes))
    return Program(jax.jit(begin), jax.jit(advance, donate_argnums=0), jax.jit(evaluate), layout)


def _in_turn(
    step: Callable[[PyTree, Array], tuple[PyTree, PyTree]], carry: PyTree, count: Array, most: int
) -> tuple[PyTree, PyTree]:
    """The first turns of a scan, whose number the compiler does not know.

    Args:
      step: ``(carry, place) -> (carry, output)``.
      carry: before the first.
      count: int32[], how many to take.
      most: K, at least as many.

    Returns:
      The carry after them, and the outputs, leaves [K, ...]; zero where none was taken.
    """
    _, shapes = jax.eval_shape(step, carry, jnp.int32(0))
    outputs = jax.tree.map(lambda a: jnp.zeros((most, *a.shape), a.dtype), shapes)

    def turn(place: Array, so_far: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        carry, output = step(so_far[0], place)
        return carry, jax.tree.map(lambda a, new: a.at[place].set(new), so_far[1], output)

    done: tuple[PyTree, PyTree] = jax.lax.fori_loop(0, count, turn, (carry, outputs))
    return done
