"""Runs an algorithm of a comparison: one compiled evaluation period, called for every lane.

A lane is one pattern, seed and point of the tuning grid. On a CPU lanes run one after the other;
elsewhere side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import errors, evaluation, prng, simulation
from fedjax_links.base import Key, LinkSample, Problem, PyTree
from fedjax_links.comparison import outcome as outcomes
from fedjax_links.comparison.config import Comparison
from fedjax_links.comparison.outcome import Outcome
from fedjax_links.participation import replay

FIRST_TUNING_SEED = 10_000

OnRounds = Callable[[int], None]
Evals = Mapping[str, Mapping[str, np.ndarray]]


class Lane(NamedTuple):
    """One simulation.

    Attributes:
      pattern: label of its links.
      seed: of its links, batches and initial model.
      point: hyper-parameters of `Comparison.algorithm`.
    """

    pattern: str
    seed: int
    point: Mapping[str, float]


def run(
    comparison: Comparison, label: str, folder: Path, on_rounds: OnRounds = lambda count: None
) -> Outcome:
    """Tunes and runs one algorithm over all patterns and seeds, or reads what an earlier call did.

    Args:
      comparison: the comparison.
      label: the algorithm.
      folder: where the outcome is kept, as ``<label>.npz``.
      on_rounds: called with the number of rounds that were added.

    Returns:
      The outcome.

    Raises:
      ValueError: if every rate tried diverges.
    """
    config, path = comparison.config, folder / f'{label}.npz'
    if path.exists():
        on_rounds(rounds_of(comparison, label))
        return outcomes.load(path)
    advance = _compile(comparison, label)
    best, tuning = _tune(comparison, label, advance, on_rounds)
    patterns = list(comparison.patterns)
    rates = [best.get('learning_rate') or comparison.fixed_rate(label, p) for p in patterns]
    lanes = [
        Lane(pattern, seed, {**best, 'learning_rate': float(rate or 0)})
        for pattern, rate in zip(patterns, rates, strict=True)
        for seed in config.seeds
    ]
    evals = _run_lanes(comparison, advance, lanes, config.num_rounds, on_rounds)
    shape = (len(patterns), config.num_seeds)
    outcome = Outcome(
        patterns=tuple(patterns),
        learning_rates=np.asarray(rates, np.float64),
        server_lr=best.get('server_lr', np.nan),
        tuning=tuning,
        rounds=np.arange(config.eval_every, config.num_rounds + 1, config.eval_every),
        evals=jax.tree.map(lambda a: a.reshape(*shape, -1), evals),
    )
    outcomes.save(path, outcome)
    return outcome


def rounds_of(comparison: Comparison, label: str) -> int:
    """Rounds that `run` simulates for an algorithm, tuning included."""
    config = comparison.config
    tuned = 0
    if comparison.is_tuned(label):
        tuned = len(_points(comparison, label)) * config.tuning['num_seeds']
        tuned *= config.tuning['num_rounds']
    return tuned + len(comparison.patterns) * config.num_seeds * config.num_rounds


def _points(comparison: Comparison, label: str) -> list[dict[str, float]]:
    """The grid that an algorithm is tuned on."""
    tuning = comparison.config.tuning
    rates = [{'learning_rate': float(rate)} for rate in tuning['learning_rates']]
    server_lrs = tuning.get('server_lrs') or ()
    if not server_lrs or not comparison.has_server_lr(label):
        return rates
    return [{**point, 'server_lr': float(eta)} for point in rates for eta in server_lrs]


def _tune(
    comparison: Comparison, label: str, advance: Any, on_rounds: OnRounds
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The point with the best metric on average over tuning seeds, and all scores."""
    if not comparison.is_tuned(label):
        return {}, {}
    config, tuning = comparison.config, comparison.config.tuning
    points, num_seeds = _points(comparison, label), tuning['num_seeds']
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + num_seeds)
    lanes = [Lane(tuning['pattern'], seed, point) for point in points for seed in seeds]
    evals = _run_lanes(comparison, advance, lanes, tuning['num_rounds'], on_rounds)
    higher = evaluation.higher_is_better(config.metric)
    ends = [named[config.metric][:, -1] for named in evals.values()]
    best_model = np.max(ends, axis=0) if higher else np.min(ends, axis=0)
    scores = best_model.reshape(len(points), num_seeds).mean(axis=1)
    if np.isnan(scores).all():
        raise errors.invalid('config.tuning.learning_rates', f'suit {label}', 'divergence at all')
    best = int(np.nanargmax(scores) if higher else np.nanargmin(scores))
    columns = {name: np.array([point[name] for point in points]) for name in points[0]}
    return points[best], {**columns, 'score': scores}


def _compile(comparison: Comparison, label: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Jitted ``start(key, problem)`` and ``step(state, key, links, point, problem)``."""
    config = comparison.config

    def start(key: Key, problem: Problem) -> PyTree:
        silent = replay(np.zeros((1, problem.num_clients), bool))
        return simulation.init(key, comparison.algorithm(label, 1.0), silent, problem)

    def step(
        state: PyTree, key: Key, links: LinkSample, point: Mapping[str, Any], problem: Problem
    ) -> tuple[PyTree, Any]:
        result = simulation.simulate(
            key,
            comparison.algorithm(label, **point),
            replay(links.mask, links.prob),
            problem,
            num_rounds=config.eval_every,
            eval_every=config.eval_every,
            eval_fn=evaluation.for_problem(problem),
            initial_state=state,
        )
        return result.state, jax.tree.map(lambda a: a[0], result.evals)

    if jax.default_backend() == 'cpu':
        return jax.jit(start), jax.jit(step, donate_argnums=0)
    return (
        jax.jit(jax.vmap(start, in_axes=(0, None))),
        jax.jit(jax.vmap(step, in_axes=(0, 0, 0, 0, None)), donate_argnums=0),
    )


def _run_lanes(
    comparison: Comparison,
    advance: tuple[Callable[..., Any], Callable[..., Any]],
    lanes: Sequence[Lane],
    num_rounds: int,
    on_rounds: OnRounds,
) -> Evals:
    """Evaluations [L, E] by model and metric."""
    one_by_one = jax.default_backend() == 'cpu'
    done: dict[int, Any] = {}
    for group in _groups(comparison, lanes, one_by_one):
        problem = comparison.problems[lanes[group[0]].pattern]
        inputs = _inputs(comparison, [lanes[i] for i in group], num_rounds)
        if one_by_one:
            inputs = jax.tree.map(lambda a: a[0], inputs)
        evals = _run_group(comparison, advance, inputs, problem, num_rounds, len(group), on_rounds)
        for place, lane in enumerate(group):
            pick = slice(None) if one_by_one else (slice(None), place)
            done[lane] = jax.tree.map(lambda a, pick=pick: a[pick], evals)
    return jax.tree.map(lambda *rows: np.stack(rows), *(done[i] for i in range(len(lanes))))


def _groups(
    comparison: Comparison, lanes: Sequence[Lane], one_by_one: bool
) -> Sequence[Sequence[int]]:
    """Indices of the lanes that run together: one each, or all that share their problem."""
    if one_by_one:
        return [[place] for place in range(len(lanes))]
    by_problem: dict[int, list[int]] = {}
    for place, lane in enumerate(lanes):
        by_problem.setdefault(id(comparison.problems[lane.pattern]), []).append(place)
    return list(by_problem.values())


def _inputs(comparison: Comparison, lanes: Sequence[Lane], num_rounds: int) -> dict[str, Any]:
    """Keys [L], links [L, T, N] and points [L] of lanes."""
    links = [
        comparison.links[lane.pattern](jax.random.key(lane.seed), num_rounds=num_rounds)
        for lane in lanes
    ]
    points = [{name: np.float32(value) for name, value in lane.point.items()} for lane in lanes]
    return {
        'key': jax.vmap(jax.random.key)(prng.seed_column([lane.seed for lane in lanes])),
        'links': jax.tree.map(lambda *a: np.stack(a), *links),
        'point': jax.tree.map(lambda *a: np.stack(a), *points),
    }


def _run_group(
    comparison: Comparison,
    advance: tuple[Callable[..., Any], Callable[..., Any]],
    inputs: Mapping[str, Any],
    problem: Problem,
    num_rounds: int,
    num_lanes: int,
    on_rounds: OnRounds,
) -> Any:
    """Evaluations [E, ...] of lanes that run together."""
    start, step = advance
    period = comparison.config.eval_every
    state, records = start(inputs['key'], problem), []
    rounds_axis = inputs['links'].mask.ndim - 2
    for first in range(0, num_rounds, period):
        rows = (slice(None),) * rounds_axis + (slice(first, first + period),)
        links = jax.tree.map(lambda a, rows=rows: a[rows], inputs['links'])
        state, record = step(state, inputs['key'], links, inputs['point'], problem)
        records.append(jax.tree.map(np.asarray, record))
        on_rounds(period * num_lanes)
    return jax.tree.map(lambda *a: np.stack(a), *records)
