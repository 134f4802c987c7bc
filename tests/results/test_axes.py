"""Names that axes of results cannot have, and parts of results that keep their axes."""

import numpy as np
import pytest
import xarray

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from fedjax_links.results import conversion
from tests import refusals


def test_a_metric_or_a_column_named_like_an_axis_is_refused():
    message = r'^`metric` must be none of algorithm, complete, .*, got model\.$'
    with pytest.raises(ValueError, match=message):
        fl.plot.learning_curves({'fedavg': np.zeros(3)}, 'model')
    client = local_training.local_sgd(0.1, local_steps=1)
    parts = {
        'title': 'Names',
        'problem': problems.quadratic(np.eye(2)),
        'patterns': {'all': participation.always(2)},
        'algorithms': {'fedavg': fl.ALGORITHMS['fedavg'](client)},
        'num_rounds': 1,
        'eval_every': 1,
    }
    with pytest.raises(
        ValueError, match=r'^`metrics` must be none of .*, got round\.$'
    ):
        fl.Experiment(
            **parts, eval_fn=lambda params, key, problem: {'round': params.sum()}
        )

    def algorithm(model=1.0):
        return fl.ALGORITHMS['fedavg'](local_training.local_sgd(model, local_steps=1))

    with pytest.raises(ValueError, match=r'^`grid` must be none of .*, got model\.$'):
        fl.Experiment(
            **{**parts, 'algorithms': {'fedavg': algorithm}}, grid={'model': [0.1, 0.2]}
        )


def test_a_model_with_a_slash_is_refused():
    """A column ``model/metric`` could not be taken apart."""
    with pytest.raises(ValueError, match=r'without a slash, got .a/b. for .fedavg.'):
        fl.plot.learning_curves({'fedavg': {'a/b': np.zeros(3)}})


def test_a_part_of_results_keeps_their_axes_and_attributes():
    whole = conversion.to_dataset({'fedavg': np.zeros((2, 3))}, 'accuracy')
    fl.plot.learning_curves(whole.isel(seed=[0], round=[1, 2]))
    parts = {
        'without seed': whole.isel(seed=0),
        'without series': whole.isel(series=0),
        'without metric, names, members': xarray.Dataset(whole.data_vars, whole.coords),
        'without series, model, pattern, seed': xarray.Dataset({'round': [1, 2]}),
        "at least one evaluation, got axes {'series': 1,": whole.isel(seed=[]),
        "'round': 0}": whole.isel(round=[]),
    }
    for words, part in parts.items():
        with refusals.names('data', words):
            fl.plot.learning_curves(part)
