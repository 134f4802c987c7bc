"""The compiled program of an algorithm: its start, and one period of one lane or of several."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.base import FederationState, Key, Links, Problem
from fedjax_links.core import meshes
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import makers
from fedjax_links.experiment.plan.families import Family
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.machines.devices import Place


class Program(NamedTuple):
    """What trains the lanes of one algorithm, problem and set of built-in values.

    Attributes:
      start: ``(key, columns, problem) -> state`` before the first round, jitted.
      advance: ``(state, key, links, columns, problem) -> (state, record)``, one period, jitted;
        the state is donated.
      evaluate: ``(key, keys of training, columns, problem) -> evals`` of the state that ``start``
        makes, jitted.
      layout: ``(key, columns, problem) -> how the state lies on a mesh``; None without one.
    """

    start: Any
    advance: Any
    evaluate: Any
    layout: Callable[..., meshes.Layout] | None


def build(experiment: Experiment, lane: Lane, place: Place, family: Family | None) -> Program:
    """The program of a lane and of all that share it.

    Args:
      experiment: whose lane.
      lane: any of them.
      place: where they run.
      family: of the lane's problem, for lanes side by side; None for lanes on their own.

    Returns:
      The program.
    """
    _, built_in = split(experiment, lane)
    period = experiment.eval_every
    pattern = experiment.pattern_at(lane.pattern, lane.point, lane.seed)
    sample = simulation.sample_shapes(pattern)

    def algorithm(columns: Mapping[str, Any]) -> Any:
        return experiment.algorithm_at(lane.algorithm, {**built_in, **columns})

    def start(on: Any, key: Key, columns: Mapping[str, Any], problem: Problem) -> FederationState:
        return simulation.init(key, algorithm(columns), sample, problem, mesh=on)

    def train_period(
        state: FederationState,
        key: Key,
        links: Links,
        columns: Mapping[str, Any],
        problem: Problem,
    ) -> tuple[FederationState, Any]:
        result = simulation.simulate(
            key,
            algorithm(columns),
            links,
            problem,
            num_rounds=period,
            eval_every=period,
            eval_fn=experiment.eval_fn_for(problem),
            initial_state=state,
            mesh=place.mesh,
        )
        sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), result.rounds)
        evals = jax.tree.map(lambda a: a[0], result.evals)
        return result.state, (sums, evals)

    def evaluate(key: Key, own: Key, columns: Mapping[str, Any], problem: Problem) -> Any:
        state = start(None, key, columns, problem)
        eval_fn = experiment.eval_fn_for(problem)
        return simulation.evaluate(state, own, algorithm(columns), problem, eval_fn)

    begin = functools.partial(start, place.mesh)
    alone: tuple[Callable[..., Any], ...] = begin, train_period, evaluate
    if family is not None:
        alone = (
            jax.vmap(begin, in_axes=(0, 0, family.axes)),
            jax.vmap(train_period, in_axes=(0, 0, 0, 0, family.axes)),
            jax.vmap(evaluate, in_axes=(0, 0, 0, family.axes)),
        )
    return Program(
        jax.jit(alone[0]),
        jax.jit(alone[1], donate_argnums=0),
        jax.jit(alone[2]),
        place.mesh and functools.partial(meshes.Layout, functools.partial(start, None), place.mesh),
    )


def split(experiment: Experiment, lane: Lane) -> tuple[dict[str, np.float32], dict[str, Any]]:
    """The columns of a lane's algorithm: arguments of its program, and what is built into it."""
    values = experiment.algorithm_makers[lane.algorithm].at(lane.point)
    traced = {k: np.float32(v) for k, v in values.items() if not makers.is_built_in(v)}
    return traced, {name: v for name, v in values.items() if name not in traced}
