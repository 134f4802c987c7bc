"""Where a run is kept: in memory, or in a folder that an interrupted run goes on in."""

import fcntl
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import archives, checkpoints, environment, errors, journal, packing, runs, seals
from fedjax_links.base import PyTree

_MAY_GROW = 'num_rounds'
_LOCK = '.lock'


class Memory:
    """What a folder does, for experiments that keep nothing on disk.

    Attributes:
      lines: of metrics.
    """

    def __init__(self) -> None:
        """Nothing has run yet."""
        self.lines: list[str] = []

    def rounds(self, lane: str) -> int:
        """Rounds that a lane has behind it."""
        return 0

    def companions(self, lane: str) -> tuple[str, ...]:
        """The lanes of its last save, itself among them; none before it."""
        return ()

    def restore(self, lanes: Mapping[str, PyTree]) -> tuple[int, dict[str, PyTree]]:
        """Where lanes that advance together, and were saved together, stand.

        Args:
          lanes: the shapes of their states, by name.

        Returns:
          Rounds behind them, and their states; none of them for no rounds.
        """
        return 0, {}

    def held(self, lane: str) -> list[str]:
        """Lines of a lane that were kept with its saves and were not appended yet."""
        return []

    def append(self, lines: Sequence[str]) -> None:
        """Adds lines of metrics."""
        self.lines.extend(lines)

    def save(self, states: Mapping[str, PyTree], round: int, held: Sequence[str] = ()) -> None:
        """Keeps the states of lanes after a round.

        Args:
          states: by lane; None for a lane that no one goes on from.
          round: rounds behind them.
          held: their lines since their last save, if other lanes' lines come first.
        """

    def is_due(self, clock: journal.SaveClock) -> bool:
        """Whether it is time to save."""
        return False

    def settle(self, lanes: Sequence[str]) -> None:
        """Ends lanes whose last save had lines held, after these were appended."""

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps realised links."""

    def close(self) -> None:
        """Lets others work here."""


class RunFolder(Memory):
    """The files of one experiment; opening an existing folder goes on with it."""

    def __init__(
        self,
        folder: str | Path,
        *,
        facts: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        warn: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        """Opens or creates the folder.

        Args:
          folder: its path.
          facts: of the experiment, JSON values only.
          config: the config it was made from, if any.
          warn: is told, in a line, what was damaged and mended.

        Raises:
          ValueError: if the folder cannot be used, holds another experiment, is in use by another
            process, or its files were changed.
        """
        self.path = Path(folder).absolute()
        self._warn = warn
        if (self.path / archives.METRICS).exists():
            requirement = 'be the folder of a run, not of an archive, which has no states'
            raise errors.invalid('workdir', requirement, folder)
        with errors.on_disk(self.path):
            (self.path / runs.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open('a+')
        self._claim()
        try:
            with errors.on_disk(self.path):
                for left in self.path.rglob('*.partial'):  # of a process that was killed
                    left.unlink()
                self._describe(facts, config)
                self._journal = journal.Journal(self.path)
        except BaseException:
            self._lock.close()
            raise
        self.lines = self._journal.lines

    def rounds(self, lane: str) -> int:
        """As `Memory.rounds`."""
        saves = self._journal.of(lane)
        return saves[-1].round if saves else 0

    def companions(self, lane: str) -> tuple[str, ...]:
        """As `Memory.companions`."""
        saves = self._journal.of(lane)
        return tuple(saves[-1].lanes) if saves else ()

    def restore(self, lanes: Mapping[str, PyTree]) -> tuple[int, dict[str, PyTree]]:
        """As `Memory.restore`; a damaged checkpoint is reported, and the one before it used.

        Raises:
          ValueError: if two in a row are damaged, or they hold another kind of state.
        """
        damaged: list[str] = []
        while saves := self._journal.of(next(iter(lanes))):
            last = saves[-1]
            try:
                return last.round, {
                    lane: checkpoints.load(self._file(lane, last.round), like, digest)
                    for (lane, like), digest in zip(
                        lanes.items(), map(last.lanes.get, lanes), strict=True
                    )
                }
            except checkpoints.DamagedError as error:
                is_new = str(error.path) not in damaged
                damaged += [str(error.path)] * is_new
                if len(damaged) > 1:
                    raise errors.invalid(
                        'workdir',
                        'hold checkpoints as they were written (--start_over sets the folder '
                        'aside and begins again)',
                        ' and '.join(damaged),
                    ) from None
                self._journal.forget(last)
                self.lines = self._journal.lines
                if is_new:
                    self._warn(
                        f'warning: {error.path} is damaged; going on from what was saved before'
                    )
        return 0, {}

    def held(self, lane: str) -> list[str]:
        """As `Memory.held`."""
        return self._journal.held(lane)

    def append(self, lines: Sequence[str]) -> None:
        """As `Memory.append`."""
        with errors.on_disk(self.path):
            self._journal.append(lines)

    def save(self, states: Mapping[str, PyTree], round: int, held: Sequence[str] = ()) -> None:
        """As `Memory.save`; of every lane the last two are kept."""
        with errors.on_disk(self.path):
            digests = {
                lane: None if state is None else checkpoints.save(self._file(lane, round), state)
                for lane, state in states.items()
            }
            self._journal.save(round, digests, held)
            for lane in states:
                saved = list(dict.fromkeys(save.round for save in self._journal.of(lane)))
                for old in saved[:-2]:
                    self._file(lane, old).unlink(missing_ok=True)

    def is_due(self, clock: journal.SaveClock) -> bool:
        """As `Memory.is_due`."""
        return clock.is_due()

    def settle(self, lanes: Sequence[str]) -> None:
        """As `Memory.settle`."""
        last = self._journal.of(lanes[0])[-1]
        with errors.on_disk(self.path):
            self._journal.save(last.round, last.lanes)

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `Memory.keep_links`."""
        with errors.on_disk(self.path):
            seals.write(self.path, runs.LINKS, packing.npz(arrays))

    def close(self) -> None:
        """As `Memory.close`."""
        with self._lock, errors.on_disk(self.path):
            self._journal.close()

    def _claim(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or 'another process'
            self._lock.close()
            raise errors.invalid('workdir', 'not be in use', f'{self.path}, by {holder}') from None
        self._lock.truncate(0)
        self._lock.write(f'process {os.getpid()} on {platform.node()}')
        self._lock.flush()

    def _describe(self, facts: Mapping[str, Any], config: Mapping[str, Any] | None) -> None:
        """Writes what is run, after comparing it with what is there."""
        texts, had = {}, {}
        for name, values in ((runs.CONFIG, config), (runs.EXPERIMENT, facts)):
            there = had[name] = runs.read_json(self.path, name)
            if values is None:
                continue
            texts[name] = json.dumps(values, indent=2, sort_keys=True) + '\n'
            if there is not None:
                self._compare(there, json.loads(texts[name]))
        if had[runs.EXPERIMENT] is not None and (had[runs.CONFIG] is None) != (config is None):
            kinds = 'an experiment made in Python', 'one that a config describes'
            ours, theirs = kinds if config is None else kinds[::-1]
            raise errors.invalid(
                'workdir', f'be new or hold a run of {ours}', f'{self.path}, of {theirs}'
            )
        for name, text in texts.items():
            seals.write(self.path, name, text.encode())
        present = json.dumps(environment.present(), indent=2, sort_keys=True) + '\n'
        checkpoints.write_whole(self.path / runs.ENVIRONMENT, present.encode())

    def _compare(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        """Raises unless what is there is the same experiment, or a shorter one."""
        field, old, new = runs.first_difference(_shown(there), _shown(here))
        if old != new:
            raise errors.invalid(
                'workdir',
                'be new or hold a run with the same config',
                f'{self.path}, where {field} is {old!r} and not {new!r}',
            )
        most = there.get(_MAY_GROW)
        if most is not None and here.get(_MAY_GROW, most) < most:
            requirement = f'be at least {most}, the rounds of {self.path}'
            raise errors.invalid(_MAY_GROW, requirement, here[_MAY_GROW])

    def _file(self, lane: str, round: int) -> Path:
        return runs.checkpoint_file(self.path, lane, round)


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same in every start."""
    free = (*runs.MAY_DIFFER, _MAY_GROW)
    return {name: value for name, value in values.items() if name not in free}
