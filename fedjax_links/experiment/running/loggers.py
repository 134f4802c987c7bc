"""Where metrics go besides ``metrics.jsonl`` while a run goes on, by name.

An experiment's ``log`` names entries of `CALLBACKS`, or ``module:factory`` for a callback of the
user's own. Each is a function of the run's folder, which exists once the run has started and is
None for results in memory.
"""

import csv as csv_
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import runs
from fedjax_links.config import sections
from fedjax_links.core import checks, errors
from fedjax_links.experiment.definition import LINKS, Experiment
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running.hooks import Callback
from fedjax_links.storage import checkpoints

CSV, TENSORBOARD = 'metrics.csv', 'tensorboard'


def csv(folder: Path | None) -> Callback:
    """``metrics.csv``: a table with the columns of `runs.read`."""
    return _Csv(_given('csv', folder))


def tensorboard(folder: Path | None) -> Callback:
    """``tensorboard/``: event files with every number of every lane; needs tensorboardX."""
    try:
        import tensorboardX
    except ImportError:
        purpose = "`log` 'tensorboard' needs tensorboardX"
        raise errors.missing_package(purpose, 'tensorboardX') from None
    return _TensorBoard(_given('tensorboard', folder) / TENSORBOARD, tensorboardX.SummaryWriter)


CALLBACKS: Mapping[str, Callable[[Path | None], Callback]] = {
    'csv': csv,
    'tensorboard': tensorboard,
}
"""``log``: given the folder, positionally; returns a `Callback`."""


def check(log: Sequence[str]) -> None:
    """Raises for a name that stands for nothing.

    Args:
      log: as in `Experiment`.

    Raises:
      ValueError: naming it and the nearest valid name.
    """
    for name in checks.names('log', log):
        if ':' in name:
            sections.lookup('log', name, CALLBACKS)
        else:
            checks.choice('log', name, (LINKS, *CALLBACKS))


def callbacks(log: Sequence[str], folder: str | Path | None) -> list[Callback]:
    """What the names stand for.

    Args:
      log: as in `Experiment`.
      folder: of the run.

    Raises:
      ValueError: for what needs a folder where there is none, or is no callback.
      MissingPackageError: for a package that is not installed.
    """
    found = []
    for name in log:
        if name == LINKS:
            continue
        path = None if folder is None else Path(folder)
        made = sections.named('log', name, CALLBACKS, path)
        if not isinstance(made, Callback):
            raise errors.invalid('log', f'name what returns a Callback ({name})', repr(made))
        found.append(made)
    return found


def _given(name: str, folder: Path | None) -> Path:
    if folder is None:
        raise errors.invalid('folder', f'be given, as {name} keeps a file there', None)
    return folder


class _Csv(Callback):
    """Rows are added as they come; at start and end the table is that of ``metrics.jsonl``."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / CSV
        self._names: list[str] = []

    def on_start(self, experiment: Experiment) -> None:
        self._copy()

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        if len(record) == 1:  # done before, so its rows are there
            return
        values = {name: value for name, value in record.items() if name != 'round'}
        row = _row(runs.line_of(lane.labels, record['round'], values))
        with errors.on_disk(self._path):
            if row.keys() <= set(self._names):
                with self._path.open('a', newline='') as file:
                    csv_.DictWriter(file, self._names, lineterminator='\n').writerow(row)
            else:
                with self._path.open(newline='') as file:
                    rows = list(csv_.DictReader(file))
                self._write([*rows, row])

    def on_end(self, results: runs.Results) -> None:
        self._copy()

    def _copy(self) -> None:
        with errors.on_disk(self._path):
            lines = (self._folder / runs.METRICS).read_bytes().splitlines()
            self._write([_row(line) for line in lines])

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO(newline='')
        writer = csv_.DictWriter(text, self._names, lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)
        checkpoints.write_whole(self._path, text.getvalue().encode())


def _row(line: str | bytes) -> dict[str, Any]:
    return {'stage': 'main', **json.loads(line)}


class _TensorBoard(Callback):
    """One writer per lane, open while the lane runs."""

    def __init__(self, folder: Path, make_writer: Callable[..., Any]) -> None:
        self._folder, self._make_writer = folder, make_writer
        self._writers: dict[str, Any] = {}

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        round = int(record['round'])
        if len(record) == 1:
            return
        if lane.name not in self._writers:  # what was written of later rounds is void
            folder = str(self._folder / lane.name)
            self._writers[lane.name] = self._make_writer(folder, purge_step=round)
        writer = self._writers[lane.name]
        for name, value in record.items():
            if name != 'round':
                writer.add_scalar(name, float(np.asarray(value)), round)
        writer.flush()
        if round == lane.num_rounds:
            self._writers.pop(lane.name).close()
