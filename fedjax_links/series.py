"""Evaluations of a run as arrays over patterns, seeds and rounds, for pictures and tables.

A series is an algorithm at one point of the grid; its label is the algorithm's where the grid has
no column of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import errors, grids

Rows = Mapping[str, np.ndarray]
Members = Mapping[str, tuple[str, grids.Point]]
"""By label of a series, its algorithm and its point."""


def where(columns: Rows, **labels: str) -> Rows:
    """The rows with some labels.

    Args:
      columns: of a run, as `runs.Results` has them; empty before its first evaluation.
      **labels: by column, such as ``stage='main', algorithm='fedavg'``.

    Returns:
      The same columns with fewer rows; none for none.
    """
    if not columns:
        return {}
    chosen = np.ones(len(columns['round']), bool)
    for name, label in labels.items():
        chosen &= columns[name] == label
    return {name: column[chosen] for name, column in columns.items()}


def at(rows: Rows, point: grids.Point) -> Rows:
    """The rows at a point of the grid; a lane that lacks a column belongs to all of its values.

    Args:
      rows: some rows of a run.
      point: values by column.
    """
    chosen = np.ones(num_rows(rows), bool)
    for name, value in point.items():
        chosen &= _lies_at(rows, name, [value])
    return {name: column[chosen] for name, column in rows.items()}


def part(
    columns: Rows, facts: Mapping[str, Any], at: grids.Point, labels: Mapping[str, Any]
) -> tuple[Rows, dict[str, Any]]:
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
    found, chosen = dict(facts), np.ones(num_rows(columns), bool)
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
        chosen &= _lies_at(columns, name, left)
    if not every:
        raise errors.invalid('at', 'leave a point of the grid', dict(at))
    kept = {name: [point[name] for point in every] for name in facts['grid']}
    kept = {name: column for name, column in kept.items() if len(set(map(repr, column))) > 1}
    if facts['grid_mode'] == 'cross':
        kept = {name: [v for v in facts['grid'][name] if v in kept[name]] for name in kept}
    found['grid'] = kept
    return {name: column[chosen] for name, column in columns.items()}, found


def points(rows: Rows, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of the grid, as far as the lanes of some rows have their columns.

    Args:
      rows: some rows of a run, such as those of an algorithm.
      facts: of the run.

    Returns:
      Each point once, in the order of the grid; none without rows.
    """
    if not num_rows(rows):
        return []
    own = [name for name in facts['grid'] if is_given(rows, name)]
    return grids.project(grids.points(facts['grid'], facts['grid_mode']), own)


def label(algorithm: str, point: grids.Point) -> str:
    """An algorithm with the values that tell its series apart."""
    return f'{algorithm} ({described(point)})' if point else algorithm


def described(point: grids.Point) -> str:
    """Values with the last part of their names: ``learning_rate 0.1, cutoff 50``."""
    return ', '.join(f'{name.rsplit(".", 1)[-1]} {_text(v)}' for name, v in point.items())


def counterpart(members: Members, label: str, algorithm: str) -> str | None:
    """The series of an algorithm at the point of another one, in the columns that both have.

    Args:
      members: all series.
      label: of the other one.
      algorithm: whose series is wanted.

    Returns:
      Its label, that of the first where the other one lacks a column; None for none.
    """
    _, point = members[label]
    for other, (owner, at) in members.items():
        if owner == algorithm and all(point.get(k, v) == v for k, v in at.items()):
            return other
    return None


def models(facts: Mapping[str, Any], algorithm: str) -> list[str]:
    """The candidate models of an algorithm, the server's first."""
    return sorted(facts['models'][algorithm], key=lambda model: model != 'server')


def array(
    rows: Rows,
    name: str,
    patterns: Sequence[str],
    seeds: Sequence[int],
    rounds: np.ndarray,
) -> np.ndarray:
    """float[P, S, E] of a column, ``<model>/<metric>``.

    Args:
      rows: of one series.
      name: the column.
      patterns: the P labels.
      seeds: S of them.
      rounds: int[E], ascending, every round of ``rows`` among them.

    Returns:
      The values; NaN where nothing was evaluated, and from where on a run is not finite: a model of
      NaN has an accuracy too.
    """
    found = np.full((len(patterns), len(seeds), len(rounds)), np.nan)
    place = (
        _places(rows['pattern'], patterns),
        _places(rows['seed'], seeds),
        np.searchsorted(rounds, rows['round']),
    )
    found[place] = np.where(finite(rows), rows[name].astype(np.float64), np.nan)
    return found


def finite(rows: Rows) -> np.ndarray:
    """bool[rows], whether the lane was finite then."""
    if 'finite' in rows:
        return rows['finite'].astype(bool)
    return np.ones(num_rows(rows), bool)


def is_given(rows: Rows, name: str) -> bool:
    """Whether a column has a value in any of the rows."""
    return name in rows and bool(_given(rows[name]).any())


def values(rows: Rows, name: str) -> list[Any]:
    """The values of a column, each once, ascending."""
    if not is_given(rows, name):
        return []
    return sorted({repr(v): v for v in rows[name][_given(rows[name])].tolist()}.values())


def num_rows(rows: Rows) -> int:
    """How many evaluations there are."""
    return len(rows['round']) if rows else 0


def _among(argument: str, some: Any, valid: Sequence[Any]) -> list[Any]:
    """One of the valid values, or some, as a list in the order of the valid ones."""
    some = some.tolist() if hasattr(some, 'tolist') else some
    wanted = list(some) if isinstance(some, list | tuple) and some not in valid else [some]
    for value in wanted:
        if value not in valid:
            if isinstance(value, str):
                raise errors.unknown_name(argument, value, map(str, valid))
            shown = ', '.join(map(str, valid))
            raise errors.invalid(argument, f'be among {shown}', errors.shown(value))
    return [value for value in valid if value in wanted]


def _lies_at(rows: Rows, name: str, values: Sequence[Any]) -> np.ndarray:
    """bool[rows], where a column has one of some values, or none at all."""
    if name not in rows:
        return np.ones(num_rows(rows), bool)
    column = rows[name]
    return np.any([~_given(column), *(_equal(column, value) for value in values)], axis=0)


def _equal(column: np.ndarray, value: Any) -> np.ndarray:
    """bool[rows], where a column has a value; it may be a text or a list."""
    if column.dtype != object and isinstance(value, int | float):
        return np.asarray(column == value)
    wanted = plain(value)
    return np.fromiter((v == wanted for v in column.tolist()), bool, len(column))


def plain(value: Any) -> Any:
    """A value of a grid as it reads in lines of metrics, which know no tuples."""
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


def _given(column: np.ndarray) -> np.ndarray:
    """bool[rows], where a column has a value: neither None nor NaN."""
    if column.dtype != object:
        return column == column
    return np.fromiter((v is not None and v == v for v in column.tolist()), bool, len(column))


def _places(column: np.ndarray, labels: Sequence[Any]) -> np.ndarray:
    place = {value: k for k, value in enumerate(labels)}
    return np.array([place[value] for value in column.tolist()], int)


def _text(value: Any) -> str:
    return f'{value:g}' if isinstance(value, float) else str(value)
