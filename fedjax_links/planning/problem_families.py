"""Makes and compares problems of one family, which share a compiled program.

Problems are of one family if they differ in the values of their arrays alone.
"""

import collections
import dataclasses
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Problem, PyTree
from fedjax_links.config.bound import BoundFactory
from fedjax_links.core.grids import Point

Tree = TypeVar('Tree')

MAX_BYTES = 2**26
"""Most bytes of problems that a `ProblemCache` keeps if it has more than one; a chosen limit."""


class ProblemCache:
    """Makes problems from values of a grid's columns, and caches the problems used last.

    The cache keeps as many problems as fit into `MAX_BYTES`, and at least one. An array that was
    equal in all problems of a family so far is one object.
    """

    def __init__(self, make: Callable[..., Problem]) -> None:
        """Creates an empty cache.

        Args:
          make: ``columns as keywords -> problem``.
        """
        self._make = make
        self._problems: collections.OrderedDict[str, Problem] = (
            collections.OrderedDict()
        )
        # The number of cached problems that use an array, by its id.
        self._uses = collections.Counter[int]()
        self._bytes = 0
        # By structure, the leaves that all problems so far had in common; None for other leaves.
        self._common: dict[Any, list[Any]] = {}
        self._size_bounds: dict[str, tuple[int, int] | None] = {}

    def __call__(self, **values: Any) -> Problem:
        """Returns the problem at values of the columns."""
        key = repr(values)
        if key in self._problems:
            self._problems.move_to_end(key)
            return self._problems[key]
        problem = self._with_common_arrays(self._make(**values))
        self._problems[key] = problem
        self._count_uses(problem, 1)
        while len(self._problems) > 1 and self._bytes > MAX_BYTES:
            _, oldest = self._problems.popitem(last=False)
            self._count_uses(oldest, -1)
        return problem

    def _count_uses(self, problem: Problem, change: int) -> None:
        """Updates uses and bytes when a problem enters (1) or leaves (-1) the cache."""
        leaf_by_id = {id(leaf): leaf for leaf in jax.tree.leaves(problem)}
        for leaf_id, leaf in leaf_by_id.items():
            if self._uses[leaf_id] == 0:
                self._bytes += leaf.nbytes
            self._uses[leaf_id] += change
            if self._uses[leaf_id] == 0:
                self._bytes -= leaf.nbytes
                del self._uses[leaf_id]

    def sizes_of(self, rows: Sequence[Point]) -> tuple[int, int] | None:
        """Returns the fewest and the most examples of a client, over several problems.

        Args:
          rows: values of the columns, for each problem. Problems are made one after the other.

        Returns:
          Both numbers; None if the problems are of several families, which share no program.
        """
        key = repr(rows)
        if key not in self._size_bounds:
            sizes: set[int] = set()
            structures: set[Any] = set()
            for row in rows:
                problem = self(**row)
                sizes |= {problem.min_examples, problem.max_examples}
                structures.add(structure_of(with_sizes(problem, 0, 0)))
            is_family = len(structures) == 1
            self._size_bounds[key] = (min(sizes), max(sizes)) if is_family else None
        return self._size_bounds[key]

    def _with_common_arrays(self, problem: Problem) -> Problem:
        """Replaces arrays of a problem by equal arrays that all problems of its family had."""
        leaves, treedef = jax.tree.flatten(problem)
        structure = structure_of(with_sizes(problem, 0, 0))
        if structure not in self._common:
            self._common[structure] = list(leaves)
            return problem
        common = self._common[structure]
        for i, leaf in enumerate(leaves):
            if common[i] is not None and _are_equal(leaf, common[i]):
                leaves[i] = common[i]
            else:
                common[i] = None  # Later problems cannot share this leaf either.
        shared: Problem = jax.tree.unflatten(treedef, leaves)
        return shared


def with_sizes(problem: Problem, fewest: int, most: int) -> Problem:
    """Replaces the smallest and the largest number of examples of a client."""
    return dataclasses.replace(problem, min_examples=fewest, max_examples=most)


def reads_sizes(bound: BoundFactory | None) -> bool:
    """Returns whether an algorithm may depend on how many examples the clients have.

    On minibatches, no algorithm of this package depends on these numbers. On full local data, each
    client's data are padded to the size of the largest client. Code from elsewhere may do anything.

    Args:
      bound: factory and arguments of the algorithm; None without a config.
    """
    if bound is None or not ignores_sizes(bound.factory):
        return True
    factory = getattr(bound.factory, 'factory', bound.factory)
    takes_batches = 'batch_size' in inspect.signature(factory).parameters
    if takes_batches and bound.options.get('batch_size') is None:
        return True
    parts = jax.tree.leaves(
        (bound.options, bound.args), is_leaf=lambda x: isinstance(x, BoundFactory)
    )
    for part in parts:
        if isinstance(part, BoundFactory):
            if reads_sizes(part):
                return True
        elif callable(part) and not ignores_sizes(part):
            return True
    return False


def ignores_sizes(function: object) -> bool:
    """Returns whether a function is of this package or optax, which ignore numbers of examples."""
    function = getattr(function, 'factory', getattr(function, 'func', function))
    package = str(getattr(function, '__module__', None)).partition('.')[0]
    return package in (__package__.partition('.')[0], 'optax')


def structure_of(values: PyTree) -> Hashable:
    """Returns tree structure, shapes and dtypes: what all inputs of one program share."""
    leaves, treedef = jax.tree.flatten(values)
    return treedef, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def reuse_equal(values: Tree, first: Tree) -> Tree:
    """Replaces arrays of a pytree by equal arrays of another pytree.

    Args:
      values: the pytree.
      first: another pytree, of the same structure.
    """
    pairs = zip(jax.tree.leaves(values), jax.tree.leaves(first), strict=True)
    leaves = [
        first_leaf if _are_equal(leaf, first_leaf) else leaf
        for leaf, first_leaf in pairs
    ]
    shared: Tree = jax.tree.unflatten(jax.tree.structure(values), leaves)
    return shared


def varying_leaves(trees: Sequence[PyTree]) -> tuple[bool, ...]:
    """Returns for each leaf whether it is not the same object in all pytrees."""
    columns = zip(*map(jax.tree.leaves, trees), strict=True)
    return tuple(any(leaf is not column[0] for leaf in column) for column in columns)


def varying_bytes(problems: Iterable[Problem]) -> int:
    """Returns the bytes that each further problem adds: the bytes of arrays that vary.

    Args:
      problems: problems of one family; an iterator may make them one after the other.
    """
    first: list[Any] = []
    varying: set[int] = set()
    for problem in problems:
        leaves = jax.tree.leaves(problem)
        first = first or leaves
        varying |= {i for i, leaf in enumerate(leaves) if leaf is not first[i]}
    return sum(first[i].nbytes for i in varying)


def stack_varying(trees: Sequence[Tree]) -> Tree:
    """Stacks the varying leaves of L pytrees, to [L, ...]; other leaves stay as they are."""
    columns = zip(varying_leaves(trees), *map(jax.tree.leaves, trees), strict=True)
    leaves = [jnp.stack(column) if varies else column[0] for varies, *column in columns]
    stacked: Tree = jax.tree.unflatten(jax.tree.structure(trees[0]), leaves)
    return stacked


def _are_equal(a: Any, b: Any) -> bool:
    """Returns whether two arrays have the same shape and entries; keys are compared as bits."""
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a = jax.random.key_data(a)
        b = jax.random.key_data(b)
    return a is b or bool(np.array_equal(np.asarray(a), np.asarray(b)))
