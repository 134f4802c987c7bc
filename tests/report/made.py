"""Results made by hand."""

import numpy as np

from fedjax_links.report.results import Results


def results(curves, **changes):
    """Results of ``{algorithm: {model: {metric: [P, S, E]}}}``, evaluated every 10 rounds.

    In place of ``{model: ...}`` an array stands for the server model's ``eval_accuracy``.
    """
    curves = {
        label: models if isinstance(models, dict) else server(models)
        for label, models in curves.items()
    }
    curves = {
        label: {
            model: {metric: np.asarray(values, float) for metric, values in named.items()}
            for model, named in models.items()
        }
        for label, models in curves.items()
    }
    first = next(iter(next(iter(curves.values()))['server'].values()))
    base = {
        'title': 'Made by hand',
        'caption': '',
        'metric': 'eval_accuracy',
        'baseline': 'fedavg',
        'patterns': [f'pattern{place}' for place in range(first.shape[0])],
        'names': {},
        'rounds': 10 * np.arange(1, first.shape[2] + 1),
        'curves': curves,
        'learning_rates': {},
        'tuning': {},
        'missing': (),
        'links': {},
        'members': {label: (label, {}) for label in curves},
        'directions': {
            metric: 'max' if metric.endswith('accuracy') else 'min'
            for metric in next(iter(curves.values()))['server']
        },
    }
    return Results(**{**base, **changes})


def server(values):
    """The evaluations of an algorithm with one model and one metric."""
    return {'server': {'eval_accuracy': values}}


def ends(*seeds):
    """[1, S, 1], one pattern with one evaluation."""
    return np.reshape(seeds, (1, -1, 1))
