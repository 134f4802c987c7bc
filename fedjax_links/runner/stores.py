"""Keeps a run in a folder, from which an interrupted run resumes.

A run consists of lanes, which are single simulations (`planning.lanes.Lane`). `shared_stores` has
the stores of runs by several processes.
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
from fedjax_links.core.records import LaneMetadata, MetricsRow, RunFacts, Section
from fedjax_links.machines import environment
from fedjax_links.planning import lanes
from fedjax_links.results import dataset
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.in_memory import InMemoryStore
from fedjax_links.runner.save_clock import SaveClock
from fedjax_links.runs import metric_lines
from fedjax_links.storage import (
    atomic_files,
    checkpoints,
    checksummed_npz,
    descriptions,
    run_access,
    run_files,
)
from fedjax_links.storage.identity import LaneIdentity, refused_differences

_SAVES_PER_LANE = 2


class RunFolder(InMemoryStore):
    """Keeps a run in a folder; an existing folder is resumed."""

    def __init__(
        self,
        folder: str | Path,
        *,
        facts: RunFacts,
        identities: Identities,
        config: Section | None = None,
        allow_mixed: bool = False,
        allow_changed: bool = False,
    ) -> None:
        """Opens or creates the folder.

        If the last save of a lane is damaged, it is removed, and the save before it is used.

        Args:
          folder: path of the folder.
          facts: of the experiment, JSON values only.
          identities: computes the identities of the experiment's programs and data.
          config: that the experiment was made from, if any.
          allow_mixed: whether lanes of other seeds may have run on machines of other kinds.
          allow_changed: whether lanes may have run with other programs or data.

        Raises:
          ValueError: if the folder cannot be used, holds another experiment or files of something
            else, is in use by another process, or its files were changed.
        """
        super().__init__(facts)
        self.path = paths.as_path(folder).absolute()
        self._allow_mixed = allow_mixed
        self._allow_changed = allow_changed
        self._identities = identities
        self._fingerprint = environment.fingerprint()
        self._lines: dict[str, list[str]] = {}
        # Lanes whose lines are not in the table yet, in order.
        self._unread: dict[str, None] = {}
        # By seed, the fingerprint of a machine that ran lanes of this seed in the folder.
        self._fingerprints: dict[int, Any] = {}
        # Seeds that this machine may continue.
        self._checked_seeds: set[int] = set()
        # Identities of lanes in the folder that have not been compared yet.
        self._unchecked: dict[str, LaneIdentity | None] = {}
        self._metrics: IO[bytes] | None = None
        # Lanes that the metrics file does not hold in full, in order; and the first one's lines.
        self._unwritten: deque[str] = deque()
        self._num_written = 0
        # Lanes that this process runs now.
        self._running: set[str] = set()
        with errors.on_disk(self.path), contextlib.ExitStack() as locks:
            run_access.refuse_foreign('workdir', self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim(locks)
            # Another process may have written here before the folder was locked.
            run_access.refuse_foreign('workdir', self.path)
            self._open(config)
            self._locks = locks.pop_all()

    def _claim(self, locks: contextlib.ExitStack) -> None:
        """Locks the folder for this process until ``locks`` is closed."""
        self._lock = locks.enter_context(run_access.exclusive('workdir', self.path))

    def _open(self, config: Section | None) -> None:
        """Compares the folder with the experiment, reads the lanes and writes the description.

        If the experiment is refused, the description in the folder is unchanged: neither its rounds
        nor its seeds have grown.
        """
        description = self._compare(config)
        self.saves = runs.saves(self.path)
        for lane in list(self.saves):
            self._read_lane(lane)
        self._check_lanes()
        run_access.remove_temporaries(self.path)
        self._describe(description)
        (self.path / runs.CHECKPOINTS).mkdir(exist_ok=True)
        self._write_metrics(self.lines())

    def lines(self) -> list[str]:
        """Returns the lines of metrics, lane by lane, in the order of lanes."""
        lines: list[str] = []
        for lane in self._in_order():
            lines += self._lines.get(lane, ())
        return lines

    def columns(self) -> dict[str, np.ndarray]:
        """Implements `InMemoryStore.columns`."""
        for lane in list(self._unread):
            self._read_lines(lane)
        return super().columns()

    def _read_lines(self, lane: str) -> None:
        """Adds the lines of a lane in the folder to the table."""
        self._unread.pop(lane)
        labels = self._metadata[lane]['labels']
        rows = []
        for row in map(metric_lines.parse_row, self._lines[lane]):
            rows.append({name: row[name] for name in row if name not in labels})
        super().append(lane, rows)

    def _drop_metrics(self, lane: str) -> None:
        """Removes the metrics of a lane."""
        self._measured.pop(lane, None)
        self._unread.pop(lane, None)
        self._lines.pop(lane, None)

    def _read_lane(self, lane: str) -> None:
        """Reads a lane from its last intact save. Without an intact save, the lane starts again.

        Raises:
          ValueError: if two saves in a row are damaged.
        """
        record = self._last_intact(lane)
        if record is None:
            return
        metadata = {'labels': record.labels, 'position': record.position}
        self._metadata.setdefault(lane, metadata)
        self._drop_metrics(lane)
        self._lines[lane] = list(record.lines)
        self._unread[lane] = None
        self._fingerprints[record.labels['seed']] = record.fingerprint
        self._unchecked[lane] = record.identity

    def _last_intact(self, lane: str) -> runs.LaneRecord | None:
        """Returns the record of a lane's last intact save, and removes damaged saves after it.

        Raises:
          ValueError: if two saves in a row are damaged.
        """
        files = self.saves[lane]
        damaged: list[Path] = []
        record: runs.LaneRecord | None = None
        while files and record is None:
            try:
                record = runs.lane_of(files)
            except checkpoints.DamagedError as error:
                damaged.append(files.pop(max(files)))
                if len(damaged) == _SAVES_PER_LANE:
                    aside = '--start_over sets the folder aside and begins again'
                    requirement = f'hold checkpoints as they were written ({aside})'
                    value = ' and '.join(map(str, damaged))
                    raise errors.invalid('workdir', requirement, value) from error
        for path in damaged:
            checkpoints.remove(path)
            cure = 'the lane runs again from its start'
            if record is not None:
                cure = 'resuming from the save before it'
            print(f'warning: {path} is damaged; {cure}', file=sys.stderr)
        return record

    def register_lanes(self, lanes: Mapping[str, LaneMetadata]) -> None:
        """Implements `InMemoryStore.register_lanes`."""
        super().register_lanes(lanes)
        self._unwritten.extend(lanes)

    def set_progress_total(self, lanes: Mapping[str, int]) -> None:
        """Implements `InMemoryStore.set_progress_total`."""
        total = {lane: self.rounds(lane) for lane in self.saves} | dict(lanes)
        self._lock.write_info(
            lanes=len(total),
            rounds=sum(map(self.rounds, total)),
            ahead=sum(total.values()),
        )

    def rounds(self, lane: str) -> int:
        """Implements `InMemoryStore.rounds`."""
        return max(self.saves.get(lane) or [0])

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """Implements `InMemoryStore.restore`.

        Raises:
          ValueError: if the save holds another kind of state, or was changed since it was read.
        """
        return checkpoints.load(self.saves[lane][self.rounds(lane)], like)

    def acquire(self, lane: str) -> bool:
        """Implements `InMemoryStore.acquire`.

        Raises:
          ValueError: if the folder holds lanes of a machine whose bits may differ from those here,
            or if the lane's programs or data have changed.
        """
        seed = self._metadata[lane]['labels']['seed']
        if seed not in self._checked_seeds:
            machines = [*self._fingerprints.items(), (seed, self._fingerprint)]
            runs.check_kinds(machines, allow_mixed=self._allow_mixed)
            self._checked_seeds.add(seed)
        if lane in self._unchecked:
            self._check_lane(lane)
        self._running.add(lane)
        self._lock.update_info(running=len(self._running))
        return True

    def release(self, lane: str) -> None:
        """Implements `InMemoryStore.release`."""
        self._running.discard(lane)
        self._lock.update_info(running=len(self._running))

    def append(self, lane: str, rows: Sequence[MetricsRow]) -> None:
        """Implements `InMemoryStore.append`."""
        if lane in self._unread:
            self._read_lines(lane)
        super().append(lane, rows)
        labels = dict(self._metadata[lane]['labels'])
        if labels['stage'] == dataset.MAIN:
            del labels['stage']  # As in `Lane.labels`.
        lines = [json.dumps({**labels, **row}) + '\n' for row in rows]
        self._lines.setdefault(lane, []).extend(lines)
        with errors.on_disk(self.path):
            self._write_new_lines()

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Section] = ()
    ) -> None:
        """Implements `InMemoryStore.save`; the last two saves of each lane are kept."""
        metadata = {name: self._metadata[lane][name] for name in ('labels', 'position')}
        metadata[runs.FINGERPRINT] = self._fingerprint
        metadata[runs.IDENTITY] = dataclasses.asdict(self._identity_of(lane))
        if parts:
            metadata[checkpoints.PARTS] = parts
        with errors.on_disk(self.path):
            path = runs.checkpoint_file(self.path, lane, round)
            content = checkpoints.pack(state, metadata, self._lines.get(lane, []))
            atomic_files.write(path, content)
            files = self.saves.setdefault(lane, {})
            files[round] = path
            for old in sorted(files)[:-_SAVES_PER_LANE]:
                checkpoints.remove(files.pop(old))
            runs.failure_file(self.path, lane).unlink(missing_ok=True)
            self._write_new_lines()

    def is_due(self, clock: SaveClock) -> bool:
        """Implements `InMemoryStore.is_due`."""
        return clock.is_due()

    def save_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Implements `InMemoryStore.save_links`."""
        with errors.on_disk(self.path):
            atomic_files.write(self.path / runs.LINKS, checksummed_npz.npz(arrays))

    def close(self) -> None:
        """Implements `InMemoryStore.close`."""
        if self._metrics is not None:
            # The checkpoints have all lines, so a full disk loses no metrics.
            with contextlib.suppress(OSError):
                self._metrics.close()
                self._write_metrics(self.lines())
        self._locks.close()

    def _write_new_lines(self) -> None:
        """Adds new lines to the metrics file, up to the first lane that is not done.

        Lines of a lane are written once all earlier lanes are done. So lanes stay in order.
        """
        new: list[str] = []
        while self._unwritten:
            lane = self._unwritten[0]
            lines = self._lines.get(lane, [])
            new += lines[self._num_written :]
            self._num_written = len(lines)
            if self.rounds(lane) < self._metadata[lane]['num_rounds']:
                break
            self._unwritten.popleft()
            self._num_written = 0
        if self._metrics is None:
            self._write_metrics(new)
            self._metrics = (self.path / runs.METRICS).open('ab')
        elif new:
            self._metrics.write(''.join(new).encode())
            self._metrics.flush()

    def _write_metrics(self, lines: Sequence[str]) -> None:
        """Replaces the metrics file."""
        atomic_files.write(self.path / runs.METRICS, ''.join(lines).encode())

    # Check that the folder holds this experiment.

    def _compare(self, config: Section | None) -> descriptions.Description:
        """Compares the folder with the experiment, writes nothing, and returns its description.

        Raises:
          ValueError: naming what differs.
        """
        plain_config, facts = json.loads(json.dumps([config, self.facts]))
        identity = self._identities.run_identity()
        new = descriptions.Description(facts, plain_config, identity)
        stored = descriptions.read_description(self.path)
        if stored is None:
            descriptions.check_started('workdir', self.path, new)
        else:
            changed = descriptions.check_same(
                'workdir',
                self.path,
                stored,
                new,
                may_grow=True,
                allow_changed=self._allow_changed,
            )
            if changed:
                facts[run_files.CHANGED] = changed
                self.facts = {**self.facts, run_files.CHANGED: changed}
        return new

    def _describe(self, new: descriptions.Description) -> None:
        """Writes the description. Its last file, `runs.EXPERIMENT`, marks the folder as a run's."""
        assert new.identity is not None
        descriptions.write_identity(self.path, new.identity)
        if new.config is not None:
            atomic_files.write(self.path / runs.CONFIG, runs.as_json(new.config))
        atomic_files.write(self.path / runs.EXPERIMENT, runs.as_json(new.facts))
        present = json.dumps(environment.present(), indent=2, sort_keys=True) + '\n'
        atomic_files.write(self.path / runs.ENVIRONMENT, present.encode())

    def _check_lanes(self) -> None:
        """Compares the lowest seed of each algorithm, pattern and point with what would run now.

        The lanes of other seeds are compared with a lane of the folder that differs in seed alone.
        """
        if not self._allow_changed:
            identities = {
                lane: (self._metadata[lane]['labels'], identity)
                for lane, identity in self._unchecked.items()
            }
            runs.check_same_programs('workdir', identities, self.facts)
        labels_of = {lane: self._metadata[lane]['labels'] for lane in self._unchecked}
        for lane in lanes.lanes_with_lowest_seeds(labels_of):
            self._check_lane(lane)

    def _check_lane(self, lane: str) -> None:
        """Compares a lane of the folder with what would run now.

        Raises:
          ValueError: naming the lane and what differs.
        """
        stored = self._unchecked.pop(lane)
        if self._allow_changed:
            return
        # What the user allowed to change when an earlier command ran.
        allowed = {*self.facts.get(run_files.CHANGED, ())}
        if stored is None:
            clauses = [] if allowed else ['nothing records its programs and data']
        else:
            clauses = refused_differences(stored, self._identity_of(lane), allowed)
        if clauses:
            anyway = '--allow_changed continues anyway'
            requirement = f'hold lanes of the same programs and data ({anyway})'
            value = f'{self.path} with {lane}, where {clauses[0]}'
            raise errors.invalid('workdir', requirement, value)

    def _identity_of(self, lane: str) -> LaneIdentity:
        """Returns the identity that a lane would have if it ran now."""
        metadata = self._metadata[lane]
        current = lanes.from_labels(metadata['labels'], metadata['position'])
        return self._identities.lane_identity(current)
