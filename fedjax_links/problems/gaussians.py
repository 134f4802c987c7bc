"""Gaussian classes whose means are equally far apart: the best accuracy is known exactly."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Problem
from fedjax_links.core import checks, errors
from fedjax_links.problems import noisy_labels as noise
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
    distance: float | None = None,
    bayes_accuracy: float | None = None,
    dimension: int | None = None,
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
      distance: D, positive, in standard deviations of a class.
      bayes_accuracy: what D follows from if it is not given, in ``(1 / K, 1)``; 0.75 by default.
      dimension: of the features, at least K - 1, the default; means use the first K - 1.
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

    sizes = {
        'num_clients': (num_clients, 1),
        'examples_per_client': (examples_per_client, 1),
        'num_classes': (num_classes, 2),
        'test_examples': (test_examples, num_classes),
    }
    for name, (value, least) in sizes.items():
        checks.static_int(name, value, minimum=least)
    dimension = num_classes - 1 if dimension is None else dimension
    checks.static_int('dimension', dimension, minimum=num_classes - 1)
    if distance is not None and bayes_accuracy is not None:
        raise errors.invalid('distance', 'be None beside bayes_accuracy', distance)
    if distance is None:
        wanted = 0.75 if bayes_accuracy is None else bayes_accuracy
        checks.numbers('bayes_accuracy', wanted)
        if not 1 / num_classes < wanted <= 1 - 1e-12:
            requirement = f'lie between 1 / num_classes = {1 / num_classes:g} and 1'
            raise errors.invalid('bayes_accuracy', requirement, wanted)
        distance = analysis.equidistant_distance(wanted, num_classes)
    checks.positive('distance', distance)
    checks.within('size_sigma', size_sigma, 0, 100)
    if partition is not None and size_sigma != 0:
        raise errors.invalid('size_sigma', 'be 0 beside partition', size_sigma)
    if partition is not None and alpha is not None:
        partition_options['alpha'] = alpha
    _check_partition(partition, partition_options)
    noise.check(label_noise, num_classes, num_clients)
    checks.fits(
        'examples_per_client',
        examples_per_client,
        16 * num_clients * examples_per_client * dimension,
    )
    data_seed, partition_seed = draws.seeds(seed, data_seed, partition_seed)
    rng = np.random.default_rng([int(data_seed), _STREAM])
    means = np.zeros((num_classes, dimension))
    means[:, : num_classes - 1] = simplex(num_classes, distance)
    total = num_clients * examples_per_client
    if partition is None:
        shares = dirichlet_shares(
            num_clients, num_classes, alpha=0.1 if alpha is None else alpha, seed=partition_seed
        )
        counts = _sizes(num_clients, total, size_sigma, partition_seed)
        owners = np.repeat(np.arange(num_clients), counts)
        labels = _labels(rng, shares, owners)
    else:
        labels = rng.permutation(np.arange(total) % num_classes).astype(np.int32)
        owners = names.owners(partition, labels, num_clients, partition_seed, partition_options)
    test_labels = (np.arange(test_examples) % num_classes).astype(np.int32)
    dataset = Dataset(
        train_features=_features(rng, means, labels),
        train_labels=labels,
        test_features=_features(rng, means, test_labels),
        test_labels=test_labels,
        num_classes=num_classes,
        name='gaussians',
    )
    problem = federate(
        dataset,
        num_clients=num_clients,
        model=model,
        partition=lambda _labels, *, num_clients: owners,
        seed=data_seed,
        label_noise=label_noise,
    )
    best = analysis.equidistant_accuracy(distance, num_classes)
    known = {'accuracy': best}
    if label_noise is not None:
        table = noise.confusion_of(label_noise, num_classes, num_clients)
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
    vertices: NDArray[np.float64] = basis * distance / np.sqrt(2)
    return vertices


def _check_partition(partition: str | Partitioner | None, options: Mapping[str, Any]) -> None:
    """Raises for options that neither `gaussians` nor the partition knows."""
    own = names.keywords(gaussians)
    if partition is not None:
        names.check(partition, options, own - {'alpha'})
    elif options:
        raise errors.unknown_name('gaussians', next(iter(options)), own)


def _sizes(num_clients: int, total: int, sigma: float, seed: int) -> NDArray[np.int64]:
    """Sizes of given sum, lognormal before they are rescaled and rounded."""
    if sigma == 0:
        return np.full(num_clients, total // num_clients)
    rng = np.random.default_rng([int(seed), _SIZES])
    logs = sigma * rng.standard_normal(num_clients)
    weights = np.exp(logs - logs.max())
    ends = np.rint(np.cumsum(weights) / weights.sum() * (total - num_clients)).astype(np.int64)
    sizes: NDArray[np.int64] = np.diff(ends, prepend=0) + 1
    return sizes


def _labels(
    rng: np.random.Generator, shares: NDArray[np.float64], owners: NDArray[np.int64]
) -> NDArray[np.int32]:
    """A label for every example from its owner's shares."""
    ends = np.cumsum(shares, axis=1)
    places = rng.random(len(owners)) * ends[owners, -1]
    labels = np.empty(len(owners), np.int32)
    stops = np.searchsorted(owners, np.arange(len(shares) + 1))
    for i, (start, stop) in enumerate(itertools.pairwise(stops)):
        labels[start:stop] = np.searchsorted(ends[i, :-1], places[start:stop], side='right')
    return labels


def _features(
    rng: np.random.Generator, means: NDArray[np.float64], labels: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Draws from the classes of the labels."""
    drawn = rng.standard_normal((labels.size, means.shape[1]))
    features: NDArray[np.float32] = (drawn + means[labels]).astype(np.float32)
    return features
