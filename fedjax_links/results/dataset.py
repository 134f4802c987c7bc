"""Results in one labelled form, an ``xarray.Dataset``.

A series is an algorithm at one point of the grid. Every metric is a variable with the axes `DIMS`;
NaN where a run diverged (a model of NaN has an accuracy too) or nothing ran. Along ``series`` stand
``algorithm``, ``main_model`` (that papers evaluate), ``complete`` (whether every evaluation is
there) and every column of the grid, NaN for an algorithm without it; ``begun`` says which lanes
there are. Columns that are none of the grid, such as rates that tuning chose, stand along series
and patterns. xarray is imported where results are looked at, never by `Experiment.run`; a command
tries the pages of its config on zeros before it runs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, grids
from fedjax_links.results import evaluations
from fedjax_links.results.metric import numbers_of

ALL = 'all'
"""Every candidate model."""
DIMS = ('series', 'model', 'pattern', 'seed', 'round')
TAKEN = {*DIMS, 'algorithm', 'begun', 'complete', 'main_model'}
"""What neither a metric nor a column of a grid can be called."""
MAIN, TUNING, TIE = 'main', 'tuning', 'tie'
_USUAL = (
    *('eval_accuracy', 'accuracy', 'train_accuracy'),
    *('eval_loss', 'loss', 'train_loss', 'distance'),
)

Columns = Mapping[str, np.ndarray]


def label(algorithm: str, point: grids.Point) -> str:
    """An algorithm with the values that tell its series apart."""
    return f'{algorithm} ({describe_point(point)})' if point else algorithm


def describe_point(point: grids.Point) -> str:
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
    mains: Mapping[str, str] | None = None,
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
      mains: by algorithm, the model to show where it is not the one that the papers evaluate.
      **attrs: what else is known: ``metric``, ``baseline``, ``directions``, ``names`` to show.
    """
    import xarray

    check_name('metric', values)
    every = in_order(models)
    owners = [(owner, {k: as_tuple(v) for k, v in point.items()}) for owner, point in members]
    labels = [label(*member) for member in members]
    main_of = {k: main_model(own) for k, own in models.items() if own} | dict(mains or {})
    theirs = np.array([[model in models[owner] for model in every] for owner, _ in owners], bool)
    begun = theirs.reshape(len(owners), len(every), 1, 1) & lanes[:, None]
    coords: dict[str, Any] = {
        'series': labels,
        'model': every,
        'pattern': list(patterns),
        'seed': list(seeds),
        'round': rounds,
        'algorithm': ('series', [owner for owner, _ in owners]),
        'main_model': ('series', [main_of[owner] for owner, _ in owners]),
        'complete': ('series', complete),
        'begun': (DIMS[:-1], begun),
    }
    for name in dict.fromkeys(name for _, point in owners for name in point):
        column = [point.get(name, np.nan) for _, point in owners]
        kinds = {type(value) for value in column}
        plain = len(kinds) == 1 and kinds <= {bool, int, float}
        coords[name] = 'series', np.array(column) if plain else as_objects(column)
    data = {name: (DIMS, levels) for name, levels in values.items()}
    attrs['members'] = dict(zip(labels, owners, strict=True))
    return xarray.Dataset(data, coords, attrs)


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


def of(
    data: Any, metric: str | None = None, rounds: Any = None, names: Mapping[str, str] | None = None
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
    data = {str(label): entry for label, entry in data.items()}
    simulated = {label: entry for label, entry in data.items() if hasattr(entry, 'evals')}
    blocks = {k: evaluations.by_model(entry) for k, entry in simulated.items()}
    blocks = {label: blocks.get(label, {}) for label in data}
    measured = [named for own in blocks.values() for named in own.values()]
    recorded = list(dict.fromkeys(metric for named in measured for metric in named))
    if metric is None:
        metric = next((name for name in _USUAL if name in recorded), next(iter(recorded), ''))
    if recorded:
        checks.choice('metric', metric, recorded)
    for label, entry in data.items():
        if label not in simulated:
            arrays = entry if isinstance(entry, Mapping) else {'server': entry}
            blocks[label] = {model: {metric: _seeds(label, own)} for model, own in arrays.items()}
    shapes = {k: next(iter(next(iter(own.values())).values())).shape for k, own in blocks.items()}
    lengths = {label: shape[2] for label, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        raise errors.invalid('data', 'have as many evaluations for every label', lengths)
    _, num_seeds, count = map(max, zip(*shapes.values(), strict=True))
    members: list[tuple[str, grids.Point]] = [
        (label, {'point': point} if shape[0] > 1 else {})
        for label, shape in shapes.items()
        for point in range(shape[0])
    ]
    models = in_order(blocks)
    full = len(members), len(models), 1, num_seeds, count
    values = {name: np.full(full, np.nan) for name in recorded or [metric]}
    lanes, start = np.zeros((len(members), 1, num_seeds), bool), 0
    for label, (points, seeds, _) in shapes.items():
        rows = slice(start, start := start + points)
        lanes[rows, :, :seeds] = True
        for model, named in blocks[label].items():
            for kind, levels in named.items():
                values[kind][rows, models.index(model), 0, :seeds] = levels
    ends = [evaluations.rounds_of(entry)[0] for entry in simulated.values()]
    given: dict[str, Any] = {'patterns': [''], 'seeds': range(num_seeds), 'lanes': lanes}
    given |= {'rounds': ends[0] if ends else np.arange(1.0, count + 1)}
    given |= {'complete': np.ones(len(members), bool)}
    given |= {'metric': metric, 'baseline': None, 'directions': {}, 'names': {}}
    return build(members, blocks, values, **given)


def _seeds(name: str, values: Any) -> np.ndarray:
    """float[1, S, E]."""
    array = checks.numbers('data', values).astype(np.float64)
    if array.ndim not in (1, 2) or not array.size:
        requirement = 'be of shape [E] or [S, E], seeds by evaluations'
        raise errors.invalid('data', requirement, f'shape {list(array.shape)} for {name!r}')
    return np.atleast_2d(array)[None]


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
    mains = dict(zip(labels, found['main_model'].values.tolist(), strict=True))
    for pattern in found['pattern'].values.tolist():
        part = found.sel(pattern=pattern)
        for label, *of_models in zip(
            labels, part[found.attrs['metric']].values, part['begun'].values, strict=True
        ):
            of_lanes = zip(models, *of_models, strict=True)
            own = {k: values[begun] for k, values, begun in of_lanes if begun.any()}
            if own and model != ALL:
                wanted = mains[label] if model is None else model
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
        if owner == algorithm and grids.agree(point, at):
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
