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

_FUNCTIONS = (
    'init_params',
    'loss_fn',
    'metrics',
    'random_loss_fn',
    'larger_is_better',
    'objective',
)


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
    first = problems[0]
    functions = {name: getattr(first, name) for name in _FUNCTIONS}
    sizes = {
        'min_examples': min(problem.min_examples for problem in problems),
        'max_examples': max(problem.max_examples for problem in problems),
    }
    same = [
        all(_same(getattr(problem, name), value) for name, value in functions.items())
        and _same_source(problem, first)
        for problem in problems
    ]
    if len(problems) > 1 and all(same):
        changed = [_replaced(problem, first, {**functions, **sizes}) for problem in problems]
        kinds = {(jax.tree.structure(problem), _shapes(problem)) for problem in changed}
        if len(kinds) == 1:
            return [_shared(changed)]
    return [Family((problem,), (False,) * len(jax.tree.leaves(problem))) for problem in problems]


def adopted(first: Problem, problems: Sequence[Problem]) -> list[Problem]:
    """Problems of other points, so that their lanes can have the program of the first one's.

    Args:
      first: a problem of the same maker.
      problems: at any point.

    Returns:
      The problems; those that are like the first, with clients of the same range of sizes, have its
      functions and share equal arrays with it.
    """
    sizes = first.min_examples, first.max_examples

    def one(problem: Problem) -> Problem:
        if (problem.min_examples, problem.max_examples) != sizes:
            return problem
        found = families([first, problem])
        return found[0].members[1] if len(found) == 1 else problem

    return [one(problem) for problem in problems]


def _replaced(problem: Problem, first: Problem, values: Mapping[str, Any]) -> Problem:
    owned = first.owned if isinstance(first.owned, Source) else problem.owned
    return dataclasses.replace(problem, owned=owned, **values)


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


def _same_source(problem: Problem, first: Problem) -> bool:
    ours, theirs = problem.owned, first.owned
    if isinstance(ours, Source) and isinstance(theirs, Source):
        return ours.num_clients == theirs.num_clients and _same(ours.make, theirs.make)
    return type(ours) is type(theirs)


def _same(a: Any, b: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether two functions, or what they enclose, do the same; in doubt, not."""
    if a is b or (id(a), id(b)) in seen:
        return True
    if type(a) is not type(b):
        return False
    seen |= {(id(a), id(b))}
    if isinstance(a, types.FunctionType):
        cells = [
            (x.cell_contents, y.cell_contents)
            for x, y in zip(a.__closure__ or (), b.__closure__ or (), strict=False)
        ]
        defaults = [(a.__defaults__, b.__defaults__), (a.__kwdefaults__, b.__kwdefaults__)]
        return a.__code__ is b.__code__ and all(_same(x, y, seen) for x, y in cells + defaults)
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and _same(a.__self__, b.__self__, seen)
    if isinstance(a, functools.partial):
        parts = ((a.func, b.func), (a.args, b.args), (a.keywords, b.keywords))
        return all(_same(x, y, seen) for x, y in parts)
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
