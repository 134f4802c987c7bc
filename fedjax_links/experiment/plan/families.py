"""Problems that differ in their arrays alone, so that lanes with any of them share a program."""

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Problem, Source
from fedjax_links.core.grids import Point
from fedjax_links.experiment.plan.makers import Maker

_FUNCTIONS = [
    field.name
    for field in dataclasses.fields(Problem)
    if field.metadata.get('static') and not field.name.endswith('_examples')
]


def unify(problems: Sequence[Problem]) -> list[Problem]:
    """Problems that one maker made, so that they share a program if they are alike.

    Alike are problems whose functions do the same, with arrays of the same shapes. All then have
    the functions of the first, equal arrays are one, and the range of sizes is that of all: it
    matters on full local data alone, where it decides how long a padded sum is.

    Args:
      problems: at least one.

    Returns:
      As many; the same ones where they are not alike.
    """
    first, others = problems[0], problems[1:]
    if not others or not all(_same(_static(first), _static(problem)) for problem in others):
        return list(problems)
    shared: dict[str, Any] = {name: getattr(first, name) for name in _FUNCTIONS}
    shared['min_examples'] = min(problem.min_examples for problem in problems)
    shared['max_examples'] = max(problem.max_examples for problem in problems)
    if isinstance(first.owned, Source):
        shared['owned'] = first.owned
    changed = [dataclasses.replace(problem, **shared) for problem in problems]
    if len(set(map(kind_of, changed))) > 1:
        return list(problems)
    columns = [
        column[:1] * len(column) if all(_equal(leaf, column[0]) for leaf in column) else column
        for column in zip(*map(jax.tree.leaves, changed), strict=True)
    ]
    treedef = jax.tree.structure(changed[0])
    return [jax.tree.unflatten(treedef, leaves) for leaves in zip(*columns, strict=True)]


def kind_of(problem: Problem) -> Any:
    """What problems that share a program have in common."""
    leaves, kind = jax.tree.flatten(problem)
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


def _static(problem: Problem) -> list[Any]:
    """What is built into a program of a problem, but for the sizes of its clients."""
    owned = problem.owned
    rows = [owned.make, owned.num_clients] if isinstance(owned, Source) else [type(owned)]
    return rows + [getattr(problem, name) for name in _FUNCTIONS]


def _same(a: Any, b: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether two functions, or what they enclose, do the same; in doubt, not."""
    if a is b or (id(a), id(b)) in seen:
        return True
    if type(a) is not type(b):
        return False
    seen |= {(id(a), id(b))}
    if isinstance(a, types.FunctionType | types.MethodType | functools.partial):
        return _same(_enclosed(a), _enclosed(b), seen)
    if isinstance(a, np.ndarray | jax.Array):
        return (a.shape, a.dtype) == (b.shape, b.dtype) and _equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y, seen) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k], seen) for k in a)
    try:
        return bool(a == b)
    except Exception:  # whatever a user's objects say
        return False


def _enclosed(function: Any) -> list[Any]:
    """What a function does, and the values that it does it with."""
    if isinstance(function, functools.partial):
        return [function.func, function.args, function.keywords]
    if isinstance(function, types.MethodType):
        return [function.__func__, function.__self__]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [id(function.__code__), cells, function.__defaults__, function.__kwdefaults__]
