"""What only the experiment itself can tell of its clients: laws, losses, predictions.

Found at the end of a run, while problem and links are at hand, and kept as ``clients.npz``, so that
a report never builds a problem again.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.base import Algorithm, Array, FederationState, Key, Params, Problem
from fedjax_links.clients.batches import client_data
from fedjax_links.core import client_metrics, errors, memory, tree
from fedjax_links.experiment import Experiment, Lane
from fedjax_links.planning import trials
from fedjax_links.preview import configured_links, prediction
from fedjax_links.results import recorded
from fedjax_links.results.runs import CLIENTS, read_clients
from fedjax_links.results.simulation import leaves
from fedjax_links.runner.compilation import state_shape
from fedjax_links.storage import checkpoints, checksummed_npz

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
    if run.folder is None or (run.folder / checksummed_npz.METRICS).exists():
        return
    found = compute(experiment, run, run.folder)
    by_kind = {
        kind: {pattern: getattr(own, kind) for pattern, own in found.items()}
        for kind in Clients._fields
    }
    with errors.on_disk(run.folder):
        content = checksummed_npz.npz(leaves(by_kind))
        checkpoints.write_atomically(run.folder / CLIENTS, content)


def read(folder: Path) -> dict[str, Clients]:
    """What was kept, by pattern; empty where nothing was.

    Args:
      folder: of a run.
    """

    def failed(said: str) -> errors.InvalidError:
        return errors.invalid(
            'folder', f'hold a readable {CLIENTS}', f'{folder}: {said}'
        )

    with errors.decoding(failed):
        return {k: _checked(Clients(**own)) for k, own in read_clients(folder).items()}


def _checked(found: Clients) -> Clients:
    """The same, if it is what `keep` writes.

    Raises:
      TypeError: if it is not.
    """
    vectors = [found.weights, *found.losses.values()]
    measured = [
        a for own in found.measured.values() for k, a in own.items() if k != 'seed'
    ]
    numbers = [value for own in found.expected.values() for value in own.values()]
    texts = [found.source, *found.missing.values()]
    if (
        not all(
            isinstance(a, np.ndarray) and a.dtype.kind in 'fiu'
            for a in vectors + measured
        )
        or not all(a.ndim == 1 for a in vectors)
        or not all(a.ndim == 2 for a in measured)
        or not all(isinstance(value, float | int) for value in numbers)
        or not all(isinstance(text, str) and text.isprintable() for text in texts)
    ):
        raise TypeError('arrays of other kinds')
    return found


def compute(
    experiment: Experiment, run: runs.Results, folder: Path
) -> dict[str, Clients]:
    """Everything, by pattern.

    Args:
      experiment: what ran.
      run: its results.
      folder: where its checkpoints are.
    """
    found = {}
    lanes = {label: _lanes(experiment, run, label) for label in experiment.algorithms}
    for pattern in experiment.patterns:
        losses, missing, measured = {}, {}, {}
        for label, every in lanes.items():
            try:
                losses[label] = _losses(experiment, folder, every[pattern][0])
            except _MissingError as why:
                missing[label] = str(why)
            with contextlib.suppress(_MissingError):
                measured[label] = _measured(experiment, folder, every[pattern])
        weights, source = _weights(experiment, pattern)
        expected = _expected(experiment, pattern)
        found[pattern] = Clients(weights, source, losses, missing, measured, expected)
    return found


class _MissingError(Exception):
    """Why something of the clients is not known."""


def _lanes(
    experiment: Experiment, run: runs.Results, label: str
) -> dict[str, list[Lane]]:
    """By pattern, an algorithm's lanes at the first point of the grid, the first seed first."""
    tries = trials.read_trials(run.columns, experiment.plan.facts(), label)
    found: dict[str, list[Lane]] = {}
    for lane in experiment.plan.schedule.main(label, tries):
        own = found.setdefault(lane.pattern, [lane])
        if own[0] is not lane and own[0].point == lane.point:
            own.append(lane)
    return found


def _expected(experiment: Experiment, pattern: str) -> dict[str, Mapping[str, float]]:
    """What is predicted of FedAvg and FedPBC, if they run and it is found quickly."""
    if experiment.config is None or len(experiment.plan.points) > 1:
        return {}
    links = configured_links.of_experiment(experiment, pattern)
    found = prediction.under(links, prediction.MOST_WORK / len(experiment.patterns))
    known = ['fedavg', 'fedpbc'] if found is not None else []
    ends = {k: getattr(found, k) for k in known if k in experiment.algorithms}
    return {label: end.reached or end.limit for label, end in ends.items()}


def _weights(experiment: Experiment, pattern: str) -> tuple[np.ndarray, str]:
    """FedAvg's exact weights under the first seed's links, and their formula; or why none."""
    bound = configured_links.links_at(experiment, pattern, experiment.seeds[0])
    if bound is None:
        why = 'made in Python, no config names the links'
    elif (
        experiment.plan.patterns[pattern].columns.keys()
        & experiment.plan.columns.keys()
    ):
        why = 'the grid changes links or data'
    else:
        law = configured_links.link_law(bound)
        if law.weights is not None:
            return law.weights, law.weights_source
        why = law.description
    return np.zeros(0), f'not known: {why}'


def _end(
    experiment: Experiment, folder: Path, lane: Lane
) -> tuple[Params, Algorithm, FederationState]:
    """Returns the final model of a lane that reports show, its algorithm, and its state."""
    like = state_shape(experiment.plan, lane)
    if tree.num_bytes(like) > _MOST_BYTES:
        size = memory.size(tree.num_bytes(like))
        raise _MissingError(f'its state is too large to be looked at ({size})')
    try:
        file = runs.checkpoint_file(folder, lane.name, lane.num_rounds)
        state: FederationState = checkpoints.load(file, like)
    except checkpoints.DamagedError:
        raise _MissingError('its last checkpoint is not there') from None
    algorithm = experiment.algorithm_at(lane.algorithm, lane.point)
    main = recorded.main_models(experiment.plan.facts())[lane.algorithm]
    return algorithm.models(state.algorithm)[main], algorithm, state


def _measured(
    experiment: Experiment, folder: Path, lanes: list[Lane]
) -> dict[str, np.ndarray]:
    """Metrics of clients on their own evaluation data, by seed."""
    rows: list[dict[str, np.ndarray]] = []
    for lane in lanes:
        problem = experiment.plan.problem_of(lane)
        if problem.eval_owned is None:
            raise _MissingError('its evaluation data have no owners')
        model, algorithm, state = _end(experiment, folder, lane)
        found = dict(_by_client(model, problem))
        if algorithm.client_models is not None and not client_metrics.is_by_batch(
            problem
        ):
            own = evaluation.personal_model_metrics(
                algorithm.client_models(state.algorithm), problem
            )
            found |= {f'personal_{name}': values for name, values in own.items()}
        found['participations'] = state.counters.participation_count
        row = {
            name: np.full(problem.eval_owned.counts.size, np.nan, np.float32)
            for name in found
        }
        for name, values in found.items():
            row[name][: len(values)] = values
        rows.append(row)
    stacked: dict[str, np.ndarray] = jax.tree.map(
        lambda *of_seeds: np.stack(of_seeds), *rows
    )
    return {**stacked, 'seed': np.array([lane.seed for lane in lanes])}


def _losses(experiment: Experiment, folder: Path, lane: Lane) -> np.ndarray:
    """Losses by client at the final model of a lane."""
    problem = experiment.problem_at(lane.pattern, experiment.plan.points[0])
    if problem.num_clients > _MOST_CLIENTS:
        raise _MissingError(f'more than {_MOST_CLIENTS:,} clients')
    model, *_ = _end(experiment, folder, lane)
    steady = dataclasses.replace(problem, random_loss_fn=None)
    try:
        losses = np.asarray(_client_losses(model, jax.random.key(0), steady))
    except errors.InvalidError:  # clients of unequal size are taken example by example
        raise _MissingError('its loss needs batches') from None
    if not np.isfinite(losses).all():
        raise _MissingError('diverged')
    return losses


@jax.jit
def _client_losses(params: Params, key: Key, problem: Problem) -> Array:
    """float[N], each client's mean loss over all of its examples."""

    def one(client: Array) -> Array:
        return client_data(problem, client, key, 1, None)[1](params, None)

    return jnp.asarray(jax.lax.map(one, jnp.arange(problem.num_clients)))
