"""Linear outputs of two entries, for losses and metrics of regression."""

import numpy as np
from flax import linen as nn

from fedjax_links import problems


def regression(num_examples, **options):
    """Builds a problem of four clients; returns it, its features and its labels in float64."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(num_examples, 3)).astype(np.float32)
    means = features @ rng.normal(size=(3, 2)) + 4
    labels = (means + rng.normal(size=means.shape)).astype(np.float32)
    clients = np.arange(num_examples) % 4
    problem = problems.from_flax(
        features, labels, clients, module=nn.Dense(2), **options
    )
    return (
        problem,
        np.asarray(problem.data.features, float),
        np.asarray(problem.data.labels, float),
    )
