"""Linear outputs of two entries, for losses and metrics of regression."""

import numpy as np
from flax import linen as nn

from fedjax_links import problems

RNG = np.random.default_rng(0)


def regression(num_examples, **options):
    """Linear outputs of two entries, more examples than one chunk holds."""
    features = RNG.normal(size=(num_examples, 3)).astype(np.float32)
    labels = (
        features @ RNG.normal(size=(3, 2)) + RNG.normal(size=(num_examples, 2)) + 4
    ).astype(np.float32)
    clients = np.arange(num_examples) % 4
    problem = problems.from_flax(
        features, labels, clients, module=nn.Dense(2), **options
    )
    return (
        problem,
        np.asarray(problem.data.features, float),
        np.asarray(problem.data.labels, float),
    )
