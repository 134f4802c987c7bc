"""Makers: parts of an experiment as functions of a grid's columns; problems that share a program.

Problems that differ in their arrays alone are a family: lanes with any of them share a program.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config.factories import Bound, Hole
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


Given: TypeAlias = Part | Callable[..., Part] | Maker[Part]


def as_maker(argument: str, part: Given[Part]) -> Maker[Part]:
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
    parameters = inspect.signature(part).parameters
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            requirement = 'name the columns that it takes'
            raise errors.invalid(argument, requirement, f'a function of {parameter}')
    columns = {k: REQUIRED if p.default is p.empty else p.default for k, p in parameters.items()}
    return Maker(part, columns)


def bound(bind: Callable[..., Bound], columns: grids.Point, *, holes: bool = False) -> Maker[Any]:
    """The maker of a part of a config, whose sections are resolved once for the same values.

    Args:
      bind: resolves them at values of the columns.
      columns: as in `Maker`.
      holes: whether numbers that are arguments of a program are holes there, to be filled by the
        values that the maker is given, which may be traced.
    """
    once = remember(bind)

    def resolve(**values: Any) -> Bound:
        late = {k: Hole(k, v) for k, v in values.items() if holes and not is_built_in(v)}
        return once(**values | late)

    return Maker(lambda **values: resolve(**values).build(values), columns, resolve)


def remember(make: Callable[..., Part]) -> Callable[..., Part]:
    """A function that returns the same object for the same values, whatever comes in a `Hole`."""
    made: dict[str, Part] = {}

    def once(**values: Any) -> Part:
        key = repr({k: Hole if isinstance(v, Hole) else v for k, v in values.items()})
        if key not in made:
            made[key] = make(**values)
        return made[key]

    return once


def is_built_in(value: Any) -> bool:
    """Whether a value is built into the compiled program, not one of its arguments."""
    return not isinstance(value, float | np.floating | jax.Array)


# Problems that share a program.


def unify(problems: Sequence[Problem]) -> list[Problem]:
    """Problems that one maker made, so that they share a program if they are alike.

    Alike are problems of equal functions, with arrays of the same shapes. Equal arrays are then
    one, and the range of sizes is that of all: it matters on full local data alone, where it
    decides how long a padded sum is.

    Args:
      problems: at least one.

    Returns:
      As many; the same ones where they are not alike.
    """
    least, most = min(p.min_examples for p in problems), max(p.max_examples for p in problems)
    changed = [dataclasses.replace(p, min_examples=least, max_examples=most) for p in problems]
    if any(kind_of(problem) != kind_of(changed[0]) for problem in changed):
        return list(problems)
    columns = [
        column[:1] * len(column) if all(_equal(leaf, column[0]) for leaf in column) else column
        for column in zip(*map(jax.tree.leaves, changed), strict=True)
    ]
    treedef = jax.tree.structure(changed[0])
    return [jax.tree.unflatten(treedef, leaves) for leaves in zip(*columns, strict=True)]


def kind_of(values: Any) -> Any:
    """What problems that share a program have in common, or samples of links."""
    leaves, kind = jax.tree.flatten(values)
    return kind, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def share_equal(values: Part, first: Part) -> Part:
    """A pytree with the arrays of a first one wherever they are equal.

    Args:
      values: the pytree.
      first: another one, of the same structure.
    """
    pairs = zip(jax.tree.leaves(values), jax.tree.leaves(first), strict=True)
    leaves = [known if _equal(leaf, known) else leaf for leaf, known in pairs]
    shared: Part = jax.tree.unflatten(jax.tree.structure(values), leaves)
    return shared


def varying(problems: Sequence[Any]) -> tuple[bool, ...]:
    """For each leaf of problems or other pytrees, whether they differ in it."""
    columns = zip(*map(jax.tree.leaves, problems), strict=True)
    return tuple(any(leaf is not column[0] for leaf in column) for column in columns)


def own_bytes(problems: Sequence[Problem]) -> int:
    """Bytes of the arrays that each of unified problems has for itself."""
    leaves = zip(jax.tree.leaves(problems[0]), varying(problems), strict=True)
    return sum(leaf.nbytes for leaf, varies in leaves if varies)


def together(problems: Sequence[Part]) -> Part:
    """Unified problems side by side: leaves that vary [L, ...], the others as they are."""
    columns = zip(varying(problems), *map(jax.tree.leaves, problems), strict=True)
    leaves = [jnp.stack(column) if varies else column[0] for varies, *column in columns]
    stacked: Part = jax.tree.unflatten(jax.tree.structure(problems[0]), leaves)
    return stacked


def _equal(a: Any, b: Any) -> bool:
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return a is b or bool(np.array_equal(np.asarray(a), np.asarray(b)))
