"""The folder of a run that several processes write at the same time, each what it holds."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.experiment.running import stores
from fedjax_links.storage import claims

_OPENING = '.opening'
_POLL_SECONDS = 0.05


class SharedFolder(stores.RunFolder):
    """A run's folder for a process that runs some of its lanes.

    A lane is this process's from `take` to `release`; what others have done is seen by `refresh`.
    There are no ``metrics.jsonl`` until all are done and merged (`runs.merge`).
    """

    def __init__(
        self, folder: Path, *, division: runs.Division, shard: int | None = None, **options: Any
    ) -> None:
        """Opens or creates the folder.

        Args:
          folder: as in `stores.RunFolder`.
          division: how the lanes are divided.
          shard: whose process this is; None for one that runs no lanes.
          **options: as in `stores.RunFolder`.

        Raises:
          ValueError: as `stores.RunFolder`; if the run is divided otherwise, or if another process
            runs this shard.
        """
        self._division, self._shard = division, shard
        self._claims: dict[str, claims.Claim] = {}
        self._own: claims.Claim | None = None
        super().__init__(folder, **options)

    def _claim(self) -> None:
        """Keeps out who would run all lanes, and a second process of this shard."""
        (self.path / runs.CLAIMS).mkdir(exist_ok=True)
        lock = self.path / runs.LOCK
        shared = claims.share(lock)
        if shared is None:
            raise claims.refused('workdir', self.path, lock)
        self._shared = shared
        if self._shard is not None:
            own = runs.shard_file(self.path, self._shard, self._division.count)
            self._own = claims.take(own)
            if self._own is None:
                shared.close()
                raise claims.refused('shard', self.path, own)

    def _leave(self) -> None:
        self.release_all()
        if self._own is not None:
            self._own.release()
        self._shared.close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other processes out meanwhile."""
        while (opening := claims.take(self.path / _OPENING)) is None:
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            opening.release()

    def _open(self, config: Mapping[str, Any] | None) -> None:
        """Writes what is run, one process after the other."""
        with self._alone():
            there = runs.read_division(self.path)
            kind: Mapping[str, Any] | None = self._fingerprint if self._shard is not None else None
            if there is not None and there.fingerprint is not None:
                if kind is not None and not self._allow_mixed:
                    runs.check_kind('lanes of this run', there.fingerprint, kind)
                kind = there.fingerprint
            self._describe(self._facts, config)
            known = there or self._division
            division = dataclasses.replace(
                self._division, fingerprint=kind, asked=known.asked, ended=known.ended
            )
            runs.write_division(self.path, division)
        self.refresh()
        if self._own is not None:
            mine = [lane for lane, shard in self._division.lanes.items() if shard == self._shard]
            for left in (self.path / runs.CHECKPOINTS).glob('*.partial'):
                if self._division.lanes.get(left.name.rpartition('@')[0]) == self._shard:
                    left.unlink()
            for lane in mine:
                if self.rounds(lane) and self._seize(lane):  # so that what is damaged is not done
                    self.release(lane)
            self._own.say(rounds=sum(map(self.rounds, mine)))

    def ask(self, lanes: Sequence[str], *, ended: bool = False) -> None:
        """Keeps that lanes are asked for of which nobody could know, so that none is missed.

        Args:
          lanes: by name.
          ended: whether there will be no more.
        """
        with self._alone():
            there = runs.read_division(self.path) or self._division
            asked = sorted({*there.asked, *(set(lanes) & {*self._division.optional})})
            ended = ended or there.ended
            if (list(there.asked), there.ended) != (asked, ended):
                found = dataclasses.replace(there, asked=asked, ended=ended)
                runs.write_division(self.path, found)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Of the experiment."""
        return self._facts

    def found(self) -> dict[str, dict[int, Path]]:
        """The files of the lanes, as `runs.saves` gives them, when last looked at."""
        return self._saves

    def refresh(self) -> None:
        """Looks at what others have done meanwhile."""
        own = {lane: self._saves[lane] for lane in self._claims if lane in self._saves}
        self._elsewhere = {path.stem for path in (self.path / runs.CLAIMS).glob('*.lock')}
        self._saves = {**runs.saves(self.path), **own}

    def take(self, lane: str) -> bool:
        """As `Memory.take`; where the lane stands is read anew.

        A lane that nobody held when all were looked at last stands where it stood then, or was
        moved on since by a process that is gone: then some of its rounds run again.
        """
        with errors.on_disk(self.path):
            return self._seize(lane) and super().take(lane)

    def _seize(self, lane: str) -> bool:
        """Claims a lane, and reads it."""
        claim = claims.take(runs.lane_file(self.path, lane))
        if claim is None:
            return False
        self._claims[lane] = claim
        files = self._saves.pop(lane, {})
        end = runs.checkpoint_file(self.path, lane, runs.rounds_wanted(lane, self._facts))
        is_as_seen = lane not in self._elsewhere and all(path.exists() for path in files.values())
        if not is_as_seen or (end.exists() and end not in files.values()):  # done meanwhile
            files = runs.saves(self.path, lane).get(lane, {})
        if files:
            self._saves[lane] = files
            if (kept := self._whole(files)) is not None:
                self._lines[lane] = list(kept.lines)
                self._kept[kept.labels['seed']] = kept
                self._checked.discard(kept.labels['seed'])
        return True

    def release(self, lane: str) -> None:
        """As `Memory.release`."""
        if lane in self._claims:
            self._claims.pop(lane).release()

    def release_all(self) -> None:
        """Lets other processes take all lanes."""
        for lane in list(self._claims):
            self.release(lane)

    def holder(self, lane: str) -> str | None:
        """The process that has a lane; None if none has."""
        found = claims.held(runs.lane_file(self.path, lane))
        return None if found is None else str(found['holder'])

    def lines(self) -> list[str]:
        """As `Memory.lines`; those of lanes that others have run are read."""
        for lane in self._lanes:
            if lane not in self._lines and (files := self._saves.get(lane)):
                self._lines[lane] = list(runs.lane_of(files).lines)
        return super().lines()

    def keep_links(self, arrays: Mapping[str, Any]) -> None:
        """As `Memory.keep_links`, by the first shard."""
        if self._shard == 0:
            super().keep_links(arrays)

    def save(
        self, states: Mapping[str, PyTree], round: int, parts: stores.Parts | None = None
    ) -> None:
        """As `Memory.save`; what was said of a failure is not true any more."""
        super().save(states, round, parts)
        for lane in states:
            (self.path / runs.FAILURES / f'{lane}.txt').unlink(missing_ok=True)

    def _show(self) -> None:
        """Metrics are written when all is merged."""

    def _write_metrics(self, lines: Sequence[str]) -> None:
        """Likewise."""
