"""Identifies a run by its programs, its data and links, and the version that runs them.

A lane is one simulation of a run: one algorithm, pattern, grid point and seed. A run folder keeps
an identity of the full run, and each saved lane keeps its own identity. Identities are compared
before a run is resumed, merged or forked, and before anything is written. Titles, captions, display
names, reports, numbers of rounds and seeds, and paths of files are no part of an identity.

* ``version``: of this package.
* ``machine``: digest of what decides how a program is traced. Digests of programs can be compared
  only if ``machine`` is the same.
* ``programs``: by name, digests (`core.digests`) of the programs for the initial model and state,
  the loss, the links, the rounds and the evaluations.
* ``columns``: the numbers that are arguments of these programs, such as rates.
* ``data``: digests of the problem's arrays, and of the names of its clients if they have any.
* ``modules``: digests of the user's own files of code. They only help to say why a program changed.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from fedjax_links.core import digests
from fedjax_links.core.records import Section

RowDigests = Mapping[str, np.ndarray]
"""A hash of each example, uint64[E], by name of a part of the data."""


@dataclasses.dataclass(frozen=True)
class LaneIdentity:
    """Identifies the programs and data of one lane.

    Attributes:
      version: of this package.
      machine: digest of what decides how programs are traced.
      programs: digests by name, in the order in which differences are looked for.
      columns: the numbers that the lane's programs take as arguments, by name.
      data: digests of the arrays of the lane's problem and of the clients' names, by name.
      series: digest of the identity that the lane would have at the first seed of the run, with an
        empty ``series``. Lanes that differ in their seed alone have the same ``series``, even if
        seeds change the data or links.
    """

    version: str
    machine: str
    programs: Mapping[str, str]
    columns: Mapping[str, Any]
    data: Mapping[str, str]
    series: str = ''

    def digest(self) -> str:
        """Returns one digest of all fields."""
        return digests.hash_json(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class RunIdentity:
    """Identifies the programs and data of a run, as its folder keeps them.

    Attributes:
      lanes: the identity of the first lane of each algorithm and pattern, by a name such as
        ``fedavg on links``. Tuned columns are left out.
      sizes: by pattern, the ``name`` and ``digest`` of the data, and how many ``examples`` and
        ``clients`` the data have.
      modules: digests of the user's own files of code, by name.
      rows: by pattern, a hash of each example of the data at the first seed.
    """

    lanes: Mapping[str, LaneIdentity]
    sizes: Mapping[str, Mapping[str, Any]]
    modules: Mapping[str, str]
    rows: Mapping[str, RowDigests] = dataclasses.field(default_factory=dict)

    def as_plain(self) -> Section:
        """Returns the fields except ``rows``, as plain values for JSON."""
        lanes = {name: dataclasses.asdict(lane) for name, lane in self.lanes.items()}
        sizes = {label: dict(size) for label, size in self.sizes.items()}
        return {'lanes': lanes, 'sizes': sizes, 'modules': dict(self.modules)}

    def digest(self) -> str:
        """Returns one digest of all fields except ``rows``."""
        return digests.hash_json(self.as_plain())

    def rows_as_arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays of ``rows`` by ``pattern/part``, for an npz."""
        return {
            f'{label}/{part}': hashes
            for label, parts in self.rows.items()
            for part, hashes in parts.items()
        }


class UnreadableError(ValueError):
    """Reports a file that holds no identity."""


def lane_from_plain(values: object) -> LaneIdentity:
    """Returns the identity of a lane of which `dataclasses.asdict` made plain values.

    Args:
      values: the plain values, as read from JSON.

    Raises:
      UnreadableError: for anything else.
    """
    fields = {field.name for field in dataclasses.fields(LaneIdentity)}
    if not isinstance(values, Mapping) or set(values) != fields:
        raise UnreadableError('no identity of a lane')
    _check_texts(values['version'], values['machine'], values['series'])
    for name in ('programs', 'data'):
        _check_texts_by_name(values[name])
    columns = values['columns']
    if not isinstance(columns, Mapping) or not all(
        isinstance(number, int | float) for number in columns.values()
    ):
        raise UnreadableError('columns that are no numbers')
    return LaneIdentity(**values)


def run_from_plain(
    values: object, arrays: Mapping[str, np.ndarray] | None = None
) -> RunIdentity:
    """Returns the identity of a run of which `RunIdentity.as_plain` made plain values.

    Args:
      values: the plain values, as read from JSON.
      arrays: the result of `RunIdentity.rows_as_arrays`; None for no rows.

    Raises:
      UnreadableError: for anything else.
    """
    if not isinstance(values, Mapping) or set(values) != {'lanes', 'sizes', 'modules'}:
        raise UnreadableError('no identity of a run')
    _check_texts_by_name(values['modules'])
    for section in (values['lanes'], values['sizes']):
        if not isinstance(section, Mapping):
            raise UnreadableError('parts without names')
    for size in values['sizes'].values():
        _check_size(size)
    rows = _rows_by_pattern(arrays or {})
    lanes = {name: lane_from_plain(lane) for name, lane in values['lanes'].items()}
    return RunIdentity(lanes, values['sizes'], values['modules'], rows)


def _rows_by_pattern(
    arrays: Mapping[str, np.ndarray],
) -> dict[str, dict[str, np.ndarray]]:
    """Splits the names ``pattern/part`` of arrays: returns the arrays by pattern and part."""
    rows: dict[str, dict[str, np.ndarray]] = {}
    for name, hashes in arrays.items():
        if hashes.dtype != np.uint64 or hashes.ndim != 1:
            raise UnreadableError('rows that are no hashes')
        label, _, part = name.rpartition('/')
        rows.setdefault(label, {})[part] = hashes
    return rows


def _check_texts(*texts: object) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise UnreadableError('other values in place of texts')


def _check_texts_by_name(texts: object) -> None:
    if not isinstance(texts, Mapping):
        raise UnreadableError('digests without names')
    _check_texts(*texts.values())


def _check_size(size: object) -> None:
    fields = {'name', 'clients', 'examples', 'digest'}
    if not isinstance(size, Mapping) or set(size) != fields:
        raise UnreadableError('no sizes')
    _check_texts(size['name'], size['digest'])
    if not all(type(size[name]) is int for name in ('clients', 'examples')):
        raise UnreadableError('sizes that are no numbers')


# What differs.

DATA = 'data'
EVALUATION_DATA = 'evaluation data'
PARTITION = 'partition'
CLIENT_NAMES = 'names of clients'


def lane_differences(
    there: LaneIdentity, here: LaneIdentity
) -> Iterator[tuple[str, str]]:
    """Names the differences between a saved lane and the same lane as it would run now.

    Args:
      there: of the saved lane.
      here: of the lane that would run.

    Yields:
      The part that differs, and a clause that says how. The version comes first, then data, numbers
      and programs.
    """
    if there.version != here.version:
        yield 'version', f'fedjax_links is {there.version} and not {here.version}'
    for name in sorted({*there.data, *here.data}):
        if there.data.get(name) != here.data.get(name):
            values = name if name == CLIENT_NAMES else f'arrays of {name}'
            yield name, f'the {values} differ'
    for name in sorted({*there.columns, *here.columns}):
        old = there.columns.get(name)
        new = here.columns.get(name)
        if old != new:
            yield name, f'{name} is {_texts_of(old, new)}'
    if there.machine == here.machine:
        for name in dict.fromkeys([*there.programs, *here.programs]):
            if there.programs.get(name) != here.programs.get(name):
                yield name, f'the program of {name} differs'


def refused_differences(
    there: LaneIdentity, here: LaneIdentity, allowed: Collection[str]
) -> list[str]:
    """Returns the clauses of `lane_differences` that the user has not allowed.

    Args:
      there: of the saved lane.
      here: of the lane that would run.
      allowed: clauses from `run_differences` that the user allowed.
    """
    return [
        clause
        for part, clause in lane_differences(there, here)
        if not _is_allowed(part, clause, allowed)
    ]


def _is_allowed(part: str, clause: str, allowed: Collection[str]) -> bool:
    """Returns whether allowed clauses cover a difference in a part of a lane."""
    # A clause on examples begins with a part of the data: "data: 3 of 9 examples differ".
    starts = {part, PARTITION} if part == DATA else {part}
    return clause in allowed or any(
        other.partition(':')[0] in starts for other in allowed
    )


def are_of_one_series(one: LaneIdentity, other: LaneIdentity) -> bool:
    """Returns whether two lanes may differ in their seeds alone.

    Digests from different ``machine`` values cannot be compared, so such lanes may.

    Args:
      one: identity of a lane.
      other: identity of a lane of the same algorithm, pattern and point.
    """
    return one.machine != other.machine or one.series == other.series


def _texts_of(old: float | None, new: float | None) -> str:
    """Formats two numbers that differ: with seven digits, or with all if seven do not differ."""
    texts = ['none' if number is None else f'{number:.7g}' for number in (old, new)]
    if texts[0] == texts[1]:
        texts = [repr(old), repr(new)]
    return ' and not '.join(texts)


def run_differences(there: RunIdentity, here: RunIdentity) -> list[str]:
    """Names the differences between a recorded run and the run that would run now.

    Only algorithms and patterns that both runs have are compared.

    Args:
      there: of the recorded run.
      here: of the run that would run.

    Returns:
      Clauses, such as ``data: 3,200 of 60,000 examples differ`` and ``the module mine.py differs``.
      Empty if both runs have the same version, programs, numbers and data.
    """
    data_clauses = _row_differences(there, here)
    lane_clauses: list[str] = []
    is_program_changed = False
    for name, lane in there.lanes.items():
        if name not in here.lanes:
            continue
        for part, clause in lane_differences(lane, here.lanes[name]):
            # Clauses on rows already say how many examples of the part differ.
            if part not in data_clauses:
                is_program_changed |= part in lane.programs
                lane_clauses.append(clause)
    clauses = [*itertools.chain(*data_clauses.values()), *lane_clauses]
    if is_program_changed:
        clauses = [*_changed_modules(there, here), *clauses]
    return list(dict.fromkeys(clauses))


def _changed_modules(there: RunIdentity, here: RunIdentity) -> list[str]:
    """Names the user's files of code that differ."""
    names = sorted({*there.modules, *here.modules})
    return [
        f'the module {name} differs'
        for name in names
        if there.modules.get(name) != here.modules.get(name)
    ]


def _row_differences(there: RunIdentity, here: RunIdentity) -> dict[str, list[str]]:
    """Says, by part of the data, how many examples differ, if both sides keep their rows.

    Patterns may have different data, so a part may have a clause for each pattern.
    """
    clauses: dict[str, list[str]] = {}
    for label, old_parts in there.rows.items():
        new_parts = here.rows.get(label, {})
        for part, old in old_parts.items():
            if part not in new_parts:
                continue
            differences = _difference_of_rows(part, old, new_parts[part])
            for changed_part, clause in differences.items():
                clauses.setdefault(changed_part, []).append(clause)
    return clauses


def _difference_of_rows(part: str, old: np.ndarray, new: np.ndarray) -> dict[str, str]:
    """Says how the rows of a part of the data differ; empty if they are equal."""
    if np.array_equal(old, new):
        return {}
    if len(old) != len(new):
        return {part: f'{part}: {len(old):,} examples and not {len(new):,}'}
    # Count each value on both sides, as the order of rows does not matter here.
    values, indices = np.unique(np.concatenate([old, new]), return_inverse=True)
    old_counts = np.bincount(indices[: len(old)], minlength=len(values))
    new_counts = np.bincount(indices[len(old) :], minlength=len(values))
    num_changed = int(np.maximum(old_counts - new_counts, 0).sum())
    if num_changed:
        return {part: f'{part}: {num_changed:,} of {len(old):,} examples differ'}
    if part == DATA:
        clause = (
            f'{PARTITION}: the same {len(old):,} examples lie with other clients or in '
            'another order'
        )
        return {DATA: clause, PARTITION: clause}
    return {part: f'{part}: the same {len(old):,} examples in another order'}
