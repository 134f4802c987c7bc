"""A run folder: what an experiment leaves on disk, and how it goes on after an interruption.

* ``config.json``: the config as run; absent for experiments made in Python.
* ``experiment.json``: labels, metrics and their directions, grid, seeds: what reports need.
* ``environment.json``: versions, devices, cores and flags of the last start.
* ``metrics.jsonl``: one flat line per lane and evaluation; NaN and infinities are null.
* ``links.npz``: realised links, one bit each.
* ``checkpoints/``: states of the lanes, and a journal that says which lines of metrics they have
  seen. Lines beyond the journal are cut when a run goes on, a changed one is an error.
"""

import fcntl
import hashlib
import json
import math
import os
import platform
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import checkpoints, errors
from fedjax_links.base import PyTree

CONFIG, EXPERIMENT, ENVIRONMENT = 'config.json', 'experiment.json', 'environment.json'
METRICS, LINKS, CHECKPOINTS = 'metrics.jsonl', 'links.npz', 'checkpoints'
MAY_DIFFER = ('baseline', 'caption', 'names', 'reports', 'title')
"""What changes how results are shown, but no result."""

_JOURNAL, _LOCK = 'journal.jsonl', '.lock'
_PACKAGES = ('fedjax_links', 'jax', 'jaxlib', 'numpy', 'flax', 'optax')


class Results(NamedTuple):
    """Metrics as columns of equal length, one row per lane and evaluation.

    Attributes:
      columns: ``stage`` (``'main'`` or ``'tuning'``), ``algorithm``, ``pattern``, ``seed``,
        ``round``, the columns of the grid, and ``<model>/<metric>``; NaN, None or '' where a line
        has no such field.
      facts: labels, metrics and their directions, grid, seeds: `Experiment.facts`.
      folder: where they were read from; None for results in memory.
    """

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    folder: Path | None = None

    def __getitem__(self, name: Any) -> Any:
        """A column by its name."""
        if isinstance(name, str) and name not in self.columns:
            raise KeyError(str(errors.unknown_name('column', name, self.columns)))
        return self.columns[name] if isinstance(name, str) else tuple(self)[name]

    def to_pandas(self) -> Any:
        """The columns as a table of pandas, which must be installed."""
        try:
            import pandas
        except ImportError:
            raise errors.missing_package('to_pandas needs pandas', 'pandas') from None
        return pandas.DataFrame(dict(self.columns))


def read(folder: str | Path) -> Results:
    """The metrics of a run folder, finished or not.

    Args:
      folder: what ``--workdir`` was.

    Returns:
      The columns so far; a half-written last line is left out.

    Raises:
      ValueError: if the folder holds no run.
    """
    path = Path(folder)
    facts = _read_json(path / EXPERIMENT)
    if facts is None:
        raise errors.invalid('folder', f'hold a run ({EXPERIMENT})', folder)
    return Results(as_columns(_whole_lines(path / METRICS)), facts, path)


def as_columns(lines: Iterable[bytes | str]) -> dict[str, np.ndarray]:
    """Lines of metrics as columns."""
    rows = [{'stage': 'main', **json.loads(line)} for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: _column([row.get(name) for row in rows]) for name in names}


def line_of(labels: Mapping[str, Any], round: int, record: Mapping[str, Any]) -> str:
    """One evaluation of one lane as a line of metrics."""
    values = {name: _jsonable(value) for name, value in record.items()}
    return json.dumps({**labels, 'round': round, **values}) + '\n'


class Memory:
    """What a folder does, for experiments that keep nothing on disk."""

    def __init__(self) -> None:
        """Keeps the lines of metrics in `lines`."""
        self.lines: list[str] = []

    def rounds(self, lane: str) -> int:
        """Rounds that a lane has behind it."""
        return 0

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """The state of a lane after `rounds`."""
        raise NotImplementedError

    def append(self, lines: Sequence[str]) -> None:
        """Adds lines of metrics."""
        self.lines.extend(lines)

    def save(self, states: Mapping[str, PyTree], round: int) -> None:
        """Keeps the states of lanes after a round; None for a lane that no one goes on from."""

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
    ) -> None:
        """Opens or creates the folder.

        Args:
          folder: its path.
          facts: of the experiment, JSON values only.
          config: the config it was made from, if any.

        Raises:
          ValueError: if the folder cannot be used, holds another experiment, is in use by another
            process, or its metrics were changed.
        """
        super().__init__()
        self.path = Path(folder).absolute()
        try:
            (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open('a+')
        except OSError as error:
            requirement = 'name a folder that can be written to'
            raise errors.invalid('workdir', requirement, f'{folder}: {error.strerror}') from None
        self._claim()
        try:
            self._describe(facts, config)
            self._journal: dict[str, list[dict[str, Any]]] = {}
            self._unproven: list[str] = []
            self._go_on()
        except BaseException:
            self.close()
            raise

    def rounds(self, lane: str) -> int:
        """As `Memory.rounds`."""
        return self._journal[lane][-1]['round'] if lane in self._journal else 0

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """As `Memory.restore`.

        Raises:
          ValueError: if the checkpoint was changed or holds another kind of state.
        """
        entry = self._journal[lane][-1]
        return checkpoints.load(self._file(lane, entry['round']), like, entry['digest'])

    def append(self, lines: Sequence[str]) -> None:
        """As `Memory.append`."""
        super().append(lines)
        self._unproven.extend(map(_digest, lines))
        self._metrics.write(''.join(lines).encode())
        self._metrics.flush()

    def save(self, states: Mapping[str, PyTree], round: int) -> None:
        """As `Memory.save`; the states before these are removed."""
        os.fsync(self._metrics.fileno())
        for lane, state in states.items():
            entry = {'lane': lane, 'round': round, 'lines': self._unproven}
            if state is not None:
                entry['digest'] = checkpoints.save(self._file(lane, round), state)
            self._unproven = []
            text = json.dumps(entry)
            self._log.write(f'{_digest(text)} {text}\n'.encode())
            self._log.flush()
            os.fsync(self._log.fileno())
            for old in self._journal.get(lane, []):
                self._file(lane, old['round']).unlink(missing_ok=True)
            self._journal[lane] = [entry]

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `Memory.keep_links`."""
        partial = self.path / f'{LINKS}.partial.npz'
        np.savez_compressed(partial, allow_pickle=False, **arrays)
        partial.replace(self.path / LINKS)

    def close(self) -> None:
        """As `Memory.close`."""
        for name in ('_metrics', '_log', '_lock'):
            if hasattr(self, name):
                getattr(self, name).close()

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
        for name, values in ((CONFIG, config), (EXPERIMENT, facts)):
            if values is None:
                continue
            text = json.dumps(values, indent=2, sort_keys=True) + '\n'
            there, here = _read_json(self.path / name), json.loads(text)
            if there is not None:
                field, old, new = _first_difference(_shown(there), _shown(here))
                if old != new:
                    raise errors.invalid(
                        'workdir',
                        'be new or hold a run with the same config',
                        f'{self.path}, where {field} is {old!r} and not {new!r}',
                    )
            checkpoints.write_whole(self.path / name, text.encode())
        environment = json.dumps(_environment(), indent=2, sort_keys=True) + '\n'
        checkpoints.write_whole(self.path / ENVIRONMENT, environment.encode())

    def _go_on(self) -> None:
        """Reads the journal, and cuts metrics and journal back to what it proves."""
        path = self.path / CHECKPOINTS / _JOURNAL
        proven: list[str] = []
        kept = b''
        for line in _whole_lines(path):
            digest, _, text = line.decode(errors='replace').rstrip('\n').partition(' ')
            if digest != _digest(text):
                raise errors.invalid('workdir', 'hold a journal as it was written', path)
            entry = json.loads(text)
            proven += entry.pop('lines')
            self._journal[entry['lane']] = [entry]
            kept += line
        lines = _whole_lines(self.path / METRICS)
        for number, digest in enumerate(proven, start=1):
            if number > len(lines) or _digest(lines[number - 1]) != digest:
                raise errors.invalid(
                    'workdir',
                    'hold metrics as they were written',
                    f'{self.path / METRICS}, which differs in line {number}',
                )
        whole = lines[: len(proven)]
        checkpoints.write_whole(self.path / METRICS, b''.join(whole))
        checkpoints.write_whole(path, kept)
        self.lines = [line.decode() for line in whole]
        self._metrics = (self.path / METRICS).open('ab')
        self._log = path.open('ab')

    def _file(self, lane: str, round: int) -> Path:
        return self.path / CHECKPOINTS / f'{lane}@{round}.npz'


def _environment() -> dict[str, Any]:
    devices = jax.devices()
    return {
        'versions': {name: metadata.version(name) for name in _PACKAGES},
        'python': platform.python_version(),
        'platform': platform.platform(),
        'cores': len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else None,
        'devices': [device.device_kind for device in devices],
        'backend': jax.default_backend(),
        'precision': jax.dtypes.canonicalize_dtype(float).name,
        'flags': sys.argv[1:],
    }


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in MAY_DIFFER}


def _digest(line: str | bytes) -> str:
    content = line.encode() if isinstance(line, str) else line
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of a file; a half-written last one is left out."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith(b'\n')]


def _read_json(path: Path) -> Any:
    """What a file of JSON holds; None if there is none."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise errors.invalid(
            'workdir', f'hold a readable {path.name}', f'{path}: {error}'
        ) from None


def _column(values: Sequence[Any]) -> np.ndarray:
    """Numbers as numbers (None is NaN), all else as objects."""
    kinds = {type(value) for value in values}
    if kinds <= {bool}:
        return np.array(values, bool)
    if kinds <= {int}:
        return np.array(values, np.int64)
    if kinds <= {int, float, type(None)}:
        return np.array([np.nan if value is None else value for value in values], np.float64)
    if kinds <= {str}:
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _jsonable(value: Any) -> Any:
    """A number, or None for what JSON cannot say (NaN and infinities)."""
    number = np.asarray(value).item()
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _first_difference(there: Any, here: Any, field: str = 'config') -> tuple[str, Any, Any]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        names: Collection[str] = sorted({*there, *here})
        for name in names:
            if there.get(name) != here.get(name):
                return _first_difference(there.get(name), here.get(name), f'{field}.{name}')
        return field, None, None
    return field, there, here


class SaveClock:
    """Says when to save: every few seconds, and for at most a tenth of the time."""

    def __init__(self, seconds: float) -> None:
        """Starts the clock.

        Args:
          seconds: least time between the starts of two saves.
        """
        self._seconds = seconds
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
        self._due = self._began + max(self._seconds, 10 * took)
