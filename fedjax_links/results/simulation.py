"""What a simulation returns, and its forms for other libraries."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links.base import FederationState, PyTree, RoundMetrics
from fedjax_links.core import describing, errors
from fedjax_links.results import dataset

Grid = Mapping[str, Mapping[str, Any]]
_AXES = ('point', 'seed')  # of lanes; a single one is that of seeds


def _text(result: Any) -> str:
    """Rounds, lanes, and where every model ended: mean and range over lanes."""
    shape = np.shape(result.state.round)
    ends, every = dataset.when(result)
    rows = {'rounds': f'{len(every):,}, {len(ends)} evaluations'}
    if shape:
        sizes = zip(shape, _AXES[-len(shape) :], strict=True)
        rows['lanes'] = ' x '.join(f'{size} {axis}s' for size, axis in sizes)
    for model, measured in result.evals.items():
        said = []
        for path, leaf in jax.tree_util.tree_leaves_with_path(measured):
            name = jax.tree_util.keystr(path, simple=True, separator='/')
            final = leaf[(slice(None),) * len(shape) + (-1,)]
            said.append(f'{name} {describing.numbers(final)}'.strip())
        rows[f'{model}, at the end'] = ', '.join(said)
    if not isinstance(result.state.finite, jax.core.Tracer):
        finite = np.asarray(result.state.finite)
        if not finite.all():
            rows['not finite'] = f'{int((~finite).sum())} of {finite.size} lanes'
    return describing.block('SimulationResult', rows)


@describing.described(_text)
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
            requirement = 'have evaluations (`eval_every`); `per_round=True` shows the rounds'
            raise errors.invalid('result', requirement, 'none')
        shape, rounds = np.shape(self.state.round), dataset.when(self)[per_round]
        full = *shape, len(rounds)
        given, columns = dataset.lanes(shape, seeds, grid)
        found = {'point': np.arange(shape[0])} if len(shape) == 2 else {}
        found |= {'seed': np.asarray(given)} if shape else {}
        found |= {name: dataset.as_tuples(column) for name, column in columns.items()}
        for name, column in found.items():
            column = column if name == 'seed' else column[:, None]
            found[name] = np.broadcast_to(column[..., None], full).ravel()
        found['round'] = np.broadcast_to(rounds, full).ravel()
        bad = np.asarray(self.state.first_bad_round)[..., None]
        values = {'finite': np.asarray((bad < 0) | (rounds <= bad))}
        values |= dataset.leaves({'rounds': self.rounds} if per_round else self.evals)
        same = {name: leaf.ravel() for name, leaf in values.items() if leaf.shape == full}
        return pandas.DataFrame(found | same)

    def to_dataset(self, *, seeds: Iterable[int] | None = None, grid: Grid | None = None) -> Any:
        """The evaluations as an ``xarray.Dataset``, in the form that runs have.

        Every metric is a variable with the axes ``series`` (the points of a sweep), ``model``,
        ``pattern``, ``seed`` and ``round``; NaN where a lane was not finite any more. The columns
        of a grid are coordinates along ``series``; vectors are tuples. Metrics of several entries
        are left out.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the grid of a sweep.

        Raises:
          ValueError: for a result without evaluations, or seeds or points of another number.
        """
        given, columns = dataset.lanes(np.shape(self.state.round), seeds, grid)
        points = {name: ('series', dataset.as_tuples(column)) for name, column in columns.items()}
        return dataset.of(self).assign_coords({'seed': given, **points})
