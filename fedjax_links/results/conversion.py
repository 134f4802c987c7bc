"""Converts simulations, arrays and runs to the labelled form of `dataset`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.core import checks, errors
from fedjax_links.core.records import RunFacts
from fedjax_links.results import dataset
from fedjax_links.results.dataset import MAIN, LabelledResults
from fedjax_links.results.run_dataset import run_to_dataset

_USUAL_METRICS = (
    'eval_accuracy',
    'accuracy',
    'train_accuracy',
    'eval_loss',
    'loss',
    'train_loss',
    'distance',
)
_ATTRIBUTES = ('metric', 'names', 'members')


def to_dataset(
    data: Any,
    metric: str | None = None,
    rounds: ArrayLike | None = None,
    names: Mapping[str, str] | None = None,
) -> LabelledResults:
    """Returns any results as an ``xarray.Dataset`` whose attribute ``metric`` is the one to show.

    Args:
      data: `runs.Results`, a data set in the form of `dataset`, or a part of either. Or a
        `simulation.SimulationResult` of one lane (a single simulation), of seeds [S] or of a sweep
        [G, S]. Or an array float[E] or float[S, E]. Or a mapping from labels to simulations, to
        arrays, or to arrays by candidate model.
      metric: which of the recorded metrics; by default the run's. For simulations, by default an
        accuracy if there is one, else a loss or another metric.
      rounds: float[E]; by default the rounds of simulations, else 1, 2, ...
      names: names to show for labels, in place of the names in the results.

    Raises:
      ValueError: naming what is unknown, or what has the wrong shape.
    """
    results = _labelled(getattr(data, 'dataset', data), metric, rounds)
    if not all(results.sizes[dim] for dim in dataset.DIMS):
        source = getattr(data, 'folder', None) or f'axes {dict(results.sizes)}'
        raise errors.invalid('data', 'hold at least one evaluation', source)
    metric = results.attrs['metric'] if metric is None else metric
    metrics = [name for name, v in results.items() if v.dims == dataset.DIMS]
    checks.choice('metric', metric, metrics)
    if names is not None:
        dataset.check_names(names, dataset.all_labels(results))
    shown_names = {**dataset.read_attribute(results, 'names'), **(names or {})}
    return results.assign_attrs(metric=metric, names=dataset.as_json(shown_names))


def _labelled(
    data: Any, metric: str | None, rounds: ArrayLike | None
) -> LabelledResults:
    """Returns a data set as it is, and other results as the data set of one run."""
    if hasattr(data, 'data_vars'):
        _check_form(data)
        if rounds is not None:
            requirement = 'be left out for the results of a run, which have their own'
            raise errors.invalid('rounds', requirement, errors.text_of(rounds))
        return data
    entries = data if isinstance(data, Mapping) else {'simulation': data}
    results = _entries_to_dataset(entries, metric)
    return results if rounds is None else _with_rounds(results, rounds)


def _check_form(results: LabelledResults) -> None:
    """Raises unless a data set has the axes and the attributes of results."""
    missing = [dim for dim in dataset.DIMS if dim not in results.sizes]
    if missing:
        requirement = 'keep the axes of results, as `isel(seed=[0])` does'
        value = f'a data set without {", ".join(missing)}'
        raise errors.invalid('data', requirement, value)
    missing = [name for name in _ATTRIBUTES if name not in results.attrs]
    if missing:
        requirement = 'keep the attributes of results, see `xarray.set_options`'
        value = f'a data set without {", ".join(missing)}'
        raise errors.invalid('data', requirement, value)


def _with_rounds(results: LabelledResults, rounds: ArrayLike) -> LabelledResults:
    """Returns results with other rounds at the evaluations."""
    if checks.shape('rounds', rounds) != results['round'].shape:
        requirement = f'have {results.sizes["round"]} entries'
        raise errors.invalid('rounds', requirement, f'shape {np.shape(rounds)}')
    column = checks.numbers('rounds', rounds).astype(float)
    if not np.isfinite(column).all():
        raise errors.invalid('rounds', 'be finite', errors.text_of(rounds))
    if np.any(np.diff(column) <= 0):
        requirement = 'increase from entry to entry'
        raise errors.invalid('rounds', requirement, errors.text_of(rounds))
    return results.assign_coords(round=column)


def _entries_to_dataset(
    entries: Mapping[str, Any], metric: str | None
) -> LabelledResults:
    """Returns simulations and arrays as the results of one run, an algorithm per label."""
    import pandas

    if metric is not None:
        checks.text('metric', metric)
    entries = _with_text_labels(entries)
    simulated = {
        label: _table_of_simulation(entry)
        for label, entry in entries.items()
        if hasattr(entry, 'evals')
    }
    metrics = _metric_names(simulated.values())
    metric = _shown_metric(metric, metrics)
    tables = {}
    for label, entry in entries.items():
        if label in simulated:
            tables[label] = simulated[label]
        else:
            tables[label] = _table_of_arrays(label, entry, metric)
    rounds = _common_rounds(tables, simulated)
    lines = pandas.concat(tables, names=['algorithm'])
    lines = lines.reset_index(level=0).assign(stage=MAIN, pattern='')
    lines['round'] = np.tile(rounds, len(lines) // len(rounds))
    grid = {}
    if 'point' in lines:
        grid = {'point': range(int(lines['point'].max()) + 1)}
    facts: RunFacts = {
        'algorithms': [*entries],
        'models': {label: _models_of(table) for label, table in tables.items()},
        'patterns': [''],
        'seeds': range(lines['seed'].max() + 1),
        'grid': grid,
        'grid_mode': 'cross',
        'metric': metric,
        'directions': dict.fromkeys(metrics or [metric]),
        'baseline': None,
        'names': {},
        # As in a run that adds seeds until decided: a label need not have all seeds or points.
        'until': {'least': 0},
    }
    columns = {name: column.to_numpy() for name, column in lines.items()}
    results = run_to_dataset(columns, facts)
    # Sweeps of different lengths leave points that some label does not have.
    has_lanes = results['started'].any(('model', 'pattern', 'seed')).values
    results = results.isel(series=np.flatnonzero(has_lanes))
    del results.attrs['until']
    return results


def _with_text_labels(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Returns entries with their labels as texts; raises if there are none, or equal labels."""
    if not entries:
        raise errors.invalid('data', 'hold at least one label', entries)
    labels = [str(label) for label in entries]
    if len(set(labels)) < len(labels):
        requirement = 'have labels that differ as texts'
        raise errors.invalid('data', requirement, [*entries])
    return dict(zip(labels, entries.values(), strict=True))


def _metric_names(tables: Iterable[Any]) -> list[str]:
    """Returns the metrics of tables with columns ``<model>/<metric>``."""
    columns = [name for table in tables for name in table if '/' in name]
    return list(dict.fromkeys(name.partition('/')[2] for name in columns))


def _shown_metric(metric: str | None, metrics: Sequence[str]) -> str:
    """Returns the metric to show: by default the first usual one, else the first; '' for none.

    Raises:
      ValueError: for a metric that simulations do not have.
    """
    if metric is None:
        usual = [name for name in _USUAL_METRICS if name in metrics]
        return next(iter([*usual, *metrics]), '')
    if metrics:
        checks.choice('metric', metric, metrics)
    return metric


def _models_of(table: Any) -> list[str]:
    """Returns the model of each column ``<model>/<metric>``."""
    return [name.partition('/')[0] for name in table if '/' in name]


def _table_of_arrays(label: str, entry: Any, metric: str) -> Any:
    """Returns arrays of one label as a table of evaluations, one row per seed and round."""
    import pandas

    arrays = entry if isinstance(entry, Mapping) else {'server': entry}
    for model in arrays:
        if '/' in str(model):
            requirement = 'name models without a slash'
            raise errors.invalid('data', requirement, f'{model!r} for {label!r}')
    columns: dict[str, Any] = {
        f'{model}/{metric}': _seeds_by_evaluations(label, values)
        for model, values in arrays.items()
    }
    shapes = {array.shape for array in columns.values()}
    if len(shapes) != 1:
        requirement = 'hold arrays of one shape for every model'
        raise errors.invalid('data', requirement, f'{sorted(shapes)} for {label!r}')
    seed, evaluation = np.indices(shapes.pop())
    columns['seed'] = seed
    columns['round'] = evaluation + 1.0
    return pandas.DataFrame({name: array.ravel() for name, array in columns.items()})


def _common_rounds(
    tables: Mapping[str, Any], simulated: Mapping[str, Any]
) -> np.ndarray:
    """Returns the rounds of the evaluations; arrays take the rounds of the simulations, if any.

    Raises:
      ValueError: if labels differ in the number of evaluations, or simulations in the rounds.
    """
    lengths = {label: table['round'].nunique() for label, table in tables.items()}
    if len(set(lengths.values())) > 1:
        requirement = 'have as many evaluations for every label'
        raise errors.invalid('data', requirement, lengths)
    rounds = {
        label: table['round'].unique() for label, table in (simulated or tables).items()
    }
    first, *others = rounds.values()
    if any(not np.array_equal(first, other) for other in others):
        requirement = 'be evaluated after the same rounds for every label'
        shown = {label: label_rounds.tolist() for label, label_rounds in rounds.items()}
        raise errors.invalid('data', requirement, shown)
    return np.asarray(first)


def _table_of_simulation(result: Any) -> Any:
    """Returns a simulation's evaluations as a table.

    The table has a column ``point`` if there are several points.
    """
    if not result.evals:
        requirement = 'have evaluations (`eval_every`)'
        raise errors.invalid('data', requirement, 'a result without any')
    table = result.to_pandas()
    table = table.rename(columns={model: f'{model}/value' for model in result.evals})
    for model, measured in result.evals.items():
        if not any(name.startswith(f'{model}/') for name in table):
            requirement = 'have evaluations that are single numbers'
            shapes = jax.tree.map(np.shape, measured)
            raise errors.invalid('data', requirement, shapes)
    if 'point' in table and not table['point'].any():
        table = table.drop(columns='point')
    return table if 'seed' in table else table.assign(seed=0)


def _seeds_by_evaluations(label: str, values: Any) -> np.ndarray:
    """Returns values as float[S, E].

    Raises:
      ValueError: for another shape, naming the label.
    """
    array = checks.numbers('data', values).astype(np.float64)
    if array.ndim not in (1, 2) or not array.size:
        requirement = 'be of shape [E] or [S, E], seeds by evaluations'
        shown = f'shape {list(array.shape)} for {label!r}'
        raise errors.invalid('data', requirement, shown)
    return np.atleast_2d(array)
