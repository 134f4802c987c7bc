"""What the programs of an experiment compute: the links of a pattern, and what an algorithm does.

The links of some periods are drawn by a small program of their own and handed to the algorithm's.
Arrays that a pattern closes over are arguments of its program. So patterns that differ in arrays
alone, such as the link probabilities of several seeds, share one; and there are as many programs of
algorithms as algorithms times forms of links. How many periods they advance is an argument: it
changes no bit, and nothing is compiled again for it.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import (
    Algorithm,
    Array,
    FederationState,
    Key,
    Links,
    Params,
    Problem,
    PyTree,
    RoundMetrics,
)
from fedjax_links.core import jaxprs, mesh_layouts, prng, tree
from fedjax_links.core.grids import Point
from fedjax_links.machines.devices import DeviceSlot
from fedjax_links.machines.lanes import row_of, scan_first
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan

_MOST_PERIODS = 64
_LINK_BYTES = 2**24


class TracedPattern(NamedTuple):
    """A pattern as traced, apart from the arrays that it closes over.

    Attributes:
      structure: equal for patterns that differ in these arrays alone.
      constants: the arrays, those of ``init`` and those of ``sample``.
      sample: shapes and dtypes of a round's links.
      bind: ``constants -> pattern``, for use within a program.
    """

    structure: Hashable
    constants: PyTree
    sample: Links
    bind: Callable[[PyTree], base.Participation]


class LinkProgram(NamedTuple):
    """What draws the links of patterns of one structure.

    Attributes:
      start: ``(constants, key) -> carry`` before the first round, jitted.
      draw: ``(constants, carry, key, first round, count, most=K) -> (carry, links)``, those of
        ``count`` periods of E rounds, leaves [K, E, ...], jitted; a lane's axis comes before.
    """

    start: Callable[[PyTree, Key], PyTree]
    draw: Callable[..., tuple[PyTree, Links]]


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
      start: ``(params, key, columns, problem) -> state`` before the first round, jitted; the
        parameters are made from the key where they are None, as on a mesh.
      advance: ``(state, key, links, count, columns, problem) -> (state, measured)``, ``count`` of K
        periods, whose `Measured` has leaves [K, ...], jitted; the state is donated.
      evaluate: ``(key, keys of training, columns, problem) -> Measured`` of the state that
        ``start`` makes, jitted.
      layout: ``(None, key, columns, problem) -> how the state lies on a mesh``; None without one.
    """

    start: Any
    advance: Any
    evaluate: Any
    layout: Callable[..., mesh_layouts.Layout] | None


@functools.partial(jax.jit, static_argnums=0)
def initial_params(init_params: Callable[[Key], Params], key: Key) -> Params:
    """The parameters that a lane begins with, by one program for all algorithms.

    Args:
      init_params: of a problem.
      key: of the lane; or of lanes side by side, [L].
    """
    make = functools.partial(simulation.initial_params, init_params)
    return jax.vmap(make)(key) if key.ndim else make(key)


def split(plan: Plan, lane: Lane) -> tuple[dict[str, np.float32], dict[str, object]]:
    """The columns of a lane's algorithm: arguments of its program, and what is built into it."""
    values = plan.algorithms[lane.algorithm].at(lane.point)
    traced = {
        k: np.float32(v) for k, v in values.items() if not parametrized.is_built_in(v)
    }
    return traced, {name: v for name, v in values.items() if name not in traced}


def algorithm_of(plan: Plan, lane: Lane) -> Callable[[Point], Algorithm]:
    """What makes the algorithm of a lane at values of the columns that are arguments."""
    _, built_in = split(plan, lane)
    return lambda columns: plan.algorithm_at(lane.algorithm, {**built_in, **columns})


def state_shape(plan: Plan, lane: Lane) -> FederationState:
    """The shapes of a lane's state, with the pattern's carry."""
    algorithm, pattern = (
        algorithm_of(plan, lane),
        plan.pattern_of(lane),
    )

    def start(key: Key, columns: Point, problem: Problem) -> FederationState:
        return simulation.init(key, algorithm(columns), pattern, problem)

    columns, problem = split(plan, lane)[0], plan.problem_of(lane)
    return jax.eval_shape(start, jax.random.key(0), columns, problem)


def lane_bytes(plan: Plan, lane: Lane) -> int:
    """Bytes of a lane's state and of one period of its links, without the work of a round."""
    state = state_shape(plan, lane)
    return tree.num_bytes(state) + plan.eval_every * tree.num_bytes(state.links)


def most_periods(sample: Links, period: int, width: int = 1) -> int:
    """K, how many periods a program can advance at once: their links are all there before.

    Args:
      sample: what a pattern draws in a round, or its shapes.
      period: rounds of one.
      width: lanes side by side.
    """
    size = width * period * tree.num_bytes(sample)
    return max(1, min(_MOST_PERIODS, _LINK_BYTES // max(1, size)))


def trace_pattern(pattern: base.Participation) -> TracedPattern:
    """Traces a pattern and splits off the arrays that it closes over."""
    key, round = jax.eval_shape(jax.random.key, 0), jax.ShapeDtypeStruct((), jnp.int32)
    init = jaxprs.trace(pattern.init, key)
    sample = jaxprs.trace(pattern.sample, init.shapes, key, round)

    def bind(constants: PyTree) -> base.Participation:
        of_init, of_sample = constants
        return pattern._replace(init=init.bind(of_init), sample=sample.bind(of_sample))

    structure = init.structure, sample.structure, pattern.num_clients
    return TracedPattern(
        structure, (init.constants, sample.constants), sample.shapes[1], bind
    )


def link_program(pattern: TracedPattern, period: int, axes: PyTree) -> LinkProgram:
    """What draws the links of patterns of one structure, ``period`` rounds at a time.

    Args:
      pattern: any of them.
      period: rounds at a time.
      axes: where constants of lanes side by side have their lane, as `jax.vmap` takes it; None for
        lanes on their own. Carries, keys and links of lanes side by side have a leading axis.
    """

    def start(constants: PyTree, key: Key) -> PyTree:
        return pattern.bind(constants).init(prng.pattern_key(key))

    def draw_links(
        constants: PyTree,
        carry: PyTree,
        key: Key,
        first: Array,
        count: Array,
        *,
        most: int,
    ) -> tuple[PyTree, Links]:
        def of_lane(constants: PyTree, carry: PyTree, key: Key) -> tuple[PyTree, Links]:
            bound = pattern.bind(constants)

            def turn(carry: PyTree, index: Array) -> tuple[PyTree, Links]:
                rounds = first + index * period + jnp.arange(period, dtype=jnp.int32)
                return simulation.draw(carry, key, bound, rounds)

            return scan_first(turn, carry, count, most)

        if axes is None:
            return of_lane(constants, carry, key)
        return jax.vmap(of_lane, in_axes=(axes, 0, 0))(constants, carry, key)

    begin = start if axes is None else jax.vmap(start, in_axes=(axes, 0))
    return LinkProgram(jax.jit(begin), jax.jit(draw_links, static_argnames='most'))


def program(plan: Plan, lane: Lane, slot: DeviceSlot, axes: PyTree) -> Program:
    """The program of a lane and of all that share it.

    Args:
      plan: of the experiment.
      lane: any of them.
      slot: the device slot that they run on.
      axes: where problems of lanes side by side have their lane, as `jax.vmap` takes it; None for
        lanes on their own.
    """
    algorithm, eval_fn = algorithm_of(plan, lane), plan.eval_fn
    sample = simulation.sample_shapes(plan.pattern_of(lane))

    def start(
        on: jax.sharding.Mesh | None,
        params: Params | None,
        key: Key,
        columns: Point,
        problem: Problem,
    ) -> FederationState:
        if params is not None:
            problem = dataclasses.replace(problem, init_params=lambda _: params)
        return simulation.init(key, algorithm(columns), sample, problem, mesh=on)

    def measure(
        state: FederationState,
        sums: RoundMetrics | None,
        key: Key,
        own: Algorithm,
        problem: Problem,
    ) -> Measured:
        evals = simulation.evaluate(state, key, own, problem, eval_fn(problem))
        return Measured(state.finite, state.first_bad_round, sums, evals)

    def train(
        state: FederationState,
        key: Key,
        links: Links,
        count: Array,
        columns: Point,
        problem: Problem,
    ) -> tuple[FederationState, Measured]:
        own = algorithm(columns)

        def turn(
            state: FederationState, index: Array
        ) -> tuple[FederationState, Measured]:
            state, rounds = simulation.advance(
                state, key, row_of(links, index), own, problem
            )
            sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), rounds)
            return state, measure(state, sums, key, own, problem)

        with plan.precision():
            return scan_first(turn, state, count, len(jax.tree.leaves(links)[0]))

    def evaluate(key: Key, own: Key, columns: Point, problem: Problem) -> Measured:
        state = start(None, None, key, columns, problem)
        with plan.precision():
            return measure(state, None, own, algorithm(columns), problem)

    begin: Any = functools.partial(start, slot.mesh)
    advance: Any = train
    layout = None
    if slot.mesh is not None:
        layout = functools.partial(
            mesh_layouts.Layout, functools.partial(start, None), slot.mesh
        )
        lies, share = layout, lambda *given: (*train(*given), ())

        def advance(
            state: FederationState, key: Key, *given: PyTree
        ) -> tuple[FederationState, Measured]:
            return lies(None, key, *given[2:]).advance(share, state, key, *given)[:2]

    if axes is not None:
        begin = jax.vmap(begin, in_axes=(0, 0, 0, axes))
        advance = jax.vmap(advance, in_axes=(0, 0, 0, None, 0, axes))
        evaluate = jax.vmap(evaluate, in_axes=(0, 0, 0, axes))
    return Program(
        jax.jit(begin), jax.jit(advance, donate_argnums=0), jax.jit(evaluate), layout
    )
