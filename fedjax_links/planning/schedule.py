"""Schedules the lanes of an experiment: lists the lanes that the metrics so far ask for.

A lane is one simulation (`planning.lanes.Lane`). An algorithm's lanes run in stages. First come
lanes of tuning, which try values. Then main lanes run at the values that tuning chose, and then
lanes at near ties: values that tuning could not tell from the best. If seeds are added until
decided (`UntilDecided`), further seeds follow.

`LaneSchedule.lanes_to_run` is a pure function of the metrics. A run calls it again whenever lanes
are done, until all lanes that it lists have run. Shards and jobs of an executor do the same.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.core.grids import Point
from fedjax_links.planning import seeding, sequential_seeds
from fedjax_links.planning import trials as trials_
from fedjax_links.planning.lanes import MAIN, TIE, TUNING, Lane
from fedjax_links.planning.specification import Specification
from fedjax_links.planning.trials import TuningTrials
from fedjax_links.planning.tuning import IndexRange
from fedjax_links.results import recorded
from fedjax_links.results.dataset import Columns


class _Progress(NamedTuple):
    """Holds what is known of an algorithm after some lanes of its tuning.

    Attributes:
      num_done: how many of the algorithm's lanes of tuning are done.
      trials: what the algorithm has tried.
      lanes: the algorithm's lanes to run; empty before they are listed.
    """

    num_done: int
    trials: list[TuningTrials]
    lanes: list[Lane]


class LaneSchedule:
    """Lists the possible lanes of an experiment, and the lanes that some metrics ask for.

    A schedule serves one run. It caches an algorithm's trials until more of its lanes of tuning are
    done, since metrics of lanes that are done do not change.

    Attributes:
      is_fixed: whether the lanes to run are known before anything is measured.
    """

    def __init__(self, specification: Specification) -> None:
        """Lists nothing yet.

        Args:
          specification: what is to be simulated.
        """
        self._spec = specification
        self._adds_seeds = isinstance(
            specification.seeds, sequential_seeds.UntilDecided
        )
        self.is_fixed = specification.tuning is None and not self._adds_seeds
        self._progress: dict[str, _Progress] = {}

    def lanes_to_run(self, columns: Columns) -> list[Lane]:
        """Lists the lanes that the metrics so far ask for; lanes that are done are included.

        Args:
          columns: the metrics; empty before any.

        Returns:
          The lanes, in the order in which a single process runs them.
        """
        lanes: list[Lane] = []
        for label in self._spec.algorithms:
            lanes += self._lanes_with_all_seeds(label, columns)
        if not self._adds_seeds:
            return lanes
        least = self._least_seeds()
        counts = sequential_seeds.seeds_needed(columns, self._spec.description)

        def is_needed(lane: Lane) -> bool:
            if lane.stage == TUNING:
                return True
            point = {
                name: value
                for name, value in lane.point.items()
                if name in self._spec.columns
            }
            key = recorded.cell_key(lane.pattern, point)
            _, seed_index = lane.position
            return seed_index < counts[lane.algorithm].get(key, least)

        def is_further(lane: Lane) -> bool:
            _, seed_index = lane.position
            return lane.stage != TUNING and seed_index >= least

        # Further seeds come last, after all algorithms have the least number of seeds.
        return sorted(filter(is_needed, lanes), key=is_further)

    def mistakes(self, columns: Columns) -> dict[str, errors.InvalidError]:
        """Finds the algorithms that cannot run, as all values that tuning tried diverged.

        Args:
          columns: the metrics so far.

        Returns:
          By label of the algorithm, the error to raise.
        """
        mistakes: dict[str, errors.InvalidError] = {}
        for label in self._spec.algorithms:
            mistake = trials_.mistake(label, self._trials(label, columns))
            if mistake is not None:
                mistakes[label] = mistake
        return mistakes

    # Lanes that are known before anything is measured.

    def first_trials(self, label: str) -> list[Lane]:
        """Lists the lanes that tune an algorithm first."""
        return self._tuning(label, ())

    def first_main(self, label: str) -> list[Lane]:
        """Lists the main lanes at the first values of tuning, with the least number of seeds."""
        lanes = self.main(label)
        if not self._adds_seeds:
            return lanes
        least = self._least_seeds()
        return [lane for lane in lanes if lane.position[1] < least]

    def _least_seeds(self) -> int:
        """Returns the least number of seeds of an algorithm and the baseline (`UntilDecided`)."""
        return int(self._spec.description['until']['least'])

    def possible(self, label: str) -> list[Lane]:
        """Lists all lanes of an algorithm that may have to run.

        Main lanes are listed at the first values of tuning, whatever tuning chooses later. Names
        and positions of main lanes do not depend on these values.
        """
        ties = self._ties(label, lambda *_: self._values(label))
        return self.possible_tuning(label) + self.main(label) + ties

    def possible_tuning(self, label: str) -> list[Lane]:
        """Lists the lanes of all values that tuning may try, at each of `_tuned_at`."""
        lanes: list[Lane] = []
        trials = itertools.product(self._tuned_at(label), self._values(label))
        for number, ((pattern, point), values) in enumerate(trials):
            lanes += self._lanes(TUNING, label, pattern, {**point, **values}, number)
        return lanes

    def num_ties(self, label: str) -> int:
        """Counts the near ties that each series of an algorithm may have."""
        tuning = self._spec.tuning
        if tuning is None or not self._columns(label) or len(tuning.seeds) < 2:
            return 0
        return min(tuning.ties, len(self._values(label)) - 1)

    # Lanes that follow from tuning.

    def main(self, label: str, trials: Sequence[TuningTrials] = ()) -> list[Lane]:
        """Lists the main lanes of an algorithm, with all patterns, points and seeds.

        Some of the seeds may not be needed (`UntilDecided`).

        Args:
          label: the algorithm.
          trials: what the algorithm tried. At a pattern and point without trials, lanes have the
            first values of tuning.

        Returns:
          The lanes, seeds varying fastest.
        """
        lanes: list[Lane] = []
        columns = self._columns(label)
        first = {name: values[start] for name, (values, (start, _)) in columns.items()}
        for series, (pattern, point) in enumerate(self._series(label)):
            tried = trials_.trials_for(trials, pattern, point)
            values = tried.chosen if tried else first
            lanes += self._lanes(MAIN, label, pattern, {**point, **values}, series)
        return lanes

    def _lanes_with_all_seeds(self, label: str, columns: Columns) -> list[Lane]:
        """Lists the lanes of an algorithm that metrics ask for, with all possible seeds."""
        trials = self._trials(label, columns)
        known = self._progress[label]
        if not known.lanes:
            lanes = self._tuning(label, trials)
            is_done = trials_.is_done(trials, len(self._tuned_at(label)))
            if is_done and trials_.mistake(label, trials) is None:
                lanes += self.main(label, trials)
                lanes += self._near_ties(label, trials)
            known = known._replace(lanes=lanes)
            self._progress[label] = known
        return known.lanes

    def _trials(self, label: str, columns: Columns) -> list[TuningTrials]:
        """Returns what an algorithm has tried."""
        has_tuning = bool(self._tuned_at(label))
        facts = self._spec.description if has_tuning else {}
        num_done = trials_.count_done(columns, facts, label) if has_tuning else 0
        known = self._progress.get(label)
        if known is None or known.num_done != num_done:
            trials = trials_.read_trials(columns, facts, label) if num_done else []
            known = _Progress(num_done, trials, [])
            self._progress[label] = known
        return known.trials

    def _tuning(self, label: str, trials: Sequence[TuningTrials]) -> list[Lane]:
        """Lists the lanes of tuning that the trials so far ask for."""
        lanes = self.possible_tuning(label)
        if not lanes:
            return []
        planned_at = {
            recorded.cell_key(tried.pattern, tried.at): tried.search.planned
            for tried in trials
        }
        columns = list(self._columns(label))
        first = trials_.first_planned(self._spec.description, columns)
        keys = (recorded.cell_key(*at) for at in self._tuned_at(label))
        # Axes [pairs, *values, seeds], whose flat order is that of `possible_tuning`.
        planned = np.ravel([planned_at.get(key, first) for key in keys])
        return list(itertools.compress(lanes, planned.tolist()))

    def _near_ties(self, label: str, trials: Sequence[TuningTrials]) -> list[Lane]:
        """Lists the lanes of the near ties that tuning has found, with the main seeds."""

        def near(pattern: str, point: Point) -> list[Point]:
            tried = trials_.trials_for(trials, pattern, point)
            return [tried.values_at(index) for index in tried.ties] if tried else []

        return self._ties(label, near)

    def _ties(
        self, label: str, values_at: Callable[[str, Point], Iterable[Point]]
    ) -> list[Lane]:
        """Lists the lanes of near ties.

        Args:
          label: the algorithm.
          values_at: ``(pattern, point) -> values``, the near ties at that pattern and point.
        """
        lanes: list[Lane] = []
        if not self.num_ties(label):
            return lanes
        candidates = self._values(label)
        for series, (pattern, point) in enumerate(self._series(label)):
            for values in values_at(pattern, point):
                number = series * len(candidates) + candidates.index(dict(values))
                lanes += self._lanes(TIE, label, pattern, {**point, **values}, number)
        return lanes

    def _lanes(
        self, stage: str, label: str, pattern: str, point: Point, series: int
    ) -> list[Lane]:
        """Lists a lane for every seed of a stage; columns that ``point`` lacks have defaults."""
        seeds = self._spec.seeds
        num_rounds = self._spec.num_rounds
        tuning = self._spec.tuning
        if stage == TUNING:
            assert tuning is not None
            assert tuning.num_rounds is not None
            seeds = tuning.seeds
            num_rounds = tuning.num_rounds
        by_seed = self._spec.draws.columns()  # The lane's seed decides these columns.
        values: dict[str, Any] = {}
        for name, value in self._spec.columns_of(label, pattern):
            if name not in by_seed and isinstance(value, int | float | str | None):
                values[name] = value
        values |= point
        return [
            Lane(stage, label, pattern, values, seed, num_rounds, (series, index))
            for index, seed in enumerate(seeds)
        ]

    def _values(self, label: str) -> list[Point]:
        """Lists all combinations of values that tuning may try for an algorithm."""
        columns = {name: values for name, (values, _) in self._columns(label).items()}
        return grids.points(columns, 'cross')

    def _columns(self, label: str) -> dict[str, tuple[list[Any], IndexRange]]:
        """Returns, by tuned column of an algorithm, all values and which are tried first."""
        columns = self._spec.algorithms[label].columns
        return {
            name: candidates
            for name, candidates in self._spec.candidates.items()
            if name in columns
        }

    def _series(self, label: str) -> list[tuple[str, Point]]:
        """Lists the patterns and points of the grid that an algorithm runs at."""
        return self._pairs(label, self._spec.patterns, [seeding.REDRAW_COLUMN])

    def _tuned_at(self, label: str) -> list[tuple[str, Point]]:
        """Lists the pairs of pattern and point at each of which an algorithm is tuned.

        Points have only the columns of the algorithm, of its problem and of the pattern. The list
        is empty for an algorithm that is not tuned.
        """
        tuning = self._spec.tuning
        if tuning is None or not self._columns(label):
            return []
        patterns = self._spec.patterns if tuning.pattern is None else [tuning.pattern]
        return self._pairs(label, patterns)

    def _pairs(
        self, label: str, patterns: Iterable[str], other_columns: Sequence[str] = ()
    ) -> list[tuple[str, Point]]:
        """Pairs patterns with points of the grid.

        Args:
          label: the algorithm.
          patterns: labels.
          other_columns: columns to keep in points, besides columns of algorithm, problem, pattern.
        """
        pairs: list[tuple[str, Point]] = []
        for pattern in patterns:
            names = [*dict(self._spec.columns_of(label, pattern)), *other_columns]
            for point in grids.project(self._spec.points, names):
                pairs.append((pattern, point))
        return pairs
