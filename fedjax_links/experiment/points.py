"""Grids of values, and makers that take a grid's columns."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from fedjax_links import checks, errors
from fedjax_links.base import Algorithm, Participation, Problem

Point = Mapping[str, Any]
Columns = Mapping[str, Sequence[Any]]

Part = TypeVar('Part')

MODES = ('cross', 'together')


class Maker(NamedTuple, Generic[Part]):
    """A part of an experiment as a function of columns.

    Attributes:
      make: returns the part, given values of its columns as keywords.
      columns: the value of each column where no grid says otherwise; a mapping for values by
        pattern, `REQUIRED` for none.
    """

    make: Callable[..., Part]
    columns: Mapping[str, Any]

    def at(self, point: Point) -> dict[str, Any]:
        """The values of this maker's columns at a point; of values by pattern, the first.

        Raises:
          ValueError: for a column without a value.
        """
        values = {name: point.get(name, value) for name, value in self.columns.items()}
        for name, value in values.items():
            if value is REQUIRED:
                raise errors.invalid('grid', f'have a column {name!r}', sorted(point))
            if isinstance(value, Mapping):
                values[name] = next(iter(value.values()))
        return values


REQUIRED = object()
"""The value of a column that only a grid can give."""


def as_maker(argument: str, part: Part | Callable[..., Part] | Maker[Part]) -> Maker[Part]:
    """A part, or a function of columns, as a `Maker`.

    Args:
      argument: its place, for errors.
      part: an Algorithm, Participation or Problem, which takes no columns; a `Maker`; or a function
        whose keywords are its columns.

    Returns:
      The maker.

    Raises:
      ValueError: for anything else.
    """
    if isinstance(part, Maker):
        return part
    if isinstance(part, Algorithm | Participation | Problem):
        fixed = cast(Part, part)
        return Maker(lambda: fixed, {})
    if not callable(part):
        requirement = 'be an object of its kind or a function of columns'
        raise errors.invalid(argument, requirement, repr(part))
    columns = {}
    for parameter in inspect.signature(part).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            requirement = 'name the columns that it takes'
            raise errors.invalid(argument, requirement, f'a function of {parameter}')
        default = parameter.default
        columns[parameter.name] = REQUIRED if default is parameter.empty else default
    return Maker(part, columns)


def flatten(grid: Mapping[str, Any], where: str = 'grid') -> dict[str, list[Any]]:
    """A nested grid as columns.

    Args:
      grid: lists of values at its leaves, nested like the config.
      where: its place, for errors.

    Returns:
      The values by dotted path.

    Raises:
      ValueError: for a leaf that is no list, or an empty one.
    """
    columns: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            raise errors.invalid(where, 'have texts as names of its columns', errors.shown(name))
        place = f'{where}.{name}'
        if isinstance(values, Mapping):
            if not values:
                raise errors.invalid(place, 'have at least one column', '{}')
            inner = flatten(values, place)
            columns |= {f'{name}.{path}': column for path, column in inner.items()}
        elif isinstance(values, str) or not isinstance(values, Iterable):
            raise errors.invalid(place, 'be a list of values', errors.shown(values))
        else:
            column = [value.item() if hasattr(value, 'item') else value for value in values]
            if any(isinstance(value, Mapping) for value in column):
                requirement = 'hold numbers, names or lists'
                raise errors.invalid(place, requirement, errors.shown(values))
            if not column:
                raise errors.invalid(place, 'be a list of at least one value', '[]')
            if any(isinstance(value, float) for value in column):
                column = [float(value) if type(value) is int else value for value in column]
            columns[name] = column
    return columns


def points(columns: Columns, mode: str) -> list[dict[str, Any]]:
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
    checks.choice('grid_mode', mode, MODES)
    lengths = {name: len(values) for name, values in columns.items()}
    if mode == 'cross':
        rows: Iterator[tuple[Any, ...]] = itertools.product(*columns.values())
    elif len(set(lengths.values())) > 1:
        raise errors.invalid('grid', "have columns of one length in mode 'together'", lengths)
    else:
        rows = zip(*columns.values(), strict=True) if columns else iter([()])
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    if len(set(map(repr, found))) < len(found):
        raise errors.invalid('grid', 'have no point twice', errors.shown(dict(columns)))
    return found


def project(grid_points: Iterable[Point], names: Iterable[str]) -> list[dict[str, Any]]:
    """The points restricted to some columns, each combination once, in order."""
    wanted = set(names)
    found: dict[str, dict[str, Any]] = {}
    for point in grid_points:
        kept = {name: value for name, value in point.items() if name in wanted}
        found.setdefault(repr(kept), kept)
    return list(found.values())


def is_traced(value: Any) -> bool:
    """Whether a value is an argument of the compiled program: a number that is no integer."""
    return isinstance(value, float)
