"""Which lanes belong to one run: a file of a lane may be another run's of the same labels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_links.core import errors
from fedjax_links.storage import documents, run_files
from fedjax_links.storage.identity import (
    LaneIdentity,
    are_of_one_series,
    lane_differences,
    lane_from_plain,
)

Described = Mapping[str, tuple[Mapping[str, Any], LaneIdentity | None]]
"""Labels and identities of lanes, by their names."""


def check_same_programs(
    argument: str, lanes: Described, facts: Mapping[str, Any]
) -> None:
    """Refuses lanes of one algorithm, pattern and point that differ in more than their seeds.

    Args:
      argument: what named the folder.
      lanes: of the run.
      facts: of the run; nothing is compared where they say that somebody allowed a change.

    Raises:
      InvalidError: naming the lane and what differs.
    """
    if run_files.CHANGED in facts:
        return
    first: dict[str, str] = {}
    for name, (labels, identity) in lanes.items():
        if identity is None:
            continue
        shared = {label: value for label, value in labels.items() if label != 'seed'}
        other = first.setdefault(repr(shared), name)
        before = lanes[other][1]
        if before is None or before == identity:
            continue
        by_seed = {f'links {labels["pattern"]}', *identity.data}
        differences = lane_differences(before, identity)
        clauses = [clause for part, clause in differences if part not in by_seed]
        if not clauses and not are_of_one_series(before, identity):
            clauses = ['links or data of another run']
        if clauses:
            requirement = 'hold lanes of the same programs and data'
            said = f'{name}, which differs from {other}: {clauses[0]}'
            raise errors.invalid(argument, requirement, said)


def check_of_run(
    argument: str, folder: Path, lanes: Described, facts: Mapping[str, Any]
) -> None:
    """Refuses lanes at the first point that are not of what the folder says it is of.

    Args:
      argument: what named the folder.
      folder: of the run.
      lanes: of it.
      facts: likewise; as in `check_same_programs`.

    Raises:
      InvalidError: naming the lane.
    """
    kept = documents.read_json(folder, run_files.IDENTITY)
    if kept is None or run_files.CHANGED in facts:
        return
    known = {name: lane_from_plain(values) for name, values in kept['lanes'].items()}
    columns = {**facts['grid'], **(facts['tuning'] or {}).get('grid', {})}
    for name, (labels, identity) in lanes.items():
        of_run = known.get(f'{labels["algorithm"]} on {labels["pattern"]}')
        is_first = all(
            labels.get(k, values[0]) == values[0] for k, values in columns.items()
        )
        if identity is None or of_run is None or not is_first:
            continue
        if not are_of_one_series(of_run, identity):
            requirement = 'hold lanes of its own programs and data'
            raise errors.invalid(
                argument, requirement, f'{folder} with {name}, of another run'
            )
