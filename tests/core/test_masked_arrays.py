"""Masked arrays are refused where a conversion would use the numbers under their masks."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis, participation, partition, problems, sweeps
from fedjax_links.problems import adapters
from tests import refusals

OWNERS = [0, 0, 1, 1]
CLASSES = [0, 1, 1, 0]
ROWS = [[1.0], [2.0], [3.0], [4.0]]


def from_arrays(features, labels):
    def loss(params, batch):
        return jnp.mean((batch.features - params[None]) ** 2)

    def init(key):
        return jnp.zeros(1)

    return problems.from_arrays(
        features, labels, OWNERS, init_params=init, loss_fn=loss
    )


CALLS = {
    'from_arrays, features': ('features', ROWS, lambda v: from_arrays(v, CLASSES)),
    'from_arrays, labels': ('labels', CLASSES, lambda v: from_arrays(ROWS, v)),
    'from_columns, features': (
        'features',
        ROWS,
        lambda v: adapters.from_columns(v, CLASSES, OWNERS),
    ),
    'from_columns, labels': (
        'labels',
        CLASSES,
        lambda v: adapters.from_columns(ROWS, v, OWNERS),
    ),
    'quadratic': ('targets', ROWS, problems.quadratic),
    'bernoulli': ('schedule', [0.1, 0.5], participation.bernoulli),
    'replay': ('mask', [[1, 0], [0, 1]], participation.replay),
    'dirichlet': (
        'labels',
        CLASSES,
        lambda v: partition.dirichlet(v, num_clients=2, alpha=1.0, seed=0),
    ),
    'product': (
        'learning_rate',
        [0.1, 0.2],
        lambda v: sweeps.product(algorithm={'learning_rate': v}),
    ),
    'fedavg_weights': ('probs', [0.1, 0.5], analysis.fedavg_weights),
}


def masked(values, *, first_entry):
    array = np.ma.masked_array(values, mask=np.zeros(np.shape(values), bool))
    array.mask.flat[0] = first_entry
    return array


@pytest.mark.parametrize('call', CALLS)
def test_a_masked_entry_is_refused(call):
    argument, values, function = CALLS[call]
    with refusals.names(argument, 'no masked entries'):
        function(masked(values, first_entry=True))


@pytest.mark.parametrize('call', CALLS)
def test_a_mask_without_entries_is_no_mask(call):
    _, values, function = CALLS[call]
    function(masked(values, first_entry=False))
