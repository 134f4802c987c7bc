"""Collects the metrics of a run in columns, so that no line is parsed twice."""

from collections.abc import Iterable, Mapping

import numpy as np

from fedjax_links import runs
from fedjax_links.core.records import LaneMetadata, MetricsRow

_FIRST_SIZE = 64
# Types of cells; a row without the column has the first.
_MISSING, _NONE, _BOOL, _INT, _FLOAT = range(5)
_KINDS = {type(None): _NONE, bool: _BOOL, int: _INT, float: _FLOAT}
_NO_LANE = -1


class _Cells:
    """Holds a column of plain values, stored as numbers and their types."""

    def __init__(self, size: int) -> None:
        """Makes a column of missing values."""
        self._numbers = np.zeros(size)
        self._kinds = np.zeros(size, np.uint8)

    def resize(self, size: int) -> None:
        """Makes room for ``size`` rows."""
        self._numbers = _grown(self._numbers, size)
        self._kinds = _grown(self._kinds, size)

    def put(self, row: int, value: bool | int | float | None) -> None:
        """Writes a cell."""
        self._kinds[row] = _KINDS[type(value)]
        self._numbers[row] = np.nan if value is None else value

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Returns the values of some rows, with the dtype that `runs.as_columns` gives them."""
        numbers = self._numbers[rows]
        kinds = self._kinds[rows]
        present = {*np.unique(kinds).tolist()}
        if present == {_BOOL}:
            return numbers.astype(bool)
        if present == {_INT}:
            return numbers.astype(int)
        if _BOOL not in present:
            return np.where(kinds <= _NONE, np.nan, numbers)
        types = {_BOOL: bool, _INT: int, _FLOAT: float}
        cells = zip(numbers.tolist(), kinds.tolist(), strict=True)
        values = [
            types[kind](number) if kind in types else None for number, kind in cells
        ]
        return np.fromiter(values, object, len(values))


class MetricsTable:
    """Holds rows of metrics of lanes, in the order in which they were appended."""

    def __init__(self) -> None:
        """Starts empty."""
        self._num_rows = 0
        self._lane_indices: dict[str, int] = {}
        # The lane index of each row.
        self._owners = np.zeros(_FIRST_SIZE, np.int32)
        self._columns: dict[str, _Cells] = {}
        # The different tuples of column names that rows of a lane have. Equal tuples are one.
        self._names_of_lane: dict[str, list[tuple[str, ...]]] = {}
        self._interned: dict[tuple[str, ...], tuple[str, ...]] = {}

    def append(self, lane: str, rows: Iterable[MetricsRow]) -> None:
        """Adds rows of a lane.

        Args:
          lane: its name.
          rows: ``round`` and what was measured, as plain values by column.
        """
        lane_index = self._lane_indices.setdefault(lane, len(self._lane_indices))
        names_of_lane = self._names_of_lane.setdefault(lane, [])
        for row in rows:
            if self._num_rows == len(self._owners):
                self._resize(2 * self._num_rows)
            names = self._interned.setdefault(tuple(row), tuple(row))
            if names not in names_of_lane:
                names_of_lane.append(names)
            for name, value in row.items():
                if name not in self._columns:
                    self._columns[name] = _Cells(len(self._owners))
                self._columns[name].put(self._num_rows, value)
            self._owners[self._num_rows] = lane_index
            self._num_rows += 1

    def drop(self, lane: str) -> None:
        """Removes the rows of a lane."""
        if self._names_of_lane.pop(lane, None):
            owners = self._owners[: self._num_rows]
            owners[owners == self._lane_indices[lane]] = _NO_LANE

    def columns(self, lanes: Mapping[str, LaneMetadata]) -> dict[str, np.ndarray]:
        """Returns the rows of lanes as `runs.as_columns` does.

        Args:
          lanes: the labels in each row of a lane, by name, in the order of lanes.
        """
        labels_of_lane = {
            lane: labels
            for lane, labels in lanes.items()
            if lane in self._names_of_lane
        }
        # The position of each lane in this order; the last entry is that of `_NO_LANE`.
        positions = np.full(len(self._lane_indices) + 1, _NO_LANE)
        lane_indices = [self._lane_indices[lane] for lane in labels_of_lane]
        positions[lane_indices] = np.arange(len(lane_indices))
        owners = positions[self._owners[: self._num_rows]]
        # Sort rows by lane, and leave out those of none, which come first.
        num_dropped = np.count_nonzero(owners == _NO_LANE)
        rows = np.argsort(owners, kind='stable')[num_dropped:]
        owners = owners[rows]
        columns: dict[str, np.ndarray] = {}
        for name, is_label in self._column_names(labels_of_lane).items():
            if is_label:
                values = [labels.get(name) for labels in labels_of_lane.values()]
                columns[name] = runs.as_column(values)[owners]
            else:
                columns[name] = self._columns[name].at(rows)
        return columns

    def _column_names(self, lanes: Mapping[str, LaneMetadata]) -> dict[str, bool]:
        """Returns whether each column is a label, in the order in which rows first have them."""
        is_label: dict[str, bool] = {}
        # Most lanes have the same names, which are looked at once.
        seen: set[tuple[str, ...]] = set()
        for lane, labels in lanes.items():
            candidates = [(tuple(labels), True)]
            candidates += [(names, False) for names in self._names_of_lane[lane]]
            for names, are_labels in candidates:
                if names not in seen:
                    seen.add(names)
                    for name in names:
                        is_label.setdefault(name, are_labels)
        return is_label

    def _resize(self, size: int) -> None:
        """Makes room for ``size`` rows in all columns."""
        self._owners = _grown(self._owners, size)
        for column in self._columns.values():
            column.resize(size)


def _grown(values: np.ndarray, size: int) -> np.ndarray:
    """Returns the values followed by zeros, ``size`` in all."""
    grown = np.zeros(size, values.dtype)
    grown[: len(values)] = values
    return grown
