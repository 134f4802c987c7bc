"""What only the experiment itself can tell of its clients: laws, losses, agreement with theory.

Found at the end of a run, while problem and links are at hand, and kept as ``clients.npz``, so that
a report never builds a problem again.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, problems, runs
from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.clients.data import client_data
from fedjax_links.core import errors, memory, tree
from fedjax_links.experiment import Experiment, Lane
from fedjax_links.experiment.plan import choosing
from fedjax_links.experiment.plan.lanes import main_lanes
from fedjax_links.experiment.running.programs import state_shape
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import configured, prediction
from fedjax_links.report.screens.laws import link_law
from fedjax_links.storage import archives, checkpoints, packing

FILE = 'clients.npz'
_MOST_CLIENTS = 100_000
_MOST_BYTES = 2**31


class Agreement(NamedTuple):
    """FedAvg on quadratics beside its exact fixed point.

    Attributes:
      distance: norm of the mean over seeds of the final model minus the fixed point of the data and
        links of its seed.
      standard_error: root of the mean square of that distance, were the mean zero; NaN for one
        seed.
      exact: whether the fixed point is exact for every step size, or for small ones alone.
    """

    distance: float
    standard_error: float
    exact: bool


class Clients(NamedTuple):
    """The clients under one pattern.

    Attributes:
      weights: float64[N], FedAvg's exact implicit weights; empty where they are not known.
      source: which formula they come from, or why there are none.
      losses: float[N] by algorithm, the mean training loss of each client at the final model of the
        first seed, at the first point of the grid.
      agreement: by algorithm.
      missing: by algorithm, why it has no losses.
      expected: by algorithm and metric on evaluation data, what small steps lead to in the rounds
        of the run, or in the long run where these are not known; empty where nothing is predicted.
    """

    weights: np.ndarray
    source: str
    losses: Mapping[str, np.ndarray]
    agreement: Mapping[str, Agreement]
    missing: Mapping[str, str]
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
    arrays: dict[str, np.ndarray] = {}
    for pattern, found in of(experiment, run, run.folder).items():
        arrays[f'weights/{pattern}'] = found.weights
        arrays[f'source/{pattern}'] = np.array(found.source)
        arrays |= {f'losses/{pattern}/{name}': value for name, value in found.losses.items()}
        arrays |= {f'missing/{pattern}/{k}': np.array(why) for k, why in found.missing.items()}
        arrays |= {f'agreement/{pattern}/{k}': np.array(v) for k, v in found.agreement.items()}
        arrays |= {
            f'expected/{pattern}/{algorithm}/{metric}': np.array(value)
            for algorithm, metrics in found.expected.items()
            for metric, value in metrics.items()
        }
    with errors.on_disk(run.folder):
        checkpoints.write_whole(run.folder / FILE, packing.npz(arrays))


def kept(folder: Path) -> dict[str, Clients]:
    """What was kept, by pattern; empty where nothing was.

    Args:
      folder: of a run.
    """
    if not (folder / FILE).exists():
        return {}
    found: dict[str, Clients] = {}
    with np.load(folder / FILE, allow_pickle=False) as stored:
        for name in stored.files:
            kind, pattern, *algorithm = name.split('/')
            own = found.setdefault(pattern, Clients(np.zeros(0), '', {}, {}, {}))
            value = stored[name]
            if kind == 'weights':
                found[pattern] = own._replace(weights=value)
            elif kind == 'source':
                found[pattern] = own._replace(source=str(value))
            elif kind == 'agreement':
                distance, error, exact = value.tolist()
                entry = Agreement(distance, error, bool(exact))
                found[pattern] = own._replace(agreement={**own.agreement, algorithm[0]: entry})
            elif kind == 'losses':
                found[pattern] = own._replace(losses={**own.losses, algorithm[0]: value})
            elif kind == 'expected':
                label, metric = algorithm
                metrics = {**own.expected.get(label, {}), metric: float(value)}
                found[pattern] = own._replace(expected={**own.expected, label: metrics})
            elif kind == 'missing':
                found[pattern] = own._replace(missing={**own.missing, algorithm[0]: str(value)})
    return found


def of(experiment: Experiment, run: runs.Results, folder: Path) -> dict[str, Clients]:
    """Everything, by pattern.

    Args:
      experiment: what ran.
      run: its results.
      folder: where its checkpoints are.
    """
    final = _Finals(experiment, folder)
    lanes = _lanes(experiment, run)
    found = {}
    for pattern in experiment.pattern_makers:
        problem = experiment.problem_at(pattern, experiment.grid_points[0])
        law = _law(experiment, pattern, experiment.seeds[0])
        losses: dict[str, np.ndarray | None] = {}
        missing: dict[str, str] = {}
        agreement: dict[str, Agreement] = {}
        for label in experiment.algorithms:
            own = [lane for lane in lanes[label] if lane.pattern == pattern]
            same = [lane for lane in own if lane.point == own[0].point]
            losses[label], missing[label] = _losses(final, same[:1], problem)
            if law.weights is not None and _is_averaging(experiment, label, problem):
                compared = _agreement(final, same, experiment)
                agreement |= {} if compared is None else {label: compared}
        found[pattern] = Clients(
            np.zeros(0) if law.weights is None else law.weights,
            f'not known: {law.description}' if law.weights is None else law.weights_source,
            {label: value for label, value in losses.items() if value is not None},
            agreement,
            {label: why for label, why in missing.items() if why},
            _expected(experiment, pattern, problem),
        )
    return found


def _expected(
    experiment: Experiment, pattern: str, problem: Problem
) -> dict[str, Mapping[str, float]]:
    """What is predicted of FedAvg and FedPBC, if they run and it is found quickly."""
    if experiment.config is None or len(experiment.grid_points) > 1:
        return {}
    if not prediction.is_stated(problem):
        return {}
    if prediction.work(problem) > prediction.MOST_WORK / len(experiment.patterns):
        return {}
    found = prediction.under(configured.of_experiment(experiment, pattern))
    if found is None:
        return {}
    every = {'fedavg': found.fedavg, 'fedpbc': found.fedpbc}
    return {
        label: value.reached or value.limit
        for label, value in every.items()
        if label in experiment.algorithms
    }


# Laws.


def _law(experiment: Experiment, pattern: str, seed: int) -> LinkLaw:
    """The exact law of a seed's links; one without numbers, that says why, where there is none."""
    bound = configured.links_at(experiment, pattern, seed)
    if bound is None:
        return LinkLaw('made in Python, no config names the links')
    maker = experiment.pattern_makers[pattern]
    if maker.columns.keys() & experiment.grid_points[0].keys():
        return LinkLaw('the grid changes links or data')
    return link_law(bound)


def _is_averaging(experiment: Experiment, label: str, problem: Problem) -> bool:
    """Whether an algorithm is FedAvg with plain local steps on quadratics."""
    if problem.loss_fn is not problems.quadratic(np.zeros((1, 1))).loss_fn:
        return False
    config = experiment.config or {'algorithms': {}}
    section = config['algorithms'].get(label, {})
    client = {**config.get('client', {}), **section.get('client', {})}
    plain = not client.get('optimizer') and client.get('name', 'local_sgd') == 'local_sgd'
    return section.get('name', label) == 'fedavg' and plain


def _agreement(final: '_Finals', lanes: Sequence[Lane], experiment: Experiment) -> Agreement | None:
    """The lanes of all seeds, each beside the fixed point of its own data and links."""
    found = [final.model(lane, 'server') for lane in lanes]
    ends = np.array([model for model in found if not isinstance(model, str)], np.float64)
    if len(ends) < len(lanes) or not np.isfinite(ends).all():
        return None
    off = []
    for lane, end in zip(lanes, ends, strict=True):
        problem = experiment.problem_at(lane.pattern, lane.point, lane.seed)
        law = _law(experiment, lane.pattern, lane.seed)
        targets = np.asarray(problem.data, np.float64)
        if law.probs is not None:
            off.append(end - analysis.fedavg_fixed_point(law.probs, targets))
        else:
            assert law.weights is not None
            off.append(end - law.weights @ targets)
    error = np.nan
    if len(off) > 1:
        error = float(np.sqrt(np.var(off, axis=0, ddof=1).sum() / len(off)))
    distance = float(np.linalg.norm(np.mean(off, axis=0)))
    return Agreement(distance, error, law.memoryless or law.never_empty)


# Final models.


def _lanes(experiment: Experiment, run: runs.Results) -> dict[str, list[Lane]]:
    found = {}
    for label in experiment.algorithms:
        chosen = [e.chosen for e in choosing.tried(run.columns, experiment.facts(), label)]
        found[label] = main_lanes(experiment, label, chosen)
    return found


class _Finals:
    """Final models, from the checkpoints of a folder."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        """Reads nothing yet."""
        self._experiment, self._folder = experiment, folder

    def model(self, lane: Lane, name: str | None = None) -> Params | str:
        """A final model; the clients' mean, where they keep models, for no name.

        Returns:
          The model, or why there is none.
        """
        like = state_shape(self._experiment, lane)
        if tree.num_bytes(like) > _MOST_BYTES:
            return f'its state is too large to be looked at ({memory.size(tree.num_bytes(like))})'
        path = runs.checkpoint_file(self._folder, lane.name, lane.num_rounds)
        try:
            state = checkpoints.load(path, like)
        except checkpoints.DamagedError:
            return 'its last checkpoint is not there'
        maker = self._experiment.algorithm_makers[lane.algorithm]
        algorithm = self._experiment.algorithm_at(lane.algorithm, maker.at(lane.point))
        models = algorithm.models(state.algorithm)
        return models[name or ('client_mean' if 'client_mean' in models else 'server')]


def _losses(
    final: _Finals, lanes: Sequence[Lane], problem: Problem
) -> tuple[np.ndarray | None, str]:
    """Losses by client at the final model of a lane, or why there are none."""
    if problem.num_clients > _MOST_CLIENTS:
        return None, f'more than {_MOST_CLIENTS:,} clients'
    model = final.model(lanes[0])
    if isinstance(model, str):
        return None, model
    steady = dataclasses.replace(problem, random_loss_fn=None)
    try:
        losses = np.asarray(_client_losses(model, jax.random.key(0), steady))
    except errors.InvalidError:  # clients of unequal size are taken example by example
        return None, 'its loss needs batches'
    return (losses, '') if np.isfinite(losses).all() else (None, 'diverged')


@jax.jit
def _client_losses(params: Params, key: Key, problem: Problem) -> Array:
    """float[N], each client's mean loss over all of its examples."""

    def one(client: Array) -> Array:
        _, loss = client_data(problem, client, key, 1, None)
        return loss(params, None)

    found: Any = jax.lax.map(one, jnp.arange(problem.num_clients))
    return found
