"""Results in one labelled form, an ``xarray.Dataset``.

A series is an algorithm at one point of the grid. Every metric is a variable with the axes `DIMS`;
NaN where a run diverged (a model of NaN has an accuracy too) or nothing ran. Along ``series`` stand
``algorithm``, ``main_model`` (that papers evaluate), ``complete`` (whether every evaluation is
there) and every column of the grid, NaN for an algorithm without it; ``begun`` says which lanes
there are. Columns that are none of the grid, such as rates that tuning chose, stand along series
and patterns. xarray is imported where results are looked at, never when a run starts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

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
    return as_objects([as_tuple(value) for value in column.tolist()])


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """[K] of anything."""
    return np.fromiter(values, object, len(values))


def is_given(column: np.ndarray) -> np.ndarray:
    """bool[rows], where a column has a value: neither None nor NaN."""
    if column.dtype != object:
        return np.asarray(column == column)
    return np.fromiter((v is not None and v == v for v in column.tolist()), bool, len(column))


def main_model(models: Iterable[str]) -> str:
    """The model that the papers evaluate: the clients' mean where clients keep models."""
    models = sorted(models, key=lambda model: model != 'server')
    return 'client_mean' if 'client_mean' in models else models[0]


def _in_order(models: Mapping[str, Iterable[str]]) -> list[str]:
    """All candidate models, the server's first."""
    every = dict.fromkeys(model for own in models.values() for model in own)
    return sorted(every, key=lambda model: model != 'server')


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


def rows_of(columns: Columns, facts: Mapping[str, Any], stage: str) -> Columns:
    """The rows of a stage of the algorithms that facts name; see `of_run`."""
    columns = columns or dict.fromkeys(_OF_A_LINE[:5], np.zeros(0, int))
    chosen = (columns['stage'] == stage) & np.isin(columns['algorithm'], facts['algorithms'])
    return {name: column[chosen] for name, column in columns.items()}


def members_of(
    rows: Columns, facts: Mapping[str, Any], stage: str
) -> tuple[list[tuple[str, grids.Point]], np.ndarray]:
    """The series that have begun.

    Args:
      rows: from `rows_of`.
      facts: of the run.
      stage: of the rows.

    Returns:
      An algorithm and its point each, in the order of algorithms and of the grid; and int[rows],
      the place of the series of every row.
    """
    members: list[tuple[str, grids.Point]] = []
    owner = np.zeros(len(rows['round']), int)
    for algorithm in facts['algorithms']:
        if (chosen := rows['algorithm'] == algorithm).any():
            own = {name: column[chosen] for name, column in rows.items()}
            points = _points(own, facts, stage)
            place = {as_tuple([*at.values()]): k for k, at in enumerate(points, len(members))}
            at = zip(own['round'], *(own[name].tolist() for name in points[0]), strict=True)
            owner[chosen] = [place[as_tuple([*values])] for _, *values in at]
            members += [(algorithm, point) for point in points]
    return members, owner


def _points(rows: Columns, facts: Mapping[str, Any], stage: str) -> list[dict[str, Any]]:
    """The points of the grid, as far as some rows have its columns."""

    def given(names: Iterable[str]) -> list[str]:
        return [name for name in names if name in rows and is_given(rows[name]).any()]

    own = given(facts['grid'])
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), own)
    if stage == TUNING:
        tuned = facts['tuning']['grid']
        more = [name for name in given(tuned) if name not in own]
        tries = grids.points({name: tuned[name] for name in more}, 'cross')
        points = [{**point, **at} for point in points for at in tries]
    return points


def of_run(columns: Columns, facts: Mapping[str, Any], stage: str = MAIN) -> Any:
    """The evaluations of a run, or of its tuning, as an ``xarray.Dataset``.

    Args:
      columns: `runs.Results.columns`.
      facts: of the run.
      stage: `MAIN`, or `TUNING`, whose points have the columns that are tuned too.
    """
    rows = rows_of(columns, facts, stage)
    members, owner = members_of(rows, facts, stage)
    patterns, seeds, rounds = [*facts['patterns']], [*facts['seeds']], np.unique(rows['round'])
    if stage == TUNING:
        patterns = [label for label in patterns if label in rows['pattern']]
        seeds = np.unique(rows['seed']).tolist()
    places = [
        np.array([labels.index(label) for label in rows[name].tolist()], int)
        for name, labels in (('pattern', patterns), ('seed', seeds))
    ]
    at = (owner, *places, np.searchsorted(rounds, rows['round']))
    shape = len(members), len(patterns), len(seeds), len(rounds)
    finite = np.asarray(rows.get('finite', True), bool)

    def fill(name: str) -> np.ndarray:
        filled = np.full(shape, np.nan)
        if name in rows:
            filled[at] = np.where(finite, rows[name].astype(np.float64), np.nan)
        return filled

    models = {algorithm: facts['models'][algorithm] for algorithm, _ in members}
    every, metrics = _in_order(models), facts['directions']
    known = {*_OF_A_LINE, *(name for _, point in members for name in point)}
    known |= {f'{model}/{metric}' for model in every for metric in metrics}
    chosen, more = {}, {}
    for name, column in rows.items():
        if name not in known and (given := is_given(column)).any():
            if '/' in name:
                more[name] = fill(name)
            else:
                kind = np.float64 if column.dtype.kind in 'fi' else object
                chosen[name] = np.full(shape[:2], np.nan, kind)
                chosen[name][at[0][given], at[1][given]] = as_tuples(column)[given]
    ran = np.zeros(shape, bool)
    ran[at] = True
    expected = len(rounds_of(facts)) if stage == MAIN and 'num_rounds' in facts else shape[3]
    return build(
        members,
        models,
        {
            metric: np.reshape(
                [fill(f'{model}/{metric}') for model in every], (len(every), *shape)
            ).swapaxes(0, 1)
            for metric in metrics
        },
        patterns=patterns,
        seeds=seeds,
        rounds=rounds,
        lanes=np.repeat(np.reshape(ran.any(axis=(2, 3)), (*shape[:2], 1)), shape[2], axis=2),
        complete=ran.sum(axis=(1, 2, 3)) == shape[1] * shape[2] * expected,
        chosen=chosen,
        more=more,
        metric=facts['metric'],
        baseline=facts['baseline'],
        directions=dict(metrics),
        names=dict(facts['names']),
    )


# The form itself.


def build(
    members: Sequence[tuple[str, grids.Point]],
    models: Mapping[str, Collection[str]],
    values: Mapping[str, np.ndarray],
    *,
    patterns: Sequence[str],
    seeds: Sequence[Any],
    rounds: np.ndarray,
    lanes: np.ndarray,
    complete: np.ndarray,
    chosen: Columns | None = None,
    more: Columns | None = None,
    **attrs: Any,
) -> Any:
    """An ``xarray.Dataset`` of L series, M candidate models, P patterns and S seeds.

    Args:
      members: the series, an algorithm and its point each.
      models: by algorithm.
      values: float[L, M, P, S, E] by metric, the server's model first; NaN where a lane diverged or
        nothing ran.
      patterns: labels.
      seeds: as they are numbered.
      rounds: [E], rounds completed at each evaluation.
      lanes: bool[L, P, S], which have begun.
      complete: bool[L], whether every evaluation is there.
      chosen: [L, P] by column that is none of the grid, its values; NaN for none.
      more: float[L, P, S, E] by column that belongs to no model, such as ``rounds/num_active``.
      **attrs: what else is known: ``metric``, ``baseline``, ``directions``, ``names`` to show.
    """
    import xarray

    check_name('metric', values)
    every = _in_order(models)
    owners = [(owner, {k: as_tuple(v) for k, v in point.items()}) for owner, point in members]
    labels = [label(*member) for member in members]
    theirs = np.array([[model in models[owner] for model in every] for owner, _ in owners], bool)
    begun = theirs.reshape(len(owners), len(every), 1, 1) & lanes[:, None]
    coords: dict[str, Any] = {
        'series': labels,
        'model': every,
        'pattern': list(patterns),
        'seed': list(seeds),
        'round': rounds,
        'algorithm': ('series', [owner for owner, _ in owners]),
        'main_model': ('series', [main_model(models[owner]) for owner, _ in owners]),
        'complete': ('series', complete),
        'begun': (DIMS[:-1], begun),
    }
    for name in dict.fromkeys(name for _, point in owners for name in point):
        column = [point.get(name, np.nan) for _, point in owners]
        kinds = {type(value) for value in column}
        plain = len(kinds) == 1 and kinds <= {bool, int, float}
        coords[name] = 'series', np.array(column) if plain else as_objects(column)
    coords |= {name: (('series', 'pattern'), column) for name, column in (chosen or {}).items()}
    data: dict[str, Any] = {name: (DIMS, levels) for name, levels in values.items()}
    data |= {name: ((DIMS[0], *DIMS[2:]), column) for name, column in (more or {}).items()}
    named = dict(zip(labels, owners, strict=True))
    return xarray.Dataset(data, coords, {**attrs, 'members': named})


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


# Of simulations and arrays.


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


def of(
    data: Any,
    metric: str | None = None,
    rounds: Any = None,
    names: Mapping[str, str] | None = None,
) -> Any:
    """Any results as an ``xarray.Dataset`` whose ``metric`` is the one to show.

    Args:
      data: `runs.Results`; such a data set, or a part of one; a `SimulationResult` of one lane, of
        seeds [S] or of a sweep [G, S]; an array float[E] or float[S, E]; or a mapping from labels
        to the latter two, or to such arrays by candidate model.
      metric: which of the recorded metrics; that of the run, or a usual one, by default.
      rounds: float[E], for arrays; 1, 2, ... by default.
      names: what to show in place of labels, besides what the results say.

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
    return found.assign_attrs(metric=metric, names={**found.attrs['names'], **(names or {})})


def _of_entries(data: Mapping[str, Any], metric: str | None) -> Any:
    """Simulations and arrays, by label."""
    if not data:
        raise errors.invalid('data', 'hold at least one label', data)
    simulated = {str(name): entry for name, entry in data.items() if hasattr(entry, 'evals')}
    blocks = {str(name): _evaluated(simulated.get(str(name))) for name in data}
    recorded = list(
        dict.fromkeys(m for own in blocks.values() for named in own.values() for m in named)
    )
    metric = _usual(recorded) if metric is None else metric
    if recorded:
        checks.choice('metric', metric, recorded)
    for name, entry in data.items():
        if str(name) not in simulated:
            given = entry if isinstance(entry, Mapping) else {'server': entry}
            arrays = {model: {metric: _seeds(str(name), own)} for model, own in given.items()}
            blocks[str(name)] = arrays
    shapes = {
        name: next(iter(next(iter(own.values())).values())).shape for name, own in blocks.items()
    }
    lengths = {name: shape[2] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        raise errors.invalid('data', 'have as many evaluations for every label', lengths)
    count = next(iter(lengths.values()))
    ends = [when(entry)[0] for entry in simulated.values()]
    members: list[tuple[str, grids.Point]] = [
        (name, {'point': place} if shape[0] > 1 else {})
        for name, shape in shapes.items()
        for place in range(shape[0])
    ]
    models = _in_order(blocks)
    seeds = range(max(shape[1] for shape in shapes.values()))
    full = len(members), len(models), 1, len(seeds), count
    values = {name: np.full(full, np.nan) for name in recorded or [metric]}
    lanes, start = np.zeros((len(members), 1, len(seeds)), bool), 0
    for name, own in blocks.items():
        stop = start + shapes[name][0]
        lanes[start:stop, :, : shapes[name][1]] = True
        for model, named in own.items():
            place = slice(start, stop), models.index(model), 0, slice(shapes[name][1])
            for kind, levels in named.items():
                values[kind][place] = levels
        start = stop
    return build(
        members,
        blocks,
        values,
        patterns=[''],
        seeds=seeds,
        rounds=ends[0] if ends else np.arange(1.0, count + 1),
        lanes=lanes,
        complete=np.ones(len(members), bool),
        metric=metric,
        baseline=None,
        directions={},
        names={},
    )


def _evaluated(result: Any) -> dict[str, dict[str, np.ndarray]]:
    """Evaluations float[G, S, E] of a simulation by model and metric; nothing of none."""
    if result is None:
        return {}
    if not result.evals:
        raise errors.invalid('data', 'have evaluations (`eval_every`)', 'a result without any')
    shape, (ends, _) = np.shape(result.state.round), when(result)
    full = shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1, len(ends)
    bad = np.asarray(result.state.first_bad_round).reshape(*full[:2], 1)
    return {
        model: {
            name: np.where((bad < 0) | (ends <= bad), leaf.reshape(full), np.nan)
            for name, leaf in leaves(measured).items()
            if leaf.ndim == len(shape) + 1
        }
        for model, measured in result.evals.items()
    }


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


def curves(found: Any, model: str | None = None) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """Evaluations float[S, E] of the metric, by pattern, label and candidate model.

    Args:
      found: from `of`.
      model: a candidate model, `ALL`, or None for the one that the papers evaluate.

    Raises:
      ValueError: for a model that a series lacks.
    """
    every: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    labels, models = found['series'].values.tolist(), found['model'].values.tolist()
    for pattern in found['pattern'].values.tolist():
        part = found.sel(pattern=pattern)
        values, begun = part[found.attrs['metric']].values, part['begun'].values
        for place, label in enumerate(labels):
            lanes = dict(zip(models, begun[place], strict=True))
            own = {
                k: v[lanes[k]] for k, v in zip(models, values[place], strict=True) if lanes[k].any()
            }
            if own and model != ALL:
                wanted = main_model(own) if model is None else model
                checks.choice('model', wanted, [*own, ALL])
                own = {wanted: own[wanted]}
            if own:
                every.setdefault(pattern, {})[label] = own
    return every


def points(found: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """By label of a series, its algorithm and its point."""
    return {name: found.attrs['members'][name] for name in found['series'].values.tolist()}


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
