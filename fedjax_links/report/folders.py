"""What a run folder holds, lane by lane: lines of metrics and kept states. Nothing is written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checkpoints, errors, journal, runs

_LABELS = ('stage', 'algorithm', 'pattern', 'seed')


class Checkpoint(NamedTuple):
    """A kept state.

    Attributes:
      path: of its file.
      digest: that the journal has of it.
    """

    path: Path
    digest: str

    def leaves(self) -> dict[str, np.ndarray]:
        """The state's leaves by path.

        Raises:
          DamagedError: if the file was changed.
        """
        return checkpoints.arrays(self.path, self.digest)


class KeptLane(NamedTuple):
    """What is kept of one lane.

    Attributes:
      labels: ``stage``, ``algorithm``, ``pattern``, ``seed`` and the columns of its point.
      records: what was measured, by round; None for NaN and infinities.
      states: its checkpoints, by round.
    """

    labels: Mapping[str, Any]
    records: Mapping[int, Mapping[str, Any]]
    states: Mapping[int, Checkpoint]

    @property
    def point(self) -> dict[str, Any]:
        """The value of every column that its algorithm, pattern or problem takes."""
        return {name: value for name, value in self.labels.items() if name not in _LABELS}

    def text(self) -> str:
        """Its labels in a line."""
        stage = [] if self.labels['stage'] == 'main' else [self.labels['stage']]
        shown = [f'{name} {v}' for name, v in self.labels.items() if name != 'stage']
        return ', '.join([*stage, *shown])


class Folder(NamedTuple):
    """What a run folder holds.

    Attributes:
      path: where it is.
      run: facts, and metrics as columns.
      config: as run; None for a run made in Python.
      environment: versions, devices, flags.
      lanes: by a text of their labels, in the order in which they ran.
    """

    path: Path
    run: runs.Results
    config: Mapping[str, Any] | None
    environment: Mapping[str, Any]
    lanes: Mapping[str, KeptLane]


def read(path: str | Path) -> Folder:
    """Reads a run folder, finished or not.

    Args:
      path: what ``--workdir`` was.

    Returns:
      What it holds up to the last save.

    Raises:
      ValueError: if it holds no run, or its files were changed.
    """
    folder = Path(path)
    run = runs.read(folder)
    with errors.on_disk(folder):
        saves, lines = journal.read(folder)
        entries = [_split(json.loads(line)) for line in lines]
        states = _states(folder, saves, entries)
        _, config = runs.described(folder)
        environment = _json(folder / runs.ENVIRONMENT)
    records: dict[str, dict[int, Any]] = {}
    labels: dict[str, dict[str, Any]] = {}
    for own, round, measured in entries:
        key = _key(own)
        labels.setdefault(key, own)
        records.setdefault(key, {})[round] = measured
    kept = {key: KeptLane(labels[key], records[key], states.get(key, {})) for key in labels}
    return Folder(folder, run, config, environment or {}, kept)


def links(folder: Path) -> dict[str, np.ndarray]:
    """What was kept of the realised links.

    Args:
      folder: of a run.

    Returns:
      By name: ``num_clients``; for each pattern ``mask/<pattern>``, bool[T, N], of the first seed,
      and ``mean_prob/<pattern>``, float[N]; for further seeds ``<pattern>/<seed>`` in place of the
      pattern; ``prob/...``, float[T, N], where the run logged links; ``first_round`` if it is
      not 0. Empty if none were kept.
    """
    arrays = runs.read_links(folder)
    for name, array in arrays.items():
        if name.startswith('mask/'):
            count = int(arrays['num_clients'])
            arrays[name] = np.unpackbits(array, axis=-1, count=count).astype(bool)
    return arrays


def _split(entry: Mapping[str, Any]) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """The labels of a line of metrics, which come before its round; the round; and the rest."""
    names = list(entry)
    place = names.index('round')
    labels = {'stage': 'main', **{name: entry[name] for name in names[:place]}}
    return labels, entry['round'], {name: entry[name] for name in names[place + 1 :]}


def _key(labels: Mapping[str, Any]) -> str:
    return json.dumps(labels, sort_keys=True)


def _states(
    folder: Path, saves: Sequence[journal.Save], entries: Sequence[tuple[Any, int, Any]]
) -> dict[str, dict[int, Checkpoint]]:
    """The checkpoints that are still there, by lane and round.

    The journal names lanes by their files. A save follows the last lines of its lanes, in the same
    order, so those lines tell whose files they are.
    """
    owners: dict[str, str] = {}
    for save in saves:
        if save.held:  # its lines come later
            continue
        last = entries[max(save.num_lines - len(save.lanes), 0) : save.num_lines]
        for name, (labels, round, _) in zip(save.lanes, last, strict=False):
            stage, algorithm, pattern, seed = (labels[label] for label in _LABELS)
            own = name.startswith(f'{stage}-{algorithm}-') and name.endswith(f'-{pattern}-{seed}')
            if own and round == save.round:
                owners[name] = _key(labels)
    found: dict[str, dict[int, Checkpoint]] = {}
    for save in saves:
        for name, digest in save.lanes.items():
            path = folder / runs.CHECKPOINTS / f'{name}@{save.round}.npz'
            if name in owners and digest is not None and path.exists():
                found.setdefault(owners[name], {})[save.round] = Checkpoint(path, digest)
    return found


def _json(path: Path) -> Any:
    """What a file of JSON holds; None if there is none."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise errors.invalid('folder', f'hold a readable {path.name}', f'{path}: {error}') from None
