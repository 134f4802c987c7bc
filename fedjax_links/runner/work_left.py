"""Counts what a run still has to do, beyond what its folder holds.

A lane is one simulation (`planning.lanes.Lane`).
"""

from collections.abc import Iterable, Mapping

from fedjax_links.planning.description import count
from fedjax_links.planning.lanes import TUNING, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.results.dataset import Columns


class WorkLeft:
    """Counts the rounds that the folder of a run does not hold yet."""

    def __init__(
        self,
        plan: Plan,
        rounds_done: Mapping[str, int],
        first_round: int,
        columns: Columns | None = None,
        *,
        has_links: bool = False,
    ) -> None:
        """Takes what is done.

        Args:
          plan: of an experiment.
          rounds_done: how many rounds of each lane are saved, by the lane's name.
          first_round: rounds that lanes of the main stage have completed when they begin.
          columns: the metrics so far, which decide what else is to run; None before any.
          has_links: whether the realised links are saved.
        """
        self.has_links = has_links
        self._plan = plan
        self._rounds_done = rounds_done
        self._first_round = first_round
        self._finished: set[str] = set()
        if columns is not None:
            required = plan.new_schedule().lanes_to_run(columns)
            unfinished = {lane.algorithm for lane in self.lanes(required)}
            self._finished = set(plan.algorithms) - unfinished

    def rounds(self, lane: Lane) -> int:
        """Counts the rounds of a lane that are left."""
        num_before = 0 if lane.stage == TUNING else self._first_round
        num_done = max(num_before, self._rounds_done.get(lane.name, 0))
        return max(0, lane.num_rounds - num_done)

    def lanes(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Returns the lanes that are not finished."""
        return [lane for lane in lanes if self.rounds(lane)]

    def further_rounds(self, label: str) -> int:
        """Bounds the rounds of an algorithm that are run only if results ask for them."""
        if label in self._finished:
            return 0
        most = self._plan.max_extra_rounds(label)
        at_first = {lane.name for lane in self._plan.lanes_at_first(label)}
        num_done = sum(
            lane.num_rounds - self.rounds(lane)
            for lane in self._plan.schedule.possible(label)
            if lane.name in self._rounds_done and lane.name not in at_first
        )
        return max(0, most - num_done)

    def summary(self) -> str:
        """Says how much the folder holds of the lanes that run in any case."""
        lanes = self._plan.all_lanes_at_first()
        unfinished = self.lanes(lanes)
        num_finished = len(lanes) - len(unfinished)
        num_started = sum(lane.name in self._rounds_done for lane in unfinished)
        started = f' and a part of {num_started}' if num_started else ''
        return (
            f'folder   holds {num_finished} of {count(len(lanes), "lane")}{started}; '
            'programs, rounds and times of lanes are of what is left'
        )
