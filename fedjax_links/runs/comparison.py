"""Whether two runs are the same bit for bit, and if not, where they part."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.core import paths
from fedjax_links.runs import LaneRecord
from fedjax_links.storage import checkpoints

ABSENT, NOT_FINITE = 'absent', 'not finite'
ALONE = 'lanes of the first run alone', 'lanes of the second run alone'
_LONGEST, _MOST_LANES = 60, 3


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
      around: lines on what differs besides numbers, by title: ``config.json`` if both have one,
        else ``experiment.json``; ``environment``, such as versions and devices; and `ALONE`.
      metric: the first difference of metrics of common lanes, in tuning before all else, then by
        round; None if there is none.
      leaf: the first difference of states kept after the same round.
      compared: how many common lanes, lines of metrics of theirs in the first run, and states.
    """

    around: Mapping[str, Sequence[str]]
    metric: Difference | None
    leaf: Difference | None
    compared: str

    @property
    def equal(self) -> bool:
        """Whether all lanes, metrics and states kept after the same round are the same bits."""
        is_alone = any(self.around[title] for title in ALONE)
        return not is_alone and self.metric is None and self.leaf is None

    def text(self) -> str:
        """For a terminal; values of the first run stand before the bar."""
        found = sorted(
            (d for d in (self.metric, self.leaf) if d), key=lambda d: d.round
        )
        sections = {**self.around, 'first difference': [each.text() for each in found]}
        lines: list[str] = []
        for title, listed in sections.items():
            if title in ALONE and len(listed) > _MOST_LANES:
                listed = [
                    *listed[:_MOST_LANES],
                    f'and {len(listed) - _MOST_LANES} more',
                ]
            lines += [title, *(f'  {each}' for each in listed)] if listed else []
        return '\n'.join(
            [*lines, f'{"equal" if self.equal else "different"} ({self.compared})']
        )


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
    sides = paths.as_path(first), paths.as_path(second)
    facts, configs = zip(*map(runs.read_description, sides), strict=True)
    environments = [runs.read_json(side, runs.ENVIRONMENT) or {} for side in sides]
    described = (
        {runs.CONFIG: configs} if None not in configs else {runs.EXPERIMENT: facts}
    )
    described['environment'] = tuple({**each, 'flags': None} for each in environments)
    around = {title: field_differences(*both) for title, both in described.items()}
    a, b = (
        {json.dumps(lane.labels, sort_keys=True): lane for lane in runs.lanes(side)}
        for side in sides
    )
    for title, own, others in ((ALONE[0], a, b), (ALONE[1], b, a)):
        around[title] = [lane.text() for key, lane in own.items() if key not in others]
    pairs = [(lane, b[key]) for key, lane in a.items() if key in b]
    lines, states = [], []
    for place, (one, other) in enumerate(pairs):  # tuning decides the rest
        stage = one.labels['stage'] == 'main'
        lines += [
            (stage, round, place) for round in one.records.keys() | other.records.keys()
        ]
        states += [(round, place) for round in one.states.keys() & other.states.keys()]
    metrics = (
        _line_difference(round, *pairs[place]) for _, round, place in sorted(lines)
    )
    leaves = []
    for round, place in sorted(states):  # every file is read and proven
        kept = (checkpoints.arrays(lane.states[round]) for lane in pairs[place])
        leaves.append(_leaf_difference(round, pairs[place][0].text(), *kept))
    metric, leaf = (next(filter(None, found), None) for found in (metrics, leaves))
    num_lines = sum(len(lane.records) for lane, _ in pairs)
    said = f'{len(pairs)} lanes in common, {num_lines} lines of metrics, {len(states)} states'
    return Comparison(around, metric, leaf, said)


def field_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The fields of two nested descriptions that differ, of JSON values.

    Args:
      first: a description.
      second: another.

    Returns:
      A line for each field with both values, ``absent`` where there is none; of a list for the
      first entry that differs.
    """
    ours, theirs = dict(_flat('', first)), dict(_flat('', second))
    found: dict[str, str] = {}
    for field in dict.fromkeys((*ours, *theirs)):
        one, other = (side.get(field, ABSENT) for side in (ours, theirs))
        whole = field.partition('[')[0]
        if one != other and whole not in found:
            shown = (
                t if len(t) <= _LONGEST else f'{t[: _LONGEST - 3]}...'
                for t in (one, other)
            )
            note = (
                '  (changes no result)'
                if whole.partition('.')[0] in runs.MAY_DIFFER
                else ''
            )
            found[whole] = f'{field}: {" | ".join(shown)}{note}'
    return [found[whole] for whole in sorted(found)]


def _flat(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """The leaves of a description as JSON, by place; 1 is not 1.0, nor are zeros of both signs."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _flat(f'{place}.{name}'.removeprefix('.'), part)
    elif isinstance(value, list | tuple) and value:
        for number, part in enumerate(value):
            yield from _flat(f'{place}[{number}]', part)
    else:
        yield place, json.dumps(value)


def _line_difference(
    round: int, one: LaneRecord, other: LaneRecord
) -> Difference | None:
    sides = [{'line': ABSENT}, {'line': ABSENT}]
    for side, lane in zip(sides, (one, other), strict=True):
        if round in lane.records:
            side |= {'line': 'present', **lane.records[round]}
    for name in dict.fromkeys(itertools.chain(*sides)):
        values = [side.get(name, ABSENT) for side in sides]
        if json.dumps(values[0]) != json.dumps(values[1]):
            first, second = (NOT_FINITE if v is None else str(v) for v in values)
            return Difference(round, one.text(), name, first, second)
    return None


def _leaf_difference(
    round: int,
    lane: str,
    one: Mapping[str, np.ndarray],
    other: Mapping[str, np.ndarray],
) -> Difference | None:
    for path in dict.fromkeys((*one, *other)):
        first, second = (_kind(side.get(path)) for side in (one, other))
        if first != second:
            return Difference(round, lane, path, first, second)
        a, b = one[path], other[path]
        bits = f'u{a.dtype.itemsize}'
        places = np.argwhere(a.view(bits) != b.view(bits))
        if len(places):
            place = tuple(places[0].tolist())
            return Difference(
                round, lane, path, str(a[place]), str(b[place]), place, len(places)
            )
    return None


def _kind(array: np.ndarray | None) -> str:
    return ABSENT if array is None else f'{array.dtype.name}{list(array.shape)}'
