"""Gaussian classes whose means are equally far apart: the best accuracy is known exactly."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Problem
from fedjax_links.core import checks, errors
from fedjax_links.problems.classification import Model, federate
from fedjax_links.problems.datasets import Dataset
from fedjax_links.problems.partition import draws, names
from fedjax_links.problems.partition.names import Partitioner
from fedjax_links.problems.partition.shares import dirichlet_shares

_STREAM, _SIZES = 0x4743, 0x4753  # keep these draws apart from others that use the same seed


def gaussians(
    *,
    num_clients: int = 100,
    examples_per_client: int = 200,
    num_classes: int = 10,
    bayes_accuracy: float = 0.75,
    alpha: float | None = None,
    size_sigma: float = 0.0,
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
    the label's class. Nothing runs out, so clients have the shares that they aim at, and volumes
    are free. With a ``partition`` E examples, equally many of each class, are dealt out in its way
    instead. Test data are fresh, with equally many examples of each class.

    Bayes' rule is linear, so ``attainable['accuracy']`` is at once the Bayes accuracy and what
    softmax regression reaches on the population (`analysis.equidistant_accuracy`): exact, no
    sample. It stays so where training labels have symmetric noise below a rate of ``(K - 1) / K``.
    With label noise ``attainable['noisy_accuracy']`` is what that same model has on noisy labels
    (`analysis.accuracy_on_noisy_labels`); with ``test`` in its section, ``accuracy`` is measured
    on such labels and is that number, and ``clean_accuracy`` the other.

    Args:
      num_clients: N.
      examples_per_client: n, the clients' mean number of examples; all have E = N n together.
      num_classes: K, at least 2.
      bayes_accuracy: what D follows from, in ``(1 / K, 1)``; features have K - 1 dimensions.
      alpha: concentration of the label shares, small is one class per client; 0.1 by default. With
        a ``partition``, that of the partition if it has one, and its own default.
      size_sigma: standard deviation of the logarithm of client sizes; 0 for equal sizes, and with
        a ``partition``. Sizes are rescaled to E together, at least 1 each.
      test_examples: T, at least K.
      model: as in `federate`.
      partition: as in `federate`; None for clients that draw their own examples.
      label_noise: as in `federate`.
      seed: integer in ``[0, 2**32)``.
      data_seed: seed of labels, features and label noise, in place of ``seed``.
      partition_seed: seed of label shares and sizes or of the partition, in place of ``seed``.
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
    checks.within('size_sigma', size_sigma, 0, 100)
    if partition is not None and size_sigma != 0:
        raise errors.invalid('size_sigma', 'be 0 beside partition', size_sigma)
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
        sizes_rng = np.random.default_rng([int(partition_seed), _SIZES])
        logs = size_sigma * sizes_rng.standard_normal(num_clients)
        weights = np.exp(logs - logs.max())  # lognormal sizes, rescaled and rounded
        stops = np.rint(np.cumsum(weights) / weights.sum() * (total - num_clients))
        counts = np.diff(stops.astype(np.int64), prepend=0) + 1
        owners = np.repeat(np.arange(num_clients), counts)
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
    dataset = Dataset(train, labels, test, test_labels, num_classes, 'gaussians')
    problem = federate(
        dataset,
        num_clients=num_clients,
        model=model,
        partition=partitioner,
        seed=partition_seed,
        label_noise=label_noise,
        noise_seed=data_seed,
        **partition_options,
    )
    best = analysis.equidistant_accuracy(distance, num_classes)
    known = {'accuracy': best}
    if label_noise is not None:
        table = analysis.symmetric_confusion(np.mean(label_noise['rate']), num_classes)
        noisy = analysis.accuracy_on_noisy_labels(best, table)
        is_test = label_noise.get('test', False)
        known = {'accuracy': noisy if is_test else best, 'noisy_accuracy': noisy}
        known |= {'clean_accuracy': best} if is_test else {}
    attainable = {name: np.asarray(value, np.float64) for name, value in known.items()}
    return dataclasses.replace(problem, attainable=attainable)


def simplex(num_points: int, distance: float) -> NDArray[np.float64]:
    """Vertices of a regular simplex around the origin.

    Args:
      num_points: K.
      distance: between any two.

    Returns:
      float64[K, K - 1].
    """
    # Unit vectors of R^K are sqrt 2 apart; the columns are an orthonormal basis of what is
    # orthogonal to their common direction (Helmert's contrasts).
    basis = np.zeros((num_points, num_points - 1))
    for k in range(1, num_points):
        basis[:k, k - 1] = 1
        basis[k, k - 1] = -k
        basis[:, k - 1] /= np.sqrt(k * (k + 1))
    return basis * distance / np.sqrt(2)
