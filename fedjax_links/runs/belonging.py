"""Checks that lanes belong to one run: another run may have lanes of the same labels.

A lane is one algorithm, pattern, grid point and seed. Its identity is digests of its programs and
data (`LaneIdentity`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_links.core import errors, grids
from fedjax_links.core.records import LaneLabels, RunFacts
from fedjax_links.storage import documents, run_files
from fedjax_links.storage.identity import (
    LaneIdentity,
    UnreadableError,
    are_of_one_series,
    lane_differences,
    run_from_plain,
)

Described = Mapping[str, tuple[Mapping[str, Any], LaneIdentity | None]]
"""Labels and identity of each lane, by the lane's name."""


def check_same_programs(argument: str, lanes: Described, facts: RunFacts) -> None:
    """Refuses lanes of one algorithm, pattern and point that differ in more than their seeds.

    Args:
      argument: what named the folder.
      lanes: of the run.
      facts: of the run; nothing is compared if the facts say that a user allowed a change.

    Raises:
      ValueError: naming the lane and what differs.
    """
    if run_files.CHANGED in facts:
        return
    first_name: dict[str, str] = {}
    for name, (labels, identity) in lanes.items():
        if identity is None:
            continue
        without_seed = {key: value for key, value in labels.items() if key != 'seed'}
        first = first_name.setdefault(repr(without_seed), name)
        first_identity = lanes[first][1]
        assert first_identity is not None
        clause = _difference(first_identity, identity, labels)
        if clause is not None:
            requirement = 'hold lanes of the same programs and data'
            value = f'{name}, which differs from {first}: {clause}'
            raise errors.invalid(argument, requirement, value)


def _difference(
    first: LaneIdentity, identity: LaneIdentity, labels: LaneLabels
) -> str | None:
    """Says how two lanes differ in more than their seeds; None if they do not.

    Where seeds redraw how many examples clients have, programs differ by seed as well. Then only
    the digest of the first seed's lane decides, which both identities hold as ``series``.
    """
    if first == identity or _share_first_lane(first, identity):
        return None
    differs_by_seed = {f'links {labels["pattern"]}', *identity.data}
    for part, clause in lane_differences(first, identity):
        if part not in differs_by_seed:
            return clause
    if not are_of_one_series(first, identity):
        return 'links or data of another run'
    return None


def _share_first_lane(first: LaneIdentity, identity: LaneIdentity) -> bool:
    """Returns whether both lanes are known to differ in their seeds alone, and have one version."""
    is_known = bool(first.series and identity.series)
    is_one_version = first.version == identity.version
    return is_known and is_one_version and are_of_one_series(first, identity)


def check_lanes_of_run(
    argument: str, folder: Path, lanes: Described, facts: RunFacts
) -> None:
    """Refuses lanes at the first grid point with programs or data of another run.

    Args:
      argument: what named the folder.
      folder: of the run.
      lanes: of the run.
      facts: of the run, as in `check_same_programs`.

    Raises:
      ValueError: naming the lane, or the identity file if that file holds none.
    """
    values = documents.read_json(folder, run_files.IDENTITY)
    if values is None or run_files.CHANGED in facts:
        return
    try:
        known = run_from_plain(values).lanes
    except UnreadableError as error:
        requirement = f'hold {run_files.IDENTITY} as a run writes it'
        raise errors.invalid(argument, requirement, f'{folder}: {error}') from None
    tuning_grid = (facts['tuning'] or {}).get('grid', {})
    columns = {**facts['grid'], **tuning_grid}
    first_point = {name: column[0] for name, column in columns.items()}
    for name, (labels, identity) in lanes.items():
        expected = known.get(f'{labels["algorithm"]} on {labels["pattern"]}')
        if identity is None or expected is None:
            continue
        if not grids.agree(labels, first_point):
            continue
        if not are_of_one_series(expected, identity):
            requirement = 'hold lanes of its own programs and data'
            value = f'{folder} with {name}, of another run'
            raise errors.invalid(argument, requirement, value)
