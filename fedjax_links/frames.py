"""Results as tables of pandas and data sets of xarray, where these are installed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import errors
from fedjax_links.base import PyTree

LANES = ('point', 'seed')
"""Names of the leading axes of results; those of one axis are seeds."""

Variables = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def table(columns: Mapping[str, np.ndarray]) -> Any:
    """Columns of equal length as a `pandas.DataFrame`.

    Args:
      columns: by name; lists in them become tuples, which pandas can group by.

    Raises:
      ImportError: without pandas, naming what to install.
    """
    try:
        import pandas
    except ImportError:
        raise errors.missing_package('to_pandas needs pandas', 'pandas') from None
    return pandas.DataFrame({name: of_tuples(column) for name, column in columns.items()})


def of_tuples(column: np.ndarray) -> np.ndarray:
    """[K] of values, with vectors and lists as tuples, which can be compared and grouped by."""
    if column.ndim == 1 and column.dtype != object:
        return column
    return np.fromiter((_as_tuple(value) for value in column.tolist()), object, len(column))


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def dataset(variables: Variables, coords: Mapping[str, Any]) -> Any:
    """Arrays with named axes as an ``xarray.Dataset``.

    Args:
      variables: names of the axes and values, by name.
      coords: values along the axes, as xarray takes them.

    Raises:
      ImportError: without xarray, naming what to install.
    """
    try:
        import xarray
    except ImportError:
        raise errors.missing_package('to_xarray needs xarray', 'xarray') from None
    return xarray.Dataset(dict(variables), dict(coords))


def named(name: str, axes: tuple[str, ...], values: np.ndarray) -> tuple[str, ...]:
    """Names of all axes of an array, of which some are known: the others are ``<name>_axis<k>``."""
    return (*axes, *(f'{name}_axis{k}' for k in range(values.ndim - len(axes))))


def lanes(
    shape: Sequence[int],
    seeds: Iterable[int] | None,
    grid: Mapping[str, Mapping[str, Any]] | None,
) -> tuple[tuple[str, ...], dict[str, tuple[str, np.ndarray]]]:
    """Names of the leading axes of a result, and what is known along them.

    Args:
      shape: [], [S] or [G, S].
      seeds: the S seeds; their places by default.
      grid: columns of G values by maker and name, as `sweeps.sweep` takes them.

    Returns:
      The names; by name of a coordinate, its axis and values, [G, ...] for a column of vectors.

    Raises:
      ValueError: for more axes, or another number of seeds or points.
    """
    if len(shape) > len(LANES):
        requirement = 'have no leading axes beside points and seeds'
        raise errors.invalid('result', requirement, f'shape {list(shape)}')
    axes = LANES[len(LANES) - len(shape) :]
    sizes = dict(zip(axes, shape, strict=True))
    found = {name: (name, np.arange(size)) for name, size in sizes.items()}
    if seeds is not None:
        given = np.asarray(list(seeds))
        if given.shape != (sizes.get('seed', 0),):
            raise errors.invalid('seeds', f'have {sizes.get("seed", 0)} entries', len(given))
        found['seed'] = 'seed', given
    for maker, columns in (grid or {}).items():
        for name, values in columns.items():
            column = np.asarray(values)
            if len(column) != sizes.get('point', 0):
                requirement = f'have {sizes.get("point", 0)} points'
                raise errors.invalid('grid', requirement, f'{len(column)} of {name!r}')
            found[f'{maker}.{name}'] = 'point', column
    return axes, found


def leaves(measured: PyTree) -> dict[str, np.ndarray]:
    """The leaves of nested results by path: ``server/loss``."""
    found = jax.tree_util.tree_leaves_with_path(measured)
    return {
        jax.tree_util.keystr(path, simple=True, separator='/'): np.asarray(leaf)
        for path, leaf in found
    }


def long_form(
    values: Mapping[str, np.ndarray],
    axes: Sequence[str],
    known: Mapping[str, tuple[str, np.ndarray]],
    rounds: np.ndarray,
) -> dict[str, np.ndarray]:
    """One row per lane and round; values of several entries are left out.

    Args:
      values: [*lanes, E] by name.
      axes: names of the lanes' axes.
      known: by name of a column, its axis and values, see `lanes`.
      rounds: int[E].

    Returns:
      Columns: what is known of lanes, ``round``, values.
    """
    along = {axis: known[axis][1] for axis in axes}
    shape = (*(len(found) for found in along.values()), len(rounds))
    columns: dict[str, np.ndarray] = {}
    for name, (axis, column) in known.items():
        place = axes.index(axis)
        column = of_tuples(column)
        wide = column.reshape([-1 if k == place else 1 for k in range(len(shape))])
        columns[name] = np.broadcast_to(wide, shape).ravel()
    columns['round'] = np.broadcast_to(rounds, shape).ravel()
    return columns | {name: v.ravel() for name, v in values.items() if v.shape == shape}
