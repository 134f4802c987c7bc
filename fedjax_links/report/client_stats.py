"""Computes what needs the experiment itself: laws of links, losses of clients, predictions.

The law of links is the exact distribution of who takes part (`participation.link_laws`).

At its end, a run has the problem and the links at hand. `save` then writes these numbers as
``clients.npz``, so that a report need not build the problem again.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import runs
from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.clients.batches import client_data
from fedjax_links.core import errors
from fedjax_links.experiment import Experiment, Lane
from fedjax_links.preview import configured_links, covered_runs, prediction
from fedjax_links.report import exact_curves
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.results import clients as recorded_clients
from fedjax_links.results.clients import CLIENT, CLIENTS, SEED
from fedjax_links.results.simulation import leaves
from fedjax_links.runner import client_measurements
from fedjax_links.runner.client_measurements import MissingError
from fedjax_links.storage import atomic_files, checksummed_npz

_MOST_CLIENTS = 100_000
"""Clients whose losses are computed, one after another; chosen to keep the end of a run short."""


class Clients(NamedTuple):
    """Holds losses, weights and predictions of the clients under one pattern.

    Attributes:
      weights: float64[N], FedAvg's exact implicit weights; empty if they are not known.
      source: the formula of the weights, or why there are none.
      losses: float[N] by algorithm, the mean training loss of each client. The model is the final
        one of the first seed, at the first point of the grid.
      missing: by algorithm, why it has no losses.
      measured: float[S, M] by algorithm and metric, of all seeds at the first point of the grid, as
        `client_measurements.measure_lanes` returns them; empty if evaluation data have no owners.
      expected: by algorithm and metric on evaluation data, the prediction for the end of the run.
        If the end is not known, the limit of a long run. Empty if nothing is predicted.
      exact: the exact curves on quadratics; empty if they are not known.
      num_rounds: rounds of the run when these fields were computed; 0 from older versions.
    """

    weights: np.ndarray
    source: str
    losses: Mapping[str, np.ndarray] = {}
    missing: Mapping[str, str] = {}
    measured: Mapping[str, Mapping[str, np.ndarray]] = {}
    expected: Mapping[str, Mapping[str, float]] = {}
    exact: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]] = {}
    num_rounds: int = 0


def save(experiment: Experiment, run: runs.Results) -> None:
    """Computes all fields of `Clients` and writes the file.

    Args:
      experiment: what ran.
      run: its results, with their folder. Nothing is done without a folder. Nor for an archive,
        which has the file but none of the models.
    """
    if run.folder is None or (run.folder / checksummed_npz.METRICS).exists():
        return
    by_pattern = compute(experiment, run, run.folder)
    by_field: dict[str, dict[str, Any]] = {}
    for field in Clients._fields:
        by_field[field] = {
            pattern: getattr(clients, field) for pattern, clients in by_pattern.items()
        }
    with errors.on_disk(run.folder):
        content = checksummed_npz.npz(leaves(by_field))
        atomic_files.write(run.folder / CLIENTS, content)


def read(folder: Path, num_rounds: int | None = None) -> dict[str, Clients]:
    """Reads the file that `save` wrote.

    Args:
      folder: the folder of a run.
      num_rounds: rounds of the run, which may have been extended since; any number by default.

    Returns:
      The clients by pattern; empty without such a file, or if the file is of another number of
      rounds.

    Raises:
      ValueError: if the file is damaged.
    """
    with recorded_clients.decoding(folder):
        by_pattern: dict[str, Clients] = {}
        for pattern, fields in recorded_clients.read(folder, num_rounds).items():
            clients = Clients(**fields)
            if not _is_valid(clients):
                raise TypeError('arrays of other kinds')
            by_pattern[pattern] = clients
        return by_pattern


def check_sizes(
    folder: Path, clients: Mapping[str, Clients], links: Mapping[str, FirstSeedLinks]
) -> None:
    """Refuses losses and weights if their number of clients differs from the links' number.

    Args:
      folder: the folder of the run, for errors.
      clients: losses and weights by pattern.
      links: the links by pattern.
    """
    for pattern in clients.keys() & links.keys():
        num_clients = links[pattern].mask.shape[1]
        sizes = {losses.size for losses in clients[pattern].losses.values()}
        sizes.add(clients[pattern].weights.size or num_clients)
        if sizes != {num_clients}:
            requirement = f'hold {CLIENTS} of as many clients as {runs.LINKS}'
            raise errors.invalid('folder', requirement, folder)


def _is_valid(clients: Clients) -> bool:
    """Returns whether the fields are of the kinds that `save` writes."""
    checks = [_is_numeric(clients.weights, ndim=1), _is_text(clients.source)]
    checks += [_is_numeric(losses, ndim=1) for losses in clients.losses.values()]
    checks.append(len({np.size(losses) for losses in clients.losses.values()}) <= 1)
    checks += [_is_text(reason) for reason in clients.missing.values()]
    for arrays in clients.measured.values():
        checks += [
            _is_numeric(array, ndim=2)
            for name, array in arrays.items()
            if name not in (SEED, CLIENT)
        ]
    for predictions in clients.expected.values():
        checks += [isinstance(value, float | int) for value in predictions.values()]
    for by_model in clients.exact.values():
        for curves in by_model.values():
            checks += [_is_numeric(curve, ndim=2) for curve in curves.values()]
    return all(checks)


def _is_text(text: object) -> bool:
    """Returns whether something is a text without control characters."""
    return isinstance(text, str) and text.isprintable()


def _is_numeric(array: object, *, ndim: int) -> bool:
    """Returns whether something is an array of real numbers with ``ndim`` axes."""
    if not isinstance(array, np.ndarray):
        return False
    return array.dtype.kind in 'fiu' and array.ndim == ndim


def compute(
    experiment: Experiment, run: runs.Results, folder: Path
) -> dict[str, Clients]:
    """Computes all fields of `Clients`, by pattern.

    Args:
      experiment: what ran.
      run: the run's results.
      folder: where its checkpoints are.
    """
    by_pattern = {}
    lanes_by_algorithm = {
        label: client_measurements.lanes_at_first_point(
            experiment.plan, run.columns, label
        )
        for label in experiment.algorithms
    }
    for pattern in experiment.patterns:
        losses = {}
        missing = {}
        measured = {}
        for label, lanes_by_pattern in lanes_by_algorithm.items():
            lanes = lanes_by_pattern[pattern]
            try:
                losses[label] = losses_of(experiment, folder, lanes[0])
            except MissingError as error:
                missing[label] = str(error)
            with contextlib.suppress(MissingError):
                measured[label] = client_measurements.measure_lanes(
                    experiment.plan, folder, lanes
                )
        weights, source = _weights(experiment, pattern)
        by_pattern[pattern] = Clients(
            weights=weights,
            source=source,
            losses=losses,
            missing=missing,
            measured=measured,
            expected=predictions_of(experiment, pattern),
            exact=exact_curves.for_pattern(experiment, pattern, run.facts),
            num_rounds=run.facts['num_rounds'],
        )
    return by_pattern


def predictions_of(
    experiment: Experiment, pattern: str
) -> dict[str, Mapping[str, float]]:
    """Predicts final metrics of FedAvg and FedPBC, if they run and it takes little time."""
    if experiment.config is None or len(experiment.plan.points) > 1:
        return {}
    links = configured_links.from_experiment(experiment, pattern)
    budget = prediction.QUICK.divided(len(experiment.patterns))
    predicted = prediction.for_links(links, budget)
    if predicted is None:
        return {}
    by_algorithm = {}
    for label, section in covered_runs.sections_of(
        experiment.config, 'fedavg', 'fedpbc'
    ):
        # Another label may stand for other options or clients than the prediction is for.
        if section.get('name', label) == label:
            metrics = getattr(predicted, label)
            by_algorithm[label] = metrics.reached or metrics.limit or {}
    return by_algorithm


def _weights(experiment: Experiment, pattern: str) -> tuple[np.ndarray, str]:
    """Returns FedAvg's exact weights under the first seed's links, and their formula.

    Without exact weights the array is empty, and the text says why.
    """
    links = configured_links.bound_links(experiment, pattern, experiment.seeds[0])
    columns = experiment.plan.patterns[pattern].columns
    if links is None:
        reason = 'made in Python, no config names the links'
    elif columns.keys() & experiment.plan.columns.keys():
        reason = 'the grid changes links or data'
    else:
        law = configured_links.link_law(links)
        if law.weights is not None:
            return law.weights, law.weights_source
        reason = law.description
    return np.zeros(0), f'not known: {reason}'


def losses_of(experiment: Experiment, folder: Path, lane: Lane) -> np.ndarray:
    """Returns float[N], the clients' training losses at the final model of a lane."""
    problem = experiment.problem_at(lane.pattern, experiment.plan.points[0])
    if problem.num_clients > _MOST_CLIENTS:
        raise MissingError(f'more than {_MOST_CLIENTS:,} clients')
    model, _, state = client_measurements.final_model(experiment.plan, folder, lane)
    if not state.finite:
        raise MissingError('diverged')
    without_noise = dataclasses.replace(problem, random_loss_fn=None)
    try:
        losses = np.asarray(_client_losses(model, jax.random.key(0), without_noise))
    except errors.InvalidError:
        # Clients of unequal size are taken example by example.
        raise MissingError('its loss needs batches') from None
    if not np.isfinite(losses).all():
        raise MissingError('diverged')
    return losses


@jax.jit
def _client_losses(params: Params, key: Key, problem: Problem) -> Array:
    """Returns float[N], each client's mean loss over all of its examples."""

    def loss_of(client: Array) -> Array:
        _, loss_fn = client_data(problem, client, key, local_steps=1, batch_size=None)
        return loss_fn(params, None)

    return jnp.asarray(jax.lax.map(loss_of, jnp.arange(problem.num_clients)))
