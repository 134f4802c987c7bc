"""Makers: parts of an experiment as functions of a grid's columns."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

import jax
import numpy as np

from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config.sections import Bound, Hole
from fedjax_links.core import errors, grids

Part = TypeVar('Part')


class Maker(NamedTuple, Generic[Part]):
    """A part of an experiment as a function of columns.

    Attributes:
      make: returns the part, given values of its columns as keywords.
      columns: the value of each column where no grid says otherwise, ``REQUIRED`` for none.
      bind: likewise returns what makes the part, as a config's sections say it; None for a part
        that was made in Python.
    """

    make: Callable[..., Part]
    columns: Mapping[str, Any]
    bind: Callable[..., Bound] | None = None

    def at(self, point: grids.Point) -> dict[str, Any]:
        """The values of this maker's columns at a point.

        Raises:
          ValueError: for a column without a value.
        """
        values = {name: point.get(name, value) for name, value in self.columns.items()}
        for name, value in values.items():
            if value is REQUIRED:
                raise errors.invalid('grid', f'have a column {name!r}', sorted(point))
        return values

    def make_at(self, point: grids.Point) -> Part:
        """The part at a point."""
        return self.make(**self.at(point))

    def bound_at(self, point: grids.Point) -> Bound | None:
        """What makes the part at a point, where a config says it."""
        return None if self.bind is None else self.bind(**self.at(point))


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


def bound(
    bind: Callable[..., Bound], columns: Mapping[str, Any], *, holes: bool = False
) -> Maker[Any]:
    """The maker of a part of a config, whose sections are resolved once for the same values.

    Args:
      bind: resolves them at values of the columns.
      columns: as in `Maker`.
      holes: whether numbers that are arguments of a program are holes there, to be filled by the
        values that the maker is given, which may be traced.
    """
    found: dict[str, Bound] = {}

    def resolve(**values: Any) -> Bound:
        given = {k: Hole(k, v) if holes and not is_built_in(v) else v for k, v in values.items()}
        key = repr([(name, None if isinstance(v, Hole) else [v]) for name, v in given.items()])
        if key not in found:
            found[key] = bind(**given)
        return found[key]

    return Maker(lambda **values: resolve(**values).build(values), columns, resolve)


def remember(make: Callable[..., Part]) -> Callable[..., Part]:
    """A function that returns the same object for the same values."""
    made: dict[str, Part] = {}

    def once(**values: Any) -> Part:
        key = repr(values)
        if key not in made:
            made[key] = make(**values)
        return made[key]

    return once


def is_built_in(value: Any) -> bool:
    """Whether a value is built into the compiled program, not one of its arguments."""
    return not isinstance(value, float | np.floating | jax.Array)
