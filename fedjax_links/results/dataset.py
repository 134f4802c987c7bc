"""Results in one labelled form, an ``xarray.Dataset``.

A series is an algorithm at one point of the grid. A lane is one simulation: a series under a
pattern, with a seed. Each metric is a variable with the axes `DIMS`. Its values are NaN where
nothing ran, and where a lane diverged (a model of NaN has an accuracy too).

Coordinates along ``series`` are ``algorithm``, ``main_model`` (the one that papers evaluate),
``complete`` (whether all evaluations are there) and the columns of the grid. A column is NaN for an
algorithm that does not take the column. A pattern that does not take the column has the same
numbers at all values of the column. ``started`` marks the lanes of series that have started. If
seeds were added until comparisons were decided, ``started`` marks only the lanes that ran. Other
columns, such as rates that tuning chose, are coordinates along series and patterns.

xarray is imported where results are read, never by `Experiment.run`.

A netCDF file can hold all of it. So attributes are numbers or texts, some of them JSON that
`read_attribute` reads; coordinates are numbers or texts; and no name has a slash
(``rounds.num_active``).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fedjax_links.core import checks, errors, grids
from fedjax_links.core.grids import Point
from fedjax_links.results.metric import format_value

ALL = 'all'
"""Every candidate model."""
DIMS = ('series', 'model', 'pattern', 'seed', 'round')
RESERVED_NAMES = {*DIMS, 'algorithm', 'started', 'complete', 'main_model'}
"""What neither a metric nor a column of a grid can be called."""
LINE_COLUMNS = (
    'stage',
    'algorithm',
    'pattern',
    'seed',
    'round',
    'finite',
    'first_bad_round',
)
"""Fields of each line of a run's metrics, besides columns of the grid and metrics."""
MAIN = 'main'
TUNING = 'tuning'
TIE = 'tie'
"""Stages of a run. Ties are values that tuning could not tell from the best: they run again."""

Columns = Mapping[str, np.ndarray]
LabelledResults: TypeAlias = Any
"""An ``xarray.Dataset`` in the form of this module; xarray is not loaded for the name of a type."""
Members = Mapping[str, tuple[str, Point]]
"""By label of a series, its algorithm and its point of the grid."""
Curves = dict[str, dict[str, np.ndarray]]
"""Evaluations float[S, E] by label of a series and candidate model."""


def label(algorithm: str, point: Point) -> str:
    """Names a series: its algorithm, with the values of its point."""
    return f'{algorithm} ({describe_point(point)})' if point else algorithm


def labels(members: Sequence[tuple[str, Point]]) -> list[str]:
    """Names series: values have all digits if six digits do not tell the series apart."""
    short = [label(*member) for member in members]
    if len(set(short)) == len(short):
        return short
    names = []
    for algorithm, point in members:
        exact_point = {name: repr(value) for name, value in point.items()}
        names.append(label(algorithm, exact_point))
    return names


def describe_point(point: Point) -> str:
    """Writes values with the last part of their names: ``learning_rate 0.1, cutoff 50``."""
    return ', '.join(
        f'{name.rsplit(".", 1)[-1]} {format_value(value)}'
        for name, value in point.items()
    )


def as_tuple(value: Any) -> Any:
    """Returns a value with tuples for lists: tuples can be compared and grouped by."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


def as_tuples(column: np.ndarray) -> np.ndarray:
    """Returns a column [K] of values, with vectors and lists as tuples."""
    if column.ndim == 1 and column.dtype != object:
        return column
    return as_objects([as_tuple(value) for value in column.tolist()])


def as_objects(values: Sequence[object]) -> np.ndarray:
    """Returns object[K], one entry per value, whatever the values are."""
    return np.fromiter(values, object, len(values))


def as_coordinate(values: Iterable[object]) -> np.ndarray:
    """Converts values to numbers or texts, as a netCDF file can hold them.

    Args:
      values: numbers, with NaN for a missing one; or other values. Of other values, a text stays,
        and a missing value becomes an empty text. Anything else becomes JSON: a list becomes
        ``'[0.1, 0.2]'``.
    """
    plain = [value.tolist() if hasattr(value, 'tolist') else value for value in values]
    if all(isinstance(value, bool | int | float) for value in plain):
        return np.array(plain)
    return np.array([_as_text(value) for value in plain])


def _as_text(value: object) -> str:
    """Writes a value as the text of a coordinate."""
    if isinstance(value, float) and value != value:
        return ''
    return value if isinstance(value, str) else as_json(value)


def as_json(value: object) -> str:
    """Writes the value of an attribute as JSON; arrays as lists, other objects as their text."""
    return json.dumps(value, default=_plain_value)


def _plain_value(value: Any) -> Any:
    """Returns an array as a list, another object as its text."""
    return value.tolist() if hasattr(value, 'tolist') else str(value)


def read_attribute(results: LabelledResults, name: str) -> Any:
    """Reads an attribute that is a mapping, or None if it is missing.

    Args:
      results: results in the form of this module, also if they were read from a file.
      name: the name of the attribute.
    """
    value = results.attrs.get(name)
    return json.loads(value) if isinstance(value, str) else value


def has_value(column: np.ndarray) -> np.ndarray:
    """Returns bool[rows], where a column has a value: neither None nor NaN."""
    if column.dtype != object:
        return np.asarray(column == column)
    present = [value is not None and value == value for value in column.tolist()]
    return np.array(present, bool)


def main_model(models: Iterable[str]) -> str:
    """Returns the model that papers evaluate: the clients' mean where clients keep models."""
    models = _server_first(models)
    return 'client_mean' if 'client_mean' in models else models[0]


def all_models(models_of: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns the candidate models of all algorithms, the server's first."""
    names: dict[str, None] = {}
    for models in models_of.values():
        names |= dict.fromkeys(models)
    return _server_first(names)


def _server_first(models: Iterable[str]) -> list[str]:
    """Sorts candidate models so that the server's comes first."""
    return sorted(models, key=lambda model: model != 'server')


def tail(values: np.ndarray, fraction: float) -> np.ndarray:
    """Averages the last evaluations, at least one: float[...].

    Args:
      values: float[..., E].
      fraction: of the evaluations, in [0, 1].
    """
    count = num_last(values.shape[-1], fraction)
    means: np.ndarray = values[..., -count:].mean(axis=-1)
    return means


def num_last(count: int, fraction: float) -> int:
    """Converts a fraction of the evaluations into a number of evaluations, at least one."""
    return max(1, round(fraction * count))


def check_name(argument: str, names: Iterable[str], others: Iterable[str] = ()) -> None:
    """Checks that no name is one that the results use themselves.

    Args:
      argument: the argument that holds the names, for errors.
      names: names of metrics, or of columns of a grid.
      others: further names that are taken.

    Raises:
      ValueError: for the first name that is taken.
    """
    reserved = {*RESERVED_NAMES, *others}
    for name in names:
        if name in reserved:
            requirement = f'be none of {", ".join(sorted(reserved))}'
            raise errors.invalid(argument, requirement, name)


def curves(results: LabelledResults, model: str | None = None) -> dict[str, Curves]:
    """Returns the evaluations float[S, E] of the metric, by pattern, label and candidate model.

    Args:
      results: results in the form of this module.
      model: a candidate model, `ALL`, or None for the one that papers evaluate.

    Raises:
      ValueError: for a model that a series lacks.
    """
    values = results[results.attrs['metric']].values
    started = results['started'].values
    patterns = results['pattern'].values.tolist()
    labels = results['series'].values.tolist()
    main_models = results['main_model'].values.tolist()
    shows_all = isinstance(model, str) and model == ALL
    by_pattern: dict[str, Curves] = {}
    for pattern_index, pattern in enumerate(patterns):
        curves_of: Curves = {}
        for series_index, label in enumerate(labels):
            by_model: dict[str, np.ndarray] = {}
            for model_index, name in enumerate(results['model'].values.tolist()):
                cell = series_index, model_index, pattern_index
                has_started = started[cell]
                if has_started.any():
                    by_model[name] = values[cell][has_started]
            if not by_model:
                continue
            if not shows_all:
                shown = main_models[series_index] if model is None else model
                checks.choice('model', shown, [*by_model, ALL])
                by_model = {shown: by_model[shown]}
            curves_of[label] = by_model
        if curves_of:
            by_pattern[pattern] = curves_of
    return by_pattern


def points(results: LabelledResults) -> dict[str, tuple[str, Point]]:
    """Returns the algorithm and the point of each series, by its label."""
    recorded = read_attribute(results, 'members')
    members: dict[str, tuple[str, Point]] = {}
    for label in results['series'].values.tolist():
        algorithm, point = recorded[label]
        comparable = {column: as_tuple(value) for column, value in point.items()}
        members[label] = algorithm, comparable
    return members


def counterpart(members: Members, label: str, algorithm: str) -> str | None:
    """Finds an algorithm's series at the point of another series, in the columns that both have.

    Args:
      members: all series, see `points`.
      label: the label of the other series.
      algorithm: the algorithm whose series to find.

    Returns:
      The label of the first series with equal values in these columns; None if there is no such
      series. There may be several, if the other series lacks a column.
    """
    point = members[label][1]
    for candidate, (owner, other_point) in members.items():
        if owner == algorithm and grids.agree(point, other_point):
            return candidate
    return None


def check_names(names: object, labels: Iterable[str]) -> None:
    """Raises unless names to show are texts by label.

    Pictures share one mapping of names, so names of labels that are not shown are allowed. But a
    key that looks like a misspelt label, while that label has no name, is a mistake.
    """
    if not isinstance(names, Mapping):
        raise errors.invalid('names', 'be names by label', errors.text_of(names))
    known = list(dict.fromkeys(labels))
    unnamed = [label for label in known if label not in names]
    for label, name in names.items():
        checks.text('names', name)
        is_label = isinstance(label, str)
        if not is_label or any(_is_misspelt(label, shown) for shown in unnamed):
            checks.choice('names', label, known)


def _is_misspelt(label: str, expected: str) -> bool:
    """Returns whether two labels differ by exchanged letters, or by one letter too few or too many.

    Variants of an algorithm and points of a grid differ in one letter or in digits.
    """
    if list(filter(str.isdigit, label)) != list(filter(str.isdigit, expected)):
        return False
    if len(label) == len(expected):
        return label != expected and sorted(label) == sorted(expected)
    longer, shorter = sorted((label, expected), key=len, reverse=True)
    shortened = (longer[:i] + longer[i + 1 :] for i in range(len(longer)))
    return shorter in shortened


def all_labels(results: LabelledResults) -> list[str]:
    """Lists the labels that can have another name: of series, algorithms and patterns."""
    labels: dict[str, None] = {}
    for series, (algorithm, _) in points(results).items():
        labels |= dict.fromkeys([algorithm, series])
    labels |= dict.fromkeys(results['pattern'].values.tolist())
    return [label for label in labels if label]


def names(results: LabelledResults) -> dict[str, str]:
    """Returns what to show in place of labels of patterns, algorithms and series."""
    chosen: dict[str, str] = read_attribute(results, 'names')
    shown: dict[str, str] = {}
    for series, (algorithm, _) in points(results).items():
        algorithm_name = chosen.get(algorithm, algorithm)
        shown[series] = f'{algorithm_name}{series.removeprefix(algorithm)}'
        shown[algorithm] = algorithm_name
    for pattern in results['pattern'].values.tolist():
        shown[pattern] = chosen.get(pattern, pattern)
    return {**shown, **chosen}
