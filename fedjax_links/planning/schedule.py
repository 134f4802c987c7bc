"""What an experiment runs: the lanes that the metrics so far ask for.

An algorithm is tuned, then its main lanes run at what tuning chose, then its near ties. Where seeds
go on until decided, further seeds follow. `Schedule.wanted` is a pure function of the metrics: one
process, shards and jobs of an executor ask it again whenever lanes are done, until it wants nothing
that has not run.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.core.grids import Point
from fedjax_links.planning import seeding, sequential_seeds, trials
from fedjax_links.planning.lanes import MAIN, TIE, TUNING, Lane
from fedjax_links.planning.tuning import EdgeCounts
from fedjax_links.results import recorded
from fedjax_links.results.dataset import Columns

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment
    from fedjax_links.planning.plan import Plan


class LaneSchedule:
    """The lanes of an experiment, and which of them are wanted.

    A schedule is asked about one run: it remembers what an algorithm tried for as many lanes of its
    tuning as are done, since what is done stays as it is.

    Attributes:
      is_fixed: whether the wanted lanes are known before anything is measured.
    """

    def __init__(self, experiment: 'Experiment', plan: 'Plan') -> None:
        """Lists nothing yet.

        Args:
          experiment: what runs.
          plan: its plan.
        """
        self._experiment, self._plan = experiment, plan
        self._is_open = isinstance(experiment.seeds, sequential_seeds.UntilDecided)
        self.is_fixed = experiment.tuning is None and not self._is_open
        self._known: dict[str, tuple[int, list[trials.Tried], list[Lane]]] = {}

    def wanted(self, columns: Columns) -> list[Lane]:
        """The lanes that the metrics so far ask for, those that are done among them.

        Args:
          columns: the metrics; empty before any.

        Returns:
          In the order in which one process runs them.
        """
        lanes = [
            lane
            for label in self._experiment.algorithms
            for lane in self._of(label, columns)
        ]
        if not self._is_open:
            return lanes
        until = self._plan.description['until']
        counts = sequential_seeds.seeds_wanted(columns, self._plan.description)

        def is_wanted(lane: Lane) -> bool:
            if lane.stage == TUNING:
                return True
            at = {
                k: value for k, value in lane.point.items() if k in self._plan.columns
            }
            place = recorded.place_of(lane.pattern, at)
            return lane.place[1] < counts[lane.algorithm].get(place, until['least'])

        def is_further(lane: Lane) -> bool:
            return lane.stage != TUNING and lane.place[1] >= until['least']

        return sorted(filter(is_wanted, lanes), key=is_further)

    def mistakes(self, columns: Columns) -> dict[str, errors.InvalidError]:
        """The algorithms that cannot run, as every value that they tried diverged.

        Args:
          columns: the metrics so far.

        Returns:
          What is wrong, by label.
        """
        found: dict[str, errors.InvalidError] = {}
        for label in self._experiment.algorithms:
            mistake = trials.mistake(label, self._tries(label, columns))
            if mistake is not None:
                found[label] = mistake
        return found

    # What is known before anything is measured.

    def first_tries(self, label: str) -> list[Lane]:
        """The lanes that tune an algorithm first."""
        return self._tuning(label, ())

    def first_main(self, label: str) -> list[Lane]:
        """Its main lanes at the first values that it tries, with the seeds that are sure to run."""
        lanes = self.main(label)
        if not self._is_open:
            return lanes
        least = self._plan.description['until']['least']
        return [lane for lane in lanes if lane.place[1] < least]

    def possible(self, label: str) -> list[Lane]:
        """All lanes of an algorithm that may ever be wanted."""
        ties = self._ties(label, lambda *_: self._values(label))
        return self.possible_tuning(label) + self.main(label) + ties

    def possible_tuning(self, label: str) -> list[Lane]:
        """Every value that tuning may try, on its patterns, at its points, with all its seeds."""
        lanes: list[Lane] = []
        tries = itertools.product(self._tuned_at(label), self._values(label))
        for number, ((pattern, point), values) in enumerate(tries):
            lanes += self._lanes(TUNING, label, pattern, {**point, **values}, number)
        return lanes

    def num_ties(self, label: str) -> int:
        """How many values of an algorithm may run as near ties, of each of its series."""
        tuning = self._experiment.tuning
        if tuning is None or not self._columns(label) or len(tuning.seeds) < 2:
            return 0
        return min(tuning.ties, len(self._values(label)) - 1)

    # What follows from it.

    def main(self, label: str, tries: Sequence[trials.Tried] = ()) -> list[Lane]:
        """All patterns, points and seeds of an algorithm, those seeds too that may not be needed.

        Args:
          label: the algorithm.
          tries: what it tried; where nothing was, lanes have the first values that it tries.

        Returns:
          The lanes, seeds varying fastest.
        """
        lanes: list[Lane] = []
        columns = self._columns(label)
        first = {name: values[start] for name, (values, (start, _)) in columns.items()}
        for series, (pattern, point) in enumerate(self._series(label)):
            tried = trials.tried_for(tries, pattern, point)
            values = tried.chosen if tried else first
            lanes += self._lanes(MAIN, label, pattern, {**point, **values}, series)
        return lanes

    def _of(self, label: str, columns: Columns) -> list[Lane]:
        """The wanted lanes of an algorithm, with all seeds that there may be."""
        tries = self._tries(label, columns)
        count, _, lanes = self._known[label]
        if not lanes:
            lanes = self._tuning(label, tries)
            is_tuned = trials.is_done(tries, len(self._tuned_at(label)))
            if is_tuned and trials.mistake(label, tries) is None:
                lanes = [
                    *lanes,
                    *self.main(label, tries),
                    *self._near_ties(label, tries),
                ]
            self._known[label] = count, tries, lanes
        return lanes

    def _tries(self, label: str, columns: Columns) -> list[trials.Tried]:
        """What an algorithm has tried."""
        is_tuned = bool(self._tuned_at(label))
        facts = self._plan.description if is_tuned else {}
        count = trials.count_done(columns, facts, label) if is_tuned else 0
        if label not in self._known or self._known[label][0] != count:
            tries = trials.read_tries(columns, facts, label) if count else []
            self._known[label] = count, tries, []
        return self._known[label][1]

    def _tuning(self, label: str, tries: Sequence[trials.Tried]) -> list[Lane]:
        """The lanes that tune an algorithm, as far as what it tried asks for them."""
        lanes = self.possible_tuning(label)
        if not lanes:
            return []
        asked = {recorded.place_of(x.pattern, x.at): x.race.wanted for x in tries}
        first = trials.first_tries(self._plan.description, list(self._columns(label)))
        places = (recorded.place_of(*at) for at in self._tuned_at(label))
        wanted = np.ravel([asked.get(place, first) for place in places])
        return list(itertools.compress(lanes, wanted.tolist()))

    def _near_ties(self, label: str, tries: Sequence[trials.Tried]) -> list[Lane]:
        """What tuning could not tell from the best, with the seeds of the main lanes."""

        def near(pattern: str, point: Point) -> list[dict[str, Any]]:
            tried = trials.tried_for(tries, pattern, point)
            return [tried.values_at(index) for index in tried.ties] if tried else []

        return self._ties(label, near)

    def _ties(
        self, label: str, values_at: Callable[[str, Point], Iterable[Mapping[str, Any]]]
    ) -> list[Lane]:
        """The lanes of near ties, at the values that each series has."""
        lanes: list[Lane] = []
        if not self.num_ties(label):
            return lanes
        every = self._values(label)
        for series, (pattern, point) in enumerate(self._series(label)):
            for values in values_at(pattern, point):
                number = series * len(every) + every.index(dict(values))
                lanes += self._lanes(TIE, label, pattern, {**point, **values}, number)
        return lanes

    def _lanes(
        self, stage: str, label: str, pattern: str, point: Point, series: int
    ) -> list[Lane]:
        """A lane for every seed of a stage, with the fixed values of columns that a point lacks."""
        seeds, num_rounds = self._experiment.seeds, self._experiment.num_rounds
        if stage == TUNING:
            tuning = self._plan.tuning
            assert tuning is not None
            assert tuning.num_rounds is not None
            seeds, num_rounds = tuning.seeds, tuning.num_rounds
        drawn = self._plan.draws.columns()  # of the seed, which stands beside the point
        values: dict[str, Any] = {}
        for name, value in self._plan.concerning(label, pattern):
            if name not in drawn and isinstance(value, int | float | str | None):
                values[name] = value
        values |= point
        return [
            Lane(stage, label, pattern, values, seed, num_rounds, (series, index))
            for index, seed in enumerate(seeds)
        ]

    def _values(self, label: str) -> list[dict[str, Any]]:
        """All that tuning may try of an algorithm."""
        return grids.points(
            {name: v for name, (v, _) in self._columns(label).items()}, 'cross'
        )

    def _columns(self, label: str) -> dict[str, tuple[list[Any], EdgeCounts]]:
        """By column that an algorithm takes, what may be tried, and where the first tries lie."""
        taken = self._plan.algorithms[label].columns
        return {
            name: tried
            for name, tried in self._plan.candidates.items()
            if name in taken
        }

    def _series(self, label: str) -> list[tuple[str, Point]]:
        """The patterns and points of the grid that an algorithm runs at."""
        return self._places(label, self._plan.patterns, seeding.GRID)

    def _tuned_at(self, label: str) -> list[tuple[str, Point]]:
        """The patterns and points of the grid that an algorithm is tuned at one by one.

        Points as far as they concern the algorithm, or the problem and the links that it is tuned
        on; nothing for an algorithm that is not tuned.
        """
        tuning = self._experiment.tuning
        if tuning is None or not self._columns(label):
            return []
        patterns = self._plan.patterns if tuning.pattern is None else [tuning.pattern]
        return self._places(label, patterns)

    def _places(
        self, label: str, patterns: Iterable[str], *more: str
    ) -> list[tuple[str, Point]]:
        """Patterns, and points of the grid as far as they concern lanes, and in more columns."""
        found: list[tuple[str, Point]] = []
        for pattern in patterns:
            names = [*dict(self._plan.concerning(label, pattern)), *more]
            found += [
                (pattern, point) for point in grids.project(self._plan.points, names)
            ]
        return found
