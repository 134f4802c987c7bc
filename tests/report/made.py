"""Runs made by hand."""

import dataclasses
import itertools

import numpy as np
import xarray

from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset


def results(curves, *, members=None, patterns=None, rates=None, **changes):
    """Makes a view of ``{algorithm: {model: {metric: [P, S, E]}}}``, evaluated every 10 rounds.

    In place of ``{model: ...}`` an array stands for the server model's ``eval_accuracy``.
    """
    curves = {label: _as_models(models) for label, models in curves.items()}
    first = next(iter(curves.values()))['server']
    num_patterns, num_seeds, num_evals = next(iter(first.values())).shape
    models = _model_names(curves)
    # By label: the algorithm, and its values of the columns of a grid.
    points = {label: (members or {}).get(label, (label, {})) for label in curves}
    has_model = np.array(
        [np.isin(models, list(by_model)) for by_model in curves.values()]
    )
    has_lane = np.tile(has_model[..., None, None], (num_patterns, num_seeds))
    coords = {
        'series': list(curves),
        'model': models,
        'pattern': patterns or [f'pattern{k}' for k in range(num_patterns)],
        'seed': range(num_seeds),
        'round': 10 * np.arange(1, num_evals + 1),
        'algorithm': ('series', [algorithm for algorithm, _ in points.values()]),
        'main_model': ('series', list(map(dataset.main_model, curves.values()))),
        'complete': ('series', np.ones(len(curves), bool)),
        'started': (dataset.DIMS[:-1], has_lane),
        **_grid_columns([point for _, point in points.values()]),
    }
    attrs = {
        'metric': 'eval_accuracy',
        'baseline': 'fedavg',
        'directions': {m: 'max' if m.endswith('accuracy') else 'min' for m in first},
        'names': {},
        'members': points,
    }
    variables = {
        metric: (dataset.DIMS, _stacked(curves, models, metric)) for metric in first
    }
    data = xarray.Dataset(variables, coords, attrs)
    if rates:
        best_rates = np.array([rates[label] for label in curves])
        data = data.assign_coords(
            {'client.learning_rate': (('series', 'pattern'), best_rates)}
        )
    return changed(RunView('Made by hand', '', data), **changes)


def _as_models(models):
    """Returns the evaluations of an algorithm as arrays of floats, by model and metric."""
    if not isinstance(models, dict):
        models = server(models)
    arrays = {}
    for model, metrics in models.items():
        arrays[model] = {
            metric: np.asarray(values, float) for metric, values in metrics.items()
        }
    return arrays


def _model_names(curves):
    """Lists the models of all algorithms, the server's first."""
    names = list(dict.fromkeys(itertools.chain(*curves.values())))
    return sorted(names, key='server'.__ne__)


def _grid_columns(points):
    """Makes the columns of a grid; algorithms without one have NaN."""
    names = dict.fromkeys(itertools.chain(*points))
    columns = {}
    for name in names:
        values = [point.get(name, np.nan) for point in points]
        columns[name] = 'series', dataset.as_objects(values)
    return columns


def _stacked(curves, models, metric):
    """Stacks a metric over algorithms and models; NaN where an algorithm lacks a model."""
    missing = np.full_like(next(iter(curves.values()))['server'][metric], np.nan)
    rows = []
    for by_model in curves.values():
        rows.append([by_model.get(model, {}).get(metric, missing) for model in models])
    return np.array(rows)


def changed(view, **changes):
    """Changes attributes of a view's data, such as ``names``, or its fields."""
    names = view.data.attrs.keys() & changes.keys()
    attrs = {name: changes.pop(name) for name in names}
    return dataclasses.replace(view, data=view.data.assign_attrs(attrs), **changes)


def server(values):
    """Makes the evaluations of an algorithm with one model and one metric."""
    return {'server': {'eval_accuracy': values}}


def ends(*seeds):
    """Makes [1, S, 1]: one pattern with one evaluation."""
    return np.reshape(seeds, (1, -1, 1))


def rows_of(table):
    """Returns the rows of a table as dictionaries by column."""
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]
