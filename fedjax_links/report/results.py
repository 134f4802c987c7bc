"""What a finished run holds, in one form for single runs and comparisons."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import comparison, errors, evaluation, experiment, runs
from fedjax_links.report import history

LINKS = 'links.npz'
_LINKS_OF_A_RUN = 'links'

Curves = Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]


class Results(NamedTuple):
    """Everything that tables and pictures are made of.

    Attributes:
      title: one line.
      caption: what was reported elsewhere, and every deviation; may be empty.
      metric: the metric of tables.
      baseline: label of the algorithm to compare with.
      patterns: labels of the P patterns, in order.
      names: what to show instead of a label.
      rounds: int[E], rounds completed at each evaluation.
      curves: float[P, S, E] by algorithm, candidate model and metric.
      learning_rates: float[P], the client rate, by algorithm; empty for single runs.
      tuning: columns ``learning_rate``, ``server_lr``, ``score`` by algorithm that was tuned.
      missing: labels of algorithms that have not run yet.
    """

    title: str
    caption: str
    metric: str
    baseline: str
    patterns: Sequence[str]
    names: Mapping[str, str]
    rounds: np.ndarray
    curves: Curves
    learning_rates: Mapping[str, np.ndarray]
    tuning: Mapping[str, Mapping[str, np.ndarray]]
    missing: Sequence[str]

    @property
    def num_seeds(self) -> int:
        """S."""
        return self.curves[next(iter(self.curves))]['server'][self.metric].shape[1]

    @property
    def metrics(self) -> list[str]:
        """What was recorded of every candidate model."""
        return list(self.curves[next(iter(self.curves))]['server'])

    def name(self, label: str) -> str:
        """What to call a pattern or an algorithm."""
        return self.names.get(label, label)

    def count(self, share: float) -> int:
        """A share of the evaluations as their number, at least one."""
        return max(1, round(share * len(self.rounds)))

    def tail(self, label: str, model: str, metric: str, share: float) -> np.ndarray:
        """float[P, S], each seed's mean over the last evaluations.

        Args:
          label: the algorithm.
          model: the candidate model.
          metric: the metric.
          share: share of the evaluations, the last ones, at least one.
        """
        return self.curves[label][model][metric][..., -self.count(share) :].mean(axis=-1)

    def main_model(self, label: str) -> str:
        """The model that the papers evaluate: the clients' mean where clients keep models."""
        return 'client_mean' if 'client_mean' in self.curves[label] else 'server'


def read(folder: Path) -> tuple[Results, Mapping[str, Any]]:
    """Reads the folder of a run or of a comparison, finished or not.

    Args:
      folder: what ``--workdir`` was.

    Returns:
      The results, and the sections of the reports that the config asks for.

    Raises:
      ValueError: if the folder holds neither, or nothing has run yet.
    """
    path = folder / runs.CONFIG
    if not path.exists():
        raise errors.invalid('workdir', f'hold a run ({runs.CONFIG})', folder)
    values = json.loads(path.read_text())
    if 'patterns' in values:
        return _read_comparison(folder, values)
    return _read_run(folder, values)


def from_comparison(
    config: comparison.ComparisonConfig, outcomes: Mapping[str, comparison.Outcome]
) -> Results:
    """The results of a comparison.

    Args:
      config: its config.
      outcomes: by algorithm; some may be missing.

    Returns:
      The results.
    """
    first = next(iter(outcomes.values()))
    patterns = comparison.in_order(first.patterns, config.names)
    order = comparison.in_order(sorted(outcomes), config.names)
    rows = {label: [outcomes[label].patterns.index(p) for p in patterns] for label in order}
    return Results(
        title=config.title,
        caption=config.caption,
        metric=config.metric,
        baseline=config.baseline,
        patterns=patterns,
        names=dict(config.names),
        rounds=first.rounds,
        curves={label: _curves(outcomes[label], rows[label]) for label in order},
        learning_rates={label: outcomes[label].learning_rates[rows[label]] for label in order},
        tuning={label: outcomes[label].tuning for label in order if outcomes[label].tuning},
        missing=sorted(label for label in config.algorithms if label not in outcomes),
    )


def recorded_masks(folder: Path) -> Mapping[str, np.ndarray]:
    """The realised links of the first seed, bool[T, N] by pattern; empty if none were kept."""
    path = folder / LINKS
    if not path.exists():
        return {}
    with np.load(path) as stored:
        if 'mask' in stored.files:
            return {_LINKS_OF_A_RUN: stored['mask']}
        num_clients = int(stored['num_clients'])
        return {
            name.removeprefix('mask/'): np.unpackbits(stored[name], axis=-1, count=num_clients) > 0
            for name in stored.files
            if name.startswith('mask/')
        }


def _read_comparison(folder: Path, values: Mapping[str, Any]) -> tuple[Results, Mapping[str, Any]]:
    config = experiment.parse_as(comparison.ComparisonConfig, values)
    paths = {label: folder / f'{label}.npz' for label in config.algorithms}
    outcomes = {label: comparison.load(path) for label, path in paths.items() if path.exists()}
    if not outcomes:
        raise errors.invalid('workdir', 'hold at least one finished algorithm', folder)
    return from_comparison(config, outcomes), config.reports


def _read_run(folder: Path, values: Mapping[str, Any]) -> tuple[Results, Mapping[str, Any]]:
    config = experiment.parse(values)
    recorded = history.read(runs.read_metrics(folder))
    whole = {
        label: models
        for label, models in recorded.items()
        if _last_round(models) == config.num_rounds
    }
    if not whole:
        raise errors.invalid('workdir', 'hold at least one finished algorithm', folder)
    curves = {
        label: {
            model: {metric: curve.values.T[None] for metric, curve in named.items()}
            for model, named in models.items()
        }
        for label, models in whole.items()
    }
    metrics = list(next(iter(curves.values()))['server'])
    accuracies = [metric for metric in metrics if evaluation.higher_is_better(metric)]
    results = Results(
        title=config.title,
        caption='',
        metric=accuracies[0] if accuracies else metrics[0],
        baseline='fedavg' if 'fedavg' in curves else next(iter(curves)),
        patterns=[_LINKS_OF_A_RUN],
        names={},
        rounds=np.arange(config.eval_every, config.num_rounds + 1, config.eval_every),
        curves=curves,
        learning_rates={},
        tuning={},
        missing=[label for label in config.algorithms if label not in whole],
    )
    return results, {}


def _last_round(models: Mapping[str, Mapping[str, history.Curve]]) -> int:
    return int(next(iter(models['server'].values())).rounds[-1])


def _curves(outcome: comparison.Outcome, rows: Sequence[int]) -> dict[str, dict[str, np.ndarray]]:
    """Rows of the evaluations, server models first; NaN for everything that is not finite."""
    return {
        model: {
            metric: np.where(np.isfinite(values[rows]), values[rows], np.nan)
            for metric, values in named.items()
        }
        for model, named in sorted(outcome.evals.items(), key=lambda item: item[0] != 'server')
    }
