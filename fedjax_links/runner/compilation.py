"""Builds the programs of an experiment: some draw links, the others train.

A lane is one simulation (`planning.lanes.Lane`). Its rounds run in periods: the ``eval_every``
rounds from one evaluation to the next. A small program draws the links of some periods, and the
training program takes these links.

Arrays that a pattern closes over are arguments of its link program. So patterns share one program
if only their arrays differ, such as link probabilities by seed. The number of periods is an
argument, too: it changes no bit, and nothing is compiled again for it.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
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
from fedjax_links.core import contracts, jaxprs, mesh_layouts, prng, tree
from fedjax_links.core.grids import Point
from fedjax_links.machines.devices import DeviceSlot
from fedjax_links.machines.lanes import row_of, scan_first
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan

# Limits of one dispatch. Its links are all drawn before its first period.
_MAX_PERIODS = 64
_LINK_BYTES = 2**24


class TracedPattern(NamedTuple):
    """Holds a pattern as traced, apart from the arrays that it closes over.

    Attributes:
      structure: equal for patterns that differ in these arrays alone.
      constants: the arrays of the pattern's ``init``, and the arrays of its ``sample``.
      sample: shapes and dtypes of a round's links.
      bind: ``constants -> pattern``, for use within a program.
    """

    structure: Hashable
    constants: PyTree
    sample: Links
    bind: Callable[[PyTree], base.Participation]


class LinkProgram(NamedTuple):
    """Draws the links of patterns with the same `TracedPattern.structure`.

    Attributes:
      start: ``(constants, key) -> carry`` before the first round, jitted.
      draw: ``(constants, carry, key, first round, count, max_periods=K) -> (carry, links)``,
        jitted. It draws ``count`` periods of E rounds; leaves are [K, E, ...], after an axis of
        lanes if there is one.
    """

    start: Callable[[PyTree, Key], PyTree]
    draw: Callable[..., tuple[PyTree, Links]]


class PeriodMetrics(NamedTuple):
    """Holds what is measured of a lane after a period.

    Attributes:
      finite: bool[], whether the server model and all losses so far are finite.
      first_bad_round: int32[], the first round after which ``finite`` is False; -1 if it is True.
      sums: metrics summed over the rounds; None before the first round.
      evals: metrics by name, of each candidate model.
    """

    finite: Array
    first_bad_round: Array
    sums: RoundMetrics | None
    evals: Mapping[str, Mapping[str, Array]]


class TrainingProgram(NamedTuple):
    """Trains the lanes of one algorithm, problem and set of built-in values.

    ``columns`` are an algorithm's values at a grid point that are arguments of the program
    (`traced_columns`).

    Attributes:
      start: ``(params, key, columns, problem) -> state`` before the first round, jitted. If
        ``params`` is None, as on a mesh, ``start`` makes the parameters from the key.
      advance: ``(state, key, links, count, columns, problem) -> (state, metrics)``, jitted. It
        advances ``count`` of K periods. ``metrics`` are `PeriodMetrics` with leaves [K, ...]. The
        state is donated.
      evaluate: ``(key, training key, columns, problem) -> PeriodMetrics`` of the state that
        ``start`` makes, jitted.
      layout: ``(None, key, columns, problem) -> layout of the state on a mesh``, with None for the
        parameters of ``start``; None without a mesh.
    """

    start: jax.stages.Wrapped
    advance: jax.stages.Wrapped
    evaluate: jax.stages.Wrapped
    layout: Callable[..., mesh_layouts.Layout] | None


@functools.partial(jax.jit, static_argnums=0)
def initial_params(init_params: Callable[[Key], Params], key: Key) -> Params:
    """Makes the parameters that a lane begins with, by one program for all algorithms.

    Args:
      init_params: of a problem.
      key: of the lane; or the keys of lanes side by side, [L].
    """
    make = functools.partial(simulation.initial_params, init_params)
    return jax.vmap(make)(key) if key.ndim else make(key)


def traced_columns(plan: Plan, lane: Lane) -> dict[str, np.float32]:
    """Returns the columns of a lane's algorithm that are arguments of its program."""
    values = plan.algorithms[lane.algorithm].at(lane.point)
    return {
        name: np.float32(value)
        for name, value in values.items()
        if not parametrized.is_built_in(value)
    }


def built_in_columns(plan: Plan, lane: Lane) -> dict[str, object]:
    """Returns the columns of a lane's algorithm that are built into its program."""
    values = plan.algorithms[lane.algorithm].at(lane.point)
    return {
        name: value for name, value in values.items() if parametrized.is_built_in(value)
    }


def algorithm_maker(plan: Plan, lane: Lane) -> Callable[[Point], Algorithm]:
    """Returns a function that makes a lane's algorithm from its `traced_columns`."""
    built_in = built_in_columns(plan, lane)

    def make(columns: Point) -> Algorithm:
        return plan.algorithm_at(lane.algorithm, {**built_in, **columns})

    return make


def state_shape(plan: Plan, lane: Lane) -> FederationState:
    """Returns the shapes of a lane's state; the state includes the pattern's carry."""
    make_algorithm = algorithm_maker(plan, lane)
    pattern = plan.pattern_of(lane)

    def start(key: Key, columns: Point, problem: Problem) -> FederationState:
        return simulation.init(key, make_algorithm(columns), pattern, problem)

    columns = traced_columns(plan, lane)
    problem = plan.problem_of(lane)
    return jax.eval_shape(start, jax.random.key(0), columns, problem)


def lane_bytes(plan: Plan, lane: Lane) -> int:
    """Counts the bytes of a lane's state and of one period of its links.

    Temporary arrays within a round are not counted.
    """
    state = state_shape(plan, lane)
    return tree.num_bytes(state) + plan.eval_every * tree.num_bytes(state.links)


def most_periods(sample: Links, period: int, width: int = 1) -> int:
    """Returns K, how many periods a program advances at once.

    The links of all K periods are drawn before the first period, so the memory for links bounds K.

    Args:
      sample: what a pattern draws in a round, or its shapes.
      period: E, the rounds of a period.
      width: lanes side by side.
    """
    size = width * period * tree.num_bytes(sample)
    return max(1, min(_MAX_PERIODS, _LINK_BYTES // max(1, size)))


def trace_pattern(pattern: base.Participation) -> TracedPattern:
    """Traces a pattern and splits off the arrays that it closes over."""
    key = jax.eval_shape(jax.random.key, 0)
    round = jax.ShapeDtypeStruct((), jnp.int32)
    init = jaxprs.trace(pattern.init, key)
    sample = jaxprs.trace(pattern.sample, init.shapes, key, round)

    def bind(constants: PyTree) -> base.Participation:
        init_constants, sample_constants = constants
        return pattern._replace(
            init=init.bind(init_constants), sample=sample.bind(sample_constants)
        )

    structure = init.structure, sample.structure, pattern.num_clients
    return TracedPattern(
        structure, (init.constants, sample.constants), sample.shapes[1], bind
    )


def link_program(pattern: TracedPattern, period: int, axes: PyTree) -> LinkProgram:
    """Builds the program that draws the links of patterns of one structure.

    Args:
      pattern: any pattern of that structure.
      period: E, the rounds of a period.
      axes: for lanes side by side, the axis of lanes in each constant, as `jax.vmap` takes it.
        Carries, keys and links then have a leading axis of lanes. None for single lanes.
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
        max_periods: int,
    ) -> tuple[PyTree, Links]:
        def draw_lane(
            constants: PyTree, carry: PyTree, key: Key
        ) -> tuple[PyTree, Links]:
            bound = pattern.bind(constants)

            def draw_period(carry: PyTree, index: Array) -> tuple[PyTree, Links]:
                rounds = first + index * period + jnp.arange(period, dtype=jnp.int32)
                return simulation.draw(carry, key, bound, rounds)

            return scan_first(draw_period, carry, count, max_periods)

        if axes is None:
            return draw_lane(constants, carry, key)
        return jax.vmap(draw_lane, in_axes=(axes, 0, 0))(constants, carry, key)

    start_lanes = start if axes is None else jax.vmap(start, in_axes=(axes, 0))
    return LinkProgram(
        jax.jit(start_lanes), jax.jit(draw_links, static_argnames='max_periods')
    )


def training_program(
    plan: Plan, lane: Lane, slot: DeviceSlot, axes: PyTree
) -> TrainingProgram:
    """Builds the training program of a lane, which other lanes may share.

    Args:
      plan: of the experiment.
      lane: any of the lanes that share the program.
      slot: the device slot that these lanes run on.
      axes: for lanes side by side, the axis of lanes in each leaf of the problem, as `jax.vmap`
        takes it; None for single lanes.
    """
    make_algorithm = algorithm_maker(plan, lane)
    eval_fn = plan.eval_fn
    sample = simulation.sample_shapes(plan.pattern_of(lane))

    def make_state(
        mesh: jax.sharding.Mesh | None,
        params: Params | None,
        key: Key,
        columns: Point,
        problem: Problem,
    ) -> FederationState:
        if params is not None:
            problem = dataclasses.replace(problem, init_params=lambda _: params)
        algorithm = make_algorithm(columns)
        return simulation.init(key, algorithm, sample, problem, mesh=mesh)

    def measure(
        state: FederationState,
        sums: RoundMetrics | None,
        key: Key,
        algorithm: Algorithm,
        problem: Problem,
    ) -> PeriodMetrics:
        evals = simulation.evaluate(state, key, algorithm, problem, eval_fn(problem))
        return PeriodMetrics(state.finite, state.first_bad_round, sums, evals)

    def train(
        state: FederationState,
        key: Key,
        links: Links,
        count: Array,
        columns: Point,
        problem: Problem,
    ) -> tuple[FederationState, PeriodMetrics]:
        algorithm = make_algorithm(columns)

        def train_period(
            state: FederationState, index: Array
        ) -> tuple[FederationState, PeriodMetrics]:
            period_links = row_of(links, index)
            state, rounds = simulation.advance(
                state, key, period_links, algorithm, problem
            )
            contracts.check_extra_metrics(rounds)
            sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), rounds)
            return state, measure(state, sums, key, algorithm, problem)

        max_periods = len(jax.tree.leaves(links)[0])
        with plan.precision():
            return scan_first(train_period, state, count, max_periods)

    def evaluate(
        key: Key, training_key: Key, columns: Point, problem: Problem
    ) -> PeriodMetrics:
        state = make_state(None, None, key, columns, problem)
        with plan.precision():
            return measure(state, None, training_key, make_algorithm(columns), problem)

    start: Any = functools.partial(make_state, slot.mesh)
    advance: Any = train
    layout = None
    if slot.mesh is not None:
        make_on_device = functools.partial(make_state, None)
        layout = functools.partial(mesh_layouts.Layout, make_on_device, slot.mesh)
        advance = _train_on_mesh(train, layout)
    if axes is not None:
        start = jax.vmap(start, in_axes=(0, 0, 0, axes))
        advance = jax.vmap(advance, in_axes=(0, 0, 0, None, 0, axes))
        evaluate = jax.vmap(evaluate, in_axes=(0, 0, 0, axes))
    return TrainingProgram(
        jax.jit(start), jax.jit(advance, donate_argnums=0), jax.jit(evaluate), layout
    )


def _train_on_mesh(
    train: Callable[..., tuple[FederationState, PeriodMetrics]],
    layout: Callable[..., mesh_layouts.Layout],
) -> Callable[..., tuple[FederationState, PeriodMetrics]]:
    """Returns ``train`` for a state whose client tables are divided over a mesh."""

    def train_on_device(*arguments: PyTree) -> tuple[PyTree, ...]:
        state, metrics = train(*arguments)
        # A layout takes functions of two outputs; the second one is empty here.
        return state, metrics, ()

    def advance(
        state: FederationState,
        key: Key,
        links: Links,
        count: Array,
        columns: Point,
        problem: Problem,
    ) -> tuple[FederationState, PeriodMetrics]:
        state_layout = layout(None, key, columns, problem)
        state, metrics, _ = state_layout.advance(
            train_on_device, state, key, links, count, columns, problem
        )
        return state, metrics

    return advance
