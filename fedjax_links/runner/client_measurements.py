"""Measures the final models of a run's lanes on the evaluation data of each client.

A lane is one simulation: one algorithm, pattern, grid point and seed (`planning.lanes.Lane`).
"""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.base import Algorithm, Array, FederationState, Params, Problem
from fedjax_links.core import client_metrics, errors, memory, tree
from fedjax_links.planning import trials
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.results import recorded
from fedjax_links.results.clients import CLIENT, PARTICIPATIONS, SEED, ClientArrays
from fedjax_links.results.dataset import Columns
from fedjax_links.runner.compilation import state_shape
from fedjax_links.storage import checkpoints

_by_client = jax.jit(evaluation.by_client)  # Lanes of one program compile it once.
_MAX_BYTES = 2**31  # of a state that is read on the host


class MissingError(Exception):
    """Says why a metric of the clients cannot be computed."""


def measure(
    plan: Plan, columns: Columns, folder: Path
) -> dict[str, dict[str, ClientArrays]]:
    """Measures all lanes at the first point of the grid whose last state is in the folder.

    Args:
      plan: of the run.
      columns: the run's metrics, from which the rates that tuning chose are read.
      folder: the run folder, which holds the checkpoints.

    Returns:
      By pattern and algorithm, what `measure_lanes` returns. If no lane of an algorithm under a
      pattern is done, that pair is left out.

    Raises:
      ValueError: if evaluation data have no owners, or no lane is done.
    """
    measured: dict[str, dict[str, ClientArrays]] = {}
    reasons: list[str] = []
    for label in plan.algorithms:
        for pattern, lanes in lanes_at_first_point(plan, columns, label).items():
            try:
                arrays = measure_lanes(plan, folder, lanes)
            except MissingError as error:
                reasons.append(f'{lanes[0].description}: {error}')
            else:
                measured.setdefault(pattern, {})[label] = arrays
    if not measured:
        requirement = 'hold final models that can be measured on data of their clients'
        raise errors.invalid('folder', requirement, f'{folder}; {reasons[0]}')
    return measured


def lanes_at_first_point(
    plan: Plan, columns: Columns, label: str
) -> dict[str, list[Lane]]:
    """Returns an algorithm's lanes at the first point of the grid, by pattern and seed."""
    tuning_trials = trials.read_trials(columns, plan.facts(), label)
    by_pattern: dict[str, list[Lane]] = {}
    for lane in plan.schedule.main(label, tuning_trials):
        lanes = by_pattern.setdefault(lane.pattern, [])
        if not lanes or lanes[0].point == lane.point:
            lanes.append(lane)
    return by_pattern


def measure_lanes(plan: Plan, folder: Path, lanes: list[Lane]) -> ClientArrays:
    """Measures clients at the final models of lanes that differ in their seed alone.

    Args:
      plan: of the run.
      folder: the run folder, which holds the checkpoints.
      lanes: of one algorithm and one pattern. Lanes without a final state are left out.

    Returns:
      Each metric by name, float[S, M], for S seeds and M owners of evaluation data. A lane that
      diverged has NaN. Also ``seed``, int[S], and ``client``, the owners' names or numbers, [M].

    Raises:
      MissingError: if evaluation data have no owners, no lane is done, or a state is too large or
        damaged.
    """
    by_seed: dict[int, ClientArrays] = {}
    for lane in lanes:
        problem = plan.problem_of(lane)
        if problem.eval_owned is None:
            raise MissingError('its evaluation data have no owners')
        if _final_file(folder, lane).exists():
            owners = _owners(problem, problem.eval_owned.counts.size)
            metrics = _measure_lane(plan, folder, lane, problem)
            by_seed[lane.seed] = {**metrics, CLIENT: owners}
    if not by_seed:
        raise MissingError('no lane has a last checkpoint')
    return _stack(by_seed)


def _stack(by_seed: Mapping[int, ClientArrays]) -> ClientArrays:
    """Stacks the metrics of seeds, [S, M]; NaN for owners that a seed does not have.

    A seed may draw which clients are held out. Then an owner's number differs between seeds.
    """
    owners: dict[object, None] = {}
    for metrics in by_seed.values():
        owners |= dict.fromkeys(metrics[CLIENT].tolist())
    position = {owner: index for index, owner in enumerate(owners)}
    stacked: dict[str, np.ndarray] = {}
    for row, metrics in enumerate(by_seed.values()):
        columns = np.array([position[owner] for owner in metrics[CLIENT].tolist()])
        for name, values in metrics.items():
            if name == CLIENT:
                continue
            empty = np.full((len(by_seed), len(owners)), np.nan, np.float32)
            # Clients that do not train have no participations and no model of their own.
            stacked.setdefault(name, empty)[row, columns[: len(values)]] = values
    return {**stacked, SEED: np.array([*by_seed]), CLIENT: np.array([*owners])}


def final_model(
    plan: Plan, folder: Path, lane: Lane
) -> tuple[Params, Algorithm, FederationState]:
    """Returns a lane's main model after the last round, the lane's algorithm, and its state.

    Raises:
      MissingError: if the state is too large, or its checkpoint is missing or damaged.
    """
    shape = state_shape(plan, lane)
    num_bytes = tree.num_bytes(shape)
    if num_bytes > _MAX_BYTES:
        size = memory.size(num_bytes)
        raise MissingError(f'its state is too large to be read ({size})')
    try:
        state: FederationState = checkpoints.load(_final_file(folder, lane), shape)
    except checkpoints.DamagedError:
        raise MissingError('its last checkpoint is missing or damaged') from None
    algorithm = plan.algorithm_at(lane.algorithm, lane.point)
    main_model = recorded.main_models(plan.facts())[lane.algorithm]
    return algorithm.models(state.algorithm)[main_model], algorithm, state


def _final_file(folder: Path, lane: Lane) -> Path:
    """Returns the file of a lane's last state."""
    return runs.checkpoint_file(folder, lane.name, lane.num_rounds)


def _measure_lane(
    plan: Plan, folder: Path, lane: Lane, problem: Problem
) -> ClientArrays:
    """Measures the final models of a lane on the clients' evaluation data; NaN if it diverged."""
    model, algorithm, state = final_model(plan, folder, lane)
    metrics: dict[str, Array] = dict(_by_client(model, problem))
    client_models = algorithm.client_models
    if client_models is not None and not client_metrics.is_by_batch(problem):
        models = client_models(state.algorithm)
        personal = evaluation.personal_model_metrics(models, problem)
        metrics |= {f'personal_{name}': values for name, values in personal.items()}
    arrays = {name: np.asarray(values) for name, values in metrics.items()}
    if not state.finite:
        # A model of NaN has an accuracy, too.
        arrays = {name: np.full(a.shape, np.nan) for name, a in arrays.items()}
    return {**arrays, PARTICIPATIONS: np.asarray(state.counters.participation_count)}


def _owners(problem: Problem, num_owners: int) -> np.ndarray:
    """Returns the names of the owners of evaluation data, or their numbers without names."""
    names = [*problem.named.clients, *problem.named.others][:num_owners]
    if len(set(names)) < num_owners:
        return np.arange(num_owners)
    return np.array(names)
