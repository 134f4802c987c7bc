"""Compares two runs bit for bit, and finds the first difference.

A run consists of lanes: a lane is one algorithm, pattern, grid point and seed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.core import paths
from fedjax_links.core.records import Section
from fedjax_links.runs import LaneRecord
from fedjax_links.storage import checkpoints, run_access

ABSENT = 'absent'
NOT_FINITE = 'not finite'
ONLY_FIRST = 'lanes of the first run alone'
ONLY_SECOND = 'lanes of the second run alone'
_MAX_LENGTH = 60
_MAX_LANES = 3
_MISSING = object()
"""Stands for the value of a field that a description lacks."""


class Difference(NamedTuple):
    """Describes where two runs differ.

    Attributes:
      round: rounds completed.
      lane: the labels of the lane, as text.
      name: of the metric, or the path of the state's leaf.
      first: the value of the first run, as text. For a leaf, the value of its first entry that
        differs.
      second: likewise, the value of the second run.
      entry: the indices of that entry in the leaf; empty for a single number.
      num_entries: how many entries of the leaf differ.
    """

    round: int
    lane: str
    name: str
    first: str
    second: str
    entry: tuple[int, ...] = ()
    num_entries: int = 1

    def text(self) -> str:
        """Formats the difference in a line."""
        name = self.name
        if self.entry:
            name += f'[{", ".join(map(str, self.entry))}]'
        values = f'{self.first} | {self.second}'
        if self.num_entries > 1:
            values += f'; the first of {self.num_entries} entries'
        return f'round {self.round}, {self.lane}: {name}: {values}'


class Comparison(NamedTuple):
    """Describes how two runs differ.

    Attributes:
      sections: by title, lines on differences besides numbers. Titles are ``config.json`` if both
        have one, else ``experiment.json``; ``environment``, such as versions and devices;
        `ONLY_FIRST` and `ONLY_SECOND`.
      metric: the first difference of metrics of common lanes: tuning lanes first, then by round.
        None if there is none.
      leaf: the first difference of states saved after the same round; None if there is none.
      compared: how many common lanes, lines and states were compared, as text.
    """

    sections: Mapping[str, Sequence[str]]
    metric: Difference | None
    leaf: Difference | None
    compared: str

    @property
    def equal(self) -> bool:
        """Returns whether all lanes, metrics and states saved after the same round are equal."""
        has_same_lanes = (
            not self.sections[ONLY_FIRST] and not self.sections[ONLY_SECOND]
        )
        return has_same_lanes and self.metric is None and self.leaf is None

    def text(self) -> str:
        """Formats the comparison for a terminal; values of the first run stand before the bar."""
        differences = [each for each in (self.metric, self.leaf) if each is not None]
        differences.sort(key=lambda difference: difference.round)
        first = [difference.text() for difference in differences]
        lines: list[str] = []
        for title, entries in {**self.sections, 'first difference': first}.items():
            if title in (ONLY_FIRST, ONLY_SECOND) and len(entries) > _MAX_LANES:
                num_more = len(entries) - _MAX_LANES
                entries = [*entries[:_MAX_LANES], f'and {num_more} more']
            if entries:
                lines += [title, *(f'  {entry}' for entry in entries)]
        verdict = 'equal' if self.equal else 'different'
        return '\n'.join([*lines, f'{verdict} ({self.compared})'])


def compare(first: str | Path, second: str | Path) -> Comparison:
    """Compares two run folders bit for bit.

    Lanes are matched by their labels, so the order of lanes and the order of lines do not matter.
    Metrics that are not finite are stored without their value, so any two such metrics are equal.

    Args:
      first: a run folder.
      second: another.

    Returns:
      What differs.

    Raises:
      ValueError: if either folder holds no run, is an archive (which has no lanes), or has changed
        files.
    """
    first = paths.as_path(first, 'first')
    second = paths.as_path(second, 'second')
    run_access.refuse_archive('first', first)
    run_access.refuse_archive('second', second)
    described = _described_differences(first, second)
    lanes = _lanes_by_labels(first)
    other_lanes = _lanes_by_labels(second)
    sections: dict[str, Sequence[str]] = {
        **described,
        ONLY_FIRST: _lanes_without_partner(lanes, other_lanes),
        ONLY_SECOND: _lanes_without_partner(other_lanes, lanes),
    }
    pairs = [
        (lane, other_lanes[labels])
        for labels, lane in lanes.items()
        if labels in other_lanes
    ]
    num_lines = sum(len(_rounds_of_lines(*pair)) for pair in pairs)
    num_states = sum(len(_common_states(*pair)) for pair in pairs)
    compared = (
        f'{len(pairs)} lanes in common, {num_lines} lines of metrics, '
        f'{num_states} states'
    )
    # All states are compared, also after the first difference, to verify every file.
    leaf_differences = list(_state_differences(pairs))
    return Comparison(
        sections=sections,
        metric=next(_metric_differences(pairs), None),
        leaf=next(iter(leaf_differences), None),
        compared=compared,
    )


_Pair = tuple[LaneRecord, LaneRecord]
"""The same lane of both runs."""


def _described_differences(first: Path, second: Path) -> dict[str, list[str]]:
    """Compares configs, or descriptions if either has no config, and environments."""
    first_facts, first_config = runs.read_description(first, 'first')
    second_facts, second_config = runs.read_description(second, 'second')
    differences: dict[str, list[str]] = {}
    if first_config is None or second_config is None:
        differences[runs.EXPERIMENT] = field_differences(first_facts, second_facts)
    else:
        differences[runs.CONFIG] = field_differences(first_config, second_config)
    differences['environment'] = field_differences(
        _environment_of(first), _environment_of(second)
    )
    return differences


def _environment_of(folder: Path) -> Section:
    """Reads the environment of a run, without the flags of its last start."""
    environment = runs.read_json(folder, runs.ENVIRONMENT) or {}
    return {**environment, 'flags': None}


def _lanes_by_labels(folder: Path) -> dict[str, LaneRecord]:
    return {
        json.dumps(lane.labels, sort_keys=True): lane for lane in runs.lanes(folder)
    }


def _lanes_without_partner(
    lanes: Mapping[str, LaneRecord], others: Mapping[str, LaneRecord]
) -> list[str]:
    return [lane.text() for labels, lane in lanes.items() if labels not in others]


def _rounds_of_lines(one: LaneRecord, other: LaneRecord) -> set[int]:
    """Returns the rounds of which either run has a line of metrics of a lane."""
    return one.records.keys() | other.records.keys()


def _common_states(one: LaneRecord, other: LaneRecord) -> set[int]:
    """Returns the rounds after which both runs have saved the state of a lane."""
    return one.states.keys() & other.states.keys()


def _metric_differences(pairs: Sequence[_Pair]) -> Iterator[Difference]:
    """Yields differences of metrics by round, tuning lanes first, since tuning decides the rest."""
    lines: list[tuple[bool, int, int]] = []
    for index, (one, other) in enumerate(pairs):
        is_main = one.labels['stage'] == 'main'
        for round in _rounds_of_lines(one, other):
            lines.append((is_main, round, index))
    for _, round, index in sorted(lines):
        difference = _line_difference(round, *pairs[index])
        if difference is not None:
            yield difference


def _state_differences(pairs: Sequence[_Pair]) -> Iterator[Difference]:
    """Yields differences of states by round, and verifies the files on the way."""
    states: list[tuple[int, int]] = []
    for index, pair in enumerate(pairs):
        states += [(round, index) for round in _common_states(*pair)]
    for round, index in sorted(states):
        one, other = pairs[index]
        difference = _leaf_difference(
            round,
            one.text(),
            checkpoints.arrays(one.states[round]),
            checkpoints.arrays(other.states[round]),
        )
        if difference is not None:
            yield difference


def field_differences(first: Section, second: Section) -> list[str]:
    """Lists the fields of two nested descriptions that differ.

    Args:
      first: a description, of JSON values.
      second: another.

    Returns:
      A line for each field with both values, ``absent`` where there is none. A list has a line
      for the first entry that differs.
    """
    lines: dict[str, str] = {}
    for path, value, other_value in _leaf_pairs(first, second):
        field, _, _ = path.partition('[')
        if value != other_value and field not in lines:
            line = f'{path}: {_shorten(value)} | {_shorten(other_value)}'
            if field.partition('.')[0] in runs.MAY_DIFFER:
                line += '  (changes no result)'
            lines[field] = line
    return [lines[field] for field in sorted(lines)]


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f'{text[: _MAX_LENGTH - 3]}...'


def _leaf_pairs(
    first: object, second: object, path: str = ''
) -> Iterator[tuple[str, str, str]]:
    """Yields the path of each leaf of two descriptions, and the JSON of both values.

    Two sections, or two lists, are compared entry by entry. A missing section or list counts as
    empty. Anything else is a leaf. In JSON, 1 differs from 1.0, and 0.0 from -0.0.
    """
    present = [value for value in (first, second) if value is not _MISSING]
    are_sections = all(isinstance(value, Mapping) for value in present)
    are_lists = all(isinstance(value, list | tuple) for value in present)
    if not (are_sections or are_lists) or not any(present):
        yield path, _as_json(first), _as_json(second)
        return
    entries = _entries_by_path(first, path)
    other_entries = _entries_by_path(second, path)
    for entry_path in dict.fromkeys((*entries, *other_entries)):
        entry = entries.get(entry_path, _MISSING)
        other_entry = other_entries.get(entry_path, _MISSING)
        yield from _leaf_pairs(entry, other_entry, entry_path)


def _entries_by_path(value: object, path: str) -> dict[str, object]:
    """Returns the entries of a section or a list; no entries for `_MISSING`."""
    if isinstance(value, Mapping):
        return {f'{path}.{name}'.removeprefix('.'): value[name] for name in value}
    if isinstance(value, list | tuple):
        return {f'{path}[{index}]': entry for index, entry in enumerate(value)}
    return {}


def _as_json(value: object) -> str:
    return ABSENT if value is _MISSING else json.dumps(value)


def _line_difference(
    round: int, one: LaneRecord, other: LaneRecord
) -> Difference | None:
    """Returns the first difference of the lines that two lanes have of a round."""
    record = _record_of(one, round)
    other_record = _record_of(other, round)
    for name in dict.fromkeys((*record, *other_record)):
        value = record.get(name, ABSENT)
        other_value = other_record.get(name, ABSENT)
        if json.dumps(value) != json.dumps(other_value):
            return Difference(
                round, one.text(), name, _as_text(value), _as_text(other_value)
            )
    return None


def _record_of(lane: LaneRecord, round: int) -> Section:
    """Returns the metrics of a lane after a round, and whether it has a line."""
    if round not in lane.records:
        return {'line': ABSENT}
    return {'line': 'present', **lane.records[round]}


def _as_text(value: object) -> str:
    return NOT_FINITE if value is None else str(value)


def _leaf_difference(
    round: int,
    lane: str,
    one: Mapping[str, np.ndarray],
    other: Mapping[str, np.ndarray],
) -> Difference | None:
    """Returns the first difference of the states of a lane after a round."""
    for path in dict.fromkeys((*one, *other)):
        form = _dtype_and_shape(one.get(path))
        other_form = _dtype_and_shape(other.get(path))
        if form != other_form:
            return Difference(round, lane, path, form, other_form)
        array = one[path]
        other_array = other[path]
        # As bytes, NaN equals NaN, and 0.0 differs from -0.0.
        differs = _bytes_of(array) != _bytes_of(other_array)
        if not differs.any():
            continue
        indices = np.argwhere(differs.any(axis=-1))
        index = tuple(indices[0].tolist())
        return Difference(
            round=round,
            lane=lane,
            name=path,
            first=str(array[index]),
            second=str(other_array[index]),
            entry=index,
            num_entries=len(indices),
        )
    return None


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Returns the bytes of each entry along a further axis."""
    num_bytes = array.dtype.itemsize
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).reshape(*array.shape, num_bytes)


def _dtype_and_shape(array: np.ndarray | None) -> str:
    return ABSENT if array is None else f'{array.dtype.name}{list(array.shape)}'
