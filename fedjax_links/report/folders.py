"""What a run folder holds, lane by lane: lines of metrics and kept states. Nothing is written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links import runs


class Folder(NamedTuple):
    """What a run folder holds.

    Attributes:
      path: where it is.
      run: facts, and metrics as columns.
      config: as run; None for a run made in Python.
      environment: versions, devices, flags.
      lanes: by a text of their labels, in their order.
    """

    path: Path
    run: runs.Results
    config: Mapping[str, Any] | None
    environment: Mapping[str, Any]
    lanes: Mapping[str, runs.KeptLane]


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
    _, config = runs.described(folder)
    environment = runs.read_json(folder, runs.ENVIRONMENT) or {}
    lanes = {json.dumps(lane.labels, sort_keys=True): lane for lane in runs.lanes(folder)}
    return Folder(folder, runs.read(folder), config, environment, lanes)
