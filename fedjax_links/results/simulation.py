"""Holds the result of a simulation, and converts it for pandas and xarray.

A lane is one simulation of a sweep: a point of the grid with a seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import FederationState, PyTree, RoundMetrics
from fedjax_links.core import checks, errors, reprs
from fedjax_links.results import conversion, dataset
from fedjax_links.results.dataset import LabelledResults

if TYPE_CHECKING:
    import pandas

Grid = Mapping[str, Mapping[str, ArrayLike]]
"""Columns of a sweep's grid, one entry per point.

The keys are the maker, ``'algorithm'`` or ``'participation'``, then the name of its argument.
"""
_LANE_AXES = ('point', 'seed')
"""Leading axes of a sweep's leaves. A single leading axis is the axis of seeds."""


def rounds_of(result: 'SimulationResult') -> tuple[np.ndarray, np.ndarray]:
    """Returns the rounds completed at each evaluation, and at each round of a simulation."""
    last_round = int(np.ravel(np.asarray(result.state.round))[0])
    num_rounds = np.shape(result.rounds.num_active)[-1]
    rounds = last_round - num_rounds + np.arange(1, num_rounds + 1)
    evaluations = jax.tree.leaves(result.evals)
    num_lane_axes = np.ndim(result.state.round)
    num_evaluations = evaluations[0].shape[num_lane_axes] if evaluations else 0
    if num_evaluations == 0:
        return rounds[:0], rounds
    period = num_rounds // num_evaluations
    return rounds[period - 1 :: period], rounds


def leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """Returns the leaves of nested results by path: ``server/loss``; ``value`` for a bare one."""
    by_path = {}
    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        path = jax.tree_util.keystr(keys, simple=True, separator='/')
        by_path[path or 'value'] = np.asarray(leaf)
    return by_path


def _text(result: 'SimulationResult') -> str:
    """Describes rounds, lanes, and each model's last evaluation: mean and range over lanes."""
    shape = np.shape(result.state.round)
    all_lanes = (slice(None),) * len(shape)
    evaluated, rounds = rounds_of(result)
    lines = {'rounds': f'{len(rounds):,}, {len(evaluated)} evaluations'}
    if shape:
        sizes = zip(shape, _LANE_AXES[-len(shape) :], strict=True)
        lines['lanes'] = ' x '.join(f'{size} {axis}s' for size, axis in sizes)
    for model, metrics in result.evals.items():
        texts = []
        for keys, leaf in jax.tree_util.tree_leaves_with_path(metrics):
            name = jax.tree_util.keystr(keys, simple=True, separator='/')
            last = leaf[(*all_lanes, -1)]  # the last evaluation of each lane
            texts.append(f'{name} {reprs.numbers(last)}'.strip())
        lines[f'{model}, at the end'] = ', '.join(texts)
    if not isinstance(result.state.finite, jax.core.Tracer):
        is_finite = np.asarray(result.state.finite)
        if not is_finite.all():
            num_diverged = int((~is_finite).sum())
            lines['not finite'] = f'{num_diverged} of {is_finite.size} lanes'
    return reprs.block('SimulationResult', lines)


@reprs.described(_text)
class SimulationResult(NamedTuple):
    """Holds the result of a simulation, or of a sweep.

    The leaves of a sweep's result have leading axes [S] of seeds, or [G, S] with a grid.

    Attributes:
      state: the federation after the last round; pass it as ``initial_state`` to continue.
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
    ) -> 'pandas.DataFrame':
        """Returns a table with one row per lane and evaluation, as `runs.Results.to_pandas` does.

        Its columns are ``point`` and ``seed`` if there are such axes, the columns of the grid
        (``algorithm.learning_rate``; vectors are tuples), ``round`` (rounds completed), ``finite``,
        and ``<model>/<metric>``. Metrics of several entries are left out.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the columns of a sweep's G points.
          per_round: whether to have one row per round, with ``rounds/num_active`` and the other
            metrics of rounds.

        Returns:
          A `pandas.DataFrame`.

        Raises:
          ValueError: for a result without evaluations, or other than S seeds or G points.
        """
        import pandas

        checks.flags(per_round=per_round)
        if not self.evals and not per_round:
            requirement = (
                'have evaluations (`eval_every`); `per_round=True` shows the rounds'
            )
            raise errors.invalid('result', requirement, 'none')
        shape = np.shape(self.state.round)
        evaluated, all_rounds = rounds_of(self)
        rounds = all_rounds if per_round else evaluated
        seed_labels, columns = _lanes(shape, seeds, grid)
        # A table gets both axes of lanes. Axes that the result lacks are dropped at the end.
        num_absent_axes = 2 - len(shape)
        full_shape = (1,) * num_absent_axes + shape + (len(rounds),)
        point_index, seed_index, round_index = np.indices(full_shape).reshape(3, -1)
        labels = {'point': point_index, 'seed': np.asarray(seed_labels)[seed_index]}
        labels |= {name: column[point_index] for name, column in columns.items()}
        labels['round'] = rounds[round_index]
        # `first_bad_round` counts from 0: a lane is finite up to so many completed rounds.
        first_bad_round = np.asarray(self.state.first_bad_round)[..., None]
        is_finite = (first_bad_round < 0) | (rounds <= first_bad_round)
        values = {'finite': np.asarray(is_finite)}
        values |= leaves({'rounds': self.rounds} if per_round else self.evals)
        for name, leaf in values.items():
            if leaf.shape == (*shape, len(rounds)):
                labels[name] = leaf.ravel()
        return pandas.DataFrame(labels).drop(columns=[*_LANE_AXES[:num_absent_axes]])

    def to_dataset(
        self, *, seeds: Iterable[int] | None = None, grid: Grid | None = None
    ) -> LabelledResults:
        """Returns the evaluations as an ``xarray.Dataset``, in the form that runs have.

        Each metric is a variable with the axes ``series`` (the points of a sweep), ``model``,
        ``pattern``, ``seed`` and ``round``; NaN from the round on in which a lane diverged. The
        columns of a grid are coordinates along ``series``; vectors are JSON, ``'[0.1, 0.2]'``.
        Metrics of several entries are left out.

        Args:
          seeds: the S seeds of a sweep; 0, 1, ... by default.
          grid: the columns of a sweep's G points.

        Raises:
          ValueError: for a result without evaluations, or other than S seeds or G points.
        """
        seed_labels, columns = _lanes(np.shape(self.state.round), seeds, grid)
        coords: dict[str, Any] = {'seed': seed_labels}
        for name, column in columns.items():
            coords[name] = 'series', dataset.as_coordinate(column)
        return conversion.to_dataset(self).assign_coords(coords)


def _lanes(
    shape: Sequence[int], seeds: Iterable[int] | None, grid: Grid | None
) -> tuple[list[int], dict[str, np.ndarray]]:
    """Returns the seeds of the lanes, and the columns of a grid by dotted name.

    Args:
      shape: the shape of the lanes: [], [S] or [G, S].
      seeds: the S seeds; 0, 1, ... for None.
      grid: the columns of the G points.

    Raises:
      ValueError: for more than two axes; for seeds or a grid of another size or form.
    """
    if len(shape) > 2:
        requirement = 'have no leading axes but points and seeds'
        raise errors.invalid('result', requirement, f'shape {list(shape)}')
    num_seeds = shape[-1] if shape else 1
    num_points = shape[0] if len(shape) == 2 else 0
    if seeds is None:
        seeds = range(num_seeds)
    if not np.iterable(seeds):
        raise errors.invalid('seeds', 'be a list of seeds', errors.text_of(seeds))
    seed_labels = list(seeds)
    if len(seed_labels) != num_seeds:
        raise errors.invalid('seeds', f'have {num_seeds} entries', len(seed_labels))
    columns = {}
    grid = {} if grid is None else grid
    _check_grid(grid)
    for maker, columns_of_maker in grid.items():
        for name, values in columns_of_maker.items():
            column = dataset.as_tuples(np.asarray(values))
            if len(column) != num_points:
                shown = f'{len(column)} of {name!r}'
                raise errors.invalid('grid', f'have {num_points} points', shown)
            columns[f'{maker}.{name}'] = column
    return seed_labels, columns


def _check_grid(grid: object) -> None:
    """Raises unless a grid has columns by maker and name."""
    by_maker = grid.values() if isinstance(grid, Mapping) else [grid]
    for columns in by_maker:
        if not isinstance(columns, Mapping) or not all(map(np.ndim, columns.values())):
            requirement = 'hold columns by maker and name, as `sweep` takes them'
            raise errors.invalid('grid', requirement, errors.text_of(grid))
