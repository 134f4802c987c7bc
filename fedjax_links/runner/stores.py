"""Where a run is kept: in memory, or in a folder that an interrupted run goes on in.

What several processes keep together is in `shared_stores`.
"""

import contextlib
import dataclasses
import json
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors, paths
from fedjax_links.machines import environment
from fedjax_links.planning import lanes
from fedjax_links.results import dataset
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.in_memory import InMemoryStore as InMemoryStore
from fedjax_links.runner.in_memory import SaveClock as SaveClock
from fedjax_links.storage import (
    checkpoints,
    checksummed_npz,
    descriptions,
    file_locks,
    run_access,
    run_files,
)
from fedjax_links.storage.identity import LaneIdentity, lane_differences

_KEPT = 2  # saves of a lane


class RunFolder(InMemoryStore):
    """The files of one experiment; opening an existing folder goes on with it."""

    def __init__(
        self,
        folder: str | Path,
        *,
        facts: Mapping[str, Any],
        identities: Identities,
        config: Mapping[str, Any] | None = None,
        allow_mixed: bool = False,
        allow_changed: bool = False,
    ) -> None:
        """Opens or creates the folder.

        Of a lane whose last save is damaged, that is taken away, and the one before it is used.

        Args:
          folder: its path.
          facts: of the experiment, JSON values only.
          identities: what the experiment and its lanes are of.
          config: the config it was made from, if any.
          allow_mixed: whether lanes of other seeds may have run on machines of other kinds.
          allow_changed: whether lanes may have run with other programs or data.

        Raises:
          ValueError: if the folder cannot be used, holds another experiment or files of something
            else, is in use by another process, or its files were changed.
        """
        super().__init__(facts)
        self._lines: dict[str, list[str]] = {}
        self._unread: dict[str, None] = {}  # lanes whose lines are not in the table
        self._kinds: dict[
            int, Any
        ] = {}  # by seed, of the machine of a lane that was there
        self._checked: set[int] = set()  # seeds that this machine may go on with
        self.path, self._allow_mixed = paths.as_path(folder).absolute(), allow_mixed
        self._allow_changed = allow_changed
        self._identities = identities
        self._found: dict[str, LaneIdentity | None] = {}  # of lanes that were there
        self._fingerprint = environment.fingerprint()
        self._metrics: IO[bytes] | None = None
        self._growing: deque[str] = (
            deque()
        )  # lanes that are not whole in metrics as they grow
        self._shown = 0  # lines of the first of them
        with errors.on_disk(self.path), contextlib.ExitStack() as held:
            run_access.refuse_foreign('workdir', self.path)
            runs.refuse_older(self.path, 'workdir')
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim(held)
            run_access.refuse_foreign(
                'workdir', self.path
            )  # also what came before it was locked
            self._open(config)
            self._held = held.pop_all()

    def _claim(self, held: contextlib.ExitStack) -> None:
        """Keeps all others out, until what is held is closed."""
        self._lock = file_locks.acquire_or_refuse(
            'workdir', self.path, self.path / runs.LOCK
        )
        held.callback(self._lock.release, keep=True)

    def _open(self, config: Mapping[str, Any] | None) -> None:
        """Compares what is there with what is to run; then writes that, and reads the lanes."""
        here = self._compare(config)
        run_access.sweep(self.path)
        self._describe(here)
        (self.path / runs.CHECKPOINTS).mkdir(exist_ok=True)
        self.saves = runs.saves(self.path)
        for lane in list(self.saves):
            self._remember(lane)
        self._check_lanes()
        self._write_metrics(self.lines())

    def lines(self) -> list[str]:
        """The lines of metrics, lane by lane, in the order of lanes."""
        return [line for lane in self._in_order() for line in self._lines.get(lane, ())]

    def columns(self) -> dict[str, np.ndarray]:
        """As `InMemoryStore.columns`."""
        for lane in list(self._unread):
            self._read_lines(lane)
        return super().columns()

    def _read_lines(self, lane: str) -> None:
        """Brings the lines that a lane had before into the table, once."""
        self._unread.pop(lane)
        labels = self._lanes[lane]['labels']
        rows = map(json.loads, self._lines[lane])
        self._table.append(
            lane, [{k: row[k] for k in row if k not in labels} for row in rows]
        )

    def _forget(self, lane: str) -> None:
        """Takes back the metrics of a lane."""
        self._table.drop(lane)
        self._unread.pop(lane, None)
        self._lines.pop(lane, None)

    def _remember(self, lane: str) -> None:
        """Reads a lane as its last file that is whole has it; after none it is as good as new.

        Raises:
          ValueError: if two in a row are damaged.
        """
        files, damaged = self.saves[lane], list[Path]()
        kept: runs.LaneRecord | None = None
        while files and kept is None:
            try:
                kept = runs.lane_of(files)
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
        if kept is not None:
            self._lanes.setdefault(
                lane, {'labels': kept.labels, 'place': kept.position}
            )
            self._forget(lane)
            self._lines[lane] = list(kept.lines)
            self._unread[lane] = None
            self._kinds[kept.labels['seed']] = kept.fingerprint
            self._found[lane] = kept.identity
            runs.refuse_older(self.path, 'workdir', [kept])

    def register_lanes(self, lanes: Mapping[str, Mapping[str, Any]]) -> None:
        """As `InMemoryStore.register_lanes`."""
        super().register_lanes(lanes)
        self._growing.extend(lanes)

    def set_progress_total(self, lanes: Mapping[str, int]) -> None:
        """As `InMemoryStore.set_progress_total`."""
        every = {lane: self.rounds(lane) for lane in self.saves} | dict(lanes)
        behind, ahead = sum(map(self.rounds, every)), sum(every.values())
        self._lock.write_info(lanes=len(every), rounds=behind, ahead=ahead)

    def rounds(self, lane: str) -> int:
        """As `InMemoryStore.rounds`."""
        return max(self.saves.get(lane) or [0])

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """As `InMemoryStore.restore`.

        Raises:
          ValueError: if it holds another kind of state, or was changed since it was opened.
        """
        return checkpoints.load(self.saves[lane][self.rounds(lane)], like)

    def acquire(self, lane: str) -> bool:
        """As `InMemoryStore.acquire`.

        Raises:
          ValueError: if what is there was run on a machine whose bits may differ from this one's.
        """
        seed = self._lanes[lane]['labels']['seed']
        if seed not in self._checked:
            kinds = [*self._kinds.items(), (seed, self._fingerprint)]
            runs.check_kinds(kinds, allow_mixed=self._allow_mixed)
            self._checked.add(seed)
        if lane in self._found:
            self._check_lane(lane)
        return True

    def append(self, lane: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """As `InMemoryStore.append`."""
        if lane in self._unread:
            self._read_lines(lane)
        super().append(lane, rows)
        labels = dict(self._lanes[lane]['labels'])
        if labels['stage'] == dataset.MAIN:
            del labels['stage']
        lines = [json.dumps({**labels, **row}) + '\n' for row in rows]
        self._lines.setdefault(lane, []).extend(lines)
        with errors.on_disk(self.path):
            self._show()

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Any] = ()
    ) -> None:
        """As `InMemoryStore.save`; of every lane the last two are kept."""
        about = {name: self._lanes[lane][name] for name in ('labels', 'place')}
        about |= {runs.FINGERPRINT: self._fingerprint}
        about |= {runs.IDENTITY: dataclasses.asdict(self._identity_of(lane))}
        about |= {checkpoints.PARTS: parts} if parts else {}
        with errors.on_disk(self.path):
            path = runs.checkpoint_file(self.path, lane, round)
            content = checkpoints.pack(state, about, self._lines.get(lane, []))
            checkpoints.write_atomically(path, content)
            files = self.saves.setdefault(lane, {})
            files[round] = path
            for old in sorted(files)[:-_KEPT]:
                checkpoints.remove(files.pop(old))
            runs.failure_file(self.path, lane).unlink(missing_ok=True)
            self._show()

    def is_due(self, clock: SaveClock) -> bool:
        """As `InMemoryStore.is_due`."""
        return clock.is_due()

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `InMemoryStore.keep_links`."""
        with errors.on_disk(self.path):
            checkpoints.write_atomically(
                self.path / runs.LINKS, checksummed_npz.npz(arrays)
            )

    def close(self) -> None:
        """As `InMemoryStore.close`."""
        if self._metrics is not None:
            with contextlib.suppress(OSError):  # they are derived
                self._metrics.close()
                self._write_metrics(self.lines())
        self._held.close()

    def _show(self) -> None:
        """Adds what is new to metrics, up to the first lane that is not done.

        Lanes that were there before and are behind that one come again when it is their turn.
        """
        new: list[str] = []
        while self._growing:
            lane = self._growing[0]
            lines = self._lines.get(lane, [])
            new += lines[self._shown :]
            self._shown = len(lines)
            if self.rounds(lane) < self._lanes[lane]['num_rounds']:
                break
            self._growing.popleft()
            self._shown = 0
        if self._metrics is None:
            self._write_metrics(new)
            self._metrics = (self.path / runs.METRICS).open('ab')
        elif new:
            self._metrics.write(''.join(new).encode())
            self._metrics.flush()

    def _write_metrics(self, lines: Sequence[str]) -> None:
        checkpoints.write_atomically(self.path / runs.METRICS, ''.join(lines).encode())

    # What it is of.

    def _compare(self, config: Mapping[str, Any] | None) -> descriptions.Description:
        """Returns what is to run, after comparing it with what is there; only looks.

        Raises:
          InvalidError: naming what differs.
        """
        plain = None if config is None else json.loads(json.dumps(config))
        facts = json.loads(json.dumps(self.facts))
        here = descriptions.Description(facts, plain, self._identities.of_run())
        there = descriptions.read_description(self.path)
        if there is None:
            descriptions.check_started('workdir', self.path, here)
        else:
            changed = descriptions.check_same(
                'workdir',
                self.path,
                there,
                here,
                may_grow=True,
                allow_changed=self._allow_changed,
            )
            if changed:
                facts[run_files.CHANGED] = changed
                self.facts = {**self.facts, run_files.CHANGED: changed}
        return here

    def _describe(self, here: descriptions.Description) -> None:
        """Writes what is run, last what makes the folder one of a run."""
        assert here.identity is not None
        descriptions.write_identity(self.path, here.identity)
        if here.config is not None:
            checkpoints.write_atomically(
                self.path / runs.CONFIG, runs.as_json(here.config)
            )
        checkpoints.write_atomically(
            self.path / runs.EXPERIMENT, runs.as_json(here.facts)
        )
        present = json.dumps(environment.present(), indent=2, sort_keys=True) + '\n'
        checkpoints.write_atomically(self.path / runs.ENVIRONMENT, present.encode())

    def _check_lanes(self) -> None:
        """Compares one seed of every algorithm, pattern and point with what would run now.

        Lanes of the other seeds are compared with that one.
        """
        if not self._allow_changed:
            described = {
                k: (self._lanes[k]['labels'], it) for k, it in self._found.items()
            }
            runs.check_same_programs('workdir', described, self.facts)
        first: dict[str, str] = {}
        for lane in self._found:
            labels = dict(self._lanes[lane]['labels'])
            seed = labels.pop('seed')
            other = first.get(repr(labels))
            if other is None or seed < self._lanes[other]['labels']['seed']:
                first[repr(labels)] = lane
        for lane in first.values():
            self._check_lane(lane)

    def _check_lane(self, lane: str) -> None:
        """Compares a lane that was there with what would run now.

        Raises:
          InvalidError: naming the lane and what differs.
        """
        there = self._found.pop(lane)
        if self._allow_changed:
            return
        known = {*self.facts.get(run_files.CHANGED, ())}
        clauses = ['nothing says of which programs and data it is']
        if there is not None:
            differences = lane_differences(there, self._identity_of(lane))
            clauses = [clause for _, clause in differences if clause not in known]
        if clauses and not (there is None and known):
            requirement = 'hold lanes of the same programs and data'
            requirement += ' (--allow_changed goes on all the same)'
            said = f'{self.path} with {lane}, where {clauses[0]}'
            raise errors.invalid('workdir', requirement, said)

    def _identity_of(self, lane: str) -> LaneIdentity:
        about = self._lanes[lane]
        return self._identities.of_lane(
            lanes.from_labels(about['labels'], about['place'])
        )
