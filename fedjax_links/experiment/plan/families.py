"""Problems that differ in their arrays alone, so that lanes with any of them share a program.

A family is what lanes side by side may have: one point of the grid, drawn by several seeds. Lanes
that run one by one share programs over points too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Problem
from fedjax_links.core.grids import Point
from fedjax_links.experiment.plan.makers import Maker


class Family(NamedTuple):
    """Problems that differ in their arrays alone, so that they share a program.

    Attributes:
      members: the problems; leaves that all have in common are one array.
      varies: for each leaf, whether members differ in it.
    """

    members: tuple[Problem, ...]
    varies: tuple[bool, ...]

    @property
    def axes(self) -> Any:
        """A prefix for `jax.vmap`: where members side by side have their lane."""
        axes = [0 if varies else None for varies in self.varies]
        return jax.tree.unflatten(jax.tree.structure(self.members[0]), axes)

    @property
    def own_bytes(self) -> int:
        """Bytes of the arrays that each member has for itself."""
        leaves = jax.tree.leaves(self.members[0])
        return sum(leaf.nbytes for leaf, own in zip(leaves, self.varies, strict=True) if own)

    def together(self, problems: Sequence[Problem]) -> Problem:
        """Members side by side: leaves that vary [L, ...], the others as they are."""
        columns = zip(self.varies, *map(jax.tree.leaves, problems), strict=True)
        leaves = [jnp.stack(column) if varies else column[0] for varies, *column in columns]
        stacked: Problem = jax.tree.unflatten(jax.tree.structure(problems[0]), leaves)
        return stacked


def families(problems: Sequence[Problem], known: Problem | None = None) -> list[Family]:
    """The families of problems that one maker made: one where they are alike, else one for each.

    Alike are problems of equal functions, with arrays of the same shapes. All then have the
    functions of the first, and the range of sizes of all: it matters on full local data alone,
    where it decides how long a padded sum is.

    Args:
      problems: at least one.
      known: a problem with whom equal arrays are shared, if it is like them.

    Returns:
      One family of all, or one for each.
    """
    least, most = min(p.min_examples for p in problems), max(p.max_examples for p in problems)
    members = [dataclasses.replace(p, min_examples=least, max_examples=most) for p in problems]
    if all(_kind(member) == _kind(members[0]) for member in members):
        return [_family(members, known)]
    return [_family([problem], known) for problem in problems]


class Problems:
    """The problems of an experiment, each made once."""

    def __init__(self, every: Sequence[Mapping[str, int]]) -> None:
        """Makes nothing yet.

        Args:
          every: the columns of draws by seed of all lanes that there may be.
        """
        self._every = list(every)
        self._made: dict[Any, tuple[Problem, Family]] = {}
        self._firsts: dict[int, Problem] = {}

    def at(self, maker: Maker[Problem], point: Point, drawn: Mapping[str, int]) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together."""
        wanted = id(maker), repr(maker.at({**point, **drawn}))
        if wanted not in self._made:
            rows = [maker.at({**point, **row}) for row in (drawn, *self._every)]
            named = {(id(maker), repr(row)): row for row in rows}
            problems = [maker.make(**row) for row in named.values()]
            found = families(problems, self._firsts.get(id(maker)))
            made = [(member, family) for family in found for member in family.members]
            self._firsts.setdefault(id(maker), made[0][0])
            self._made |= zip(named, made, strict=True)
        return self._made[wanted][0]

    def family_of(self, problem: Problem) -> Family:
        """The problems that share a program with one that was made here."""
        return next(family for member, family in self._made.values() if member is problem)


def _family(members: Sequence[Problem], known: Problem | None) -> Family:
    """The family of problems of one kind; equal leaves are held once."""
    first = members[0]
    columns = list(zip(*map(jax.tree.leaves, members), strict=True))
    for source in (first, known or first):
        if _kind(source) == _kind(first):
            columns = [
                tuple(held if _equal(leaf, held) else leaf for leaf in column)
                for column, held in zip(columns, jax.tree.leaves(source), strict=True)
            ]
    varies = tuple(any(leaf is not column[0] for leaf in column) for column in columns)
    treedef = jax.tree.structure(first)
    problems = [jax.tree.unflatten(treedef, leaves) for leaves in zip(*columns, strict=True)]
    return Family(tuple(problems), varies)


def _kind(problem: Problem) -> tuple[Any, ...]:
    """What is built into a program of a problem."""
    leaves, treedef = jax.tree.flatten(problem)
    return treedef, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _equal(a: Any, b: Any) -> bool:
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return a is b or bool(np.array_equal(np.asarray(a), np.asarray(b)))
