"""Which draws of an experiment are made once, and which by every seed anew.

=================== ==================================================================== =========
stream              what it draws                                                        default
=================== ==================================================================== =========
``data``            examples, their split into training and test data, label noise       fixed
``partition``       who owns which examples, clients' label shares and sizes             fixed
``links_quality``   link probabilities, the class weights behind them, weights, groups   fixed
``init``            the initial model                                                    by seed
``links``           links that deliver, round by round, and where patterns begin         by seed
``batches``         minibatches, and whatever else training draws                        by seed
=================== ==================================================================== =========

The first three are columns of the makers of problems and patterns, ``data_seed``,
``partition_seed`` and ``links_quality_seed``, whose value is then the seed; the others are keys of
the seed. A fixed stream of the latter is that of the experiment's first seed.
"""

import dataclasses
import functools
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import checks, errors
from fedjax_links.base import Problem, Source

BY_SEED, FIXED = 'by_seed', 'fixed'
STREAMS = ('data', 'partition', 'links_quality', 'init', 'links', 'batches')
COLUMNS: Mapping[str, str] = {
    'data': 'data_seed',
    'partition': 'partition_seed',
    'links_quality': 'links_quality_seed',
}
"""Of the makers, by stream."""

DEFAULTS: Mapping[str, str] = {name: FIXED if name in COLUMNS else BY_SEED for name in STREAMS}

_FUNCTIONS = ('init_params', 'loss_fn', 'metrics', 'random_loss_fn', 'larger_is_better')


def resolve(redraw: Mapping[str, str] | str) -> dict[str, str]:
    """Every stream with its way.

    Args:
      redraw: ways by stream, the rest as by default; or one way for all.

    Returns:
      ``'by_seed'`` or ``'fixed'`` by stream.

    Raises:
      ValueError: for an unknown stream or way.
    """
    if isinstance(redraw, str):
        checks.choice('redraw', redraw, (BY_SEED, FIXED))
        return dict.fromkeys(STREAMS, redraw)
    if not isinstance(redraw, Mapping):
        raise errors.invalid('redraw', 'be ways by stream, or one for all', errors.shown(redraw))
    for stream, way in redraw.items():
        checks.choice('redraw', stream, STREAMS)
        checks.choice(f'redraw.{stream}', way, (BY_SEED, FIXED))
    return {**DEFAULTS, **redraw}


def check(
    redraw: Mapping[str, str] | str, num_seeds: int, taken: Collection[str], grid: Collection[str]
) -> None:
    """Raises for streams that cannot be drawn as an experiment asks.

    Args:
      redraw: as in `resolve`.
      num_seeds: seeds of the experiment.
      taken: columns that makers of problems and patterns take.
      grid: columns of the grid.

    Raises:
      ValueError: if seeds would all be alike, for a stream by seed that stands in the grid, or that
        was named and that nothing takes.
    """
    ways = resolve(redraw)
    if num_seeds > 1 and BY_SEED not in ways.values():
        raise errors.invalid('redraw', f'have a stream by seed for {num_seeds} seeds', repr(FIXED))
    for stream, column in COLUMNS.items():
        if ways[stream] == FIXED:
            continue
        if column in grid:
            requirement = f'be fixed beside grid.{column}'
            raise errors.invalid(f'redraw.{stream}', requirement, repr(BY_SEED))
        if not isinstance(redraw, str) and column not in taken:
            whose = 'pattern' if stream == 'links_quality' else 'problem'
            requirement = f'be fixed, as no {whose} draws it'
            raise errors.invalid(f'redraw.{stream}', requirement, repr(BY_SEED))


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
