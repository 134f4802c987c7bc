"""What tuning found, read from the metrics alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import series

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

_TUNING = 'tuning'


class Tried(NamedTuple):
    """The values that an algorithm was tuned over, at one point of the grid.

    Attributes:
      at: the point, as far as it concerns the algorithm.
      columns: the values of each of the K tries, by column.
      scores: float[K], the metric at the end, a mean over seeds; NaN where it diverged.
      best: the place of the best score; None if all diverged.
    """

    at: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    scores: np.ndarray
    best: int | None

    @property
    def chosen(self) -> dict[str, Any]:
        """The values that did best; none if all diverged."""
        if self.best is None:
            return {}
        return {name: np.asarray(column[self.best]).item() for name, column in self.columns.items()}


def tried(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> list[Tried]:
    """What an algorithm tried.

    Args:
      columns: metrics, those of its tuning complete.
      facts: of the experiment.
      label: the algorithm.

    Returns:
      One entry per point of the grid at which it was tuned; none if it was not.
    """
    tuning = facts['tuning']
    if tuning is None or not len(columns):
        return []
    rows = series.where(columns, stage=_TUNING, algorithm=label)
    rows = series.at(rows, {'round': tuning['num_rounds']})
    if not series.num_rows(rows):
        return []
    num_seeds = tuning['num_seeds']
    firsts = slice(None, None, num_seeds)
    own = [
        name for name in tuning['grid'] if name not in facts['grid'] and series.is_given(rows, name)
    ]
    at = [name for name in facts['grid'] if series.is_given(rows, name)]
    scores = _ends(rows, facts, label).reshape(-1, num_seeds).mean(axis=1)
    healthy = np.isfinite(scores) & series.finite(rows).reshape(-1, num_seeds).all(axis=1)
    scores = np.where(healthy, scores, np.nan)  # a model of NaN has an accuracy too
    groups: dict[str, list[int]] = {}
    grid = [{name: rows[name][firsts][k] for name in at} for k in range(len(scores))]
    for place, point in enumerate(grid):
        groups.setdefault(repr(point), []).append(place)
    found = []
    for places in groups.values():
        values = {name: rows[name][firsts][places] for name in own}
        best = best_of(scores[places], facts['directions'][facts['metric']])
        found.append(Tried(grid[places[0]], values, scores[places], best))
    return found


def best_of(scores: np.ndarray, direction: str | None) -> int | None:
    """The place of the best score; None if there is none."""
    if np.isnan(scores).all():
        return None
    return int(np.nanargmax(scores) if direction == 'max' else np.nanargmin(scores))


def _ends(rows: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> np.ndarray:
    """The deciding model's metric, in the precision that it was measured in."""
    models, decides = facts['models'][label], facts['tuning']['model']
    if decides != BEST:  # of an algorithm without this model the server's decides
        models = [decides if decides in models else 'server']
    ends: np.ndarray = np.stack(
        [rows[f'{model}/{facts["metric"]}'].astype(np.float64) for model in models]
    )
    single = ends.astype(np.float32)
    if np.array_equal(single, ends, equal_nan=True):
        ends = single
    larger = facts['directions'][facts['metric']] == 'max'
    best: np.ndarray = np.max(ends, axis=0) if larger else np.min(ends, axis=0)
    return best
