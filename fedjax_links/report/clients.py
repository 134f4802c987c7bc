"""What only the experiment itself can tell of its clients: laws, losses, predictions.

Found at the end of a run, while problem and links are at hand, and kept as ``clients.npz``, so that
a report never builds a problem again.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.base import Algorithm, Array, FederationState, Key, Params, Problem
from fedjax_links.clients.data import client_data
from fedjax_links.core import errors, memory, tree
from fedjax_links.experiment import Experiment, Lane
from fedjax_links.experiment.plan import choosing
from fedjax_links.experiment.running.traced import state_shape
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import configured, prediction
from fedjax_links.results import by_client
from fedjax_links.results.simulation import leaves
from fedjax_links.storage import archives, checkpoints, packing

_by_client = jax.jit(evaluation.by_client)  # lanes of one program compile it once
_MOST_CLIENTS = 100_000
_MOST_BYTES = 2**31


class Clients(NamedTuple):
    """The clients under one pattern.

    Attributes:
      weights: float64[N], FedAvg's exact implicit weights; empty where they are not known.
      source: which formula they come from, or why there are none.
      losses: float[N] by algorithm, the mean training loss of each client at the final model of the
        first seed, at the first point of the grid.
      missing: by algorithm, why it has no losses.
      measured: float[S, M] by algorithm and metric, of all seeds at the first point of the grid, as
        `runs.Results.clients` has them; empty where evaluation data have no owners.
      expected: by algorithm and metric on evaluation data, what small steps lead to in the rounds
        of the run, or in the long run where these are not known; empty where nothing is predicted.
    """

    weights: np.ndarray
    source: str
    losses: Mapping[str, np.ndarray] = {}
    missing: Mapping[str, str] = {}
    measured: Mapping[str, Mapping[str, np.ndarray]] = {}
    expected: Mapping[str, Mapping[str, float]] = {}


def keep(experiment: Experiment, run: runs.Results) -> None:
    """Computes everything and writes the file.

    Args:
      experiment: what ran.
      run: its results, with their folder; nothing is done without one, or for an archive, which has
        the file but none of the models.
    """
    if run.folder is None or (run.folder / archives.METRICS).exists():
        return
    found = compute(experiment, run, run.folder)
    by_kind = {
        kind: {pattern: getattr(own, kind) for pattern, own in found.items()}
        for kind in Clients._fields
    }
    with errors.on_disk(run.folder):
        content = packing.npz(leaves(by_kind))
        checkpoints.write_whole(run.folder / by_client.FILE, content)


def read(folder: Path) -> dict[str, Clients]:
    """What was kept, by pattern; empty where nothing was.

    Args:
      folder: of a run.
    """
    return {pattern: Clients(**own) for pattern, own in by_client.read_kept(folder).items()}


def compute(experiment: Experiment, run: runs.Results, folder: Path) -> dict[str, Clients]:
    """Everything, by pattern.

    Args:
      experiment: what ran.
      run: its results.
      folder: where its checkpoints are.
    """
    found = {}
    lanes = {label: _lanes(experiment, run, label) for label in experiment.algorithms}
    for pattern in experiment.patterns:
        problem = experiment.problem_at(pattern, experiment.plan.points[0])
        law = _law(experiment, pattern)
        weights, source = law.weights, law.weights_source
        if weights is None:
            weights, source = np.zeros(0), f'not known: {law.description}'
        first = {label: own[pattern][0] for label, own in lanes.items()}
        ends = {k: _losses(experiment, folder, lane, problem) for k, lane in first.items()}
        own = {k: _measured(experiment, folder, every[pattern]) for k, every in lanes.items()}
        found[pattern] = Clients(
            weights=weights,
            source=source,
            losses={k: end for k, end in ends.items() if not isinstance(end, str)},
            missing={k: end for k, end in ends.items() if isinstance(end, str)},
            measured={k: found for k, found in own.items() if found},
            expected=_expected(experiment, pattern),
        )
    return found


def _lanes(experiment: Experiment, run: runs.Results, label: str) -> dict[str, list[Lane]]:
    """By pattern, an algorithm's lanes at the first point of the grid, the first seed first."""
    tries = choosing.read_tries(run.columns, experiment.plan.facts(), label)
    chosen = [(entry.pattern, entry.at, entry.chosen) for entry in tries]
    found: dict[str, list[Lane]] = {}
    for lane in experiment.plan.main_lanes(label, chosen):
        own = found.setdefault(lane.pattern, [lane])
        if own[0] is not lane and own[0].point == lane.point:
            own.append(lane)
    return found


def _expected(experiment: Experiment, pattern: str) -> dict[str, Mapping[str, float]]:
    """What is predicted of FedAvg and FedPBC, if they run and it is found quickly."""
    if experiment.config is None or len(experiment.plan.points) > 1:
        return {}
    links = configured.of_experiment(experiment, pattern)
    found = prediction.under(links, prediction.MOST_WORK / len(experiment.patterns))
    if found is None:
        return {}
    every = {'fedavg': found.fedavg, 'fedpbc': found.fedpbc}
    return {
        label: value.reached or value.limit
        for label, value in every.items()
        if label in experiment.algorithms
    }


def _law(experiment: Experiment, pattern: str) -> LinkLaw:
    """The exact law of the first seed's links; where there is none, it says why."""
    bound = configured.links_at(experiment, pattern, experiment.seeds[0])
    if bound is None:
        return LinkLaw('made in Python, no config names the links')
    if experiment.plan.patterns[pattern].columns.keys() & experiment.plan.columns.keys():
        return LinkLaw('the grid changes links or data')
    return configured.link_law(bound)


def _final_state(experiment: Experiment, folder: Path, lane: Lane) -> FederationState | str:
    """The state that a lane ended in; or why there is none."""
    like = state_shape(experiment, lane)
    if tree.num_bytes(like) > _MOST_BYTES:
        return f'its state is too large to be looked at ({memory.size(tree.num_bytes(like))})'
    try:
        file = runs.checkpoint_file(folder, lane.name, lane.num_rounds)
        found: FederationState = checkpoints.load(file, like)
    except checkpoints.DamagedError:
        return 'its last checkpoint is not there'
    return found


def _main_model(algorithm: Algorithm, state: FederationState) -> Params:
    """The clients' mean where they keep models, else the server's."""
    models = algorithm.models(state.algorithm)
    return models.get('client_mean', models['server'])


def _measured(experiment: Experiment, folder: Path, lanes: list[Lane]) -> dict[str, np.ndarray]:
    """Metrics of clients by seed; nothing where their data have no owners or a state is missing."""
    rows: list[dict[str, np.ndarray]] = []
    for lane in lanes:
        problem = experiment.problem_at(lane.pattern, lane.point, lane.seed)
        if problem.eval_owned is None:
            return {}
        state = _final_state(experiment, folder, lane)
        if isinstance(state, str):
            return {}
        algorithm = experiment.algorithm_at(lane.algorithm, lane.point)
        found = dict(_by_client(_main_model(algorithm, state), problem))
        if algorithm.client_models is not None:
            own = evaluation.of_own_models(algorithm.client_models(state.algorithm), problem)
            found |= {f'personal_{name}': values for name, values in own.items()}
        found['participations'] = state.counters.participation_count
        num_clients = problem.eval_owned.counts.size
        rows.append(
            {
                name: np.pad(np.float32(v), (0, num_clients - len(v)), constant_values=np.nan)
                for name, v in found.items()
            }
        )
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {**stacked, by_client.SEEDS: np.array([lane.seed for lane in lanes])}


def _losses(experiment: Experiment, folder: Path, lane: Lane, problem: Problem) -> np.ndarray | str:
    """Losses by client at the final model of a lane, or why there are none."""
    if problem.num_clients > _MOST_CLIENTS:
        return f'more than {_MOST_CLIENTS:,} clients'
    state = _final_state(experiment, folder, lane)
    if isinstance(state, str):
        return state
    model = _main_model(experiment.algorithm_at(lane.algorithm, lane.point), state)
    steady = dataclasses.replace(problem, random_loss_fn=None)
    try:
        losses = np.asarray(_client_losses(model, jax.random.key(0), steady))
    except errors.InvalidError:  # clients of unequal size are taken example by example
        return 'its loss needs batches'
    return losses if np.isfinite(losses).all() else 'diverged'


@jax.jit
def _client_losses(params: Params, key: Key, problem: Problem) -> Array:
    """float[N], each client's mean loss over all of its examples."""

    def one(client: Array) -> Array:
        _, loss = client_data(problem, client, key, 1, None)
        return loss(params, None)

    return jnp.asarray(jax.lax.map(one, jnp.arange(problem.num_clients)))
