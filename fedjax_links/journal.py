"""Lines of metrics, and a journal that proves them: what a save has seen, no reader doubts.

Every save adds one line to the journal: the round, the digests of the lines of metrics since the
save before it, and the digest of each lane's checkpoint. Each line begins with its own digest.
Lines of metrics beyond the last save are cut when a run goes on; one that was changed is an error
with its number.

Where lanes advance at the same time, metrics have the lines of the first of them alone, so that
their order is that of lanes that advance one after the other. The lines of the others are held;
their saves prove no lines of metrics and have the lines since the lane's last save in themselves.
"""

import collections
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links import checkpoints, errors

METRICS = 'metrics.jsonl'
JOURNAL = 'checkpoints/journal.jsonl'


class Save(NamedTuple):
    """One save.

    Attributes:
      round: rounds that its lanes have behind them.
      lanes: the digest of each lane's checkpoint; None where nobody goes on from it.
      num_lines: lines of metrics up to this save.
      line: the line of the journal.
      held: lines of its lanes, since their save before, that metrics do not have yet.
    """

    round: int
    lanes: Mapping[str, str | None]
    num_lines: int
    line: bytes
    held: tuple[str, ...] = ()


class Journal:
    """Metrics and journal of a folder, open for appending.

    Attributes:
      lines: the lines of metrics, all of them proven when the journal is opened.
      saves: what the journal holds.
    """

    def __init__(self, folder: Path) -> None:
        """Reads both, and cuts the metrics back to the last save.

        Raises:
          ValueError: if a line of either was changed.
        """
        self._metrics_path, self._path = folder / METRICS, folder / JOURNAL
        self.saves, lines = read(folder)
        self._index()
        self.lines = [line.decode() for line in lines]
        self._unproven: list[str] = []
        self._open()

    def append(self, lines: Sequence[str]) -> None:
        """Adds lines of metrics."""
        self.lines.extend(lines)
        self._unproven.extend(map(digest_of, lines))
        self._metrics.write(''.join(lines).encode())
        self._metrics.flush()

    def save(self, round: int, lanes: Mapping[str, str | None], held: Sequence[str] = ()) -> None:
        """Adds a save, after its checkpoints are on disk.

        Args:
          round: as in `Save`.
          lanes: likewise.
          held: likewise; without any the save proves all lines of metrics.
        """
        entry: dict[str, Any] = {'round': round, 'lanes': dict(lanes), 'lines': []}
        if held:
            entry['held'] = list(held)
        else:
            os.fsync(self._metrics.fileno())
            entry['lines'], self._unproven = self._unproven, []
        text = json.dumps(entry)
        line = f'{digest_of(text)} {text}\n'.encode()
        self._log.write(line)
        self._log.flush()
        os.fsync(self._log.fileno())
        num_lines = (self.saves[-1].num_lines if self.saves else 0) + len(entry['lines'])
        self.saves.append(Save(round, lanes, num_lines, line, tuple(held)))
        for lane in lanes:
            self._by_lane[lane].append(self.saves[-1])

    def forget(self, save: Save) -> None:
        """Takes a save back, with the lines of metrics that came with it."""
        self.close()
        place = self.saves.index(save)
        first = self.saves[place - 1].num_lines if place else 0
        self.lines = self.lines[:first] + self.lines[save.num_lines : self.saves[-1].num_lines]
        gone = save.num_lines - first
        later = self.saves[place + 1 :]
        self.saves[place:] = [s._replace(num_lines=s.num_lines - gone) for s in later]
        self._index()
        self._unproven = []
        self._open()

    def of(self, lane: str) -> list[Save]:
        """The saves of a lane, oldest first."""
        return self._by_lane.get(lane, [])

    def held(self, lane: str) -> list[str]:
        """The lines of a lane that were saved and that metrics do not have."""
        found: list[str] = []
        for save in self.of(lane):
            found = [*found, *save.held] if save.held else []
        return found

    def close(self) -> None:
        """Closes both files, the second also where the first cannot write what it still holds."""
        with self._log, self._metrics:
            pass

    def _index(self) -> None:
        """Sorts the saves by lane: whoever goes on asks for those of every lane."""
        self._by_lane: dict[str, list[Save]] = collections.defaultdict(list)
        for save in self.saves:
            for lane in save.lanes:
                self._by_lane[lane].append(save)

    def _open(self) -> None:
        """Writes both files as they are proven, and opens them."""
        checkpoints.write_whole(self._metrics_path, ''.join(self.lines).encode())
        checkpoints.write_whole(self._path, b''.join(save.line for save in self.saves))
        self._metrics, self._log = self._metrics_path.open('ab'), self._path.open('ab')


def read(folder: Path) -> tuple[list[Save], list[bytes]]:
    """The saves of a folder and the lines of metrics that they prove.

    Args:
      folder: of a run; without a journal nothing is proven and all whole lines are returned.

    Returns:
      The saves, and the lines.

    Raises:
      ValueError: if a line of either file was changed, with its number.
    """
    metrics, path = folder / METRICS, folder / JOURNAL
    lines = whole_lines(metrics)
    if not path.exists():
        return [], lines
    saves: list[Save] = []
    proven: list[str] = []
    for number, line in enumerate(whole_lines(path), start=1):
        digest, _, text = line.decode(errors='replace').rstrip('\n').partition(' ')
        if digest != digest_of(text):
            raise _changed(path, number)
        entry: dict[str, Any] = json.loads(text)
        proven += entry['lines']
        held = tuple(entry.get('held', ()))
        saves.append(Save(entry['round'], entry['lanes'], len(proven), line, held))
    for number, digest in enumerate(proven, start=1):
        if number > len(lines) or digest_of(lines[number - 1]) != digest:
            raise _changed(metrics, number)
    return saves, lines[: len(proven)]


def digest_of(line: str | bytes) -> str:
    """A digest that tells any two lines apart."""
    content = line.encode() if isinstance(line, str) else line
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file; a half-written last one is left out."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith(b'\n')]


def _changed(path: Path, number: int) -> ValueError:
    return errors.invalid(
        'workdir',
        'hold files as they were written (--start_over sets them aside and begins again)',
        f'{path}, which differs in line {number}',
    )


class SaveClock:
    """Says when to save: every few seconds, and for at most a tenth of the time."""

    def __init__(self, seconds: float, sharers: int = 1) -> None:
        """Starts the clock.

        Args:
          seconds: least time between the starts of two saves.
          sharers: clocks that share the tenth.
        """
        self._seconds, self._rest = seconds, 10 * sharers
        self._due = time.monotonic() + seconds

    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() >= self._due

    def __enter__(self) -> None:
        """Starts a save."""
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        """Puts the next one off by what this one took."""
        took = time.monotonic() - self._began
        self._due = self._began + max(self._seconds, self._rest * took)
