"""What tuning found, read from the metrics alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import series

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

_TUNING = 'tuning'
_MOST_SHOWN = 8


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
        return {} if self.best is None else self._values(self.best)

    def text(self, metric: str) -> list[str]:
        """A clause for each try: ``eval_loss 0.41 at learning_rate 0.1``."""
        return [
            f'{metric} {score:.4g} at {series.described({**self.at, **self._values(place)})}'
            for place, score in enumerate(self.scores)
        ]

    def _values(self, place: int) -> dict[str, Any]:
        return {name: column[place] for name, column in self.columns.items()}


def tried(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> list[Tried]:
    """What an algorithm tried.

    Args:
      columns: metrics; tuning may be under way.
      facts: of the experiment.
      label: the algorithm.

    Returns:
      One entry per point of the grid at which it was tuned, of the values that every seed of tuning
      has behind it; none if it was not.
    """
    tuning, rows = facts['tuning'], _ends(columns, facts, label)
    if not rows:
        return []
    own = [name for name in tuning['grid'] if name not in facts['grid']]
    scores, finite = _scores(rows, facts, label), series.finite(rows)
    found = []
    for point, here in _groups(rows, facts['grid']):
        tries = _groups(rows, own, here)
        done = [(values, k) for values, k in tries if len(k) == tuning['num_seeds']]
        if not done:
            continue
        places = np.array([k for _, k in done])
        ends = scores[places].mean(axis=1)
        healthy = np.isfinite(ends) & finite[places].all(axis=1)
        ends = np.where(healthy, ends, np.nan)  # a model of NaN has an accuracy too
        grid = tuning['grid']
        values = {name: _as_given([v[name] for v, _ in done], grid[name]) for name in done[0][0]}
        best = best_of(ends, facts['directions'][facts['metric']])
        found.append(Tried(point, values, ends, best))
    return found


def progress(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> str:
    """How far the tuning of an algorithm is, as a clause; empty if it has not begun or is none."""
    rows = series.where(columns, stage=_TUNING, algorithm=label)
    if not series.num_rows(rows):
        return ''
    grid, num_seeds = facts['tuning']['grid'], facts['tuning']['num_seeds']
    own = [name for name in grid if name not in facts['grid'] and series.is_given(rows, name)]
    total = len(series.points(rows, facts)) * math.prod(len(grid[name]) for name in own)
    found = [text for entry in tried(columns, facts, label) for text in entry.text(facts['metric'])]
    more = series.num_rows(_ends(columns, facts, label)) - num_seeds * len(found)
    parts = [f'tuning: {len(found)} of {total} tried']
    parts += [f'{more} of {num_seeds} seeds of the next'] if more else []
    return ', '.join([*parts, *found[:_MOST_SHOWN], *(['...'] if found[_MOST_SHOWN:] else [])])


def best_of(scores: np.ndarray, direction: str | None) -> int | None:
    """The place of the best score; None if there is none."""
    if np.isnan(scores).all():
        return None
    return int(np.nanargmax(scores) if direction == 'max' else np.nanargmin(scores))


def _ends(
    columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str
) -> Mapping[str, np.ndarray]:
    """The last evaluation of each lane that tuned an algorithm; empty if there is none."""
    if facts['tuning'] is None or not len(columns):
        return {}
    rows = series.where(columns, stage=_TUNING, algorithm=label)
    rows = series.at(rows, {'round': facts['tuning']['num_rounds']})
    return rows if series.num_rows(rows) else {}


def _groups(
    rows: Mapping[str, np.ndarray], names: Iterable[str], among: Sequence[int] | None = None
) -> list[tuple[dict[str, Any], list[int]]]:
    """The values that rows have of some columns, each with where, as they came."""
    given = [name for name in names if series.is_given(rows, name)]
    found: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for place in range(series.num_rows(rows)) if among is None else among:
        values = {name: rows[name][place] for name in given}
        found.setdefault(repr(values), (values, []))[1].append(place)
    return list(found.values())


def _as_given(values: Sequence[Any], given: Sequence[Any]) -> np.ndarray:
    """Values of lines of metrics as a grid gives them: whole numbers and lists among them."""
    found = np.empty(len(values), object)
    for place, value in enumerate(values):
        found[place] = next(v for v in given if series.plain(v) == value)
    return found


def _scores(rows: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> np.ndarray:
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
