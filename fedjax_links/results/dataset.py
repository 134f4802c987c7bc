"""Results in one labelled form, an ``xarray.Dataset``.

A series is an algorithm at one point of the grid. Every metric is a variable with the axes `DIMS`;
NaN where a run diverged (a model of NaN has an accuracy too) or nothing ran. Along ``series`` stand
``algorithm``, ``main_model`` (that papers evaluate), ``complete`` (whether every evaluation is
there) and every column of the grid, NaN for an algorithm without it; ``begun`` says which lanes
there are. Columns that are none of the grid, such as rates that tuning chose, stand along series
and patterns. xarray is imported where results are looked at, never when a run starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links.core import checks, errors, grids
from fedjax_links.results.metric import numbers_of

ALL = 'all'
"""Every candidate model."""
DIMS = ('series', 'model', 'pattern', 'seed', 'round')
TAKEN = {*DIMS, 'algorithm', 'begun', 'complete', 'main_model'}
"""What neither a metric nor a column of a grid can be called."""
MAIN, TUNING = 'main', 'tuning'
_OF_A_LINE = ('stage', 'algorithm', 'pattern', 'seed', 'round', 'finite', 'first_bad_round')
_USUAL = (
    *('eval_accuracy', 'accuracy', 'train_accuracy'),
    *('eval_loss', 'loss', 'train_loss', 'distance'),
)

Columns = Mapping[str, np.ndarray]


class Series(NamedTuple):
    """An algorithm at one point of the grid.

    Attributes:
      label: what it is called in the results; the algorithm's where the grid has no column of it.
      algorithm: its label.
      point: values by column.
      values: float[P, S, E] by model and metric, or of fewer seeds.
      evaluated: bool[P, S, E], what ran; None for all.
      complete: whether every evaluation is there.
      chosen: [P] by column that is none of the grid, its value under each pattern.
      more: float[P, S, E] by column that belongs to no model, such as ``rounds/num_active``.
    """

    label: str
    algorithm: str
    point: grids.Point
    values: Mapping[str, Mapping[str, np.ndarray]]
    evaluated: np.ndarray | None = None
    complete: bool = True
    chosen: Mapping[str, np.ndarray] = {}
    more: Mapping[str, np.ndarray] = {}


def label(algorithm: str, point: grids.Point) -> str:
    """An algorithm with the values that tell its series apart."""
    return f'{algorithm} ({described(point)})' if point else algorithm


def described(point: grids.Point) -> str:
    """Values with the last part of their names: ``learning_rate 0.1, cutoff 50``."""
    return ', '.join(f'{name.rsplit(".", 1)[-1]} {numbers_of(v)}' for name, v in point.items())


def as_tuple(value: Any) -> Any:
    """A value with tuples for lists, which can be compared and grouped by."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


def as_tuples(column: np.ndarray) -> np.ndarray:
    """[K] of values, with vectors and lists as tuples."""
    if column.ndim == 1 and column.dtype != object:
        return column
    return np.fromiter((as_tuple(value) for value in column.tolist()), object, len(column))


def is_given(column: np.ndarray) -> np.ndarray:
    """bool[rows], where a column has a value: neither None nor NaN."""
    if column.dtype != object:
        return np.asarray(column == column)
    return np.fromiter((v is not None and v == v for v in column.tolist()), bool, len(column))


def main_model(models: Iterable[str]) -> str:
    """The model that the papers evaluate: the clients' mean where clients keep models."""
    models = list(models)
    return 'client_mean' if 'client_mean' in models else models[0]


def tail(values: np.ndarray, share: float) -> np.ndarray:
    """float[...], means over the last share of the evaluations, at least one.

    Args:
      values: float[..., E].
      share: in [0, 1].
    """
    found: np.ndarray = values[..., -num_last(values.shape[-1], share) :].mean(axis=-1)
    return found


def num_last(count: int, share: float) -> int:
    """A share of evaluations as their number, at least one."""
    return max(1, round(share * count))


def rounds_of(facts: Mapping[str, Any]) -> np.ndarray:
    """int[E], rounds completed at each evaluation; of a forked run, those after the fork."""
    period, origin = facts['eval_every'], facts.get('at_round', 0)
    first = origin if facts.get('evaluate_start') and not origin else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


# Of the lines of a run.


def read(columns: Columns, facts: Mapping[str, Any], stage: str = MAIN) -> list[Series]:
    """The series of a run, as far as they have begun.

    Args:
      columns: `runs.Results.columns`.
      facts: of the run.
      stage: `MAIN`, or `TUNING`, whose points have the columns that are tuned too.

    Returns:
      In the order of algorithms and of the grid.
    """
    rows, patterns, seeds, rounds = _axes(columns, facts, stage)
    expected = len(rounds_of(facts)) if stage == MAIN and 'num_rounds' in facts else len(rounds)
    found = []
    for algorithm in facts['algorithms']:
        if not rows or not (chosen := rows['algorithm'] == algorithm).any():
            continue
        own = _where(rows, chosen)
        points = _points(own, facts, stage)
        place = {key: k for k, key in enumerate(map(_key, points))}
        columns_ = [own[name].tolist() for name in points[0]]
        keys = map(_key_of, zip(*columns_, strict=True)) if columns_ else [()] * len(own['round'])
        at = (
            np.array([place[key] for key in keys], int),
            _places(own['pattern'], patterns),
            _places(own['seed'], seeds),
            np.searchsorted(rounds, own['round']),
        )
        shape = len(points), len(patterns), len(seeds), len(rounds)
        evaluated = np.zeros(shape, bool)
        evaluated[at] = True
        finite = own.get('finite', np.ones(len(own['round']), bool)).astype(bool)

        models = sorted(facts['models'][algorithm], key=lambda model: model != 'server')
        paths = [(model, metric) for model in models for metric in facts['directions']]
        filled = {path: _fill(shape, at, own['/'.join(path)], finite) for path in paths}
        known = {*_OF_A_LINE, *points[0], *map('/'.join, paths)}
        others, more = {}, {}
        for name in [name for name in own if name not in known and is_given(own[name]).any()]:
            if '/' in name:
                more[name] = _fill(shape, at, own[name], finite)
            else:
                kind = np.float64 if own[name].dtype.kind in 'fi' else object
                others[name] = np.full(shape[:2], np.nan, kind)
                others[name][at[:2]] = as_tuples(own[name])
        for k, point in enumerate(points):
            values: dict[str, dict[str, np.ndarray]] = {model: {} for model in models}
            for model, metric in paths:
                values[model][metric] = filled[model, metric][k]
            found.append(
                Series(
                    label(algorithm, point),
                    algorithm,
                    point,
                    values,
                    evaluated[k],
                    int(evaluated[k].sum()) == shape[1] * shape[2] * expected,
                    {name: column[k] for name, column in others.items()},
                    {name: column[k] for name, column in more.items()},
                )
            )
    return found


def _fill(shape: Any, at: Any, column: np.ndarray, finite: np.ndarray) -> np.ndarray:
    filled = np.full(shape, np.nan)
    filled[at] = np.where(finite, column.astype(np.float64), np.nan)
    return filled


def of_run(columns: Columns, facts: Mapping[str, Any], stage: str = MAIN) -> Any:
    """The evaluations of a run, or of its tuning, as an ``xarray.Dataset``."""
    _, patterns, seeds, rounds = _axes(columns, facts, stage)
    return build(
        read(columns, facts, stage),
        patterns=patterns,
        seeds=seeds,
        rounds=rounds,
        metrics=facts['directions'],
        metric=facts['metric'],
        baseline=facts['baseline'],
        directions=dict(facts['directions']),
        names=dict(facts['names']),
    )


def _axes(
    columns: Columns, facts: Mapping[str, Any], stage: str
) -> tuple[dict[str, np.ndarray], list[str], list[int], np.ndarray]:
    """The rows of a stage, its patterns, seeds and rounds."""
    if not columns:
        return {}, list(facts['patterns']), list(facts['seeds']), np.zeros(0, int)
    rows = _where(columns, columns['stage'] == stage)
    patterns, seeds = list(facts['patterns']), list(facts['seeds'])
    if stage == TUNING:
        patterns = [label for label in patterns if label in rows['pattern']]
        seeds = np.unique(rows['seed']).tolist()
    return rows, patterns, seeds, np.unique(rows['round'])


def _where(columns: Columns, chosen: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[chosen] for name, column in columns.items()}


def _points(rows: Columns, facts: Mapping[str, Any], stage: str) -> list[dict[str, Any]]:
    """The points of the grid, as far as some rows have its columns."""
    own = [name for name in facts['grid'] if name in rows and is_given(rows[name]).any()]
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), own)
    if stage == TUNING:
        tuned = facts['tuning']['grid']
        more = [n for n in tuned if n not in own and n in rows and is_given(rows[n]).any()]
        tries = grids.points({name: tuned[name] for name in more}, 'cross')
        points = [{**point, **at} for point in points for at in tries]
    return points


def _key(point: grids.Point) -> tuple[Any, ...]:
    return _key_of(point.values())


def _key_of(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(as_tuple, values))


def _places(column: np.ndarray, labels: Sequence[Any]) -> np.ndarray:
    place = {value: k for k, value in enumerate(labels)}
    return np.array([place[value] for value in column.tolist()], int)


# The form itself.


def build(
    entries: Sequence[Series],
    *,
    patterns: Sequence[str],
    seeds: Sequence[Any],
    rounds: Any,
    metrics: Iterable[str],
    **attrs: Any,
) -> Any:
    """An ``xarray.Dataset`` of series.

    Args:
      entries: the series.
      patterns: P labels.
      seeds: S of them.
      rounds: [E], rounds completed at each evaluation.
      metrics: names of the variables.
      **attrs: what else is known: ``metric``, ``baseline``, ``names`` to show.
    """
    import xarray

    check_name('metric', metrics)
    found = dict.fromkeys(model for entry in entries for model in entry.values)
    models = sorted(found, key=lambda model: model != 'server')
    shape = len(entries), len(models), len(patterns), len(seeds), len(rounds)
    variables = {metric: np.full(shape, np.nan) for metric in metrics}
    begun = np.zeros(shape[:-1], bool)
    for k, entry in enumerate(entries):
        for model, named in entry.values.items():
            for metric, values in named.items():
                place = k, models.index(model), slice(None), slice(values.shape[1])
                variables[metric][place] = values
                ran = True if entry.evaluated is None else entry.evaluated.any(axis=(1, 2))
                begun[place] = np.reshape(ran, (-1, 1))
    coords: dict[str, Any] = {
        'series': [entry.label for entry in entries],
        'model': models,
        'pattern': list(patterns),
        'seed': list(seeds),
        'round': rounds,
        'algorithm': ('series', [entry.algorithm for entry in entries]),
        'main_model': ('series', [main_model(entry.values) for entry in entries]),
        'complete': ('series', np.array([entry.complete for entry in entries], bool)),
        'begun': (DIMS[:-1], begun),
    }
    columns = list(dict.fromkeys(name for entry in entries for name in entry.point))
    for name in columns:
        column = _column([as_tuple(entry.point.get(name, np.nan)) for entry in entries])
        coords[name] = 'series', column
    for name in dict.fromkeys(name for entry in entries for name in entry.chosen):
        none = np.full(len(patterns), np.nan)
        column = np.stack([entry.chosen.get(name, none) for entry in entries])
        coords[name] = ('series', 'pattern'), column
    data: dict[str, Any] = {name: (DIMS, values) for name, values in variables.items()}
    blank = np.full(shape[2:], np.nan)
    for name in dict.fromkeys(name for entry in entries for name in entry.more):
        every = np.stack([entry.more.get(name, blank) for entry in entries])
        data[name] = (DIMS[0], *DIMS[2:]), every
    return xarray.Dataset(data, coords, {**attrs, 'columns': columns})


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


def _column(values: list[Any]) -> np.ndarray:
    """Numbers as numbers, all else as objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        return np.array(values)
    return np.fromiter(values, object, len(values))


# Of simulations and arrays.


def of_simulation(
    result: Any,
    name: str = 'simulation',
    *,
    seeds: Iterable[int] | None = None,
    grid: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """A simulation, or a sweep: one series per point.

    Args:
      result: a `simulation.SimulationResult` of one lane, of seeds [S] or of a sweep [G, S].
      name: what its series are called.
      seeds: the S seeds; 0, 1, ... by default.
      grid: columns of G values by maker and name, as `sweeps.sweep` takes them.

    Returns:
      Metrics in the axes of `DIMS`, those of several entries with more behind them; ``num_active``
      of every round and its like, ``rounds/...``, along ``series``, ``seed`` and ``each_round``.

    Raises:
      ValueError: for seeds or points of another number, or more axes of lanes.
    """
    seeds, columns = lanes(np.shape(result.state.round), seeds, grid)
    entries, wide = _lanes_as_series(result, name)
    ends, every = when(result)
    metrics = list(dict.fromkeys(m for named in entries[0].values.values() for m in named))
    found = build(
        entries,
        patterns=[''],
        seeds=seeds,
        rounds=ends,
        metrics=metrics,
        metric=_usual(metrics),
        baseline=None,
        directions={},
        names={},
    ).assign_coords(each_round=every)
    for path, values in wide.items():
        axis = 'each_round' if path.startswith('rounds/') else 'round'
        more = [f'{path}_axis{k}' for k in range(values.ndim - 3)]
        found[path] = ('series', 'seed', axis, *more), values
    for column, given in columns.items():
        more = [f'{column}_axis{k}' for k in range(given.ndim - 1)]
        found = found.assign_coords({column: (('series', *more), given)})
    return found


def _lanes_as_series(result: Any, name: str) -> tuple[list[Series], dict[str, np.ndarray]]:
    """A series for each point; by path, what has other axes: [G, S, E or T, ...]."""
    shape, (ends, _) = np.shape(result.state.round), when(result)
    num_points, num_seeds = shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1
    bad = np.asarray(result.state.first_bad_round).reshape(num_points, num_seeds, 1)
    finite = (bad < 0) | (ends <= bad)
    every = {
        (model, path): leaf.reshape(num_points, num_seeds, *leaf.shape[len(shape) :])
        for model, measured in [*result.evals.items(), ('rounds', result.rounds)]
        for path, leaf in leaves(measured).items()
    }
    wide = {f'{k}/{v}': a for (k, v), a in every.items() if k == 'rounds' or a.ndim > 3}
    entries = []
    for place in range(num_points):
        point = {'point': place} if num_points > 1 else {}
        values: dict[str, dict[str, np.ndarray]] = {}
        for (model, metric), own in every.items():
            if f'{model}/{metric}' not in wide:
                lane = np.where(finite[place], own[place].astype(np.float64), np.nan)
                values.setdefault(model, {})[metric] = lane[None]
        entries.append(Series(label(name, point), name, point, values))
    return entries, wide


def _usual(metrics: Sequence[str]) -> str:
    return next((name for name in _USUAL if name in metrics), next(iter(metrics), ''))


def when(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rounds completed at each evaluation of a simulation, and at each round."""
    last = int(np.ravel(np.asarray(result.state.round))[0])
    length = np.shape(result.rounds.num_active)[-1]
    every = last - length + np.arange(1, length + 1)
    measured = jax.tree.leaves(result.evals)
    count = int(measured[0].shape[np.ndim(result.state.round)]) if measured else 0
    return every[length // count - 1 :: length // count] if count else every[:0], every


def lanes(
    shape: Sequence[int],
    seeds: Iterable[int] | None,
    grid: Mapping[str, Mapping[str, Any]] | None,
) -> tuple[list[int], dict[str, np.ndarray]]:
    """Seeds and columns of a result.

    Args:
      shape: of its lanes: [], [S] or [G, S].
      seeds: the S seeds; their places by default.
      grid: columns of G values by maker and name.

    Returns:
      The seeds, and the columns by dotted name.

    Raises:
      ValueError: for more axes, or another number of seeds or points.
    """
    if len(shape) > 2:
        requirement = 'have no leading axes beside points and seeds'
        raise errors.invalid('result', requirement, f'shape {list(shape)}')
    num_seeds, num_points = shape[-1] if shape else 1, shape[0] if len(shape) == 2 else 0
    given = list(range(num_seeds)) if seeds is None else list(seeds)
    if len(given) != num_seeds:
        raise errors.invalid('seeds', f'have {num_seeds} entries', len(given))
    columns = {}
    for maker, named in (grid or {}).items():
        for name, values in named.items():
            columns[f'{maker}.{name}'] = np.asarray(values)
            if len(columns[f'{maker}.{name}']) != num_points:
                requirement = f'have {num_points} points'
                raise errors.invalid('grid', requirement, f'{len(values)} of {name!r}')
    return given, columns


def leaves(measured: Any) -> dict[str, np.ndarray]:
    """The leaves of nested results by path: ``server/loss``; ``value`` for a bare one."""
    found = jax.tree_util.tree_leaves_with_path(measured)
    return {
        jax.tree_util.keystr(path, simple=True, separator='/') or 'value': np.asarray(leaf)
        for path, leaf in found
    }


def of(data: Any, metric: str | None = None, rounds: Any = None) -> Any:
    """Any results as an ``xarray.Dataset`` whose ``metric`` is the one to show.

    Args:
      data: `runs.Results`; such a data set, or a part of one; a `SimulationResult` of one lane, of
        seeds [S] or of a sweep [G, S]; an array float[E] or float[S, E]; or a mapping from labels
        to the latter two, or to such arrays by candidate model.
      metric: which of the recorded metrics; that of the run, or a usual one, by default.
      rounds: float[E], for arrays; 1, 2, ... by default.

    Raises:
      ValueError: naming what is unknown, or of the wrong shape.
    """
    found = getattr(data, 'dataset', data)
    if not hasattr(found, 'data_vars'):
        found = _of_entries(found if isinstance(found, Mapping) else {'simulation': found}, metric)
        if rounds is not None:
            if np.shape(rounds) != found['round'].shape:
                shape = f'shape {np.shape(rounds)}'
                raise errors.invalid('rounds', f'have {found.sizes["round"]} entries', shape)
            found = found.assign_coords(round=np.asarray(rounds, float))
    if not found.sizes['series']:
        raise errors.invalid('data', 'hold at least one evaluation', getattr(data, 'folder', None))
    metric = found.attrs['metric'] if metric is None else metric
    checks.choice('metric', metric, [name for name, v in found.items() if v.dims == DIMS])
    return found.assign_attrs(metric=metric)


def _of_entries(data: Mapping[str, Any], metric: str | None) -> Any:
    """Simulations and arrays, by label."""
    if not data:
        raise errors.invalid('data', 'hold at least one label', data)
    entries: list[Series] = []
    recorded: list[str] = []
    rounds = None
    for name, entry in data.items():
        if hasattr(entry, 'evals'):
            if not entry.evals:
                requirement = 'have evaluations (`eval_every`)'
                raise errors.invalid('data', requirement, 'a result without any')
            entries += (own := _lanes_as_series(entry, str(name))[0])
            recorded += [m for m in next(iter(own[0].values.values())) if m not in recorded]
            rounds = when(entry)[0] if rounds is None else rounds
    metric = _usual(recorded) if metric is None else metric
    if recorded:
        checks.choice('metric', metric, recorded)
    for name, entry in data.items():
        if not hasattr(entry, 'evals'):
            given = entry if isinstance(entry, Mapping) else {'server': entry}
            values = {model: {metric: _seeds(str(name), array)} for model, array in given.items()}
            entries.append(Series(str(name), str(name), {}, values))
    order = {str(name): place for place, name in enumerate(data)}
    entries.sort(key=lambda entry: order[entry.algorithm])
    shapes = {
        entry.label: next(iter(next(iter(entry.values.values())).values())).shape
        for entry in entries
    }
    lengths = {name: shape[-1] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        raise errors.invalid('data', 'have as many evaluations for every label', lengths)
    count = next(iter(lengths.values()))
    return build(
        entries,
        patterns=[''],
        seeds=range(max(shape[1] for shape in shapes.values())),
        rounds=np.arange(1.0, count + 1) if rounds is None else rounds,
        metrics=recorded or [metric],
        metric=metric,
        baseline=None,
        directions={},
        names={},
    )


def _seeds(name: str, values: Any) -> np.ndarray:
    """float[1, S, E]."""
    array = checks.numbers('data', values).astype(np.float64)
    if array.ndim not in (1, 2) or not array.size:
        requirement = 'be of shape [E] or [S, E], seeds by evaluations'
        raise errors.invalid('data', requirement, f'shape {list(array.shape)} for {name!r}')
    return np.atleast_2d(array)[None]


# Parts of it.


def over_grid(
    found: Any, algorithm: str, axes: Mapping[str, Sequence[Any]], values: np.ndarray
) -> np.ndarray:
    """What series have as a table over columns of the grid.

    Args:
      found: in this form.
      algorithm: whose series.
      axes: values by column; one that the algorithm does not know repeats.
      values: [L, ...] by series.

    Returns:
      [*axes, ...], NaN where there is no such series.
    """
    table = np.full([*map(len, axes.values()), *values.shape[1:]], np.nan)
    for place, (owner, point) in enumerate(points(found).values()):
        if owner == algorithm and all(point.get(name, v[0]) in v for name, v in axes.items()):
            at = (v.index(point[n]) if n in point else slice(None) for n, v in axes.items())
            table[tuple(at)] = values[place]
    return table


def curves(found: Any, pattern: str, model: str | None = None) -> dict[str, dict[str, np.ndarray]]:
    """Evaluations float[S, E] of the metric under a pattern, by label and candidate model.

    Args:
      found: from `of`.
      pattern: its label.
      model: a candidate model, `ALL`, or None for the one that the papers evaluate.

    Raises:
      ValueError: for a model that a series lacks.
    """
    metric, part = found.attrs['metric'], found.sel(pattern=pattern)
    values, begun, models = part[metric].values, part['begun'].values, found['model'].values
    result: dict[str, dict[str, np.ndarray]] = {}
    for place, name in enumerate(found['series'].values.tolist()):
        own = {
            kind: values[place, k][begun[place, k]]
            for k, kind in enumerate(models.tolist())
            if begun[place, k].any()
        }
        if own and model != ALL:
            wanted = main_model(own) if model is None else model
            checks.choice('model', wanted, [*own, ALL])
            own = {wanted: own[wanted]}
        if own:
            result[name] = own
    return result


def points(found: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """By label of a series, its algorithm and its point."""
    columns = {name: found[name].values for name in found.attrs['columns']}
    given = {name: is_given(column) for name, column in columns.items()}
    return {
        name: (
            algorithm,
            {k: column[[place]].tolist()[0] for k, column in columns.items() if given[k][place]},
        )
        for place, (name, algorithm) in enumerate(
            zip(found['series'].values.tolist(), found['algorithm'].values.tolist(), strict=True)
        )
    }


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
    _, point = members[name]
    for other, (owner, at) in members.items():
        if owner == algorithm and all(point.get(k, v) == v for k, v in at.items()):
            return other
    return None


def names(found: Any) -> dict[str, str]:
    """What to show in place of labels of patterns, algorithms and series."""
    given, shown = found.attrs['names'], {}
    for name, (algorithm, point) in points(found).items():
        shown[name] = label(given.get(algorithm, algorithm), point)
        shown[algorithm] = given.get(algorithm, algorithm)
    shown |= {name: given.get(name, name) for name in found['pattern'].values.tolist()}
    return {**shown, **given}
