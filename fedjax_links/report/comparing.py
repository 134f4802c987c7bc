"""Whether two runs are the same bit for bit, and if not, where they part."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.report import folders
from fedjax_links.report.folders import Folder
from fedjax_links.runs import KeptLane
from fedjax_links.storage import checkpoints

ABSENT, NOT_FINITE = 'absent', 'not finite'
_LONGEST = 60
_NOT_COMPARED = ('flags',)


class FieldDifference(NamedTuple):
    """A field of two descriptions that differs.

    Attributes:
      field: dotted; with a place in brackets for the first that differs of a list.
      first: its value in the first, as text.
      second: in the second.
    """

    field: str
    first: str
    second: str


class Difference(NamedTuple):
    """Where two runs differ.

    Attributes:
      round: rounds completed.
      lane: the labels of the lane in a line.
      name: of the metric, or the path of the state's leaf.
      first: the value of the first run, as text; of a leaf, that of the first entry that differs.
      second: of the second run.
      place: of that entry in the leaf; empty for a single number.
      entries: how many differ.
    """

    round: int
    lane: str
    name: str
    first: str
    second: str
    place: tuple[int, ...] = ()
    entries: int = 1

    def text(self) -> str:
        """In a line."""
        place = f'[{", ".join(map(str, self.place))}]' if self.place else ''
        more = f'; the first of {self.entries} entries' if self.entries > 1 else ''
        values = f'{self.first} | {self.second}'
        return f'round {self.round}, {self.lane}: {self.name}{place}: {values}{more}'


class Comparison(NamedTuple):
    """What tells two runs apart.

    Attributes:
      described_by: the file whose fields were compared, ``config.json`` if both have one.
      config: its fields that differ.
      environment: versions, devices and the like that differ.
      only_first: lanes that only the first run has, in a line each.
      only_second: lanes that only the second run has.
      metric: the first difference of metrics of common lanes, in tuning before all else, then by
        round; None if there is none.
      leaf: the first difference of states kept after the same round.
      num_lanes: common lanes.
      num_lines: their lines of metrics in the first run.
      num_states: states that were compared.
    """

    described_by: str
    config: Sequence[FieldDifference]
    environment: Sequence[FieldDifference]
    only_first: Sequence[str]
    only_second: Sequence[str]
    metric: Difference | None
    leaf: Difference | None
    num_lanes: int
    num_lines: int
    num_states: int

    @property
    def equal(self) -> bool:
        """Whether all lanes, metrics and states kept after the same round are the same bits."""
        lanes = self.only_first or self.only_second
        return not lanes and self.metric is None and self.leaf is None

    def text(self) -> str:
        """For a terminal; values of the first run stand before the bar."""
        lines = _section(self.described_by, [*map(_field_text, self.config)])
        lines += _section('environment', [*map(_field_text, self.environment)])
        for which, lanes in (('first', self.only_first), ('second', self.only_second)):
            shown = [*lanes[:3], *([f'and {len(lanes) - 3} more'] if len(lanes) > 3 else [])]
            lines += _section(f'lanes of the {which} run alone', shown)
        found = [d for d in (self.metric, self.leaf) if d is not None]
        where = [d.text() for d in sorted(found, key=lambda d: d.round)]
        lines += _section('first difference', where)
        compared = (
            f'{self.num_lanes} lanes in common, {self.num_lines} lines of metrics, '
            f'{self.num_states} states'
        )
        return '\n'.join([*lines, f'{"equal" if self.equal else "different"} ({compared})'])


def compare(first: str | Path, second: str | Path) -> Comparison:
    """Compares two run folders bit for bit.

    Lanes are matched by their labels, so neither their order nor that of lines matters. Metrics are
    stored as decimals and not as numbers where they are not finite: any two such are equal.

    Args:
      first: a run folder.
      second: another.

    Returns:
      What differs.

    Raises:
      ValueError: if either holds no run, or its files were changed.
    """
    a, b = folders.read(first), folders.read(second)
    both = a.config is not None and b.config is not None
    ours, theirs = ((f.config if both else f.run.facts) or {} for f in (a, b))
    common = [key for key in a.lanes if key in b.lanes]
    pairs = [(a.lanes[key], b.lanes[key]) for key in common]
    return Comparison(
        described_by=runs.CONFIG if both else runs.EXPERIMENT,
        config=list(field_differences(ours, theirs)),
        environment=list(field_differences(_environment(a), _environment(b))),
        only_first=[lane.text() for key, lane in a.lanes.items() if key not in b.lanes],
        only_second=[lane.text() for key, lane in b.lanes.items() if key not in a.lanes],
        metric=_first_metric(pairs),
        leaf=_first_leaf(pairs),
        num_lanes=len(pairs),
        num_lines=sum(len(lane.records) for lane, _ in pairs),
        num_states=sum(len(one.states.keys() & other.states.keys()) for one, other in pairs),
    )


def field_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = ''
) -> Iterator[FieldDifference]:
    """The fields of two nested descriptions that differ, of JSON values.

    Args:
      first: a description.
      second: another.
      prefix: stands before the fields' names.

    Yields:
      One entry per field, ``absent`` where there is none.
    """
    for name in dict.fromkeys((*first, *second)):
        field = f'{prefix}{name}'
        if name not in first or name not in second:
            a, b = (_short(side[name]) if name in side else ABSENT for side in (first, second))
            yield FieldDifference(field, a, b)
            continue
        one, other = first[name], second[name]
        if _same(one, other):
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from field_differences(one, other, f'{field}.')
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            yield _list_difference(field, one, other)
        else:
            yield FieldDifference(field, _short(one), _short(other))


# Metrics.


def _first_metric(pairs: Sequence[tuple[KeptLane, KeptLane]]) -> Difference | None:
    """The first difference: tuning before the rest, as it decides it, then by round."""
    for tuning in (True, False):
        stage = [pair for pair in pairs if (pair[0].labels['stage'] != 'main') == tuning]
        rounds = {round for pair in stage for lane in pair for round in lane.records}
        for round in sorted(rounds):
            for one, other in stage:
                records = one.records.get(round), other.records.get(round)
                if (found := _first_value(*records)) is not None:
                    return Difference(round, one.text(), *found)
    return None


def _first_value(
    one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> tuple[str, str, str] | None:
    """The first metric that differs, and its values; ``line`` where one run has no such line."""
    if one is None or other is None:
        first, second = (ABSENT if record is None else 'present' for record in (one, other))
        return None if one is other else ('line', first, second)
    for name in dict.fromkeys((*one, *other)):
        values = [record.get(name, ABSENT) for record in (one, other)]
        if not _same(*values):
            first, second = (NOT_FINITE if value is None else str(value) for value in values)
            return name, first, second
    return None


# States.


def _first_leaf(pairs: Sequence[tuple[KeptLane, KeptLane]]) -> Difference | None:
    """The first difference of kept states, by round; every file is read and proven."""
    common = [
        (round, place)
        for place, (one, other) in enumerate(pairs)
        for round in one.states.keys() & other.states.keys()
    ]
    found = None
    for round, place in sorted(common):
        one, other = pairs[place]
        leaves = [checkpoints.arrays(lane.states[round]) for lane in (one, other)]
        found = found or _leaf_difference(round, one.text(), *leaves)
    return found


def _leaf_difference(
    round: int, lane: str, one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> Difference | None:
    for path in dict.fromkeys((*one, *other)):
        first, second = (_kind(side[path]) if path in side else ABSENT for side in (one, other))
        if first != second:
            return Difference(round, lane, path, first, second)
        a, b = one[path], other[path]
        bits = f'u{a.dtype.itemsize}'
        differ = a.view(bits) != b.view(bits)
        if differ.any():
            place, count = tuple(np.argwhere(differ)[0].tolist()), int(differ.sum())
            return Difference(round, lane, path, str(a[place]), str(b[place]), place, count)
    return None


def _kind(array: np.ndarray) -> str:
    return f'{array.dtype.name}{list(array.shape)}'


# Text.


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f'  {line}' for line in lines)] if lines else []


def _field_text(found: FieldDifference) -> str:
    shown = found.field.split('.')[0].split('[')[0] in runs.MAY_DIFFER
    note = '  (changes no result)' if shown else ''
    return f'{found.field}: {found.first} | {found.second}{note}'


def _list_difference(field: str, one: Sequence[Any], other: Sequence[Any]) -> FieldDifference:
    for place, (x, y) in enumerate(zip(one, other, strict=False)):
        if not _same(x, y):
            return FieldDifference(f'{field}[{place}]', _short(x), _short(y))
    return FieldDifference(field, f'{len(one)} entries', f'{len(other)} entries')


def _environment(folder: Folder) -> dict[str, Any]:
    return {k: v for k, v in folder.environment.items() if k not in _NOT_COMPARED}


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; 1 and 1.0 are not, nor are the zeros of both signs."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f'{text[: _LONGEST - 3]}...'
