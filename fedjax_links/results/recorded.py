"""Lines of a run, simulations and arrays in the one labelled form of results."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from fedjax_links.core import checks, errors, grids
from fedjax_links.results import dataset
from fedjax_links.results.dataset import MAIN, TIE, TUNING, Columns

_LABELS = ('stage', 'algorithm', 'pattern', 'seed', 'round')
_OF_A_LINE = (*_LABELS, 'finite', 'first_bad_round')
_USUAL = (
    *('eval_accuracy', 'accuracy', 'train_accuracy'),
    *('eval_loss', 'loss', 'train_loss', 'distance'),
)
_OF_A_LANE = ('series', 'pattern', 'seed', 'round')


def rounds_of(facts: Mapping[str, Any]) -> np.ndarray:
    """int[E], rounds completed at each evaluation; of a forked run, those after the fork."""
    period, origin = facts['eval_every'], facts.get('at_round', 0)
    first = origin if facts.get('evaluate_start') and not origin else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


def place_of(pattern: str, point: Mapping[str, Any]) -> Any:
    """A key for a pattern and what a point gives, however its numbers are written."""
    values = ((name, dataset.as_tuple(value)) for name, value in point.items())
    return pattern, frozenset((k, v) for k, v in values if v is not None and v == v)


def main_models(facts: Mapping[str, Any]) -> dict[str, str]:
    """By algorithm, the model to show: the one whose rate was tuned, else that of the papers."""
    decides = (facts.get('tuning') or {}).get('model')
    named = decides if isinstance(decides, Mapping) else {}
    return {
        label: named[label]
        if named.get(label) in models
        else dataset.main_model(models)
        for label, models in facts['models'].items()
    }


def levels(
    columns: Columns,
    facts: Mapping[str, Any],
    label: str,
    *,
    stage: str = MAIN,
    metric: str | None = None,
    model: str | None = None,
    tail: float = 0.1,
) -> dict[Any, dict[int, float]]:
    """Final levels of an algorithm, of lanes that are done.

    Args:
      columns: of the run.
      facts: of the run.
      label: the algorithm.
      stage: `MAIN`; or `TIE`, whose points have the columns that are tuned too.
      metric: that of the run by default.
      model: the one to show by default.
      tail: share of the evaluations, the last ones, that each lane is averaged over.

    Returns:
      A number by seed, by `place_of` the pattern and the point; NaN where a lane diverged.
    """
    rows, rounds = (
        rows_of(columns, {**facts, 'algorithms': [label]}, stage),
        rounds_of(facts),
    )
    late = rounds[-dataset.num_last(len(rounds), tail) :]
    name = f'{model or main_models(facts)[label]}/{metric or facts["metric"]}'
    tried = (facts.get('tuning') or {}).get('grid', ()) if stage == TIE else ()
    given = {
        name: rows[name].tolist() for name in (*facts['grid'], *tried) if name in rows
    }
    found: dict[Any, dict[int, list[float]]] = {}
    patterns = rows['pattern'].tolist()
    for row in np.flatnonzero(np.isin(rows['round'], late)).tolist():
        place = place_of(patterns[row], {k: own[row] for k, own in given.items()})
        is_finite = bool(rows['finite'][row]) if 'finite' in rows else True
        own = found.setdefault(place, {}).setdefault(int(rows['seed'][row]), [])
        own.append(float(rows[name][row]) if is_finite else np.nan)
    return {
        place: {
            seed: float(np.mean(own))
            for seed, own in by.items()
            if len(own) == len(late)
        }
        for place, by in found.items()
    }


def rows_of(columns: Columns, facts: Mapping[str, Any], stage: str) -> Columns:
    """The rows of a stage of the algorithms that facts name; see `of_run`."""
    columns = columns or dict.fromkeys(_LABELS, np.zeros(0, int))
    chosen = (columns['stage'] == stage) & np.isin(
        columns['algorithm'], facts['algorithms']
    )
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
            place = {
                dataset.as_tuple([*at.values()]): k
                for k, at in enumerate(points, len(members))
            }
            at = zip(
                own['round'], *(own[name].tolist() for name in points[0]), strict=True
            )
            owner[chosen] = [place[dataset.as_tuple([*values])] for _, *values in at]
            members += [(algorithm, point) for point in points]
    return members, owner


def _points(
    rows: Columns, facts: Mapping[str, Any], stage: str
) -> list[dict[str, Any]]:
    """The points of the grid, as far as some rows have its columns."""

    def given(names: Iterable[str]) -> list[str]:
        return [
            name
            for name in names
            if name in rows and dataset.is_given(rows[name]).any()
        ]

    own = given(facts['grid'])
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), own)
    if stage == TUNING:
        tuned = facts['tuning']['grid']
        there = {
            name: set(dataset.as_tuples(rows[name]).tolist())
            for name in given(tuned)
            if name not in own
        }
        tried = {
            k: [v for v in tuned[k] if dataset.as_tuple(v) in there[k]] for k in there
        }
        tries = grids.points(tried, 'cross')
        points = [{**point, **at} for point in points for at in tries]
    return points


def of_run(columns: Columns, facts: Mapping[str, Any], stage: str = MAIN) -> Any:
    """The evaluations of a run, or of its tuning, as an ``xarray.Dataset``.

    Args:
      columns: `runs.Results.columns`.
      facts: of the run.
      stage: `MAIN`, or `TUNING`, whose points have the columns that are tuned too.
    """
    import xarray

    rows, metrics = rows_of(columns, facts, stage), facts['directions']
    dataset.check_name('metric', metrics)
    members, owner = members_of(rows, facts, stage)
    owners = [
        (owner, {k: dataset.as_tuple(v) for k, v in at.items()})
        for owner, at in members
    ]
    patterns, seeds, rounds = (
        [*facts['patterns']],
        [*facts['seeds']],
        np.unique(rows['round']),
    )
    if stage == TUNING:
        patterns = [label for label in patterns if label in rows['pattern']]
        seeds = np.unique(rows['seed']).tolist()
    elif 'until' in facts:
        seeds = [seed for seed in seeds if seed in rows['seed']]

    def places(name: str, known: list[Any]) -> np.ndarray:
        at = {value: place for place, value in enumerate(known)}
        return np.array([at[value] for value in rows[name].tolist()], int)

    pattern, seed = places('pattern', patterns), places('seed', seeds)
    at = owner, pattern, seed, np.searchsorted(rounds, rows['round'])
    shape = len(members), len(patterns), len(seeds), len(rounds)
    finite = np.asarray(rows.get('finite', True), bool)

    def fill(name: str) -> np.ndarray:
        filled = np.full(shape, np.nan)
        if name in rows:
            filled[at] = np.where(finite, rows[name].astype(np.float64), np.nan)
        return filled

    models = {algorithm: facts['models'][algorithm] for algorithm, _ in members}
    every, mains = dataset.in_order(models), main_models({**facts, 'models': models})
    theirs = np.array(
        [[model in models[owner] for model in every] for owner, _ in owners], bool
    )
    ran = np.zeros(shape, bool)
    ran[at] = True
    expected = (
        len(rounds_of(facts)) if stage == MAIN and 'num_rounds' in facts else shape[3]
    )
    begun, whole = np.asarray(ran.any(axis=3)), np.asarray(ran.sum(axis=3) == expected)
    if (
        'until' in facts and stage == MAIN
    ):  # pairs that were decided have fewer seeds than others
        complete = np.asarray((whole | ~begun).all(axis=(1, 2)))
        complete &= (whole.sum(axis=2) >= facts['until']['least']).all(axis=1)
    else:
        complete = np.asarray(whole.all(axis=(1, 2)))
        begun = np.broadcast_to(begun.any(axis=(1, 2), keepdims=True), shape[:3])
    labels = [dataset.label(*member) for member in members]
    coords: dict[str, Any] = {
        'series': labels,
        'model': every,
        'pattern': patterns,
        'seed': seeds,
        'round': rounds,
        'algorithm': ('series', [owner for owner, _ in owners]),
        'main_model': ('series', [mains[owner] for owner, _ in owners]),
        'complete': ('series', complete),
        'begun': (
            dataset.DIMS[:-1],
            theirs.reshape(*theirs.shape, 1, 1) & begun[:, None],
        ),
    }
    for name in dict.fromkeys(name for _, point in owners for name in point):
        values = [point.get(name, np.nan) for _, point in owners]
        coords[name] = 'series', dataset.as_coordinate(values)
    data: dict[str, Any] = {}
    for metric in metrics:
        levels = np.reshape(
            [fill(f'{model}/{metric}') for model in every], (len(every), *shape)
        )
        data[metric] = dataset.DIMS, levels.swapaxes(0, 1)
    known = {
        *_OF_A_LINE,
        *coords,
        *(f'{model}/{metric}' for model in every for metric in metrics),
    }
    for name, column in rows.items():
        if name not in known and (given := dataset.is_given(column)).any():
            if '/' in name:
                data[name.replace('/', '.')] = _OF_A_LANE, fill(name)
            else:
                chosen = np.full(shape[:2], np.nan, object)
                chosen[owner[given], pattern[given]] = dataset.as_tuples(column)[given]
                flat = dataset.as_coordinate(chosen.ravel())
                coords[name] = _OF_A_LANE[:2], flat.reshape(shape[:2])
    attrs = {
        name: facts[name] for name in ('metric', 'baseline') if facts[name] is not None
    }
    described = {name: dict(facts[name]) for name in ('directions', 'names')}
    described['members'] = dict(zip(labels, owners, strict=True))
    if facts.get('until') is not None:
        described['until'] = facts['until']
    attrs |= {name: dataset.as_json(value) for name, value in described.items()}
    return xarray.Dataset(data, coords, attrs)


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
        found = _of_entries(
            found if isinstance(found, Mapping) else {'simulation': found}, metric
        )
        if rounds is not None:
            if np.shape(rounds) != found['round'].shape:
                shape = f'shape {np.shape(rounds)}'
                raise errors.invalid(
                    'rounds', f'have {found.sizes["round"]} entries', shape
                )
            found = found.assign_coords(round=np.asarray(rounds, float))
    if not found.sizes['series']:
        raise errors.invalid(
            'data', 'hold at least one evaluation', getattr(data, 'folder', None)
        )
    metric = found.attrs['metric'] if metric is None else metric
    checks.choice(
        'metric', metric, [name for name, v in found.items() if v.dims == dataset.DIMS]
    )
    shown = dataset.as_json({**dataset.attribute(found, 'names'), **(names or {})})
    return found.assign_attrs(metric=metric, names=shown)


def _of_entries(data: Mapping[str, Any], metric: str | None) -> Any:
    """Simulations and arrays, by label: each an algorithm of a run that nobody recorded."""
    import pandas

    if not data:
        raise errors.invalid('data', 'hold at least one label', data)
    data = {str(label): entry for label, entry in data.items()}
    tables = {
        label: _measured(entry)
        for label, entry in data.items()
        if hasattr(entry, 'evals')
    }
    simulated = dict(tables)
    every = (
        name.partition('/') for t in simulated.values() for name in t if '/' in name
    )
    metrics = list(dict.fromkeys(name for _, _, name in every))
    if metric is None:
        metric = next(
            (name for name in _USUAL if name in metrics), next(iter(metrics), '')
        )
    if metrics:
        checks.choice('metric', metric, metrics)
    for label, entry in data.items():
        if label not in tables:
            arrays = entry if isinstance(entry, Mapping) else {'server': entry}
            own: dict[str, Any] = {
                f'{model}/{metric}': _seeds(label, values)
                for model, values in arrays.items()
            }
            seed, place = np.indices(next(iter(own.values())).shape)
            own |= {'seed': seed, 'round': place + 1.0}
            tables[label] = pandas.DataFrame(
                {name: a.ravel() for name, a in own.items()}
            )
    rounds = _common_rounds({label: tables[label] for label in data}, simulated)
    lines = pandas.concat({label: tables[label] for label in data}, names=['algorithm'])
    lines = lines.reset_index(level=0).assign(stage=MAIN, pattern='')
    lines['round'] = np.tile(rounds, len(lines) // len(rounds))
    models = {k: [c.partition('/')[0] for c in tables[k] if '/' in c] for k in data}
    facts: dict[str, Any] = {
        'algorithms': [*data],
        'models': models,
        'patterns': [''],
        'seeds': range(lines['seed'].max() + 1),
        'grid': {'point': range(int(lines['point'].max()) + 1)}
        if 'point' in lines
        else {},
        'grid_mode': 'cross',
        'metric': metric,
        'directions': dict.fromkeys(metrics or [metric]),
        'baseline': None,
        'names': {},
        'until': {'least': 0},
    }
    found = of_run({name: column.to_numpy() for name, column in lines.items()}, facts)
    there = (
        found['begun'].any(('model', 'pattern', 'seed')).values
    )  # sweeps of other lengths
    found = found.isel(series=np.flatnonzero(there))
    del found.attrs['until']
    return found


def _common_rounds(
    tables: Mapping[str, Any], simulated: Mapping[str, Any]
) -> np.ndarray:
    """Returns the rounds of all evaluations, which arrays take from the simulations beside them.

    Raises:
      ValueError: for evaluations of other numbers or after other rounds.
    """
    lengths = {label: table['round'].nunique() for label, table in tables.items()}
    if len(set(lengths.values())) > 1:
        raise errors.invalid(
            'data', 'have as many evaluations for every label', lengths
        )
    rounds = {
        label: table['round'].unique() for label, table in (simulated or tables).items()
    }
    first, *others = rounds.values()
    if any(not np.array_equal(first, other) for other in others):
        shown = {label: own.tolist() for label, own in rounds.items()}
        raise errors.invalid(
            'data', 'be evaluated after the same rounds for every label', shown
        )
    return np.asarray(first)


def _measured(result: Any) -> Any:
    """What a simulation measured, as a table with a column ``point`` where it has several."""
    if not result.evals:
        raise errors.invalid(
            'data', 'have evaluations (`eval_every`)', 'a result without any'
        )
    table = result.to_pandas()
    table = table.rename(columns={model: f'{model}/value' for model in result.evals})
    for model, measured in result.evals.items():
        if not any(name.startswith(f'{model}/') for name in table):
            shapes = jax.tree.map(np.shape, measured)
            raise errors.invalid(
                'data', 'have evaluations that are single numbers', shapes
            )
    if 'point' in table and not table['point'].any():
        table = table.drop(columns='point')
    return table if 'seed' in table else table.assign(seed=0)


def _seeds(name: str, values: Any) -> np.ndarray:
    """float[S, E]."""
    array = checks.numbers('data', values).astype(np.float64)
    if array.ndim not in (1, 2) or not array.size:
        requirement = 'be of shape [E] or [S, E], seeds by evaluations'
        raise errors.invalid(
            'data', requirement, f'shape {list(array.shape)} for {name!r}'
        )
    return np.atleast_2d(array)
