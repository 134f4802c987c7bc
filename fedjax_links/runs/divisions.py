"""Records which shard runs which lane, and names the files that lock a shard or a lane.

A lane is one algorithm, pattern, grid point and seed. A shard is the part of a run's lanes that one
process runs at a time.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.core import errors
from fedjax_links.core.records import RunFacts
from fedjax_links.runs import checking
from fedjax_links.runs.folder import as_json, read_json
from fedjax_links.storage import atomic_files
from fedjax_links.storage.run_files import CLAIMS, FAILURES, LANES


@dataclasses.dataclass(frozen=True)
class RunDivision:
    """Describes how the lanes of a run are divided into shards.

    Attributes:
      count: the number of shards.
      by: what lanes are divided by: ``'program'``, or ``'seed'`` where shards run on machines of
        several kinds.
      lanes: the shard of every lane, tuning included, by the lane's name.
      optional: names of lanes that run only if results ask for them.
      requested: the optional lanes that results have asked for so far.
      ended: whether results will ask for no more optional lanes. Results may ask while seeds are
        added until all comparisons are decided.
      fingerprint: of the machine of the first shard; None before a shard has run.
    """

    count: int
    by: str
    lanes: Mapping[str, int]
    optional: Sequence[str] = ()
    requested: Sequence[str] = ()
    ended: bool = False
    fingerprint: Mapping[str, Any] | None = None

    def expected(self, started: Collection[str]) -> dict[str, int]:
        """Returns the shard of each lane, without optional ones neither requested nor started."""
        left_out = {*self.optional} - {*self.requested, *started}
        return {
            lane: shard for lane, shard in self.lanes.items() if lane not in left_out
        }


def read_division(folder: Path) -> RunDivision | None:
    """Reads how a run is divided; None for a run in one piece."""
    values = read_json(folder, LANES)
    if values is None:
        return None
    if isinstance(values, dict) and 'asked' in values:  # Older versions wrote this.
        values['requested'] = values.pop('asked')
    checking.check_division(folder / LANES, values)
    return RunDivision(**values)


def check_division(folder: Path, division: RunDivision) -> None:
    """Refuses to divide a run in another way than before.

    Raises:
      ValueError: if the folder records another number of shards, or another ``by``.
    """
    recorded = read_division(folder)
    if recorded is None:
        return
    if (recorded.count, recorded.by) != (division.count, division.by):
        value = (
            f'{folder}, which is divided into {recorded.count} shards by {recorded.by}'
        )
        requirement = (
            f'be divided as this run, into {division.count} shards by {division.by}'
        )
        raise errors.invalid('workdir', requirement, value)


def write_division(folder: Path, division: RunDivision) -> None:
    """Writes how a run is divided, unless the folder has it already.

    Raises:
      ValueError: as `check_division`.
    """
    check_division(folder, division)
    if read_division(folder) != division:
        atomic_files.write(folder / LANES, as_json(dataclasses.asdict(division)))


def shard_lock(folder: Path, shard: int, count: int) -> Path:
    """Returns the file that a process locks while it runs a shard."""
    return folder / CLAIMS / f'shard-{shard}-of-{count}.lock'


def lane_lock(folder: Path, lane: str) -> Path:
    """Returns the file that a process locks while it runs a lane."""
    return folder / CLAIMS / f'{lane}.lock'


def failure_file(folder: Path, lane: str) -> Path:
    """Returns the file that says why a lane failed."""
    return folder / FAILURES / f'{lane}.txt'


def rounds_of_lane(lane: str, facts: RunFacts) -> int:
    """Returns the number of rounds of a lane, by its name."""
    stage = facts
    if lane.startswith('tuning-'):
        stage = facts['tuning']
    return int(stage['num_rounds'])
