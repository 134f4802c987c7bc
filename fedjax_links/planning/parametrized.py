"""Makers: parts of an experiment as functions of a grid's columns; problems that share a program.

Problems that differ in their arrays alone are a family: lanes with any of them share a program.
"""

import collections
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config.bound import Bound, Hole
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


PartOrFactory: TypeAlias = Part | Callable[..., Part] | Maker[Part]


def as_maker(argument: str, part: PartOrFactory[Part]) -> Maker[Part]:
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
    columns = {
        k: REQUIRED if p.default is p.empty else p.default
        for k, p in parameters.items()
    }
    return Maker(part, columns)


def as_problems(argument: str, part: PartOrFactory[Problem]) -> Maker[Problem]:
    """As `as_maker`, of problems, of which a few are kept.

    Args:
      argument: its place, for errors.
      part: likewise.

    Returns:
      The maker, whose ``make`` is a `Problems`.
    """
    maker = as_maker(argument, part)
    if isinstance(maker.make, Problems):
        return maker
    return maker._replace(make=Problems(maker.make))


def algorithm_makers(
    algorithms: Mapping[str, PartOrFactory[Algorithm]],
) -> dict[str, Maker[Algorithm]]:
    """Returns the makers of an experiment's algorithms, by label."""
    return {
        label: as_maker(f'algorithms.{label}', part)
        for label, part in algorithms.items()
    }


def pattern_makers(
    patterns: Mapping[str, PartOrFactory[Participation]],
) -> dict[str, Maker[Participation]]:
    """Returns the makers of patterns, by label, which make one once for the same values."""
    makers: dict[str, Maker[Participation]] = {}
    for label, part in patterns.items():
        maker = as_maker(f'patterns.{label}', part)
        makers[label] = maker._replace(make=memoize(maker.make))
    return makers


def problem_makers(
    problem: PartOrFactory[Problem] | Mapping[str, PartOrFactory[Problem]],
    labels: Iterable[str],
) -> dict[str, Maker[Problem]]:
    """Returns the maker of the problem of every pattern; patterns of one part share it.

    Args:
      problem: as in `Experiment`.
      labels: of the patterns.
    """
    if not isinstance(problem, Mapping):
        return dict.fromkeys(labels, as_problems('problem', problem))
    by_part: dict[int, Maker[Problem]] = {}
    makers: dict[str, Maker[Problem]] = {}
    for label in labels:
        part = problem[label]
        if id(part) not in by_part:
            by_part[id(part)] = as_problems(f'problem.{label}', part)
        makers[label] = by_part[id(part)]
    return makers


def bound(
    bind: Callable[..., Bound], columns: grids.Point, *, holes: bool = False
) -> Maker[Any]:
    """The maker of a part of a config, whose sections are resolved once for the same values.

    Args:
      bind: resolves them at values of the columns.
      columns: as in `Maker`.
      holes: whether numbers that are arguments of a program are holes there, to be filled by the
        values that the maker is given, which may be traced.
    """
    once = memoize(bind)

    def resolve(**values: Any) -> Bound:
        late = {
            k: Hole(k, v) for k, v in values.items() if holes and not is_built_in(v)
        }
        return once(**values | late)

    return Maker(lambda **values: resolve(**values).build(values), columns, resolve)


def memoize(make: Callable[..., Part]) -> Callable[..., Part]:
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


class Problems:
    """Makes the problems of a maker when they are asked for, and keeps a few.

    Those that were asked for last are kept, as many as `MOST_BYTES` hold, and one at least. Arrays
    that are equal in all problems so far are one.
    """

    def __init__(self, make: Callable[..., Problem]) -> None:
        """Makes nothing yet.

        Args:
          make: returns the problem, given values of its columns as keywords.
        """
        self._make = make
        self._kept: collections.OrderedDict[str, Problem] = collections.OrderedDict()
        self._uses = collections.Counter[
            int
        ]()  # of arrays, by their id, in what is kept
        self._bytes = 0
        self._common: dict[Any, list[Any]] = {}
        self._sizes: dict[str, tuple[int, int] | None] = {}

    def __call__(self, **values: Any) -> Problem:
        """The problem at values of the columns."""
        key = repr(values)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        problem = self._kept[key] = self._shared(self._make(**values))
        self._count(problem, 1)
        while len(self._kept) > 1 and self._bytes > MOST_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._count(dropped, -1)
        return problem

    def _count(self, problem: Problem, change: int) -> None:
        """Counts the bytes of what is kept, each array once, as problems come and go."""
        for leaf in {id(leaf): leaf for leaf in jax.tree.leaves(problem)}.values():
            before = self._uses[id(leaf)]
            self._uses[id(leaf)] = before + change
            if not before:
                self._bytes += leaf.nbytes
            if not before + change:
                self._bytes -= leaf.nbytes
                del self._uses[id(leaf)]

    def sizes_of(self, rows: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
        """The fewest and the most examples of a client, over several problems.

        Args:
          rows: values of the columns. Their problems are made one after the other.

        Returns:
          None for problems that differ in more than their arrays, which share no program.
        """
        key = repr(rows)
        if key not in self._sizes:
            sizes, kinds = set[int](), set[Any]()
            for row in rows:
                problem = self(**row)
                sizes |= {problem.min_examples, problem.max_examples}
                kinds.add(kind_of(with_sizes(problem, 0, 0)))
            self._sizes[key] = (min(sizes), max(sizes)) if len(kinds) == 1 else None
        return self._sizes[key]

    def _shared(self, problem: Problem) -> Problem:
        """The problem, with the arrays that all of its kind have had so far."""
        leaves, structure = jax.tree.flatten(problem)
        kind = kind_of(with_sizes(problem, 0, 0))
        if kind not in self._common:
            self._common[kind] = list(leaves)
            return problem
        common = self._common[kind]
        for i, leaf in enumerate(leaves):
            if common[i] is None or not _equal(leaf, common[i]):
                common[i] = None  # of no use to later ones either
            else:
                leaves[i] = common[i]
        whole: Problem = jax.tree.unflatten(structure, leaves)
        return whole


MOST_BYTES = 2**26
"""How much of the problems of a maker is kept while no lane needs it."""


def with_sizes(problem: Problem, fewest: int, most: int) -> Problem:
    """A problem with other bounds of how many examples a client has."""
    return dataclasses.replace(problem, min_examples=fewest, max_examples=most)


def reads_sizes(bound: Bound | None) -> bool:
    """Whether an algorithm may look at how many examples clients have.

    On minibatches no algorithm of this package does. On full local data clients are padded to the
    largest one. What comes from elsewhere may do anything.

    Args:
      bound: what makes the algorithm, where a config says it.
    """
    if bound is None or not is_known(bound.factory):
        return True
    factory = getattr(bound.factory, 'factory', bound.factory)
    takes_batches = 'batch_size' in inspect.signature(factory).parameters
    if takes_batches and bound.options.get('batch_size') is None:
        return True
    parts = jax.tree.leaves(
        (bound.options, bound.args), is_leaf=lambda x: isinstance(x, Bound)
    )
    for part in parts:
        if isinstance(part, Bound) and reads_sizes(part):
            return True
        if callable(part) and not isinstance(part, Bound) and not is_known(part):
            return True
    return False


def is_known(function: Any) -> bool:
    """Whether a function comes from this package, or from optax, which sees no problem."""
    function = getattr(function, 'factory', getattr(function, 'func', function))
    top = str(getattr(function, '__module__', None)).partition('.')[0]
    return top in (__package__.partition('.')[0], 'optax')


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


def own_bytes(problems: Iterable[Problem]) -> int:
    """Bytes of the arrays that each of several problems has for itself.

    Args:
      problems: of one kind; they are looked at one after the other.
    """
    first, varying = list[Any](), set[int]()
    for problem in problems:
        leaves = jax.tree.leaves(problem)
        first = first or leaves
        varying |= {i for i, leaf in enumerate(leaves) if leaf is not first[i]}
    return sum(first[i].nbytes for i in varying)


def stack_problems(problems: Sequence[Part]) -> Part:
    """Unified problems side by side: leaves that vary [L, ...], the others as they are."""
    columns = zip(varying(problems), *map(jax.tree.leaves, problems), strict=True)
    leaves = [jnp.stack(column) if varies else column[0] for varies, *column in columns]
    stacked: Part = jax.tree.unflatten(jax.tree.structure(problems[0]), leaves)
    return stacked


def _equal(a: Any, b: Any) -> bool:
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return a is b or bool(np.array_equal(np.asarray(a), np.asarray(b)))
