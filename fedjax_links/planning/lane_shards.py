"""Divides lanes into shards, one for each of several processes.

A lane is one simulation (`planning.lanes.Lane`).
"""

import dataclasses
from collections.abc import Sequence

from fedjax_links.core import checks, errors
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import Lane

PROGRAM = 'program'
SEED = 'seed'
AUTO = 'auto'
"""The value of ``--shard`` with which a task of a job array runs the shard of its own number."""


@dataclasses.dataclass(frozen=True)
class LaneShard:
    """Describes the shard of one of several processes.

    Attributes:
      index: of the shard, from 0. ``count`` stands for 0, so users can also count from 1.
      count: number of shards.
      by: how lanes are divided. ``'program'``: lanes with the same program are neighbours, and
        shards have equal numbers of rounds, so each process compiles few programs. ``'seed'``: all
        lanes of a seed are in one shard, so they run on one kind of machine.

    Raises:
      ValueError: if the numbers are out of range.
    """

    index: int
    count: int
    by: str = PROGRAM

    def __post_init__(self) -> None:
        """Checks the numbers."""
        checks.static_int('shard', self.count)
        checks.static_int('shard', self.index, minimum=0, maximum=self.count)
        checks.choice('by', self.by, (PROGRAM, SEED))
        object.__setattr__(self, 'index', self.index % self.count)


def parse(text: str) -> tuple[int, int]:
    """Reads index and count of a shard, such as ``3/64``.

    Raises:
      ValueError: if the text is something else.
    """
    index, _, count = text.partition('/')
    are_numbers = index.isdecimal() and count.isdecimal()
    if not are_numbers or int(count) == 0 or int(index) > int(count):
        requirement = (
            f'read I/N, I from 0 to N - 1 or from 1 to N, or {AUTO} in a job array'
        )
        raise errors.invalid('shard', requirement, text)
    return int(index), int(count)


def assign(
    lanes: Sequence[Lane], count: int, by: str, shard_of_seed: dict[int, int]
) -> dict[str, int]:
    """Assigns each lane to a shard.

    Args:
      lanes: lanes that have no shard yet.
      count: number of shards.
      by: as in `LaneShard`.
      shard_of_seed: by seed, the index of the shard of lanes that already have one. With
        ``by='seed'``, new seeds are added to it.

    Returns:
      The index of the shard of each lane, by name.
    """
    if by == SEED:
        return _assign_by_seed(lanes, count, shard_of_seed)
    return _assign_by_program(lanes, count)


def _assign_by_seed(
    lanes: Sequence[Lane], count: int, shard_of_seed: dict[int, int]
) -> dict[str, int]:
    """Gives each shard consecutive new seeds; their counts differ by at most one."""
    seeds = dict.fromkeys(lane.seed for lane in lanes)
    new_seeds = [seed for seed in seeds if seed not in shard_of_seed]
    for index, seed in enumerate(new_seeds):
        shard_of_seed[seed] = index * count // len(new_seeds)
    return {lane.name: shard_of_seed[lane.seed] for lane in lanes}


def _assign_by_program(lanes: Sequence[Lane], count: int) -> dict[str, int]:
    """Sorts lanes by program, and cuts them into shards of equal rounds, to within a lane."""
    by_program: dict[tuple[str, str, str], list[Lane]] = {}
    for lane in lanes:
        built_in = [
            (name, value)
            for name, value in lane.point.items()
            if parametrized.is_built_in(value)
        ]
        program = lane.algorithm, lane.pattern, repr(built_in)
        by_program.setdefault(program, []).append(lane)
    total_rounds = sum(lane.num_rounds for lane in lanes)
    shards: dict[str, int] = {}
    rounds_before = 0
    for group in by_program.values():
        for lane in group:
            # The middle of a lane decides its shard: (before + length / 2) / total, in integers.
            twice_middle = 2 * rounds_before + lane.num_rounds
            shards[lane.name] = twice_middle * count // (2 * total_rounds)
            rounds_before += lane.num_rounds
    return shards
