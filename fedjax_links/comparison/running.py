"""Runs an algorithm of a comparison: one compiled evaluation period, called for every lane.

A lane is one pattern, seed and point of the tuning grid. On a CPU lanes run one after the other;
elsewhere side by side.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import errors, evaluation, prng, simulation, tree
from fedjax_links.base import FederationState, Key, LinkSample, Problem, PyTree
from fedjax_links.comparison import outcome as outcomes
from fedjax_links.comparison.config import Comparison, metrics_of, set_of
from fedjax_links.comparison.outcome import Outcome
from fedjax_links.participation import replay

FIRST_TUNING_SEED = 10_000

OnRounds = Callable[[int], None]
Evals = Mapping[str, Mapping[str, np.ndarray]]


class Memory(NamedTuple):
    """What an algorithm keeps beside the data, without the work space of a round.

    Attributes:
      state_bytes: state of one lane.
      num_lanes: lanes that run together, at most.
      link_bytes: links of these lanes.
    """

    state_bytes: int
    num_lanes: int
    link_bytes: int

    @property
    def total(self) -> int:
        """Bytes of states and links of the lanes that run together."""
        return self.num_lanes * self.state_bytes + self.link_bytes


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
    lanes = _lanes(comparison, label, best)
    evals = _run_lanes(comparison, advance, lanes, config.num_rounds, on_rounds)
    outcome = _outcome(comparison, label, best, tuning, evals)
    outcomes.save(path, outcome)
    return outcome


def blank(comparison: Comparison, label: str) -> Outcome:
    """An outcome of the right form with zeros for every number that only `run` finds.

    Args:
      comparison: the comparison.
      label: the algorithm.

    Returns:
      The outcome; computing it trains nothing.
    """
    problem = next(iter(comparison.problems.values()))
    state = jax.eval_shape(_start(comparison, label), jax.random.key(0), problem)
    models = jax.eval_shape(comparison.algorithm(label, 1.0).models, state.algorithm)
    num_lanes = len(comparison.patterns) * comparison.config.num_seeds
    zeros = np.zeros((num_lanes, comparison.config.num_rounds // comparison.config.eval_every))
    evals = {model: dict.fromkeys(metrics_of(problem), zeros) for model in models}
    points = _points(comparison, label) if comparison.is_tuned(label) else []
    return _outcome(comparison, label, *_best(points, np.zeros(len(points)), True), evals)


def memory(comparison: Comparison, label: str) -> Memory:
    """What an algorithm will keep, without running it.

    Args:
      comparison: the comparison.
      label: the algorithm.

    Returns:
      The largest of all groups of lanes that run together.
    """
    config, key = comparison.config, jax.random.key(0)
    state_bytes = max(
        tree.num_bytes(jax.eval_shape(_start(comparison, label), key, problem))
        for problem in set_of(comparison.problems)
    )
    stages = [(_lanes(comparison, label, {}), config.num_rounds)]
    if comparison.is_tuned(label):
        stages.append((_tuning_lanes(comparison, label), config.tuning['num_rounds']))
    found = []
    for lanes, num_rounds in stages:
        realise = functools.partial(comparison.links[lanes[0].pattern], num_rounds=num_rounds)
        links = tree.num_bytes(jax.eval_shape(realise, key))
        most = max(map(len, _groups(comparison, lanes)))
        found.append(Memory(state_bytes, most, most * links))
    return max(found, key=lambda needed: needed.total)


def rounds_of(comparison: Comparison, label: str) -> int:
    """Rounds that `run` simulates for an algorithm, tuning included."""
    config = comparison.config
    tuned = 0
    if comparison.is_tuned(label):
        tuned = len(_points(comparison, label)) * config.tuning['num_seeds']
        tuned *= config.tuning['num_rounds']
    return tuned + len(comparison.patterns) * config.num_seeds * config.num_rounds


def _lanes(comparison: Comparison, label: str, best: Mapping[str, float]) -> list[Lane]:
    """All patterns and seeds, at the point that tuning found best."""
    rates = _rates(comparison, label, best)
    return [
        Lane(pattern, seed, {**best, 'learning_rate': float(rate)})
        for pattern, rate in zip(comparison.patterns, rates, strict=True)
        for seed in comparison.config.seeds
    ]


def _rates(comparison: Comparison, label: str, best: Mapping[str, float]) -> np.ndarray:
    """float[P], the client rate under each pattern; NaN where it is still to be found."""
    fixed = [comparison.fixed_rate(label, pattern) for pattern in comparison.patterns]
    return np.array([best.get('learning_rate', rate) for rate in fixed], np.float64)


def _outcome(
    comparison: Comparison,
    label: str,
    best: Mapping[str, float],
    tuning: Mapping[str, np.ndarray],
    evals: Evals,
) -> Outcome:
    """What `_run_lanes` found for `_lanes`, by pattern and seed."""
    config = comparison.config
    shape = (len(comparison.patterns), config.num_seeds)
    return Outcome(
        patterns=tuple(comparison.patterns),
        learning_rates=_rates(comparison, label, best),
        server_lr=best.get('server_lr', np.nan),
        tuning=tuning,
        rounds=np.arange(config.eval_every, config.num_rounds + 1, config.eval_every),
        evals=jax.tree.map(lambda a: a.reshape(*shape, -1), evals),
    )


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
    lanes = _tuning_lanes(comparison, label)
    evals = _run_lanes(comparison, advance, lanes, tuning['num_rounds'], on_rounds)
    higher = evaluation.higher_is_better(config.metric)
    ends = [named[config.metric][:, -1] for named in evals.values()]
    best_model = np.max(ends, axis=0) if higher else np.min(ends, axis=0)
    scores = best_model.reshape(-1, tuning['num_seeds']).mean(axis=1)
    scores = np.where(np.isfinite(scores), scores, np.nan)
    if np.isnan(scores).all():
        raise errors.invalid('config.tuning.learning_rates', f'suit {label}', 'divergence at all')
    return _best(_points(comparison, label), scores, higher)


def _tuning_lanes(comparison: Comparison, label: str) -> list[Lane]:
    """All points of the grid, with seeds of their own."""
    tuning = comparison.config.tuning
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning['num_seeds'])
    points = _points(comparison, label)
    return [Lane(tuning['pattern'], seed, point) for point in points for seed in seeds]


def _best(
    points: Sequence[dict[str, float]], scores: np.ndarray, higher: bool
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The point with the best score, and all as columns; nothing from an empty grid."""
    if not points:
        return {}, {}
    best = int(np.nanargmax(scores) if higher else np.nanargmin(scores))
    columns = {name: np.array([point[name] for point in points]) for name in points[0]}
    return points[best], {**columns, 'score': scores}


def _compile(comparison: Comparison, label: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Jitted ``start(key, problem)`` and ``step(state, key, links, point, problem)``."""
    config, start = comparison.config, _start(comparison, label)

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

    if _one_by_one():
        return jax.jit(start), jax.jit(step, donate_argnums=0)
    return (
        jax.jit(jax.vmap(start, in_axes=(0, None))),
        jax.jit(jax.vmap(step, in_axes=(0, 0, 0, 0, None)), donate_argnums=0),
    )


def _start(comparison: Comparison, label: str) -> Callable[[Key, Problem], FederationState]:
    """``(key, problem) -> state`` of one lane before its first round."""

    def start(key: Key, problem: Problem) -> FederationState:
        silent = replay(np.zeros((1, problem.num_clients), bool))
        return simulation.init(key, comparison.algorithm(label, 1.0), silent, problem)

    return start


def _one_by_one() -> bool:
    """Whether lanes run one after the other."""
    return jax.default_backend() == 'cpu'


def _run_lanes(
    comparison: Comparison,
    advance: tuple[Callable[..., Any], Callable[..., Any]],
    lanes: Sequence[Lane],
    num_rounds: int,
    on_rounds: OnRounds,
) -> Evals:
    """Evaluations [L, E] by model and metric."""
    one_by_one = _one_by_one()
    done: dict[int, Any] = {}
    for group in _groups(comparison, lanes):
        problem = comparison.problems[lanes[group[0]].pattern]
        inputs = _inputs(comparison, [lanes[i] for i in group], num_rounds)
        if one_by_one:
            inputs = jax.tree.map(lambda a: a[0], inputs)
        evals = _run_group(comparison, advance, inputs, problem, num_rounds, len(group), on_rounds)
        for place, lane in enumerate(group):
            pick = slice(None) if one_by_one else (slice(None), place)
            done[lane] = jax.tree.map(lambda a, pick=pick: a[pick], evals)
    return jax.tree.map(lambda *rows: np.stack(rows), *(done[i] for i in range(len(lanes))))


def _groups(comparison: Comparison, lanes: Sequence[Lane]) -> Sequence[Sequence[int]]:
    """Indices of the lanes that run together: one each, or all that share their problem."""
    if _one_by_one():
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
