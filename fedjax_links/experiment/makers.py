"""Makers: parts of an experiment as functions of a grid's columns."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from fedjax_links import errors
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.grids import Point

Part = TypeVar('Part')


class Maker(NamedTuple, Generic[Part]):
    """A part of an experiment as a function of columns.

    Attributes:
      make: returns the part, given values of its columns as keywords.
      columns: the value of each column where no grid says otherwise; a mapping for values by
        pattern, ``REQUIRED`` for none.
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


def is_traced(value: Any) -> bool:
    """Whether a value is an argument of the compiled program: a number that is no integer."""
    return isinstance(value, float)
