"""Gaussian classes whose means are equally far apart: the best accuracy is known exactly."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Problem
from fedjax_links.core import checks
from fedjax_links.problems.classification import Model, images
from fedjax_links.problems.datasets import Dataset
from fedjax_links.problems.partition import draws, names
from fedjax_links.problems.partition.names import Partitioner
from fedjax_links.problems.partition.shares import dirichlet_shares

_STREAM = 0x4743  # keeps these draws apart from others that use the same seed


def gaussians(
    *,
    num_clients: int = 100,
    examples_per_client: int = 200,
    num_classes: int = 10,
    bayes_accuracy: float = 0.75,
    alpha: float | None = None,
    test_examples: int = 10_000,
    model: Model = 'softmax',
    partition: str | Partitioner | None = None,
    label_noise: Mapping[str, Any] | None = None,
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **partition_options: Any,
) -> Problem:
    """Classes ``N(m_c, I)`` with ``|m_c - m_k| = D`` for all pairs, and clients of skewed labels.

    Every client draws its own examples: a label from its shares nu_i ~ Dir(alpha 1), features from
    the label's class. Nothing runs out, so clients have the shares that they aim at. With a
    ``partition`` E examples, equally many of each class, are dealt out in its way instead. Test
    data are fresh, with equally many examples of each class.

    Bayes' rule is linear, so ``attainable['accuracy']`` is at once the Bayes accuracy and what
    softmax regression reaches on the population (`analysis.equidistant_accuracy`): exact, no
    sample. It stays so under label noise below a rate of ``(K - 1) / K``, as test labels are true.

    Args:
      num_clients: N.
      examples_per_client: n, with a ``partition`` the clients' mean; all have E = N n together.
      num_classes: K, at least 2.
      bayes_accuracy: what D follows from, in ``(1 / K, 1)``; features have K - 1 dimensions.
      alpha: concentration of the label shares, small is one class per client; 0.1 by default. With
        a ``partition``, that of the partition if it has one, and its own default.
      test_examples: T, at least K.
      model: as in `images`.
      partition: as in `images`; None for clients that draw their own examples.
      label_noise: as in `images`.
      seed: integer in ``[0, 2**32)``.
      data_seed: seed of labels, features and label noise, in place of ``seed``.
      partition_seed: seed of label shares or of the partition, in place of ``seed``.
      **partition_options: passed on to the partition (``similarity``, ``shards_per_client``, ...).

    Returns:
      A problem with metrics ``loss`` and ``accuracy``.

    Raises:
      ValueError: if an argument is out of range.
    """
    from fedjax_links import analysis  # brings SciPy, which takes longest to import

    checks.static_int('num_clients', num_clients)
    checks.static_int('examples_per_client', examples_per_client)
    checks.static_int('num_classes', num_classes, minimum=2)
    checks.static_int('test_examples', test_examples, minimum=num_classes)
    checks.within('bayes_accuracy', bayes_accuracy, 1 / num_classes + 1e-12, 1 - 1e-12)
    distance = analysis.equidistant_distance(bayes_accuracy, num_classes)
    if partition is not None and alpha is not None:
        partition_options['alpha'] = alpha
    partitioner: str | Partitioner = partition or (lambda _labels, *, num_clients: owners)
    names.bind(partitioner, partition_options, names.keywords(gaussians))
    total = num_clients * examples_per_client
    checks.fits('examples_per_client', examples_per_client, 16 * total * num_classes)
    data_seed, partition_seed = draws.seeds(seed, data_seed, partition_seed)
    rng = np.random.default_rng([int(data_seed), _STREAM])
    if partition is None:
        shares = dirichlet_shares(
            num_clients, num_classes, alpha=0.1 if alpha is None else alpha, seed=partition_seed
        )
        owners = np.repeat(np.arange(num_clients), examples_per_client)
        ends = np.cumsum(shares, axis=1)[owners]
        places = rng.random(total) * ends[:, -1]
        labels = np.sum(places[:, None] >= ends[:, :-1], axis=1).astype(np.int32)
    else:
        labels = rng.permutation(np.arange(total) % num_classes).astype(np.int32)
    test_labels = (np.arange(test_examples) % num_classes).astype(np.int32)
    means = simplex(num_classes, distance)
    train, test = (
        (rng.standard_normal((part.size, num_classes - 1)) + means[part]).astype(np.float32)
        for part in (labels, test_labels)
    )
    dataset = Dataset(
        train, labels, test_features=test, test_labels=test_labels, num_classes=num_classes
    )
    problem = images(
        dataset=dataset,
        num_clients=num_clients,
        model=model,
        partition=partitioner,
        seed=partition_seed,
        label_noise=label_noise,
        data_seed=data_seed,
        **partition_options,
    )
    best = np.asarray(analysis.equidistant_accuracy(distance, num_classes), np.float64)
    return dataclasses.replace(problem, attainable={'accuracy': best})


def simplex(num_points: int, distance: float) -> NDArray[np.float64]:
    """Vertices of a regular simplex around the origin.

    Args:
      num_points: K.
      distance: between any two.

    Returns:
      float64[K, K - 1].
    """
    from scipy.linalg import helmert  # slow to import, so only here

    # Unit vectors of R^K are sqrt 2 apart, in any orthonormal basis of what is orthogonal to their
    # common direction too.
    return np.asarray(helmert(num_points).T * distance / np.sqrt(2))
