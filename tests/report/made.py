"""Runs made by hand."""

import dataclasses

import numpy as np
import xarray

from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset


def results(curves, *, members=None, patterns=None, rates=None, **changes):
    """A source of ``{algorithm: {model: {metric: [P, S, E]}}}``, evaluated every 10 rounds.

    In place of ``{model: ...}`` an array stands for the server model's ``eval_accuracy``.
    """
    given = {
        label: {
            model: {
                metric: np.asarray(values, float) for metric, values in named.items()
            }
            for model, named in (own if isinstance(own, dict) else server(own)).items()
        }
        for label, own in curves.items()
    }
    first = next(iter(given.values()))['server']
    shape = num_patterns, num_seeds, count = next(iter(first.values())).shape
    named = {label: (members or {}).get(label, (label, {})) for label in given}
    order = sorted(
        dict.fromkeys(k for own in given.values() for k in own), key='server'.__ne__
    )
    nothing = np.full(shape, np.nan)
    levels = {
        metric: np.array(
            [
                [own.get(k, {}).get(metric, nothing) for k in order]
                for own in given.values()
            ]
        )
        for metric in first
    }
    theirs = np.array([[k in own for k in order] for own in given.values()])
    coords = {
        'series': list(given),
        'model': order,
        'pattern': patterns or [f'pattern{place}' for place in range(num_patterns)],
        'seed': range(num_seeds),
        'round': 10 * np.arange(1, count + 1),
        'algorithm': ('series', [owner for owner, _ in named.values()]),
        'main_model': ('series', [dataset.main_model(own) for own in given.values()]),
        'complete': ('series', np.ones(len(given), bool)),
        'begun': (dataset.DIMS[:-1], np.tile(theirs[..., None, None], shape[:2])),
    }
    for name in {name for _, point in named.values() for name in point}:
        column = [point.get(name, np.nan) for _, point in named.values()]
        coords[name] = 'series', dataset.as_objects(column)
    attrs = {
        'metric': 'eval_accuracy',
        'baseline': 'fedavg',
        'directions': {m: 'max' if m.endswith('accuracy') else 'min' for m in first},
        'names': {},
        'members': named,
    }
    variables = {metric: (dataset.DIMS, values) for metric, values in levels.items()}
    data = xarray.Dataset(variables, coords, attrs)
    if rates:
        chosen = ('series', 'pattern'), np.array([rates[k] for k in given])
        data = data.assign_coords({'client.learning_rate': chosen})
    return changed(RunView('Made by hand', '', data), **changes)


def changed(found, **changes):
    """A source that is otherwise in attributes of its data, such as ``names``, or in fields."""
    of_data = {
        name: changes.pop(name) for name in found.data.attrs.keys() & changes.keys()
    }
    data = found.data.assign_attrs(of_data)
    return dataclasses.replace(found, data=data, **changes)


def server(values):
    """The evaluations of an algorithm with one model and one metric."""
    return {'server': {'eval_accuracy': values}}


def ends(*seeds):
    """[1, S, 1], one pattern with one evaluation."""
    return np.reshape(seeds, (1, -1, 1))
