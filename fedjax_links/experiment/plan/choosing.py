"""How an experiment tunes, and what tuning found, read from the metrics alone."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.experiment.plan import racing
from fedjax_links.results import dataset, recorded

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

FIRST_TUNING_SEED = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How the values that suit each algorithm are found before the experiment proper.

    What is tried grows with what the tries so far have found, see `racing.race`.

    Attributes:
      grid: columns to try, values by name, none of them in the experiment's own grid; each
        algorithm tries the combinations of those that its maker takes, at every point of that grid
        as far as it concerns the algorithm, or the problem and the links that it is tuned on.
      num_rounds: rounds of each try, a multiple of ``eval_every``, at most the experiment's, which
        is the default.
      num_seeds: seeds of each try, from 10,000 on, so none of the experiment's.
      most_seeds: where paired differences over these seeds cannot tell values from the best, they
        get as many more, up to this number; by default no more.
      ties: how many of those that it still cannot tell from the best, the nearest ones, run with
        the experiment's own seeds too, so that intervals can allow for the choice; none with a
        single seed.
      grow: how many values may be added at either end of a column of rising or falling positive
        floats while the best one lies there, each as far from the last as that is from its
        neighbour, as a ratio.
      pattern: label of the links to tune on; by default each pattern is tuned on by itself.
      model: candidate model whose last evaluation decides: a name such as ``'server'``, or
        ``'best'`` for whichever is ahead; or either by label of the algorithm, ``'best'`` for one
        that is not named. So one rule under two labels can have a rate for each of its models.
    """

    grid: grids.Columns
    num_rounds: int | None = None
    num_seeds: int = 1
    most_seeds: int | None = None
    ties: int = 2
    grow: int = 3
    pattern: str | None = None
    model: str | Mapping[str, str] = BEST

    @property
    def seeds(self) -> range:
        """The seeds that a try may have."""
        return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + (self.most_seeds or self.num_seeds))

    def candidates(self) -> dict[str, tuple[list[Any], tuple[int, int]]]:
        """By column all values that may be tried, and where those that are tried first lie."""
        return {name: _grown(list(values), self.grow) for name, values in self.grid.items()}


def _grown(values: list[Any], steps: int) -> tuple[list[Any], tuple[int, int]]:
    is_float = all(isinstance(value, float) and value > 0 for value in values)
    falls = is_float and values == sorted(values, reverse=True)
    if len(values) < 2 or not is_float or not (falls or values == sorted(values)):
        return values, (0, len(values))

    def beyond(end: float, neighbour: float) -> list[float]:
        return [float(f'{end * (end / neighbour) ** k:.6g}') for k in range(1, steps + 1)]

    before = beyond(values[0], values[1])[::-1]
    return [*before, *values, *beyond(values[-1], values[-2])], (steps, steps + len(values))


class Tried(NamedTuple):
    """The values that an algorithm was tuned over, on a pattern, at one point of the grid.

    Attributes:
      pattern: label of the links.
      at: the point, as far as it concerns the algorithm.
      columns: the values of each of the K tries that every seed of theirs has behind it, by column.
      scores: float[K], the metric at the end, a mean over seeds; NaN where it diverged.
      by_seed: float[K, S], the same by seed; NaN also where there is no such try.
      best: the place of the one that is chosen; None before all is tried, or if all diverged.
      rivals: bool[K], what tuning cannot tell from the best, itself among them.
      ties: int[T], places of those of them that run with the experiment's seeds too, the nearest
        first.
      race: how far tuning is, over all values that may be tried.
    """

    pattern: str
    at: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    scores: np.ndarray
    by_seed: np.ndarray
    best: int | None
    rivals: np.ndarray
    ties: np.ndarray
    race: racing.Race

    @property
    def place(self) -> Any:
        """What tells the pattern and the point from others."""
        return recorded.place_of(self.pattern, self.at)

    @property
    def chosen(self) -> dict[str, Any]:
        """The values that did best; none if all diverged."""
        return {} if self.best is None else self.values_at(self.best)

    def values_at(self, place: int) -> dict[str, Any]:
        """The values of a try, by column."""
        return {name: values[place] for name, values in self.columns.items()}


def read_tries(
    columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str
) -> list[Tried]:
    """What an algorithm tried.

    Args:
      columns: metrics; tuning may be under way.
      facts: of the experiment.
      label: the algorithm.

    Returns:
      One entry per pattern and point of the grid at which its tuning has begun; none if it was not
      tuned.
    """
    tuning, tries = facts['tuning'], list[Tried]()
    if tuning is None or not len(columns):
        return tries
    rows = recorded.rows_of(columns, {**facts, 'algorithms': [label]}, dataset.TUNING)
    if not len(rows['round']):
        return tries
    given = {name: column for name, column in rows.items() if dataset.is_given(column).any()}
    own = {name: dataset.as_tuples(column).tolist() for name, column in given.items()}
    values = {name: v for name, v in tuning['grid'].items() if name in own}
    places = {
        name: [[dataset.as_tuple(v) for v in values[name]].index(v) for v in own[name]]
        for name in values
    }
    fixed = [name for name in facts['grid'] if name in own]
    scores, seeds = _scores(rows, facts, label), rows['seed'].astype(int) - FIRST_TUNING_SEED
    groups: dict[Any, list[int]] = {}
    for row, pattern in enumerate(rows['pattern'].tolist()):
        groups.setdefault((pattern, *(own[name][row] for name in fixed)), []).append(row)
    for (pattern, *at), members in groups.items():
        ends = [row for row in members if rows['round'][row] == tuning['num_rounds']]
        index = *(np.array(places[name], int)[ends] for name in values), seeds[ends]
        blank, first = _blank(facts, list(values))
        table, done = blank.astype(scores.dtype), np.zeros(blank.shape, bool)
        table[index], done[index] = scores[ends], True
        sign = 1 if facts['directions'][facts['metric']] == 'max' else -1
        race = racing.race(sign * table, done, first, tuning['num_seeds'])
        behind = race.wanted[..., 0] & ~(race.wanted & ~done).any(axis=-1)
        found = np.argwhere(behind)
        tried = {
            name: dataset.as_objects([v[place] for place in found[:, axis]])
            for axis, (name, v) in enumerate(values.items())
        }
        with np.errstate(invalid='ignore'):
            means = np.where(race.wanted, table, 0).sum(-1) / np.maximum(race.wanted.sum(-1), 1)
        best, ties = None, np.zeros(0, int)
        scored, rivals = means[behind], race.rivals[behind]
        if race.best is not None:
            best = int(np.flatnonzero((found == race.best).all(axis=1))[0])
            order = np.argsort(-sign * scored, kind='stable').tolist()
            nearest = [place for place in order if rivals[place] and place != best]
            most = tuning.get('ties', 0) if table.shape[-1] > 1 else 0
            ties = np.array(nearest[:most], int)
        point = {k: v for k, v in zip(fixed, at, strict=True) if v is not None and v == v}
        known = np.where(done, table, np.nan)[behind]
        tries.append(Tried(pattern, point, tried, scored, known, best, rivals, ties, race))
    return tries


def first_tries(facts: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """bool[*values, S], what is tried first in columns of tuning."""
    scores, given = _blank(facts, names)
    return racing.race(scores, scores < 0, given, facts['tuning']['num_seeds']).wanted


def _blank(
    facts: Mapping[str, Any], names: Sequence[str]
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """float[*values, S], no score yet of what may be tried; and where the first tries lie."""
    tuning = facts['tuning']
    lengths = [len(tuning['grid'][name]) for name in names]
    given = [tuning.get('given', {}).get(n, (0, k)) for n, k in zip(names, lengths, strict=True)]
    return np.full((*lengths, tuning.get('most_seeds') or tuning['num_seeds']), np.nan), given


def progress(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> str:
    """How far the tuning of an algorithm is, as a clause; empty if it has not begun or is none."""
    tries = read_tries(columns, facts, label)
    wanted = sum(int(tried.race.wanted[..., 0].sum()) for tried in tries)
    done = sum(len(tried.scores) for tried in tries)
    return f'tuning: {done} of {wanted} tried' if tries else ''


def deciding(facts: Mapping[str, Any], label: str) -> str:
    """The candidate model that decides about an algorithm, or `BEST`."""
    model = facts['tuning']['model']
    return str(model if isinstance(model, str) else model.get(label, BEST))


def _scores(rows: Mapping[str, np.ndarray], facts: Mapping[str, Any], label: str) -> np.ndarray:
    """float[rows], the deciding model's metric, in the precision that it was measured in."""
    models, decides = facts['models'][label], deciding(facts, label)
    if decides != BEST:  # of an algorithm without this model the server's decides
        models = [decides if decides in models else 'server']
    measured = [rows[f'{model}/{facts["metric"]}'].astype(float) for model in models]
    finite = np.asarray(rows.get('finite', True), bool)
    ends = np.where(finite, measured, np.nan)
    single = ends.astype(np.float32)
    if np.array_equal(single, ends, equal_nan=True):
        ends = single
    larger = facts['directions'][facts['metric']] == 'max'
    best: np.ndarray = np.max(ends, axis=0) if larger else np.min(ends, axis=0)
    return best


def choose(label: str, tries: Sequence[Tried]) -> list[tuple[str, grids.Point, grids.Point]]:
    """The values that did best in tuning.

    Args:
      label: the algorithm.
      tries: what it tried, see `read_tries`.

    Returns:
      A pattern, one of its tuned points of the grid, and the values of the columns that were tuned.

    Raises:
      ValueError: if every value tried diverged, or some have not run.
    """
    for tried in tries:
        if left := int(tried.race.wanted[..., 0].sum()) - len(tried.scores):
            raise errors.invalid('tuning', f'be done before {label} runs', f'{left} values to try')
        if tried.best is None:
            values = {name: column.tolist() for name, column in tried.columns.items()}
            raise errors.invalid('tuning', f'hold a value at which {label} converges', values)
    return [(tried.pattern, tried.at, tried.chosen) for tried in tries]
