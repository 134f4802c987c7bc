"""Results in one labelled form, an ``xarray.Dataset``.

A series is an algorithm at one point of the grid. Every metric is a variable with the axes `DIMS`;
NaN where a run diverged (a model of NaN has an accuracy too) or nothing ran. Along ``series`` stand
``algorithm``, ``main_model`` (that papers evaluate), ``complete`` (whether every evaluation is
there) and every column of the grid, NaN for an algorithm without it; ``begun`` says which lanes
there are. Columns that are none of the grid, such as rates that tuning chose, stand along series
and patterns. xarray is imported where results are looked at, never by `Experiment.run`; a command
tries the pages of its config on zeros before it runs.

A netCDF file can hold all of it: attributes are numbers and texts, `attribute` reads those that are
JSON; names have no slash (``rounds.num_active``); coordinates are numbers or texts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, grids
from fedjax_links.results.metric import numbers_of

ALL = 'all'
"""Every candidate model."""
DIMS = ('series', 'model', 'pattern', 'seed', 'round')
TAKEN = {*DIMS, 'algorithm', 'begun', 'complete', 'main_model'}
"""What neither a metric nor a column of a grid can be called."""
MAIN, TUNING, TIE = 'main', 'tuning', 'tie'
Columns = Mapping[str, np.ndarray]


def label(algorithm: str, point: grids.Point) -> str:
    """An algorithm with the values that tell its series apart."""
    return f'{algorithm} ({describe_point(point)})' if point else algorithm


def describe_point(point: grids.Point) -> str:
    """Values with the last part of their names: ``learning_rate 0.1, cutoff 50``."""
    return ', '.join(
        f'{name.rsplit(".", 1)[-1]} {numbers_of(v)}' for name, v in point.items()
    )


def as_tuple(value: Any) -> Any:
    """A value with tuples for lists, which can be compared and grouped by."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


def as_tuples(column: np.ndarray) -> np.ndarray:
    """[K] of values, with vectors and lists as tuples."""
    if column.ndim == 1 and column.dtype != object:
        return column
    return as_objects([as_tuple(value) for value in column.tolist()])


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """[K] of anything."""
    return np.fromiter(values, object, len(values))


def as_coordinate(values: Iterable[Any]) -> np.ndarray:
    """Makes numbers, or texts, of values as a netCDF file can hold them.

    Args:
      values: numbers, NaN where there is none; or anything else: what is no text becomes JSON, a
        list ``'[0.1, 0.2]'``, and what is missing an empty text.
    """
    found = [value.tolist() if hasattr(value, 'tolist') else value for value in values]
    if all(isinstance(value, bool | int | float) for value in found):
        return np.array(found)
    return np.array([_as_text(value) for value in found])


def _as_text(value: Any) -> str:
    """A value as the text of a coordinate."""
    if isinstance(value, float) and value != value:
        return ''
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Writes what an attribute holds as JSON; objects as they call themselves."""
    return json.dumps(
        value, default=lambda a: a.tolist() if hasattr(a, 'tolist') else str(a)
    )


def attribute(found: Any, name: str) -> Any:
    """Reads an attribute of results that is a mapping, or None where it is missing.

    Args:
      found: results in this form, also read back from a file.
      name: of the attribute.
    """
    value = found.attrs.get(name)
    return json.loads(value) if isinstance(value, str) else value


def is_given(column: np.ndarray) -> np.ndarray:
    """bool[rows], where a column has a value: neither None nor NaN."""
    if column.dtype != object:
        return np.asarray(column == column)
    return np.fromiter(
        (v is not None and v == v for v in column.tolist()), bool, len(column)
    )


def main_model(models: Iterable[str]) -> str:
    """The model that the papers evaluate: the clients' mean where clients keep models."""
    models = sorted(models, key=lambda model: model != 'server')
    return 'client_mean' if 'client_mean' in models else models[0]


def in_order(models: Mapping[str, Iterable[str]]) -> list[str]:
    """All candidate models, the server's first."""
    every = dict.fromkeys(model for own in models.values() for model in own)
    return sorted(every, key=lambda model: model != 'server')


def tail(values: np.ndarray, share: float) -> np.ndarray:
    """float[...], means over the last share of the evaluations, at least one.

    Args:
      values: float[..., E].
      share: in [0, 1].
    """
    means: np.ndarray = values[..., -num_last(values.shape[-1], share) :].mean(axis=-1)
    return means


def num_last(count: int, share: float) -> int:
    """A share of evaluations as their number, at least one."""
    return max(1, round(share * count))


def check_name(argument: str, names: Iterable[str]) -> None:
    """Raises for what would be called like an axis of the results.

    Args:
      argument: what they are, for errors.
      names: of metrics or of columns of a grid.

    Raises:
      ValueError: naming the first.
    """
    for name in names:
        if name in TAKEN:
            requirement = f'have a name of its own beside {", ".join(sorted(TAKEN))}'
            raise errors.invalid(argument, requirement, name)


def curves(
    found: Any, model: str | None = None
) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Evaluations float[S, E] of the metric, by pattern, label and candidate model.

    Args:
      found: results in this form.
      model: a candidate model, `ALL`, or None for the one that the papers evaluate.

    Raises:
      ValueError: for a model that a series lacks.
    """
    every: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    values, begun = found[found.attrs['metric']].values, found['begun'].values
    models, mains = found['model'].values.tolist(), found['main_model'].values.tolist()
    for place, pattern in enumerate(found['pattern'].values.tolist()):
        for k, label in enumerate(found['series'].values.tolist()):
            lanes = [(m, name, begun[k, m, place]) for m, name in enumerate(models)]
            own = {
                name: values[k, m, place, seeds]
                for m, name, seeds in lanes
                if seeds.any()
            }
            if own and model != ALL:
                wanted = mains[k] if model is None else model
                checks.choice('model', wanted, [*own, ALL])
                own = {wanted: own[wanted]}
            if own:
                every.setdefault(pattern, {})[label] = own
    return every


def points(found: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """By label of a series, its algorithm and its point."""
    members, given = attribute(found, 'members'), {}
    for name in found['series'].values.tolist():
        algorithm, point = members[name]
        given[name] = (
            algorithm,
            {column: as_tuple(value) for column, value in point.items()},
        )
    return given


def counterpart(
    members: Mapping[str, tuple[str, grids.Point]], name: str, algorithm: str
) -> str | None:
    """The series of an algorithm at the point of another one, in the columns that both have.

    Args:
      members: all series, see `points`.
      name: of the other one.
      algorithm: whose series is wanted.

    Returns:
      Its label, that of the first where the other one lacks a column; None for none.
    """
    (_, point), every = members[name], members.items()
    there = (
        k for k, (owner, at) in every if owner == algorithm and grids.agree(point, at)
    )
    return next(there, None)


def names(found: Any) -> dict[str, str]:
    """What to show in place of labels of patterns, algorithms and series."""
    given: dict[str, str] = attribute(found, 'names')
    shown: dict[str, str] = {}
    for name, (algorithm, point) in points(found).items():
        shown[name] = label(given.get(algorithm, algorithm), point)
        shown[algorithm] = given.get(algorithm, algorithm)
    shown |= {name: given.get(name, name) for name in found['pattern'].values.tolist()}
    return {**shown, **given}
