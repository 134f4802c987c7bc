"""Where a run is kept: in memory, or in a folder that an interrupted run goes on in.

Of several processes the leader keeps it (`in_step`).
"""

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.machines import environment
from fedjax_links.storage import archives, checkpoints, claims, packing

Parts = Mapping[str, Sequence[Mapping[str, Any]]]
"""By lane, what the parts of its save say (`checkpoints.write_part`); none where it has none."""
_MAY_GROW = {'num_rounds': 'rounds', 'num_seeds': 'seeds'}
"""Fields that a start may make larger: what there is of them already stays as it is."""
_KEPT = 2  # saves of a lane


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


class Memory:
    """What a folder does, for experiments that keep nothing on disk."""

    def __init__(self) -> None:
        """Nothing has run yet."""
        self._lanes: dict[str, Mapping[str, Any]] = {}
        self._lines: dict[str, list[str]] = {}

    def lines(self) -> list[str]:
        """The lines of metrics, lane by lane, in the order of lanes."""
        stages = dict.fromkeys(map(_stage_of, self._lanes.values()))  # in the order of running
        place = {stage: number for number, stage in enumerate(stages)}

        def key(lane: str) -> tuple[int, Any]:  # later tries may have an earlier place
            about = self._lanes.get(lane)
            return (len(place), 0) if about is None else (place[_stage_of(about)], about['place'])

        order = sorted(dict.fromkeys((*self._lanes, *self._lines)), key=key)
        return [line for lane in order for line in self._lines.get(lane, [])]

    def expect(self, lanes: Mapping[str, Mapping[str, Any]]) -> None:
        """Makes lanes known before they run, in their order.

        Args:
          lanes: by name, ``labels``, ``place`` and ``num_rounds``.
        """
        self._lanes.update(lanes)

    def announce(self, lanes: Mapping[str, int]) -> None:
        """Tells those who look on what is ahead.

        Args:
          lanes: by name, all rounds of each.
        """

    def rounds(self, lane: str) -> int:
        """Rounds that a lane has behind it."""
        return 0

    def restore(self, lanes: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """The states of lanes after the rounds that they have behind them.

        Args:
          lanes: the shapes of their states, by name.
        """
        return {}

    def append(self, lane: str, lines: Sequence[str]) -> None:
        """Adds lines of metrics of a lane."""
        self._lines.setdefault(lane, []).extend(lines)

    def save(self, states: Mapping[str, PyTree], round: int, parts: Parts | None = None) -> None:
        """Keeps the states of lanes after a round, with their lines so far.

        Args:
          states: by lane; None for a lane that no one goes on from.
          round: rounds behind them.
          parts: what several processes have written before.
        """

    def is_due(self, clock: SaveClock) -> bool:
        """Whether it is time to save."""
        return False

    def take(self, lane: str) -> bool:
        """Makes a lane this process's to run; False while another process has it."""
        return True

    def release(self, lane: str) -> None:
        """Lets other processes take a lane."""

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
        allow_mixed: bool = False,
    ) -> None:
        """Opens or creates the folder.

        Of a lane whose last save is damaged, that is taken away, and the one before it is used.

        Args:
          folder: its path.
          facts: of the experiment, JSON values only.
          config: the config it was made from, if any.
          allow_mixed: whether lanes of other seeds may have run on machines of other kinds.

        Raises:
          ValueError: if the folder cannot be used, holds another experiment, is in use by another
            process, or its files were changed.
        """
        super().__init__()
        self._kept: dict[int, runs.KeptLane] = {}  # one of each seed, from earlier starts
        self._checked: set[int] = set()  # seeds that this machine may go on with
        self.path, self._facts = Path(folder).absolute(), facts
        self._allow_mixed, self._fingerprint = allow_mixed, environment.fingerprint()
        if (self.path / archives.METRICS).exists():
            requirement = 'be the folder of a run, not of an archive, which has no states'
            raise errors.invalid('workdir', requirement, folder)
        runs.refuse_older(self.path, 'workdir')
        with errors.on_disk(self.path):
            (self.path / runs.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            self._claim()
        self._metrics: IO[bytes] | None = None
        self._shown = 0, 0  # in metrics while they grow: whole lanes, and lines of the next one
        self._order: list[str] = []
        try:
            with errors.on_disk(self.path):
                self._open(config)
        except BaseException:
            self._leave()
            raise

    def _open(self, config: Mapping[str, Any] | None) -> None:
        """Writes what is run, and reads what is there."""
        for left in self.path.rglob('*.partial'):  # of a process that was killed
            left.unlink()
        checkpoints.tidy(self.path / runs.CHECKPOINTS, '*')
        self._describe(self._facts, config)
        self._saves = runs.saves(self.path)
        kept = [self._whole(files) for files in list(self._saves.values())]
        found = runs.in_order([lane for lane in kept if lane is not None], self._facts)
        runs.refuse_older(self.path, 'workdir', found)
        self._kept = {lane.labels['seed']: lane for lane in found}
        self._lines = {lane.name: list(lane.lines) for lane in found}
        self._write_metrics(self.lines())

    def announce(self, lanes: Mapping[str, int]) -> None:
        """As `Memory.announce`."""
        every = {lane: self.rounds(lane) for lane in self._saves} | dict(lanes)
        behind, ahead = sum(map(self.rounds, every)), sum(every.values())
        self._lock.say(lanes=len(every), rounds=behind, ahead=ahead)

    def rounds(self, lane: str) -> int:
        """As `Memory.rounds`."""
        return max(self._saves.get(lane) or [0])

    def restore(self, lanes: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """As `Memory.restore`.

        Raises:
          ValueError: if they hold another kind of state, or were changed since they were opened.
        """
        return {
            lane: checkpoints.load(self._saves[lane][self.rounds(lane)], like)
            for lane, like in lanes.items()
        }

    def take(self, lane: str) -> bool:
        """As `Memory.take`.

        Raises:
          ValueError: if what is there was run on a machine whose bits may differ from this one's.
        """
        labels = self._lanes[lane]['labels']
        if labels['seed'] not in self._checked:
            own = runs.KeptLane(lane, labels, (0, 0), 0, [], {}, fingerprint=self._fingerprint)
            runs.check_kinds([*self._kept.values(), own], allow_mixed=self._allow_mixed)
            self._checked.add(labels['seed'])
        return True

    def append(self, lane: str, lines: Sequence[str]) -> None:
        """As `Memory.append`."""
        super().append(lane, lines)
        with errors.on_disk(self.path):
            self._show()

    def save(self, states: Mapping[str, PyTree], round: int, parts: Parts | None = None) -> None:
        """As `Memory.save`; of every lane the last two are kept."""
        with errors.on_disk(self.path):
            for lane, state in states.items():
                path = runs.checkpoint_file(self.path, lane, round)
                about = {name: self._lanes[lane][name] for name in ('labels', 'place')}
                about[runs.FINGERPRINT] = self._fingerprint
                if own := (parts or {}).get(lane):
                    about[checkpoints.PARTS] = own
                content = checkpoints.pack(state, about, self._lines.get(lane, []))
                checkpoints.write_whole(path, content)
                files = self._saves.setdefault(lane, {})
                files[round] = path
                for old in sorted(files)[:-_KEPT]:
                    checkpoints.remove(files.pop(old))
            self._show()

    def is_due(self, clock: SaveClock) -> bool:
        """As `Memory.is_due`."""
        return clock.is_due()

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `Memory.keep_links`."""
        with errors.on_disk(self.path):
            checkpoints.write_whole(self.path / runs.LINKS, packing.npz(arrays))

    def close(self) -> None:
        """As `Memory.close`."""
        if self._metrics is not None:
            with contextlib.suppress(OSError):  # they are derived
                self._metrics.close()
                self._write_metrics(self.lines())
        self._leave()

    def _whole(self, files: dict[int, Path]) -> runs.KeptLane | None:
        """A lane as its last file that is whole has it; none after one is as good as new.

        Raises:
          ValueError: if two in a row are damaged.
        """
        damaged: list[Path] = []
        found = None
        while files and found is None:
            try:
                found = runs.lane_of(files)
            except checkpoints.DamagedError as error:
                damaged.append(files.pop(max(files)))
                if len(damaged) == _KEPT:
                    aside = '--start_over sets the folder aside and begins again'
                    requirement = f'hold checkpoints as they were written ({aside})'
                    said = ' and '.join(map(str, damaged))
                    raise errors.invalid('workdir', requirement, said) from error
        for path in damaged:
            checkpoints.remove(path)
            said = f'warning: {path} is damaged; going on from what was saved before'
            print(said, file=sys.stderr)
        return found

    def _show(self) -> None:
        """Adds what is new to metrics, up to the first lane that is not done.

        Lanes that were there before and are behind that one come again when it is their turn.
        """
        new, (place, shown) = [], self._shown
        order = self._order
        order += itertools.islice(self._lanes, len(order), None)
        while place < len(order):
            lines = self._lines.get(order[place], [])
            new += lines[shown:]
            shown = len(lines)
            if self.rounds(order[place]) < self._lanes[order[place]]['num_rounds']:
                break
            place, shown = place + 1, 0
        self._shown = place, shown
        if self._metrics is None:
            self._write_metrics(new)
            self._metrics = (self.path / runs.METRICS).open('ab')
        elif new:
            self._metrics.write(''.join(new).encode())
            self._metrics.flush()

    def _write_metrics(self, lines: Sequence[str]) -> None:
        checkpoints.write_whole(self.path / runs.METRICS, ''.join(lines).encode())

    def _claim(self) -> None:
        """Keeps all others out."""
        lock = self.path / runs.LOCK
        claim = claims.take(lock)
        if claim is None:
            raise claims.refused('workdir', self.path, lock)
        self._lock = claim

    def _leave(self) -> None:
        """Lets others in."""
        self._lock.release(keep=True)

    def _describe(self, facts: Mapping[str, Any], config: Mapping[str, Any] | None) -> None:
        """Writes what is run, last what makes it a run, after comparing it with what is there."""
        given = {**({} if config is None else {runs.CONFIG: config}), runs.EXPERIMENT: facts}
        had = {name: runs.read_json(self.path, name) for name in (runs.CONFIG, runs.EXPERIMENT)}
        for name, there in had.items():
            if there is not None and name in given:
                self._compare(there, json.loads(json.dumps(given[name])))
        if any(had.values()) and (had[runs.CONFIG] is None) != (config is None):
            kinds = 'an experiment made in Python', 'one that a config describes'
            ours, theirs = kinds if config is None else kinds[::-1]
            requirement = f'be new or hold a run of {ours}'
            raise errors.invalid('workdir', requirement, f'{self.path}, of {theirs}')
        for name, values in given.items():
            checkpoints.write_whole(self.path / name, runs.as_json(values))
        present = json.dumps(environment.present(), indent=2, sort_keys=True) + '\n'
        checkpoints.write_whole(self.path / runs.ENVIRONMENT, present.encode())

    def _compare(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        """Raises unless what is there is the same experiment, or one of fewer rounds or seeds."""
        ours = _shown(here)
        if isinstance(listed := there.get('seeds'), list):
            ours['seeds'] = here['seeds'][: len(listed)]
        field, old, new = runs.first_difference(_shown(there), ours)
        if old != new:
            said = f'{self.path}, where {field} is {old!r} and not {new!r}'
            raise errors.invalid('workdir', 'be new or hold a run with the same config', said)
        for name, words in _MAY_GROW.items():
            most, given = there.get(name, 1), here.get(name, 1)
            if given < most:
                requirement = f'be at least {most}, the {words} of {self.path}'
                raise errors.invalid(name, requirement, given)


def _stage_of(about: Mapping[str, Any]) -> tuple[str, str]:
    return about['labels']['algorithm'], about['labels']['stage']


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same in every start."""
    free = (*runs.MAY_DIFFER, *_MAY_GROW)
    return {name: value for name, value in values.items() if name not in free}
