"""How an experiment tunes, and what tuning found, read from the metrics alone.

What is tried next is a pure function of scores: whoever asks, and whenever, is told the same.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors, grids
from fedjax_links.results import dataset, recorded
from fedjax_links.results.dataset import Columns

Ends = tuple[
    int, int
]  # the place of the first of some values, and that behind the last

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

FIRST_TUNING_SEED = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How the values that suit each algorithm are found before the experiment proper.

    What is tried grows with what the tries so far have found, see `race`.

    Attributes:
      grid: columns to try, values by name, none of them in the experiment's own grid; each
        algorithm tries the combinations of those that its maker takes, at every point of that grid
        as far as it concerns the algorithm, or the problem and the links that it is tuned on.
      num_rounds: rounds of each try, a multiple of ``eval_every``, at most the experiment's, which
        is the default.
      num_seeds: seeds of each try, from 10,000 on, which the experiment may not have.
      most_seeds: where paired differences over these seeds cannot tell values from the best, they
        get as many more, up to this number; by default no more.
      ties: how many of those that it still cannot tell from the best, the nearest ones, run with
        the experiment's own seeds too, so that intervals can allow for the choice; none with a
        single seed.
      grow: how many values may be added at either end of a column of rising or falling positive
        floats while the best one lies there, each as far from the last as that is from its
        neighbour, as a ratio; none that an algorithm with that column refuses.
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

    def __post_init__(self) -> None:
        """Checks the numbers; those of NumPy become plain ones, which a folder can keep."""
        checks.static_int('tuning.num_seeds', self.num_seeds)
        checks.static_int('tuning.ties', self.ties, minimum=0)
        checks.static_int('tuning.grow', self.grow, minimum=0, maximum=20)
        least = {'num_rounds': 1, 'most_seeds': max(2, self.num_seeds)}
        for field in (name for name in least if getattr(self, name) is not None):
            checks.static_int(
                f'tuning.{field}', getattr(self, field), minimum=least[field]
            )
        object.__setattr__(self, 'grid', grids.flatten(self.grid, 'tuning.grid'))
        for field in ('num_rounds', 'num_seeds', 'most_seeds', 'ties', 'grow'):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, int(getattr(self, field)))

    @property
    def seeds(self) -> range:
        """The seeds that a try may have."""
        return range(
            FIRST_TUNING_SEED, FIRST_TUNING_SEED + (self.most_seeds or self.num_seeds)
        )

    def candidates(self) -> dict[str, tuple[list[Any], Ends]]:
        """By column all values that may be tried, and where those that are tried first lie."""
        return {
            name: _grown(list(values), self.grow) for name, values in self.grid.items()
        }


def _grown(values: list[Any], steps: int) -> tuple[list[Any], Ends]:
    is_float = all(isinstance(value, float) and value > 0 for value in values)
    if len(values) < 2 or not (
        is_float and values in (sorted(values), sorted(values)[::-1])
    ):
        return values, (0, len(values))

    def beyond(end: float, neighbour: float) -> list[float]:
        return [
            float(f'{end * (end / neighbour) ** k:.6g}') for k in range(1, steps + 1)
        ]

    before = beyond(values[0], values[1])[::-1]
    return [*before, *values, *beyond(values[-1], values[-2])], (
        steps,
        steps + len(values),
    )


class Race(NamedTuple):
    """How far the tuning of an algorithm is, at one point of the grid.

    Attributes:
      wanted: bool[*values, S], the tries and seeds that there are to be, those done among them.
      best: the place of the best in [*values]; None before all that are wanted are done, or if
        none converged.
      rivals: bool[*values], what the seeds cannot tell from the best, itself among them.
    """

    wanted: np.ndarray
    best: tuple[int, ...] | None
    rivals: np.ndarray


def race(
    scores: np.ndarray, done: np.ndarray, given: Sequence[Ends], num_seeds: int
) -> Race:
    """Grows the ranges of values until the best lies inside, then adds seeds among near ties.

    Args:
      scores: float[*values, S], larger is better; NaN where it diverged.
      done: bool[*values, S], which are known.
      given: for every column, the first place of the values tried first, and that behind the last.
      num_seeds: seeds of every try; more, as many at a time, up to S, where a 95 % t interval of
        paired differences to the best holds zero.
    """
    ranges = [list(ends) for ends in given]
    count, seeds = np.zeros(scores.shape[:-1], int), num_seeds
    while True:
        box = np.zeros(count.shape, bool)
        box[tuple(slice(*ends) for ends in ranges)] = True
        count[box] = np.maximum(count[box], num_seeds)
        wanted = np.arange(scores.shape[-1]) < count[..., None]
        level = np.where(wanted, np.where(np.isnan(scores), -np.inf, scores), 0).sum(-1)
        level = np.where(count == seeds, level / seeds, -np.inf)
        if (wanted & ~done).any() or np.isneginf(level).all():
            return Race(wanted, None, box & False)
        best: Any = np.unravel_index(level.argmax(), level.shape)
        before = [[*ends] for ends in ranges]
        sizes: tuple[int, ...] = count.shape
        for ends, place, size in zip(ranges, best, sizes, strict=True):
            if place == ends[0] and ends[0] > 0:
                ends[0] -= 1
            elif place == ends[1] - 1 and ends[1] < size:
                ends[1] += 1
        if ranges != before:
            continue
        rivals = box.copy()
        for at in map(tuple, np.argwhere(box)):
            common = min(count[at], count[best])
            rivals[at] = not _is_behind(scores[best][:common] - scores[at][:common])
        late = rivals & (count < seeds)
        if not late.any():
            if rivals.sum() < 2 or seeds == scores.shape[-1]:
                return Race(wanted, tuple(map(int, best)), rivals)
            seeds, late = min(seeds + num_seeds, scores.shape[-1]), rivals
        count[late] = seeds


def _is_behind(lost: np.ndarray) -> bool:
    """Whether a value diverged, or what it lost to the best by seed tells it from that.

    One seed tells nothing. Equal losses of several do: without noise there is no more to find out.
    """
    found = evaluation.seed_interval(lost)
    is_equal = len(lost) > 1 and np.ptp(lost) == 0
    return bool(
        np.isnan(lost).any() or found.mean > (0 if is_equal else found.half_width)
    )


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
) -> tuple[np.ndarray, list[Ends]]:
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
