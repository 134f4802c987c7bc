"""Problems that differ in their arrays alone, so that lanes with any of them share a program.

A family is what lanes side by side may have: one point of the grid, drawn by several seeds. Lanes
that run one by one share programs over points too.
"""

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
        if not any(self.varies):
            return None
        treedef = jax.tree.structure(self.members[0])
        return jax.tree.unflatten(treedef, [0 if varies else None for varies in self.varies])

    @property
    def own_bytes(self) -> int:
        """Bytes of the arrays that each member has for itself."""
        leaves = jax.tree.leaves(self.members[0])
        return sum(leaf.nbytes for leaf, own in zip(leaves, self.varies, strict=True) if own)

    def together(self, problems: Sequence[Problem]) -> Problem:
        """Members side by side: leaves that vary [L, ...], the others as they are."""
        if not any(self.varies):
            return problems[0]
        columns = zip(*map(jax.tree.leaves, problems), strict=True)
        leaves = [
            jnp.stack(column) if varies else column[0]
            for column, varies in zip(columns, self.varies, strict=True)
        ]
        stacked: Problem = jax.tree.unflatten(jax.tree.structure(problems[0]), leaves)
        return stacked


def families(problems: Sequence[Problem]) -> list[Family]:
    """The families of problems that one maker made: one where they are alike, else one for each.

    Alike are problems whose functions do the same, with arrays of the same shapes. All then have
    the functions of the first, and the range of sizes of all: it matters on full local data alone,
    where it decides how long a padded sum is.

    Args:
      problems: at least one.

    Returns:
      One family of all, or one for each.
    """
    if len(problems) > 1 and all(_same(_static(problems[0]), _static(p)) for p in problems):
        sizes = {
            'min_examples': min(problem.min_examples for problem in problems),
            'max_examples': max(problem.max_examples for problem in problems),
        }
        shared = {name: getattr(problems[0], name) for name in _FUNCTIONS} | sizes
        if isinstance(problems[0].owned, Source):
            shared['owned'] = problems[0].owned
        changed = [dataclasses.replace(problem, **shared) for problem in problems]
        if len({(jax.tree.structure(problem), _shapes(problem)) for problem in changed}) == 1:
            return [_shared(changed)]
    return [Family((problem,), (False,) * len(jax.tree.leaves(problem))) for problem in problems]


class Problems:
    """The problems of an experiment, each made once."""

    def __init__(self, every: Sequence[Mapping[str, int]]) -> None:
        """Makes nothing yet.

        Args:
          every: the columns of draws by seed of all lanes that there may be.
        """
        self._every = list(every)
        self._made: dict[Any, Problem] = {}
        self._families: dict[int, Family] = {}
        self._firsts: dict[int, Problem] = {}

    def at(self, maker: Maker[Problem], point: Point, drawn: Mapping[str, int]) -> Problem:
        """The problem at a point as a seed draws it; those of all seeds are made together."""
        first = id(maker), repr(maker.at({**point, **drawn}))
        if first not in self._made:
            rows = [maker.at({**point, **row}) for row in (drawn, *self._every)]
            wanted = {(id(maker), repr(row)): row for row in rows}
            made = self._kin(maker, [maker.make(**row) for row in wanted.values()])
            self._made |= zip(wanted, made, strict=True)
        return self._made[first]

    def family_of(self, problem: Problem) -> Family:
        """The problems that share a program with one that was made here."""
        return self._families[id(problem)]

    def _kin(self, maker: Maker[Problem], drawn: Sequence[Problem]) -> list[Problem]:
        """What a maker made at a point, as members of families."""
        members = [m for family in families(drawn) for m in family.members]
        first = self._firsts.setdefault(id(maker), members[0])
        if first is not members[0]:
            members = [_adopted(first, problem) for problem in members]
        found = families(members)
        self._families |= {id(member): family for family in found for member in family.members}
        return [member for family in found for member in family.members]


def _adopted(first: Problem, problem: Problem) -> Problem:
    """A problem of another point, so that its lanes can have the program of the first one's.

    One that is like the first, with clients of the same range of sizes, has its functions and
    shares equal arrays with it.
    """
    sizes = {(member.min_examples, member.max_examples) for member in (first, problem)}
    found = families([first, problem]) if len(sizes) == 1 else []
    return found[0].members[1] if len(found) == 1 else problem


def _shared(problems: Sequence[Problem]) -> Family:
    """The family of problems of one kind; equal leaves are held once."""
    treedef = jax.tree.structure(problems[0])
    columns = list(zip(*map(jax.tree.leaves, problems), strict=True))
    varies = tuple(not all(_equal(leaf, column[0]) for leaf in column) for column in columns)
    kept = [
        column if own else (column[0],) * len(problems)
        for column, own in zip(columns, varies, strict=True)
    ]
    members = [jax.tree.unflatten(treedef, leaves) for leaves in zip(*kept, strict=True)]
    return Family(tuple(members), varies)


def _shapes(problem: Problem) -> tuple[Any, ...]:
    return tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(problem))


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
