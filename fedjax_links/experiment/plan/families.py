"""Problems that differ in their arrays alone, so that lanes with any of them share a program."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Problem
from fedjax_links.core.grids import Point
from fedjax_links.experiment.plan.makers import Maker


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


def varying(problems: Sequence[Problem]) -> tuple[bool, ...]:
    """For each leaf of unified problems, whether they differ in it."""
    columns = zip(*map(jax.tree.leaves, problems), strict=True)
    return tuple(any(leaf is not column[0] for leaf in column) for column in columns)


def own_bytes(problems: Sequence[Problem]) -> int:
    """Bytes of the arrays that each of unified problems has for itself."""
    leaves = zip(jax.tree.leaves(problems[0]), varying(problems), strict=True)
    return sum(leaf.nbytes for leaf, varies in leaves if varies)


def together(problems: Sequence[Problem]) -> Problem:
    """Unified problems side by side: leaves that vary [L, ...], the others as they are."""
    columns = zip(*map(jax.tree.leaves, problems), strict=True)
    leaves = [
        jnp.stack(column) if varies else column[0]
        for column, varies in zip(columns, varying(problems), strict=True)
    ]
    stacked: Problem = jax.tree.unflatten(jax.tree.structure(problems[0]), leaves)
    return stacked


class Problems:
    """The problems of an experiment, each made once."""

    def __init__(self, every: Sequence[Mapping[str, int]]) -> None:
        """Makes nothing yet.

        Args:
          every: the columns of draws by seed of all lanes that there may be.
        """
        self._every = list(every)
        self._made: dict[Any, Problem] = {}
        self._firsts: dict[int, Problem] = {}

    def at(self, maker: Maker[Problem], point: Point, drawn: Mapping[str, int]) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together.

        Problems of a maker at other points are like its first ones if their clients are of the same
        range of sizes.
        """
        key = id(maker), repr(maker.at({**point, **drawn}))
        if key not in self._made:
            rows = [maker.at({**point, **row}) for row in (drawn, *self._every)]
            wanted = {(id(maker), repr(row)): row for row in rows}
            made = unify([maker.make(**row) for row in wanted.values()])
            first = self._firsts.setdefault(id(maker), made[0])
            sizes = {(problem.min_examples, problem.max_examples) for problem in (first, *made)}
            if first is not made[0] and len(sizes) == 1:
                made = unify([first, *made])[1:]
            self._made |= zip(wanted, made, strict=True)
        return self._made[key]


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))
