"""What a simulation returns, and its forms for other libraries."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import describing, errors, frames
from fedjax_links.base import FederationState, PyTree, RoundMetrics

Grid = Mapping[str, Mapping[str, Any]]


def _facts(result: Any) -> describing.Facts:
    """Rounds, lanes, and where every model ended: mean and range over lanes."""
    axes, _ = frames.lanes(np.shape(result.state.round), None, None)
    length = np.shape(result.rounds.num_active)[-1]
    sizes = zip(np.shape(result.state.round), axes, strict=True)
    rows = {'rounds': f'{length:,}, {result._count()} evaluations'}
    if axes:
        rows['lanes'] = ' x '.join(f'{size} {axis}s' for size, axis in sizes)
    for model, measured in result.evals.items():
        leaves = jax.tree_util.tree_leaves_with_path(measured)
        lane = np.ndim(result.state.round)
        said = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path, simple=True, separator='/')
            final = leaf[(slice(None),) * lane + (-1,)]
            said.append(f'{name} {describing.numbers(final)}'.strip())
        rows[f'{model}, at the end'] = ', '.join(said)
    if not isinstance(result.state.finite, jax.core.Tracer):
        finite = np.asarray(result.state.finite)
        if not finite.all():
            rows['not finite'] = f'{int((~finite).sum())} of {finite.size} lanes'
    return describing.Facts('SimulationResult', rows)


@describing.described(_facts)
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
          ImportError: without pandas, naming what to install.
        """
        if not self.evals and not per_round:
            requirement = 'have evaluations (`eval_every`); `per_round=True` shows the rounds'
            raise errors.invalid('result', requirement, 'none')
        axes, known = frames.lanes(np.shape(self.state.round), seeds, grid)
        ends, every = self._when()
        when = every if per_round else ends
        values = {'finite': self._finite(when)}
        values |= frames.leaves({'rounds': self.rounds} if per_round else self.evals)
        return frames.table(frames.long_form(values, axes, known, when))

    def to_xarray(self, *, seeds: Iterable[int] | None = None, grid: Grid | None = None) -> Any:
        """Evaluations and rounds with named axes.

        Variables ``<model>/<metric>`` have the axes ``point``, ``seed`` (as far as there are such)
        and ``round``, rounds completed; ``rounds/num_active`` and its like have ``each_round``
        instead. The columns of a grid are coordinates along ``point``, vectors with an axis more.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the grid of a sweep.

        Returns:
          An ``xarray.Dataset``.

        Raises:
          ValueError: for seeds or points of another number.
          ImportError: without xarray, naming what to install.
        """
        axes, known = frames.lanes(np.shape(self.state.round), seeds, grid)
        ends, every = self._when()
        variables = {}
        parts: list[tuple[str, PyTree]] = [('each_round', {'rounds': self.rounds})]
        if self.evals:
            parts.insert(0, ('round', {**self.evals, 'finite': self._finite(ends)}))
        for axis, part in parts:
            for name, values in frames.leaves(part).items():
                variables[name] = frames.named(name, (*axes, axis), values), values
        coords: dict[str, Any] = {
            name: (frames.named(name, (axis,), column), column)
            for name, (axis, column) in known.items()
        }
        coords['each_round'] = every
        if self.evals:
            coords['round'] = ends
        return frames.dataset(variables, coords)

    def _when(self) -> tuple[np.ndarray, np.ndarray]:
        """Rounds completed at each evaluation, and at each round."""
        last = int(np.ravel(np.asarray(self.state.round))[0])
        length = np.shape(self.rounds.num_active)[-1]
        every = last - length + np.arange(1, length + 1)
        count = self._count()
        return every[length // count - 1 :: length // count] if count else every[:0], every

    def _count(self) -> int:
        """The number of evaluations."""
        measured = jax.tree.leaves(self.evals)
        return int(measured[0].shape[np.ndim(self.state.round)]) if measured else 0

    def _finite(self, when: np.ndarray) -> np.ndarray:
        """bool[*lanes, E]: whether all was finite up to a number of rounds."""
        bad = np.asarray(self.state.first_bad_round)[..., None]
        return np.asarray((bad < 0) | (when <= bad))
