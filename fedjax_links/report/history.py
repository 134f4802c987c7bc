"""The metrics of a run as arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Curve(NamedTuple):
    """One measured quantity of one candidate model of one algorithm.

    Attributes:
      rounds: int[E], rounds completed at each evaluation.
      values: float[E, S], one column per seed; NaN where the run diverged.
    """

    rounds: np.ndarray
    values: np.ndarray


History = Mapping[str, Mapping[str, Mapping[str, Curve]]]


def read(lines: Iterable[Mapping[str, Any]]) -> History:
    """Metrics lines as ``history[algorithm][model][metric]``, server models first."""
    rounds: dict[str, list[int]] = {}
    values: dict[str, dict[str, dict[str, list[Sequence[float | None]]]]] = {}
    for line in lines:
        label = line['algorithm']
        rounds.setdefault(label, []).append(line['round'])
        for model, metrics in line['evals'].items():
            for metric, seeds in metrics.items():
                by_model = values.setdefault(label, {}).setdefault(model, {})
                by_model.setdefault(metric, []).append(seeds)
    return {
        label: {
            model: {
                metric: Curve(np.asarray(rounds[label]), np.asarray(rows, np.float64))
                for metric, rows in metrics.items()
            }
            for model, metrics in sorted(models.items(), key=lambda item: item[0] != 'server')
        }
        for label, models in values.items()
    }


def tail_means(curve: Curve, fraction: float = 0.1) -> np.ndarray:
    """float[S], each seed's mean over the last ``fraction`` of its evaluations, at least one."""
    count = max(1, round(fraction * len(curve.rounds)))
    return curve.values[-count:].mean(axis=0)
