"""How the lanes of a run are divided among processes, and the files that say who is at what."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.core import errors
from fedjax_links.runs import checking
from fedjax_links.runs.folder import as_json, read_json
from fedjax_links.storage import checkpoints
from fedjax_links.storage.run_files import CLAIMS, FAILURES, LANES


@dataclasses.dataclass(frozen=True)
class RunDivision:
    """How the lanes of a run are divided.

    Attributes:
      count: into how many shards.
      by: ``'program'``, or ``'seed'`` where shards run on machines of several kinds.
      lanes: the shard of every lane, tuning included, by the lane's name.
      optional: names of those that run only if what was measured asks for them.
      asked: those of them that it did after tuning, as far as is known.
      ended: whether it will ask for no more, where seeds go on until decided.
      fingerprint: of the machine of the first shard; None before any.
    """

    count: int
    by: str
    lanes: Mapping[str, int]
    optional: Sequence[str] = ()
    asked: Sequence[str] = ()
    ended: bool = False
    fingerprint: Mapping[str, Any] | None = None

    def expected(self, begun: Collection[str]) -> dict[str, int]:
        """The shard of every lane, but of those that were neither asked for nor begun."""
        left_out = {*self.optional} - {*self.asked, *begun}
        return {
            lane: shard for lane, shard in self.lanes.items() if lane not in left_out
        }


def read_division(folder: Path) -> RunDivision | None:
    """How a run is divided; None for a run in one piece."""
    found = read_json(folder, LANES)
    if found is None:
        return None
    checking.check_division(folder / LANES, found)
    return RunDivision(**found)


def check_division(folder: Path, division: RunDivision) -> None:
    """Refuses to divide a run otherwise than it is divided.

    Raises:
      ValueError: if the folder says another number of shards, or another way.
    """
    there = read_division(folder)
    if there is not None and (there.count, there.by) != (division.count, division.by):
        said = f'{folder}, which is divided into {there.count} shards by {there.by}'
        requirement = (
            f'be divided as this run, into {division.count} shards by {division.by}'
        )
        raise errors.invalid('workdir', requirement, said)


def write_division(folder: Path, division: RunDivision) -> None:
    """Keeps how a run is divided, where it is not kept yet.

    Raises:
      ValueError: if it is divided otherwise.
    """
    check_division(folder, division)
    if read_division(folder) != division:
        checkpoints.write_atomically(
            folder / LANES, as_json(dataclasses.asdict(division))
        )


def shard_file(folder: Path, shard: int, count: int) -> Path:
    """The file that the process of a shard holds."""
    return folder / CLAIMS / f'shard-{shard}-of-{count}.lock'


def lane_file(folder: Path, lane: str) -> Path:
    """The file that the process that runs a lane holds."""
    return folder / CLAIMS / f'{lane}.lock'


def failure_file(folder: Path, lane: str) -> Path:
    """The file that says why a lane failed."""
    return folder / FAILURES / f'{lane}.txt'


def rounds_of_lane(lane: str, facts: Mapping[str, Any]) -> int:
    """The length of a lane, by its name."""
    is_tuning = lane.startswith('tuning-')
    return int((facts['tuning'] if is_tuning else facts)['num_rounds'])
