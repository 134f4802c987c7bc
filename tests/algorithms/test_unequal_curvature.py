"""Where algorithms end on quadratics of unequal curvature: at the optimum, or with local drift.

``F_i = h_i / 2 (x - u_i)^2``, and s local steps return ``a_i x + (1 - a_i) u_i`` with
``a_i = (1 - eta h_i)^s``. The mean of the updates is zero at
``sum_i (1 - a_i) u_i / sum_i (1 - a_i)``.
"""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import algorithms, local_training, participation, problems

TARGETS = np.array([0.0, 1.0, 5.0])
CURVATURE = np.array([1.0, 5.0, 2.0])
PROGRESS = 1 - (1 - 0.05 * CURVATURE) ** 4
ENDS = {
    'optimum': CURVATURE @ TARGETS / CURVATURE.sum(),
    'drift': PROGRESS @ TARGETS / PROGRESS.sum(),
}


@pytest.mark.parametrize(
    ('name', 'options', 'end'),
    [
        ('area', {}, 'drift'),
        ('ca2fl', {'buffer_size': 2}, 'drift'),
        ('fedstale', {'stale_weight': 1.0}, 'drift'),
        ('fedvarp', {}, 'drift'),
        ('mimic', {}, 'drift'),
        ('amplified_scaffold', {'period': 10, 'amplification': 1.5}, 'optimum'),
        ('focus', {}, 'optimum'),
    ],
)
def test_only_corrected_gradients_end_at_the_optimum(x64, name, options, end):
    problem = problems.quadratic(TARGETS[:, None], curvature=CURVATURE)
    client = local_training.local_sgd(0.05, local_steps=4)
    algorithm = algorithms.ALGORITHMS[name](client, **options)
    links = participation.bernoulli([0.9, 0.5, 0.3])
    result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=3000)
    server = algorithm.models(result.state.algorithm)['server']
    np.testing.assert_allclose(server, ENDS[end], rtol=0, atol=1e-9)
    assert abs(ENDS['optimum'] - ENDS['drift']) > 0.1
