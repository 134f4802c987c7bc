"""How an experiment tunes, and what tuning found, read from the metrics alone."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.core.grids import Columns
from fedjax_links.results import dataset, recorded

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

FIRST_TUNING_SEED = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How the values that suit each algorithm are found before the experiment proper.

    Attributes:
      grid: columns to try, values by name, none of them in the experiment's own grid; each
        algorithm tries the combinations of those that its maker takes, at every point of that grid
        as far as it concerns the algorithm, or the problem and the links that it is tuned on.
      num_rounds: rounds of each try, a multiple of ``eval_every``, at most the experiment's.
      num_seeds: seeds of each try, from 10,000 on, so none of the experiment's.
      pattern: label of the links to tune on; the first by default.
      model: candidate model whose last evaluation decides: a name such as ``'server'``, or
        ``'best'`` for whichever is ahead.
    """

    grid: Columns
    num_rounds: int
    num_seeds: int = 1
    pattern: str | None = None
    model: str = BEST

    @property
    def seeds(self) -> range:
        """The seeds of every try."""
        return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.num_seeds)


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
        best = self.best
        return {} if best is None else {name: v[best] for name, v in self.columns.items()}


def read_tries(
    columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str
) -> list[Tried]:
    """What an algorithm tried.

    Args:
      columns: metrics; tuning may be under way.
      facts: of the experiment.
      label: the algorithm.

    Returns:
      One entry per point of the grid at which it was tuned, of the values that every seed of tuning
      has behind it; none if it was not.
    """
    every = _series(columns, facts, label)
    done = [(point, ends) for point, ends in every if len(ends) == facts['tuning']['num_seeds']]
    if not done:
        return []
    scores = _scores([ends for _, ends in done], facts).mean(axis=1)
    scores = np.where(np.isfinite(scores), scores, np.nan)
    groups: dict[str, list[int]] = {}
    for place, (point, _) in enumerate(done):
        groups.setdefault(repr(_at(point, facts)), []).append(place)
    found = []
    for places in groups.values():
        points = [done[place][0] for place in places]
        at, own = _at(points[0], facts), scores[places]
        values = {}
        for name in points[0].keys() - at.keys():
            values[name] = np.empty(len(points), object)
            values[name][:] = [point[name] for point in points]
        values = {name: values[name] for name in points[0] if name in values}
        best = best_of(own, facts['directions'][facts['metric']])
        found.append(Tried(at, values, own, best))
    return found


def progress(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> str:
    """How far the tuning of an algorithm is, as a clause; empty if it has not begun or is none."""
    every = _series(columns, facts, label)
    done = [ends for _, ends in every if len(ends) == facts['tuning']['num_seeds']]
    return f'tuning: {len(done)} of {len(every)} tried' if every else ''


def best_of(scores: np.ndarray, direction: str | None) -> int | None:
    """The place of the best score; None if there is none."""
    if np.isnan(scores).all():
        return None
    return int(np.nanargmax(scores) if direction == 'max' else np.nanargmin(scores))


def _series(
    columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str
) -> list[tuple[Mapping[str, Any], np.ndarray]]:
    """The points that an algorithm tries, with float[S, M]: how far seeds came at the end."""
    if facts['tuning'] is None or not len(columns):
        return []
    models, decides = facts['models'][label], facts['tuning']['model']
    if decides != BEST:  # of an algorithm without this model the server's decides
        models = [decides if decides in models else 'server']
    facts = {**facts, 'algorithms': [label]}
    rows = recorded.rows_of(columns, facts, dataset.TUNING)
    members, owner = recorded.members_of(rows, facts, dataset.TUNING)
    if not members:
        return []
    last = np.flatnonzero(rows['round'] == facts['tuning']['num_rounds'])
    last = last[np.argsort(rows['seed'][last], kind='stable')]
    finite = np.asarray(rows.get('finite', True), bool)
    values = [
        np.where(finite, rows[f'{m}/{facts["metric"]}'].astype(float), np.nan) for m in models
    ]
    ends = np.stack(values, axis=-1)
    return [(at, ends[last[owner[last] == k]]) for k, (_, at) in enumerate(members)]


def _at(point: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a point that is of the grid."""
    return {name: value for name, value in point.items() if name in facts['grid']}


def _scores(every: Sequence[np.ndarray], facts: Mapping[str, Any]) -> np.ndarray:
    """The deciding model's metric [K, S], in the precision that it was measured in."""
    ends = np.stack(every)
    single = ends.astype(np.float32)
    if np.array_equal(single, ends, equal_nan=True):
        ends = single
    larger = facts['directions'][facts['metric']] == 'max'
    best: np.ndarray = np.max(ends, axis=-1) if larger else np.min(ends, axis=-1)
    return best


def choose(
    facts: Mapping[str, Any], label: str, columns: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """The values that did best in tuning.

    Args:
      facts: of the experiment, as `read_tries` takes them.
      label: the algorithm.
      columns: the metrics, those of its tuning among them.

    Returns:
      For each of its tuned points of the grid, the values of the columns that were tuned.

    Raises:
      ValueError: if every value tried diverged.
    """
    found = read_tries(columns, facts, label)
    for tried in found:
        if tried.best is None:
            values = {name: column.tolist() for name, column in tried.columns.items()}
            raise errors.invalid('tuning', f'hold a value at which {label} converges', values)
    return [tried.chosen for tried in found]
