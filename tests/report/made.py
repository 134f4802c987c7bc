"""Runs made by hand."""

import dataclasses

import numpy as np

from fedjax_links.report.source import Source
from fedjax_links.results import dataset


def results(curves, *, members=None, patterns=None, rates=None, **changes):
    """A source of ``{algorithm: {model: {metric: [P, S, E]}}}``, evaluated every 10 rounds.

    In place of ``{model: ...}`` an array stands for the server model's ``eval_accuracy``.
    """
    entries = []
    for label, models in curves.items():
        models = models if isinstance(models, dict) else server(models)
        values = {
            model: {metric: np.asarray(values, float) for metric, values in named.items()}
            for model, named in models.items()
        }
        algorithm, point = (members or {}).get(label, (label, {}))
        chosen = {} if rates is None else {'client.learning_rate': rates[label]}
        entries.append(dataset.Series(label, algorithm, point, values, chosen=chosen))
    first = entries[0].values['server']
    num_patterns, num_seeds, count = next(iter(first.values())).shape
    ways = {metric: 'max' if metric.endswith('accuracy') else 'min' for metric in first}
    data = dataset.build(
        entries,
        patterns=patterns or [f'pattern{place}' for place in range(num_patterns)],
        seeds=range(num_seeds),
        rounds=10 * np.arange(1, count + 1),
        metrics=first,
        metric='eval_accuracy',
        baseline='fedavg',
        directions=ways,
        names={},
    )
    return changed(Source('Made by hand', '', data), **changes)


def changed(found, **changes):
    """A source that is otherwise in attributes of its data, such as ``names``, or in fields."""
    of_data = {name: changes.pop(name) for name in found.data.attrs.keys() & changes.keys()}
    data = found.data.assign_attrs(of_data)
    return dataclasses.replace(found, data=data, **changes)


def server(values):
    """The evaluations of an algorithm with one model and one metric."""
    return {'server': {'eval_accuracy': values}}


def ends(*seeds):
    """[1, S, 1], one pattern with one evaluation."""
    return np.reshape(seeds, (1, -1, 1))
