"""Synthetic(alpha, beta): clients whose models and whose features differ, to chosen degrees."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links.base import Problem
from fedjax_links.core import checks
from fedjax_links.problems import models
from fedjax_links.problems import noisy_labels as noise
from fedjax_links.problems.arrays import from_flax

_FEATURES = 60
_CLASSES = 10
_STREAM = 0x5341  # keeps these draws independent of others that use the same seed


def synthetic(
    alpha: float = 1.0,
    beta: float = 1.0,
    *,
    num_clients: int = 30,
    max_examples: int | None = None,
    seed: int = 0,
    label_noise: Mapping[str, Any] | None = None,
) -> Problem:
    """Synthetic(alpha, beta) for multinomial logistic regression, 610 parameters.

    Client i has ``n_i = int(exp(4 + 2 z_i)) + 50`` examples, z_i standard normal, and
    ``y = argmax(W_i^T x + b_i)`` with

    * entries of W_i and b_i from N(u_i, 1), ``u_i = alpha a_i``;
    * x from N(v_i, diag(j^-1.2)), j = 1..60, entries of v_i from N(B_i, 1), ``B_i = beta c_i``;

    a_i and c_i standard normal. Alpha and beta are standard deviations, as in the generator that is
    in common use; written N(0, alpha), they may be read as variances, which agrees at 0 and 1.

    Of the n_i examples of client i the first ``floor(0.9 n_i)`` are for training, and the rest of
    all clients together are for testing.

    Args:
      alpha: how much models differ between clients, at least 0.
      beta: how much features differ between clients, at least 0.
      num_clients: N.
      max_examples: cap on n_i, at least 51; none by default. Counts are heavy-tailed: their mean is
        453, and one in ten thousand is above 90000.
      seed: integer in ``[0, 2**32)``; counts, models and centres do not depend on the cap.
      label_noise: as in `images`.

    Returns:
      A problem with metrics ``loss`` and ``accuracy`` on the test data.

    Raises:
      ValueError: if an argument is out of range.

    References:
      Li et al., Federated optimization in heterogeneous networks, MLSys 2020, section 5.1;
      Xiang et al. 2023, section VI.
    """
    checks.within('alpha', alpha, 0, 1e30)
    checks.within('beta', beta, 0, 1e30)
    checks.static_int('num_clients', num_clients)
    if max_examples is not None:
        checks.static_int('max_examples', max_examples, minimum=51)
    checks.seed('seed', seed)
    # The fewest that there can be; how many there are is drawn first.
    size = 8 * _FEATURES
    checks.fits('num_clients', num_clients, num_clients * size * (_CLASSES + 50))
    rng = np.random.default_rng([int(seed), _STREAM])
    counts = rng.lognormal(4, 2, num_clients).astype(np.int64) + 50
    model_means = alpha * rng.standard_normal(num_clients)
    centre_means = beta * rng.standard_normal(num_clients)
    weights = model_means[:, None, None] + rng.standard_normal((num_clients, _FEATURES, _CLASSES))
    biases = model_means[:, None] + rng.standard_normal((num_clients, _CLASSES))
    centres = centre_means[:, None] + rng.standard_normal((num_clients, _FEATURES))
    if max_examples is not None:
        counts = np.minimum(counts, max_examples)
    checks.fits('num_clients', num_clients, 2.5 * int(counts.sum()) * size)
    deviations = np.arange(1, _FEATURES + 1) ** -0.6
    features = rng.standard_normal((int(counts.sum()), _FEATURES)) * deviations
    labels = np.empty(len(features), np.int32)
    train = np.zeros(len(features), bool)
    ends = np.cumsum(counts)
    for i, (start, end) in enumerate(zip(ends - counts, ends, strict=True)):
        features[start:end] += centres[i]
        labels[start:end] = np.argmax(features[start:end] @ weights[i] + biases[i], axis=1)
        train[start : start + 9 * counts[i] // 10] = True
    features = features.astype(np.float32)
    return from_flax(
        features[train],
        noise.apply(label_noise, seed, labels[train], _CLASSES),
        np.repeat(np.arange(num_clients), counts)[train],
        module=models.Softmax(_CLASSES),
        eval_data=(features[~train], labels[~train]),
    )
