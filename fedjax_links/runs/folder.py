"""Reads a run folder, which holds what an experiment leaves on disk (`stores` writes it).

A lane is one algorithm, pattern, grid point and seed; trials of tuning are lanes too. Lanes that
differ in their seeds alone are a series.

* ``config.json``: the config as run; absent for experiments made in Python.
* ``experiment.json``: what reports need (labels, metrics and their directions, grid, seeds), and
  ``numerics``, the settings of JAX that change draws and rounding. A forked run also has
  ``forked_from`` and ``at_round``. A run on meshes, which round differently, has ``on_a_mesh``.
* ``environment.json``: versions, devices, cores and flags of the last start.
* ``identity.json``: digests of the run's programs and data, and the version of this package
  (`storage.identity`); ``examples.npz``: a hash of each example.
* ``checkpoints/<lane>@<round>.npz``: the last two saves of each lane (`checkpoints`): labels, lines
  of metrics so far, and the state. Lanes of tuning that are done have no state.
* ``checkpoints/<lane>@<round>.part<k>.npz``: for a save of several processes, the rows of divided
  client tables that process k held. These rows are read with the save.
* ``metrics.jsonl``: a copy of the lines of all lanes, in the order of lanes; other code reads the
  lines from the saves of lanes. While a run goes on, the file ends with the first lane that is not
  done, whose last lines may not be saved yet. Each line is one evaluation of one lane; NaN and
  infinities are null. Lines of lanes that are not ``finite`` have ``first_bad_round``, counted from
  0.
* ``links.npz``: realised links, one bit each.
* ``clients.npz``: losses and metrics of clients, and exact facts about links (laws), computed from
  the problem for reports.

Each file but ``environment.json`` and ``metrics.jsonl`` has a digest of its content: JSON among its
fields, an npz in its comment (`checksummed_npz`).
"""

import contextlib
import dataclasses
import functools
import glob
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.core import checks, errors, paths
from fedjax_links.core.grids import Point
from fedjax_links.core.records import LaneLabels, MetricsRow, RunFacts, Section
from fedjax_links.results.runs import Results as Results
from fedjax_links.runs import belonging, checking, lane_names, metric_lines
from fedjax_links.storage import checkpoints, checksummed_npz
from fedjax_links.storage.descriptions import first_difference as first_difference
from fedjax_links.storage.documents import as_json as as_json
from fedjax_links.storage.documents import read_json as read_json
from fedjax_links.storage.identity import LaneIdentity, UnreadableError, lane_from_plain
from fedjax_links.storage.run_files import CHECKPOINTS as CHECKPOINTS
from fedjax_links.storage.run_files import CONFIG as CONFIG
from fedjax_links.storage.run_files import ENVIRONMENT as ENVIRONMENT
from fedjax_links.storage.run_files import EXPERIMENT as EXPERIMENT
from fedjax_links.storage.run_files import LINKS as LINKS
from fedjax_links.storage.run_files import LOCK as LOCK
from fedjax_links.storage.run_files import MAY_DIFFER as MAY_DIFFER
from fedjax_links.storage.run_files import METRICS as METRICS

FINGERPRINT = 'fingerprint'
IDENTITY = 'identity'
_LABELS = ('stage', 'algorithm', 'pattern', 'seed')
ON_A_MESH = 'on_a_mesh'
_NEEDED_FACTS = {'algorithms', 'num_rounds'}


@dataclasses.dataclass(frozen=True)
class LaneRecord:
    """Holds the saves of a lane, and what the saves say.

    Attributes:
      name: with which the lane's files begin.
      labels: ``stage``, ``algorithm``, ``pattern``, ``seed`` and the columns of the lane's grid
        point.
      position: the index of the lane's series among all series of this algorithm and stage, and the
        index of the lane's seed.
      round: rounds completed.
      lines: of metrics.
      states: the files that hold a state, by rounds completed, ascending.
      files: all files of the lane, likewise.
      fingerprint: of the machine that saved the lane last (`environment.fingerprint`); None if an
        older version saved it.
      identity: digests of the lane's programs and data; None likewise.
    """

    name: str
    labels: Mapping[str, Any]
    position: Sequence[int]
    round: int
    lines: Sequence[str]
    states: Mapping[int, Path]
    files: Mapping[int, Path] = dataclasses.field(default_factory=dict)
    fingerprint: Mapping[str, Any] | None = None
    identity: LaneIdentity | None = None

    @functools.cached_property
    def records(self) -> dict[int, MetricsRow]:
        """Returns what was measured, by round; None for NaN and infinities."""
        known = {*self.labels, 'round'}
        rows = map(metric_lines.parse_row, self.lines)
        return {
            row['round']: {k: row[k] for k in row if k not in known} for row in rows
        }

    @property
    def point(self) -> Point:
        """Returns the value of each column that the lane's algorithm, pattern or problem takes."""
        return {
            name: value for name, value in self.labels.items() if name not in _LABELS
        }

    def text(self) -> str:
        """Formats the lane's labels in a line."""
        stage = [] if self.labels['stage'] == 'main' else [self.labels['stage']]
        shown = [f'{name} {v}' for name, v in self.labels.items() if name != 'stage']
        return ', '.join([*stage, *shown])


def read(folder: str | Path, *, verify: bool = True) -> Results:
    """Reads the metrics of a run folder, finished or not, or of its archive.

    Args:
      folder: what ``--workdir`` was, or the folder of an archive (`checksummed_npz`).
      verify: whether to read the lanes' files in full, and verify that no bit has changed.

    Returns:
      The columns up to the last save.

    Raises:
      ValueError: if the folder holds no run, its files were changed, or a lane is of another run.
    """
    checks.flags(verify=verify)
    path = paths.as_path(folder)
    facts, _ = read_description(folder)
    archive = path / checksummed_npz.METRICS
    if archive.exists():
        columns = checksummed_npz.read_metrics(archive)
    else:
        records = lanes(path, verify=verify)
        described = {lane.name: (lane.labels, lane.identity) for lane in records}
        belonging.check_same_programs('folder', described, facts)
        belonging.check_lanes_of_run('folder', path, described, facts)
        columns = as_columns(
            itertools.chain.from_iterable(lane.lines for lane in records)
        )
    metric_lines.check_columns(path, columns, facts)
    return Results(columns, facts, path)


def lanes(folder: str | Path, *, verify: bool = True) -> list[LaneRecord]:
    """Reads the lanes of a run, which other processes may be writing.

    Args:
      folder: of a run, finished or not.
      verify: as in `read`.

    Returns:
      The lanes, in their order.

    Raises:
      ValueError: if the folder holds no run, or the last save of a lane was changed.
    """
    checks.flags(verify=verify)
    facts, _ = read_description(folder)
    with errors.on_disk(folder):
        path = paths.as_path(folder)
        records = [
            _lane_now(path, name, files, verify=verify)
            for name, files in saves(path).items()
        ]
        return in_order(records, facts)


def _lane_now(
    folder: Path, name: str, files: Mapping[int, Path], *, verify: bool
) -> LaneRecord:
    """Reads a lane from its last file, even if a later file replaces that file meanwhile."""
    try:
        return lane_of(files, verify=verify)
    except (checkpoints.DamagedError, FileNotFoundError):
        now = saves(folder, name).get(name, files)
        if now == files:
            raise
        return _lane_now(folder, name, now, verify=verify)


def saves(folder: Path, lane: str | None = None) -> dict[str, dict[int, Path]]:
    """Returns the files of all lanes, or of one, by the lane's name and its rounds, ascending."""
    by_lane: dict[str, dict[int, Path]] = {}
    pattern = '*' if lane is None else glob.escape(lane)
    for path in sorted((folder / CHECKPOINTS).glob(f'{pattern}@*.npz')):
        lane, _, round = path.stem.rpartition('@')
        if round.isdecimal():  # Else a part of a save.
            by_lane.setdefault(lane, {})[int(round)] = path
    return {lane: dict(sorted(files.items())) for lane, files in by_lane.items()}


def lane_of(files: Mapping[int, Path], *, verify: bool = True) -> LaneRecord:
    """Reads a lane from its last file.

    Args:
      files: of the lane, by rounds completed.
      verify: as in `read`.

    Raises:
      checkpoints.DamagedError: if the last file was changed.
    """
    last = max(files)
    about, lines = checkpoints.read(files[last], verify=verify)
    _check_name(files[last], about, lines)
    for round in files.keys() - {last}:
        _check_earlier_save(files[round])
    states = {
        round: path for round, path in files.items() if round < last or about['leaves']
    }
    name = files[last].stem.rpartition('@')[0]
    identity = None
    if IDENTITY in about:
        try:
            identity = lane_from_plain(about[IDENTITY])
        except UnreadableError as error:
            requirement = 'hold the identity of its programs and data'
            raise errors.invalid(
                'checkpoint', requirement, f'{files[last]}: {error}'
            ) from None
    return LaneRecord(
        name=name,
        labels=about['labels'],
        position=about['position'],
        round=last,
        lines=lines,
        states=states,
        files=files,
        fingerprint=about.get(FINGERPRINT),
        identity=identity,
    )


def _check_earlier_save(path: Path) -> None:
    """Refuses an earlier save of another lane or round; a damaged or removed save is no error."""
    try:
        _check_name(path, *checkpoints.read(path, verify=False))
    except (errors.InvalidError, OSError):
        with contextlib.suppress(checkpoints.DamagedError, OSError):
            _check_name(path, *checkpoints.read(path))


def _check_name(path: Path, about: Section, lines: Sequence[str]) -> None:
    """Refuses a file that is no save, or that has the name of another lane or round.

    Raises:
      ValueError: naming the file, and the name that it should have.
    """
    checking.check_about(path, about)
    names = {name: about['labels'][name] for name in _LABELS}
    lane = lane_names.lane_name(series=about['position'][0], **names)
    round = path.stem.rpartition('@')[2]
    if lines:
        round = str(metric_lines.parse_row(lines[-1])['round'])
    expected = f'{lane}@{round}.npz'
    if path.name != expected:
        requirement = 'have the name of its lane and round'
        value = f'{path}, which holds {expected}'
        raise errors.invalid('checkpoint', requirement, value)


def order(
    labels: LaneLabels, position: Sequence[int], facts: RunFacts
) -> tuple[int, int, tuple[int, ...]]:
    """Returns the sort key of a lane: lanes sort as a single process runs them, one by one."""
    stage = checking.STAGES.index(labels['stage'])
    return facts['algorithms'].index(labels['algorithm']), stage, tuple(position)


def in_order(lanes: Iterable[LaneRecord], facts: RunFacts) -> list[LaneRecord]:
    """Sorts lanes in the order in which a single process runs them."""
    lanes = list(lanes)
    for lane in lanes:
        checking.check_labels(lane.name, lane.labels, facts)
    return sorted(lanes, key=lambda lane: order(lane.labels, lane.position, facts))


def read_description(
    folder: str | Path, argument: str = 'folder'
) -> tuple[RunFacts, Section | None]:
    """Reads what a run folder says of its experiment.

    Args:
      folder: its path.
      argument: what named the folder, for errors.

    Returns:
      The facts, and the config, which is None for an experiment made in Python.

    Raises:
      ValueError: if the folder holds no run.
    """
    facts = read_json(paths.as_path(folder), EXPERIMENT)
    if facts is None or not facts.keys() >= _NEEDED_FACTS:
        raise errors.invalid(argument, f'hold a run ({EXPERIMENT})', folder)
    checking.check_facts(paths.as_path(folder) / EXPERIMENT, facts)
    config = read_json(paths.as_path(folder), CONFIG)
    if not isinstance(config, dict | None):
        raise errors.invalid(argument, f'hold a readable {CONFIG}', folder)
    return facts, config


def as_columns(lines: Iterable[bytes | str]) -> dict[str, np.ndarray]:
    """Converts lines of metrics to columns."""
    rows = [{'stage': 'main', **metric_lines.parse_row(line)} for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: as_column([row.get(name) for row in rows]) for name in names}


def checkpoint_file(folder: Path, lane: str, round: int) -> Path:
    """Returns the file of a lane's state after ``round`` rounds."""
    return folder / CHECKPOINTS / f'{lane}@{round}.npz'


def line_of(labels: LaneLabels, round: int, record: MetricsRow) -> str:
    """Formats one evaluation of one lane as a line of metrics."""
    return json.dumps({**labels, **row_of(round, record)}) + '\n'


def row_of(round: int, record: MetricsRow) -> dict[str, float | int | bool | None]:
    """Converts one evaluation of a lane to plain values; None for NaN and infinities."""
    return {
        'round': round,
        **{name: _jsonable(value) for name, value in record.items()},
    }


def as_column(values: Sequence[object]) -> np.ndarray:
    """Converts plain values to an array: numbers as numbers (None is NaN), the rest as objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {bool, int, str}:
        return np.array(values)
    if kinds <= {int, float, type(None)}:
        return np.array(values, np.float64)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _jsonable(value: ArrayLike) -> float | int | bool | None:
    """Returns a number, or None for NaN and infinities, which JSON does not have."""
    number = np.asarray(value).item()
    return None if isinstance(number, float) and not math.isfinite(number) else number
