"""What tuning found so far, read from the metrics alone."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.planning.tuning import BEST, FIRST_TUNING_SEED, EdgeCounts, Race, race
from fedjax_links.results import dataset, recorded
from fedjax_links.results.dataset import Columns


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
    race: Race

    @property
    def chosen(self) -> dict[str, Any]:
        """The values that did best; none if all diverged."""
        return {} if self.best is None else self.values_at(self.best)

    def values_at(self, place: int) -> dict[str, Any]:
        """The values of a try, by column."""
        return {name: values[place] for name, values in self.columns.items()}


def read_tries(columns: Columns, facts: Mapping[str, Any], label: str) -> list[Tried]:
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
    rows = recorded.rows_of(columns, {**facts, 'algorithms': [label]}, dataset.TUNING)
    if tuning is None or not len(rows['round']):
        return tries
    own = {
        k: dataset.as_tuples(v).tolist()
        for k, v in rows.items()
        if dataset.is_given(v).any()
    }
    values = {
        name: dataset.as_tuple(v) for name, v in tuning['grid'].items() if name in own
    }
    fixed = [name for name in facts['grid'] if name in own]
    scores, tables = (
        _scores(rows, facts, label),
        dict[Any, tuple[np.ndarray, np.ndarray]](),
    )
    blank, first = _blank(facts, list(values))
    for row, pattern in enumerate(own['pattern']):
        at = pattern, *(own[name][row] for name in fixed)
        if at not in tables:
            tables[at] = blank.astype(scores.dtype), np.zeros(blank.shape, bool)
        table, done = tables[at]
        if own['round'][row] == tuning['num_rounds']:
            place = (v.index(own[name][row]) for name, v in values.items())
            index = *place, int(own['seed'][row]) - FIRST_TUNING_SEED
            table[index], done[index] = scores[row], True
    sign = 1 if facts['directions'][facts['metric']] == 'max' else -1
    for (pattern, *at), (table, done) in tables.items():
        found = race(sign * table, done, first, tuning['num_seeds'])
        behind = found.wanted[..., 0] & ~(found.wanted & ~done).any(axis=-1)
        places, rivals = np.argwhere(behind), found.rivals[behind]
        tried = {
            name: dataset.as_objects(
                [tuning['grid'][name][place] for place in places[:, axis]]
            )
            for axis, name in enumerate(values)
        }
        with np.errstate(invalid='ignore'):
            sums = np.where(found.wanted, table, 0).sum(-1)
            means = (sums / np.maximum(found.wanted.sum(-1), 1))[behind]
        best, ties = None, np.zeros(0, int)
        if found.best is not None:
            best = int(np.flatnonzero((places == found.best).all(axis=1))[0])
            order = np.argsort(-sign * means, kind='stable')
            most = tuning.get('ties', 0) if table.shape[-1] > 1 else 0
            ties = order[rivals[order] & (order != best)][:most]
        point = {
            k: v for k, v in zip(fixed, at, strict=True) if v is not None and v == v
        }
        known = np.where(done, table, np.nan)[behind]
        tries.append(
            Tried(pattern, point, tried, means, known, best, rivals, ties, found)
        )
    return tries


def tried_for(tries: Sequence[Tried], pattern: str, point: grids.Point) -> Tried | None:
    """What was tried for a pattern and a point: on that pattern, or on the only one of all.

    At the first point that differs in no column of both: the pattern that was tuned on may have
    columns that another lacks.
    """
    alone = len({tried.pattern for tried in tries}) == 1
    own = {name: dataset.as_tuple(value) for name, value in point.items()}
    fits = (
        x for x in tries if (alone or x.pattern == pattern) and grids.agree(own, x.at)
    )
    return next(fits, None)


def first_tries(facts: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """bool[*values, S], what is tried first in columns of tuning."""
    scores, given = _blank(facts, names)
    return race(scores, scores < 0, given, facts['tuning']['num_seeds']).wanted


def _blank(
    facts: Mapping[str, Any], names: Sequence[str]
) -> tuple[np.ndarray, list[EdgeCounts]]:
    """float[*values, S], no score yet of what may be tried; and where the first tries lie."""
    tuning = facts['tuning']
    lengths = [len(tuning['grid'][name]) for name in names]
    given = [
        tuning.get('given', {}).get(n, (0, k))
        for n, k in zip(names, lengths, strict=True)
    ]
    return np.full(
        (*lengths, tuning.get('most_seeds') or tuning['num_seeds']), np.nan
    ), given


def progress(columns: Columns, facts: Mapping[str, Any], label: str) -> str:
    """How far the tuning of an algorithm is, as a clause; empty if it has not begun or is none."""
    tries = read_tries(columns, facts, label)
    wanted = sum(int(tried.race.wanted[..., 0].sum()) for tried in tries)
    done = sum(len(tried.scores) for tried in tries)
    return f'tuning: {done} of {wanted} tried' if tries else ''


def _scores(rows: Columns, facts: Mapping[str, Any], label: str) -> np.ndarray:
    """float[rows], the deciding model's metric, in the precision that it was measured in."""
    models, decides = facts['models'][label], facts['tuning']['model']
    if isinstance(decides, Mapping):
        decides = decides.get(label, BEST)
    if decides != BEST:  # of an algorithm without this model the server's decides
        models = [decides if decides in models else 'server']
    measured = [rows[f'{model}/{facts["metric"]}'].astype(float) for model in models]
    finite = np.asarray(rows.get('finite', True), bool)
    ends = np.where(finite, measured, np.nan)
    single = ends.astype(np.float32)
    if np.array_equal(single, ends, equal_nan=True):
        ends = single
    better = np.max if facts['directions'][facts['metric']] == 'max' else np.min
    return np.asarray(better(ends, axis=0))


def count_done(columns: Columns, facts: Mapping[str, Any], label: str) -> int:
    """The number of lanes that tuned an algorithm and are done."""
    if not columns:
        return 0
    is_end = columns['round'] == facts['tuning']['num_rounds']
    is_tuning = columns['stage'] == dataset.TUNING
    return int(np.count_nonzero(is_end & is_tuning & (columns['algorithm'] == label)))


def is_done(tries: Sequence[Tried], count: int) -> bool:
    """Whether an algorithm has tried all that there is to try.

    Args:
      tries: what it tried, see `read_tries`.
      count: of the patterns and points that it is tuned at.
    """
    left = sum(
        int(tried.race.wanted[..., 0].sum()) - len(tried.scores) for tried in tries
    )
    return len(tries) == count and not left


def check_main_lanes(columns: Columns, facts: Mapping[str, Any]) -> None:
    """Raises unless all main lanes have the values that tuning chose.

    Args:
      columns: metrics of a run whose tuning is done.
      facts: of the experiment.

    Raises:
      ValueError: naming the first lane that has another value, both values, and what to do.
    """
    for label in facts['algorithms'] if facts['tuning'] else ():
        tries = read_tries(columns, facts, label)
        for pattern, seed, point in _main_lanes(columns, facts, label):
            tried = tried_for(tries, pattern, point)
            for name, chosen in tried.chosen.items() if tried else ():
                value = point.get(name, chosen)
                if value != dataset.as_tuple(chosen):
                    requirement = (
                        f'hold main lanes at what tuning chose, {name} {chosen} (shards that tune '
                        'apart may choose otherwise; in one folder they tune once)'
                    )
                    lane = f'{label}, {pattern}, seed {seed} at {value}'
                    raise errors.invalid('workdir', requirement, lane)


def _main_lanes(
    columns: Columns, facts: Mapping[str, Any], label: str
) -> list[tuple[str, int, dict[str, Any]]]:
    """Pattern, seed and values of the columns of every main lane of an algorithm."""
    rows = recorded.rows_of(columns, {**facts, 'algorithms': [label]}, dataset.MAIN)
    names = [
        name for name in (*facts['grid'], *facts['tuning']['grid']) if name in rows
    ]
    shown = (
        dataset.as_tuples(rows[name]).tolist() for name in ('pattern', 'seed', *names)
    )
    lanes: list[tuple[str, int, dict[str, Any]]] = []
    for pattern, seed, *values in dict.fromkeys(zip(*shown, strict=True)):
        point = dict(zip(names, values, strict=True))
        known = {
            k: value
            for k, value in point.items()
            if value is not None and value == value
        }
        lanes.append((pattern, seed, known))
    return lanes


def mistake(label: str, tries: Sequence[Tried]) -> errors.InvalidError | None:
    """What is wrong where every value that an algorithm tried diverged; None where none did."""
    for tried in tries:
        is_whole = int(tried.race.wanted[..., 0].sum()) == len(tried.scores)
        if is_whole and tried.best is None:
            values = {name: column.tolist() for name, column in tried.columns.items()}
            return errors.invalid(
                'tuning', f'hold a value at which {label} converges', values
            )
    return None
