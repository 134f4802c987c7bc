"""Makes parts of an experiment from the columns of a grid.

A part is an algorithm, a pattern or a problem. A column is a value that the grid or tuning varies,
such as ``learning_rate``. A point of the grid has a value for each column.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import jax
import numpy as np

from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config.bound import BoundFactory, TracedPlaceholder
from fedjax_links.core import errors, grids
from fedjax_links.core.fields import REQUIRED
from fedjax_links.planning import problem_families

Part = TypeVar('Part')


class Maker(NamedTuple, Generic[Part]):
    """Holds a part of an experiment as a function of columns.

    Attributes:
      make: ``columns as keywords -> part``.
      columns: the default of each column, or ``REQUIRED``.
      bind: ``columns as keywords -> BoundFactory``, the factory that a config names, with its
        arguments; None for a part that was made in Python.
    """

    make: Callable[..., Part]
    columns: Mapping[str, Any]
    bind: Callable[..., BoundFactory] | None = None

    def at(self, point: grids.Point) -> dict[str, Any]:
        """Returns the values of this maker's columns at a point.

        Raises:
          ValueError: for a column without a value.
        """
        values = {name: point.get(name, value) for name, value in self.columns.items()}
        for name, value in values.items():
            if value is REQUIRED:
                raise errors.invalid('grid', f'have a column {name!r}', sorted(point))
        return values

    def make_at(self, point: grids.Point) -> Part:
        """Makes the part at a point."""
        return self.make(**self.at(point))

    def bound_at(self, point: grids.Point) -> BoundFactory | None:
        """Returns factory and arguments of the part at a point; None if made in Python."""
        return None if self.bind is None else self.bind(**self.at(point))


PartOrFactory: TypeAlias = Part | Callable[..., Part] | Maker[Part]


def as_maker(argument: str, part: PartOrFactory[Part]) -> Maker[Part]:
    """Converts a part, or a function of columns, to a `Maker`.

    Args:
      argument: name of the part, for errors.
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
    columns: dict[str, Any] = {}
    for name, parameter in inspect.signature(part).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            requirement = 'name the columns that it takes'
            if hasattr(part, 'factory'):
                requirement = "be made by its entry, as fl.ALGORITHMS['fedavg'](client)"
            raise errors.invalid(argument, requirement, f'a function of {parameter}')
        has_default = parameter.default is not parameter.empty
        columns[name] = parameter.default if has_default else REQUIRED
    return Maker(part, columns)


def as_problem_maker(argument: str, part: PartOrFactory[Problem]) -> Maker[Problem]:
    """Converts like `as_maker`; ``make`` of the result is a `problem_families.ProblemCache`."""
    maker = as_maker(argument, part)
    if isinstance(maker.make, problem_families.ProblemCache):
        return maker
    return maker._replace(make=problem_families.ProblemCache(maker.make))


def pattern_makers(
    patterns: Mapping[str, PartOrFactory[Participation]],
) -> dict[str, Maker[Participation]]:
    """Returns the makers of patterns, by label. For the same values a maker returns one object."""
    makers: dict[str, Maker[Participation]] = {}
    for label, part in patterns.items():
        maker = as_maker(f'patterns.{label}', part)
        makers[label] = maker._replace(make=memoize(maker.make))
    return makers


def problem_makers(
    problem: PartOrFactory[Problem] | Mapping[str, PartOrFactory[Problem]],
    labels: Iterable[str],
) -> dict[str, Maker[Problem]]:
    """Returns the maker of each pattern's problem; patterns with the same problem share it.

    Args:
      problem: as in `Experiment`.
      labels: of the patterns.
    """
    if not isinstance(problem, Mapping):
        return dict.fromkeys(labels, as_problem_maker('problem', problem))
    by_part: dict[int, Maker[Problem]] = {}
    makers: dict[str, Maker[Problem]] = {}
    for label in labels:
        part = problem[label]
        if id(part) not in by_part:
            by_part[id(part)] = as_problem_maker(f'problem.{label}', part)
        makers[label] = by_part[id(part)]
    return makers


def config_maker(
    bind: Callable[..., BoundFactory],
    columns: grids.Point,
    *,
    has_placeholders: bool = False,
) -> Maker[Any]:
    """Returns the maker of a part of a config.

    For the same values, the sections of the config are resolved only once.

    Args:
      bind: resolves the sections at values of the columns.
      columns: as in `Maker`.
      has_placeholders: whether sections are resolved with placeholders in place of numbers that
        are arguments of a program. ``make`` then replaces the placeholders, also by traced values.
    """
    bound: dict[str, BoundFactory] = {}

    def resolve(**values: Any) -> BoundFactory:
        placeholders: dict[str, Any] = {}
        if has_placeholders:
            placeholders = {
                name: TracedPlaceholder(name, value)
                for name, value in values.items()
                if not is_built_in(value)
            }
        built_in = {
            name: value for name, value in values.items() if name not in placeholders
        }
        key = repr(built_in)
        if key not in bound:
            bound[key] = bind(**{**values, **placeholders})
        return bound[key]

    def make(**values: Any) -> Any:
        return resolve(**values).build(values)

    return Maker(make, columns, resolve)


def memoize(make: Callable[..., Part]) -> Callable[..., Part]:
    """Wraps a function to return the same object for the same values."""
    parts: dict[str, Part] = {}

    def make_once(**values: Any) -> Part:
        key = repr(values)
        if key not in parts:
            parts[key] = make(**values)
        return parts[key]

    return make_once


def is_built_in(value: object) -> bool:
    """Returns whether a value is built into the compiled program, not one of its arguments."""
    return not isinstance(value, float | np.floating | jax.Array)
