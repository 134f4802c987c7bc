"""The compiled program of an algorithm: its start, and one period of one lane or of several."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.base import FederationState, Key, Links, Problem
from fedjax_links.devices import Place
from fedjax_links.experiment import drawing, points
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.families import Family
from fedjax_links.experiment.lanes import Lane


class Program(NamedTuple):
    """What trains the lanes of one algorithm, problem and set of built-in values.

    Attributes:
      start: ``(key, columns, links, problem) -> state`` before the first round, jitted; of the
        links (leaves [1, ...]) only the kind matters.
      advance: ``(state, key, links, columns, problem) -> (state, record)``, one period, jitted;
        the state is donated.
      evaluate: ``(state, key, columns, problem) -> evals`` of a state as it is, jitted.
    """

    start: Any
    advance: Any
    evaluate: Any


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

    def algorithm(columns: Mapping[str, Any]) -> Any:
        return experiment.algorithm_at(lane.algorithm, {**built_in, **columns})

    def start(
        key: Key, columns: Mapping[str, Any], links: Links, problem: Problem
    ) -> FederationState:
        silent = drawing.recorded(links, problem.num_clients)
        return simulation.init(key, algorithm(columns), silent, problem)

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
            drawing.recorded(links, problem.num_clients),
            problem,
            num_rounds=period,
            eval_every=period,
            eval_fn=experiment.eval_fn_for(problem),
            initial_state=state,
        )
        sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), result.rounds)
        evals = jax.tree.map(lambda a: a[0], result.evals)
        return result.state, (sums, evals)

    def evaluate(
        state: FederationState, key: Key, columns: Mapping[str, Any], problem: Problem
    ) -> Any:
        eval_fn = experiment.eval_fn_for(problem)
        return simulation.evaluate(state, key, algorithm(columns), problem, eval_fn)

    alone: tuple[Callable[..., Any], ...] = start, train_period, evaluate
    if family is not None:
        alone = (
            jax.vmap(start, in_axes=(0, 0, None, family.axes)),
            jax.vmap(train_period, in_axes=(0, 0, 0, 0, family.axes)),
            jax.vmap(evaluate, in_axes=(0, 0, 0, family.axes)),
        )
    return Program(
        jax.jit(place.shared(alone[0])),
        jax.jit(place.shared(alone[1]), donate_argnums=0),
        jax.jit(place.shared(alone[2])),
    )


def split(experiment: Experiment, lane: Lane) -> tuple[dict[str, np.float32], dict[str, Any]]:
    """The columns of a lane's algorithm: arguments of its program, and what is built into it."""
    values = experiment.algorithm_makers[lane.algorithm].at(lane.point)
    traced = {name: np.float32(v) for name, v in values.items() if points.is_traced(v)}
    return traced, {name: v for name, v in values.items() if name not in traced}


def peak_bytes(compiled: Any, place: Place) -> int | None:
    """What a program needs at once: states, data and work space; None where nothing says.

    Args:
      compiled: the program.
      place: where it runs.

    Returns:
      Bytes of a device or, on a CPU, of the whole place.
    """
    found = compiled.memory_analysis()
    if not found:
        return None
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return place.num_copies * int(sizes - found.alias_size_in_bytes)
