"""The metrics of a run as columns that grow: no row is ever read from text twice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import runs

_LEAST = 64
_MISSING, _NONE, _BOOL, _INT, _FLOAT = range(5)
_KINDS = {type(None): _NONE, bool: _BOOL, int: _INT, float: _FLOAT}
_NOBODY = -1


class _Cells:
    """A column: numbers, and of which type each was."""

    def __init__(self, size: int) -> None:
        """Holds nothing in so many rows."""
        self._numbers = np.zeros(size)
        self._kinds = np.zeros(size, np.uint8)

    def resize(self, size: int) -> None:
        """Makes room for more rows."""
        self._numbers = _grown(self._numbers, size)
        self._kinds = _grown(self._kinds, size)

    def put(self, row: int, value: bool | int | float | None) -> None:
        """Writes a cell."""
        self._kinds[row] = _KINDS[type(value)]
        self._numbers[row] = np.nan if value is None else value

    def at(self, rows: np.ndarray) -> np.ndarray:
        """What is in some rows, of the dtype that `runs.as_columns` gives it."""
        numbers, kinds = self._numbers[rows], self._kinds[rows]
        there = {*np.unique(kinds).tolist()}
        if there == {_BOOL}:
            return numbers.astype(bool)
        if there == {_INT}:
            return numbers.astype(int)
        if _BOOL not in there:
            return np.where(kinds <= _NONE, np.nan, numbers)
        types = {_BOOL: bool, _INT: int, _FLOAT: float}
        cells = zip(numbers.tolist(), kinds.tolist(), strict=True)
        values = [
            types[kind](number) if kind in types else None for number, kind in cells
        ]
        return np.fromiter(values, object, len(values))


class MetricsTable:
    """Rows of metrics of lanes, in the order in which they came."""

    def __init__(self) -> None:
        """Holds no row yet."""
        self._num_rows = 0
        self._numbers: dict[str, int] = {}  # of lanes
        self._owners = np.zeros(_LEAST, np.int32)  # the number of each row's lane
        self._columns: dict[str, _Cells] = {}
        self._layouts: dict[tuple[str, ...], tuple[str, ...]] = {}  # each kept once
        self._layouts_of: dict[
            str, list[tuple[str, ...]]
        ] = {}  # the columns of rows, by lane

    def append(self, lane: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds rows of a lane.

        Args:
          lane: its name.
          rows: ``round`` and what was measured, as plain values by column.
        """
        number = self._numbers.setdefault(lane, len(self._numbers))
        layouts = self._layouts_of.setdefault(lane, [])
        for row in rows:
            if self._num_rows == len(self._owners):
                self._resize(2 * self._num_rows)
            layout = self._layouts.setdefault(tuple(row), tuple(row))
            if layout not in layouts:
                layouts.append(layout)
            for name, value in row.items():
                if name not in self._columns:
                    self._columns[name] = _Cells(len(self._owners))
                self._columns[name].put(self._num_rows, value)
            self._owners[self._num_rows] = number
            self._num_rows += 1

    def drop(self, lane: str) -> None:
        """Takes back the rows of a lane."""
        if self._layouts_of.pop(lane, None):
            owners = self._owners[: self._num_rows]
            owners[owners == self._numbers[lane]] = _NOBODY

    def columns(self, lanes: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """The rows of lanes as `runs.as_columns` has them.

        Args:
          lanes: what stands in every row of a lane, by name, in the order of lanes.
        """
        known = {
            lane: labels for lane, labels in lanes.items() if lane in self._layouts_of
        }
        places = np.full(len(self._numbers) + 1, _NOBODY)  # in that order, by number
        places[[self._numbers[lane] for lane in known]] = np.arange(len(known))
        owners = places[self._owners[: self._num_rows]]
        rows = np.argsort(owners, kind='stable')[np.count_nonzero(owners == _NOBODY) :]
        owners = owners[rows]
        found: dict[str, np.ndarray] = {}
        for name, is_label in self._names(known).items():
            if is_label:
                values = runs.as_column([labels.get(name) for labels in known.values()])
                found[name] = values[owners]
            else:
                found[name] = self._columns[name].at(rows)
        return found

    def _names(self, lanes: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
        """The columns as they come up row by row, and which of them are labels."""
        names: dict[str, bool] = {}
        seen: set[Sequence[str]] = set()
        for lane, labels in lanes.items():
            of_lane = [tuple(labels), *self._layouts_of[lane]]
            for index, parts in enumerate(of_lane):
                if parts not in seen:
                    seen.add(parts)
                    names |= {name: not index for name in parts if name not in names}
        return names

    def _resize(self, size: int) -> None:
        self._owners = _grown(self._owners, size)
        for column in self._columns.values():
            column.resize(size)


def _grown(values: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros(size, values.dtype)
    found[: len(values)] = values
    return found
