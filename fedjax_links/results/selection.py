"""Parts of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.results import dataset

Columns = Mapping[str, np.ndarray]


def part(
    columns: Columns, facts: Mapping[str, Any], at: grids.Point, labels: Mapping[str, Any]
) -> tuple[Columns, dict[str, Any]]:
    """A part of a run: see `runs.Results.select`.

    Args:
      columns: of the run.
      facts: of the run.
      at: a value, or some, by column of the grid.
      labels: one, some, or None for all, by ``'algorithms'``, ``'patterns'`` and ``'seeds'``.

    Returns:
      The columns with fewer rows, and what is so of them; columns of the grid with one value left
      are none any more.

    Raises:
      ValueError: naming what the run does not have.
    """
    found, chosen = dict(facts), np.ones(len(columns['round']) if columns else 0, bool)
    every = grids.points(facts['grid'], facts['grid_mode'])
    for field, some in labels.items():
        if some is not None:
            found[field] = _among(field, some, facts[field])
            if columns:
                chosen &= np.isin(columns[field.removesuffix('s')], found[field])
    for name, some in at.items():
        if name not in facts['grid']:
            raise errors.unknown_name('at', name, facts['grid'])
        left = _among(f'at.{name}', some, facts['grid'][name])
        every = [point for point in every if point[name] in left]
        if name in columns:
            chosen &= _is_among(columns[name], left)
    if not every:
        raise errors.invalid('at', 'leave a point of the grid', dict(at))
    kept = {name: [point[name] for point in every] for name in facts['grid']}
    kept = {name: column for name, column in kept.items() if len(set(map(repr, column))) > 1}
    if facts['grid_mode'] == 'cross':
        kept = {name: [v for v in facts['grid'][name] if v in kept[name]] for name in kept}
    found['grid'] = kept
    return {name: column[chosen] for name, column in columns.items()}, found


def _among(argument: str, some: Any, valid: Sequence[Any]) -> list[Any]:
    """One of the valid values, or some, as a list in the order of the valid ones."""
    some = some.tolist() if hasattr(some, 'tolist') else some
    wanted = list(some) if isinstance(some, list | tuple) and some not in valid else [some]
    for value in wanted:
        if value not in valid:
            if isinstance(value, str):
                raise errors.unknown_name(argument, value, map(str, valid))
            shown = ', '.join(map(str, valid))
            raise errors.invalid(argument, f'be among {shown}', errors.text_of(value))
    return [value for value in valid if value in wanted]


def _is_among(column: np.ndarray, values: Sequence[Any]) -> np.ndarray:
    """bool[rows], where a column has one of some values, or none at all."""
    wanted = [dataset.as_tuple(value) for value in values]
    there = [value in wanted for value in dataset.as_tuples(column).tolist()]
    return np.array(there, bool) | ~dataset.is_given(column)
