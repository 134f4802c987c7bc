"""What a simulation returns, and its forms for other libraries."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import FederationState, PyTree, RoundMetrics
from fedjax_links.core import errors, reprs
from fedjax_links.results import conversion, dataset

Grid = Mapping[str, Mapping[str, ArrayLike]]
"""Columns of a sweep's grid by maker and name, one entry per point."""
_AXES = ('point', 'seed')  # of lanes; a single one is that of seeds


def rounds_of(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rounds completed at each evaluation of a simulation, and at each of its rounds."""
    last = int(np.ravel(np.asarray(result.state.round))[0])
    length = np.shape(result.rounds.num_active)[-1]
    every = last - length + np.arange(1, length + 1)
    measured = jax.tree.leaves(result.evals)
    count = int(measured[0].shape[np.ndim(result.state.round)]) if measured else 0
    return every[length // count - 1 :: length // count] if count else every[:0], every


def leaves(measured: Any) -> dict[str, np.ndarray]:
    """The leaves of nested results by path: ``server/loss``; ``value`` for a bare one."""
    return {
        jax.tree_util.keystr(path, simple=True, separator='/') or 'value': np.asarray(
            leaf
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(measured)
    }


def _text(result: Any) -> str:
    """Rounds, lanes, and where every model ended: mean and range over lanes."""
    shape = np.shape(result.state.round)
    ends, every = rounds_of(result)
    rows = {'rounds': f'{len(every):,}, {len(ends)} evaluations'}
    if shape:
        sizes = zip(shape, _AXES[-len(shape) :], strict=True)
        rows['lanes'] = ' x '.join(f'{size} {axis}s' for size, axis in sizes)
    for model, measured in result.evals.items():
        said = []
        for path, leaf in jax.tree_util.tree_leaves_with_path(measured):
            name = jax.tree_util.keystr(path, simple=True, separator='/')
            final = leaf[(slice(None),) * len(shape) + (-1,)]
            said.append(f'{name} {reprs.numbers(final)}'.strip())
        rows[f'{model}, at the end'] = ', '.join(said)
    if not isinstance(result.state.finite, jax.core.Tracer):
        finite = np.asarray(result.state.finite)
        if not finite.all():
            rows['not finite'] = f'{int((~finite).sum())} of {finite.size} lanes'
    return reprs.block('SimulationResult', rows)


@reprs.described(_text)
class SimulationResult(NamedTuple):
    """What a simulation returns; a sweep's leaves have leading axes [G, S], points by seeds.

    Attributes:
      state: the federation after the last round; pass it as ``initial_state`` to go on.
      rounds: metrics of every round, leaves [T, ...].
      evals: per candidate model (``'server'``, ``'client_mean'``), what ``eval_fn`` returned after
        rounds ``eval_every, 2 eval_every, ...``; leaves [T // eval_every, ...].
    """

    state: FederationState
    rounds: RoundMetrics
    evals: Mapping[str, PyTree]

    def to_pandas(
        self,
        *,
        seeds: Iterable[int] | None = None,
        grid: Grid | None = None,
        per_round: bool = False,
    ) -> Any:
        """One row per lane and evaluation, as `runs.Results.to_pandas` has them.

        Columns: ``point`` and ``seed`` as far as there are such axes, the columns of the grid
        (``algorithm.learning_rate``; vectors are tuples), ``round`` (rounds completed), ``finite``,
        and ``<model>/<metric>``. Metrics of several entries are left out.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the grid of a sweep.
          per_round: one row per round instead, with ``rounds/num_active`` and its like.

        Returns:
          A `pandas.DataFrame`.

        Raises:
          ValueError: for a result without evaluations, or seeds and points of another number.
        """
        import pandas

        if not self.evals and not per_round:
            requirement = (
                'have evaluations (`eval_every`); `per_round=True` shows the rounds'
            )
            raise errors.invalid('result', requirement, 'none')
        shape, (ends, every) = np.shape(self.state.round), rounds_of(self)
        rounds = every if per_round else ends
        given, columns = _lanes(shape, seeds, grid)
        point, seed, place = np.indices((*(1,) * (2 - len(shape)), *shape, len(rounds)))
        labels = {'point': point.ravel(), 'seed': np.asarray(given)[seed.ravel()]}
        labels |= {name: column[labels['point']] for name, column in columns.items()}
        bad = np.asarray(self.state.first_bad_round)[..., None]
        values = {'finite': np.asarray((bad < 0) | (rounds <= bad))}
        values |= leaves({'rounds': self.rounds} if per_round else self.evals)
        full = *shape, len(rounds)
        same = {
            name: leaf.ravel() for name, leaf in values.items() if leaf.shape == full
        }
        table = pandas.DataFrame({**labels, 'round': rounds[place.ravel()], **same})
        return table.drop(columns=['point', 'seed'][: 2 - len(shape)])

    def to_dataset(
        self, *, seeds: Iterable[int] | None = None, grid: Grid | None = None
    ) -> Any:
        """The evaluations as an ``xarray.Dataset``, in the form that runs have.

        Every metric is a variable with the axes ``series`` (the points of a sweep), ``model``,
        ``pattern``, ``seed`` and ``round``; NaN where a lane was not finite any more. The columns
        of a grid are coordinates along ``series``; vectors are JSON, ``'[0.1, 0.2]'``. Metrics of
        several entries are left out.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the grid of a sweep.

        Raises:
          ValueError: for a result without evaluations, or seeds or points of another number.
        """
        given, columns = _lanes(np.shape(self.state.round), seeds, grid)
        points = {
            name: ('series', dataset.as_coordinate(column))
            for name, column in columns.items()
        }
        return conversion.to_dataset(self).assign_coords({'seed': given, **points})


def _lanes(
    shape: Sequence[int], seeds: Iterable[int] | None, grid: Grid | None
) -> tuple[list[int], dict[str, np.ndarray]]:
    """The S seeds of lanes [], [S] or [G, S], and the columns of a grid by dotted name.

    Raises:
      ValueError: for more axes, or another number of seeds or points.
    """
    if len(shape) > 2:
        requirement = 'have no leading axes beside points and seeds'
        raise errors.invalid('result', requirement, f'shape {list(shape)}')
    num_seeds, num_points = (
        shape[-1] if shape else 1,
        shape[0] if len(shape) == 2 else 0,
    )
    given = list(range(num_seeds)) if seeds is None else list(seeds)
    if len(given) != num_seeds:
        raise errors.invalid('seeds', f'have {num_seeds} entries', len(given))
    columns = {
        f'{maker}.{name}': dataset.as_tuples(np.asarray(values))
        for maker, named in (grid or {}).items()
        for name, values in named.items()
    }
    for name, column in columns.items():
        if len(column) != num_points:
            shown = f'{len(column)} of {name.partition(".")[2]!r}'
            raise errors.invalid('grid', f'have {num_points} points', shown)
    return given, columns
