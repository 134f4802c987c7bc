"""Converts a grid of values, nested like a config, to columns and to points.

A column is the list of values of one config field. A point has one value for each column.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedjax_links.core import checks, errors
from fedjax_links.core.records import Section

Point = Mapping[str, Any]
GridColumns = Mapping[str, Sequence[Any]]


def flatten(grid: Section, where: str = 'grid') -> dict[str, list[Any]]:
    """Flattens a nested grid to columns.

    Args:
      grid: lists of values at its leaves, nested like the config.
      where: the grid's path, for errors.

    Returns:
      The values by dotted path.

    Raises:
      ValueError: if the grid is no mapping, or a column is named twice (``a.b`` and ``b`` within
        ``a``). Also if a leaf is no list, is empty, or holds objects. Values must be plain: they
        are written to each line of metrics, and tell programs apart.
    """
    if not isinstance(grid, Mapping):
        requirement = "be lists of values by name, such as {'learning_rate': [0.1]}"
        raise errors.invalid(where, requirement, errors.text_of(grid))
    columns: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            requirement = 'have texts as names of its columns'
            raise errors.invalid(where, requirement, errors.text_of(name))
        path = f'{where}.{name}'
        if isinstance(values, Mapping):
            if not values:
                raise errors.invalid(path, 'have at least one column', '{}')
            new_columns = {
                f'{name}.{inner_name}': column
                for inner_name, column in flatten(values, path).items()
            }
        else:
            new_columns = {name: _column(path, values)}
        for column_name in new_columns:
            if column_name in columns:
                raise errors.invalid(where, 'name each column once', repr(column_name))
        columns.update(new_columns)
    return columns


def _column(path: str, values: object) -> list[Any]:
    """Returns a list of plain values; a column with floats holds its integers as floats, too."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise errors.invalid(path, 'be a list of values', errors.text_of(values))
    column = [_plain_value(path, value) for value in values]
    if not column:
        raise errors.invalid(path, 'be a list of at least one value', '[]')
    if any(isinstance(value, float) for value in column):
        return [float(value) if type(value) is int else value for value in column]
    return column


def _plain_value(path: str, value: object) -> Any:
    """Returns an entry of a column as a plain value, also an array; raises for anything else."""
    plain = value.tolist() if hasattr(value, 'tolist') else value
    if not _is_plain(plain):
        requirement = 'hold numbers, names or lists'
        raise errors.invalid(path, requirement, errors.text_of(plain))
    return plain


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def points(columns: GridColumns, mode: str) -> list[Point]:
    """Lists the points of a grid.

    Args:
      columns: values by name.
      mode: ``'cross'`` for all combinations, the last name varying fastest; ``'together'`` for one
        point per row.

    Returns:
      The points; a single empty point if there are no columns.

    Raises:
      ValueError: for an unknown mode, columns of unequal length, or a point that comes twice.
    """
    checks.choice('grid_mode', mode, ('cross', 'together'))
    lengths = {name: len(values) for name, values in columns.items()}
    if mode == 'together' and len(set(lengths.values())) > 1:
        requirement = "have columns of one length in mode 'together'"
        raise errors.invalid('grid', requirement, lengths)
    combine = itertools.product if mode == 'cross' or not columns else zip
    rows = combine(*columns.values())
    grid_points: list[Point] = [dict(zip(columns, row, strict=True)) for row in rows]
    if len(set(map(repr, grid_points))) < len(grid_points):
        columns_text = errors.text_of(dict(columns))
        raise errors.invalid('grid', 'have no point twice', columns_text)
    return grid_points


def agree(point: Point, other: Point) -> bool:
    """Returns whether two points have equal values in the columns that both have."""
    return all(point.get(name, value) == value for name, value in other.items())


def project(grid_points: Iterable[Point], names: Iterable[str]) -> list[Point]:
    """Restricts points to some columns and lists each combination once, in order."""
    names = set(names)
    by_text: dict[str, Point] = {}
    for point in grid_points:
        projected = {name: value for name, value in point.items() if name in names}
        by_text.setdefault(repr(projected), projected)
    return list(by_text.values())
