"""Defines the plan of an experiment: its parts, its lanes, and which shard runs which lanes.

A lane is one simulation (`planning.lanes.Lane`). A shard is the part of the lanes that one process
runs.
"""

import dataclasses
import functools

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.core.records import RunFacts
from fedjax_links.machines import environment
from fedjax_links.planning import lane_shards, sequential_seeds
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.schedule import LaneSchedule
from fedjax_links.planning.specification import Specification


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Specification):
    """Holds all that is needed to run an experiment, to preview it or to report on it.

    Parts and lanes are made when they are first asked for.
    """

    def facts(self) -> RunFacts:
        """Returns what reports need to know of the experiment, as plain values."""
        with self.precision():
            return {**self.description, 'numerics': environment.numerics()}

    @property
    def field_of_seeds(self) -> str:
        """Returns the field that says how many seeds there are, for errors."""
        if isinstance(self.seeds, sequential_seeds.UntilDecided):
            return 'seeds.most'
        return 'seeds' if self.config is None else 'num_seeds'

    # Lanes.

    @functools.cached_property
    def schedule(self) -> LaneSchedule:
        """Returns a schedule to list lanes with.

        A schedule caches what one run measured, so each run takes a `new_schedule` of its own.
        """
        return self.new_schedule()

    def new_schedule(self) -> LaneSchedule:
        """Returns a schedule for one run."""
        return LaneSchedule(self)

    def lanes_at_first(self, label: str) -> list[Lane]:
        """Lists an algorithm's lanes in this shard that are known before anything is measured."""
        lanes = self.schedule.first_trials(label) + self.schedule.first_main(label)
        return [lane for lane in lanes if self.owns(lane)]

    def all_lanes_at_first(self) -> list[Lane]:
        """Lists `lanes_at_first` of all algorithms."""
        lanes: list[Lane] = []
        for label in self.algorithms:
            lanes += self.lanes_at_first(label)
        return lanes

    def count_rounds(self, label: str) -> int:
        """Counts the rounds that an algorithm simulates, tuning included."""
        return sum(lane.num_rounds for lane in self.lanes_at_first(label))

    def max_extra_rounds(self, label: str) -> int:
        """Bounds the rounds beyond `count_rounds` that results may ask for."""
        # At most, tuning tries all values, and main lanes run at the best and each near tie.
        main_rounds = self._rounds_here(self.schedule.main(label))
        tuning_rounds = self._rounds_here(self.schedule.possible_tuning(label))
        num_choices = 1 + self.schedule.num_ties(label)
        return tuning_rounds + num_choices * main_rounds - self.count_rounds(label)

    def _rounds_here(self, lanes: list[Lane]) -> int:
        """Sums the rounds of the lanes that are in this shard."""
        return sum(lane.num_rounds for lane in lanes if self.owns(lane))

    # Shards.

    @property
    def has_first_shard(self) -> bool:
        """Returns whether this plan has the first shard of the lanes, or all of them."""
        return self.lane_shard is None or self.lane_shard.index == 0

    def owns(self, lane: Lane) -> bool:
        """Returns whether a lane is in this shard."""
        if self.lane_shard is None:
            return True
        return self.division.lanes[lane.name] == self.lane_shard.index

    @functools.cached_property
    def division(self) -> runs.RunDivision:
        """Returns how the lanes are divided into shards."""
        shard = self.lane_shard or lane_shards.LaneShard(0, 1)
        return self.divide(shard.count, shard.by)

    def divide(self, count: int, by: str) -> runs.RunDivision:
        """Divides the lanes into shards, by stage: first trials, first main lanes, all others.

        Args:
          count: number of shards.
          by: as in `lane_shards.LaneShard`.

        Raises:
          ValueError: for `UntilDecided` seeds that are divided by seed.
        """
        # Lanes are divided by seed to run on machines of several kinds (`allow_mixed`). But results
        # that decide on further seeds must come from machines of one kind.
        if by == lane_shards.SEED and isinstance(
            self.seeds, sequential_seeds.UntilDecided
        ):
            requirement = 'be left out where seeds are added until decided'
            raise errors.invalid('allow_mixed', requirement, True)
        shards: dict[str, int] = {}
        shard_of_seed: dict[int, int] = {}
        new_lanes: list[Lane] = []
        schedule = self.schedule
        for lanes_of in schedule.first_trials, schedule.first_main, schedule.possible:
            lanes = [lane for label in self.algorithms for lane in lanes_of(label)]
            new_lanes = [lane for lane in lanes if lane.name not in shards]
            shards |= lane_shards.assign(new_lanes, count, by, shard_of_seed)
        # Lanes that only `possible` lists run only if results ask for them.
        optional = [lane.name for lane in new_lanes]
        return runs.RunDivision(count, by, shards, optional)
