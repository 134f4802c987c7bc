"""Grids of values: nested like a config, as columns, and as points."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedjax_links.core import checks, errors

Point = Mapping[str, Any]
GridColumns = Mapping[str, Sequence[Any]]


def flatten(grid: Mapping[str, Any], where: str = 'grid') -> dict[str, list[Any]]:
    """A nested grid as columns.

    Args:
      grid: lists of values at its leaves, nested like the config.
      where: its place, for errors.

    Returns:
      The values by dotted path.

    Raises:
      ValueError: for a leaf that is no list, an empty one, or one that holds objects: values stand
        in every line of metrics, and tell programs apart.
    """
    columns: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            raise errors.invalid(
                where, 'have texts as names of its columns', errors.text_of(name)
            )
        place = f'{where}.{name}'
        if isinstance(values, Mapping):
            if not values:
                raise errors.invalid(place, 'have at least one column', '{}')
            columns |= {
                f'{name}.{path}': inner
                for path, inner in flatten(values, place).items()
            }
        elif isinstance(values, str) or not isinstance(values, Iterable):
            raise errors.invalid(place, 'be a list of values', errors.text_of(values))
        else:
            column = [
                value.tolist() if hasattr(value, 'tolist') else value
                for value in values
            ]
            for value in column:
                if not _is_plain(value):
                    requirement = 'hold numbers, names or lists'
                    raise errors.invalid(place, requirement, errors.text_of(value))
            if not column:
                raise errors.invalid(place, 'be a list of at least one value', '[]')
            if any(isinstance(value, float) for value in column):
                column = [
                    float(value) if type(value) is int else value for value in column
                ]
            columns[name] = column
    return columns


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def points(columns: GridColumns, mode: str) -> list[dict[str, Any]]:
    """The points of a grid.

    Args:
      columns: values by name.
      mode: ``'cross'`` for all combinations, the last name varying fastest; ``'together'`` for one
        point per row.

    Returns:
      The points; a single empty one for no columns.

    Raises:
      ValueError: for an unknown mode, or rows of unequal length.
    """
    checks.choice('grid_mode', mode, ('cross', 'together'))
    lengths = {name: len(values) for name, values in columns.items()}
    if mode == 'together' and len(set(lengths.values())) > 1:
        raise errors.invalid(
            'grid', "have columns of one length in mode 'together'", lengths
        )
    rows_of = itertools.product if mode == 'cross' or not columns else zip
    found = [dict(zip(columns, row, strict=True)) for row in rows_of(*columns.values())]
    if len(set(map(repr, found))) < len(found):
        raise errors.invalid(
            'grid', 'have no point twice', errors.text_of(dict(columns))
        )
    return found


def agree(point: Point, other: Point) -> bool:
    """Whether a point has the values of another one, in the columns that both have."""
    return all(point.get(name, value) == value for name, value in other.items())


def project(grid_points: Iterable[Point], names: Iterable[str]) -> list[dict[str, Any]]:
    """The points restricted to some columns, each combination once, in order."""
    wanted = set(names)
    kept = [
        {name: point[name] for name in point if name in wanted} for point in grid_points
    ]
    return list({repr(point): point for point in kept}.values())
