"""Builds problems with Gaussian features, for some of which the best model is known.

`gaussians` are classes whose means are equally far apart. In `synthetic` (classification) and
`gaussian_regression`, clients differ to chosen degrees.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Params, Problem
from fedjax_links.core import checks, errors, numpy_random
from fedjax_links.core.records import Section
from fedjax_links.datasets import Dataset
from fedjax_links.partition import Partitioner, bind, dirichlet_shares
from fedjax_links.problems import augmentation, models
from fedjax_links.problems.arrays import Batch
from fedjax_links.problems.classification import Model, images
from fedjax_links.problems.networks import from_flax
from fedjax_links.problems.vectors import vector_regression

# Features and classes of `synthetic`.
_FEATURES = 60
_CLASSES = 10
# The largest spread of clients or noise that is accepted.
_LARGEST_SPREAD = 1e30
# The largest ``shift``: up to it `analysis.best_linear_fit` finds the fit.
_LARGEST_SHIFT = 1e5


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
    label_noise: Section | None = None,
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **partition_options: Any,
) -> Problem:
    """Builds Gaussian classes whose best accuracy is known, and clients of skewed labels.

    Class c is ``N(m_c, I)``, with ``|m_c - m_k| = D`` for all pairs.

    Without a ``partition`` every client draws its examples for itself: a label from its shares
    nu_i ~ Dir(alpha 1), features from the label's class. No class runs out, so the labels of client
    i are draws from nu_i. With a ``partition``, E examples with equally many of each class are
    drawn, and the partition assigns them to clients. Test examples are drawn apart, equally many of
    each class.

    Bayes' rule is linear, so ``attainable['accuracy']`` is at once the Bayes accuracy and what
    softmax regression reaches on the population (`analysis.equidistant_accuracy`): exact, no
    sample. It stays so under label noise below a rate of ``(K - 1) / K``, as test labels are true.

    Args:
      num_clients: N.
      examples_per_client: n; with a ``partition`` the mean over clients, who have E = N n examples
        together.
      num_classes: K, at least 2.
      bayes_accuracy: the Bayes accuracy in ``(1 / K, 1)``, which determines D. Features have K - 1
        dimensions.
      alpha: concentration of the label shares, small is one class per client; 0.1 by default. With
        a ``partition`` it is the option ``alpha`` of the partition, which has its own default.
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

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.gaussians(
      ...     num_clients=4, examples_per_client=10, test_examples=20, bayes_accuracy=0.75
      ... )
      >>> print(problem.attainable['accuracy'].round(3))
      0.75
    """
    from fedjax_links import analysis  # brings SciPy, which takes longest to import

    checks.counts(num_clients=num_clients, examples_per_client=examples_per_client)
    checks.static_int('num_classes', num_classes, minimum=2)
    checks.static_int('test_examples', test_examples, minimum=num_classes)
    checks.number('bayes_accuracy', bayes_accuracy)
    chance = 1 / num_classes
    if not chance + 1e-12 <= bayes_accuracy <= 1 - 1e-12:
        requirement = f'lie above 1 / `num_classes` = {chance:.4g} and below 1'
        raise errors.invalid('bayes_accuracy', requirement, bayes_accuracy)
    distance = analysis.equidistant_distance(bayes_accuracy, num_classes)

    def owners_in_order(
        labels: NDArray[np.int32], *, num_clients: int
    ) -> NDArray[np.int64]:
        """Returns owners of examples that were drawn client by client."""
        return np.repeat(np.arange(num_clients), examples_per_client)

    partitioner: str | Partitioner = owners_in_order if partition is None else partition
    if partition is not None and alpha is not None:
        partition_options['alpha'] = alpha
    # Checks the options before anything is drawn; `images` binds the partition again.
    bind(partitioner, partition_options, gaussians)
    total = num_clients * examples_per_client
    # Measured peaks of memory: test data, then also the clients' shares, then also their examples.
    num_bytes = 16 * num_classes * test_examples
    checks.fits('test_examples', test_examples, num_bytes)
    num_bytes += num_clients * (8 * num_classes + 50)
    checks.fits('num_clients', num_clients, num_bytes)
    num_bytes += total * (34 * num_classes + 40)
    checks.fits('examples_per_client', examples_per_client, num_bytes)
    data_seed, partition_seed = numpy_random.seeds(seed, data_seed, partition_seed)
    rng = numpy_random.generator(data_seed, 'GC')
    if partition is None:
        alpha = 0.1 if alpha is None else alpha
        shares = dirichlet_shares(
            num_clients, num_classes, alpha=alpha, seed=partition_seed
        )
        # A label is the number of cumulative shares that a uniform draw has reached.
        cumulative = np.repeat(np.cumsum(shares, axis=1), examples_per_client, axis=0)
        uniforms = rng.random(total) * cumulative[:, -1]
        reached = uniforms[:, None] >= cumulative[:, :-1]
        labels = np.sum(reached, axis=1).astype(np.int32)
    else:
        labels = rng.permutation(np.arange(total) % num_classes).astype(np.int32)
    test_labels = (np.arange(test_examples) % num_classes).astype(np.int32)
    means = simplex(num_classes, distance)
    train = rng.standard_normal((total, num_classes - 1)) + means[labels]
    test = rng.standard_normal((test_examples, num_classes - 1)) + means[test_labels]
    held_out: dict[str, Any] = {'test_features': test, 'test_labels': test_labels}
    problem = images(
        dataset=Dataset(train, labels, num_classes=num_classes, **held_out),
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
    """Returns the vertices of a regular simplex around the origin.

    Args:
      num_points: K.
      distance: between any two.

    Returns:
      float64[K, K - 1].
    """
    from scipy.linalg import helmert  # slow to import, so only here

    # The K unit vectors of R^K are sqrt(2) apart. They stay so when they are projected onto the
    # complement of (1, ..., 1), of which the rows of `helmert` are an orthonormal basis.
    return np.asarray(helmert(num_points).T * distance / np.sqrt(2))


def synthetic(
    alpha: float = 1.0,
    beta: float = 1.0,
    *,
    num_clients: int = 30,
    max_examples: int | None = None,
    seed: int = 0,
    label_noise: Section | None = None,
) -> Problem:
    """Builds Synthetic(alpha, beta): multinomial logistic regression of 610 parameters.

    Client i has ``n_i = int(exp(4 + 2 z_i)) + 50`` examples, z_i standard normal, and
    ``y = argmax(W_i^T x + b_i)`` with

    * entries of W_i and b_i from N(u_i, 1), ``u_i = alpha a_i``;
    * x from N(v_i, diag(j^-1.2)), j = 1..60, entries of v_i from N(B_i, 1), ``B_i = beta c_i``.

    The a_i and c_i are standard normal. So alpha and beta are standard deviations, as in the
    generator that is in common use. Papers write N(0, alpha), which can also mean a variance. Both
    readings agree at 0 and 1.

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

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.synthetic(alpha=1.0, beta=1.0, num_clients=4)
      >>> print(problem.num_clients, problem.counts)
      4 [ 121   63  166 1467]

    References:
      Li et al., Federated optimization in heterogeneous networks, MLSys 2020, section 5.1;
      Xiang et al. 2023, section VI.
    """
    checks.number_within('alpha', alpha, 0, _LARGEST_SPREAD)
    checks.number_within('beta', beta, 0, _LARGEST_SPREAD)
    checks.static_int('num_clients', num_clients)
    if max_examples is not None:
        checks.static_int('max_examples', max_examples, minimum=51)
    rng = numpy_random.generator(seed, 'SA')
    row_bytes = 8 * _FEATURES
    # A lower bound before counts are drawn: weights, and at least 50 examples per client.
    checks.fits('num_clients', num_clients, num_clients * row_bytes * (_CLASSES + 50))
    counts = rng.lognormal(4, 2, num_clients).astype(np.int64) + 50
    model_means = alpha * rng.standard_normal(num_clients)
    centre_means = beta * rng.standard_normal(num_clients)
    weights = model_means[:, None, None] + rng.standard_normal(
        (num_clients, _FEATURES, _CLASSES)
    )
    biases = model_means[:, None] + rng.standard_normal((num_clients, _CLASSES))
    centres = centre_means[:, None] + rng.standard_normal((num_clients, _FEATURES))
    if max_examples is not None:
        counts = np.minimum(counts, max_examples)
    # With the counts known: the measured peak of memory is 2.5 times the features in float64.
    checks.fits('num_clients', num_clients, 2.5 * int(counts.sum()) * row_bytes)
    deviations = np.arange(1, _FEATURES + 1) ** -0.6
    features = rng.standard_normal((int(counts.sum()), _FEATURES)) * deviations
    labels = np.empty(len(features), np.int32)
    train = np.zeros(len(features), bool)
    ends = np.cumsum(counts)
    for i, (start, end) in enumerate(zip(ends - counts, ends, strict=True)):
        features[start:end] += centres[i]
        labels[start:end] = np.argmax(
            features[start:end] @ weights[i] + biases[i], axis=1
        )
        train[start : start + 9 * counts[i] // 10] = True
    features = features.astype(np.float32)
    return from_flax(
        features[train],
        augmentation.with_label_noise(label_noise, seed, labels[train], _CLASSES),
        np.repeat(np.arange(num_clients), counts)[train],
        module=models.Softmax(_CLASSES),
        eval_data=(features[~train], labels[~train]),
    )


def gaussian_regression(
    *,
    num_clients: int = 100,
    examples_per_client: int = 100,
    dimension: int = 20,
    heterogeneity: float = 1.0,
    shift: float = 0.0,
    sigma: float = 0.5,
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
) -> Problem:
    """Builds least squares on Gaussian features, whose exact error is known.

    Client i has ``y = <x, v_i> + sigma z`` with ``x ~ N(s_i, I)`` and z standard normal.

    Clients have regression vectors ``v_i = v + h a_i`` and shifts ``s_i = c f_i``: the common v is
    uniform on the unit sphere, a_i and f_i are ``N(0, I / d)``, of mean square length one.

    Models are vectors w without an intercept, which start at 0. Clients descend the mean squared
    error of their examples. Models are evaluated on the population, in which all clients count
    equally: ``loss`` is the exact mean squared error ``L* + (w - w*)^T S (w - w*)``. Here w* is the
    best model (`analysis.best_linear_fit`), L* its error, which is ``attainable['loss']``, and S
    the second moment of the features.

    Args:
      num_clients: N.
      examples_per_client: n.
      dimension: d.
      heterogeneity: h, at least 0: how far regression vectors are from the common one.
      shift: c, in [0, 1e5]: how far the clients' features are from the origin.
      sigma: standard deviation of the noise, at least 0.
      seed: integer in ``[0, 2**32)``.
      data_seed: seed of the examples in place of ``seed``.
      partition_seed: seed of the clients' vectors and shifts in place of ``seed``.

    Returns:
      A problem whose parameters are a vector float[d], with metrics ``loss`` and ``distance`` (L2,
      to the population's best model).

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.gaussian_regression(heterogeneity=0.0, sigma=0.5)
      >>> print(problem.attainable['loss'])
      0.25
    """
    from fedjax_links import analysis  # brings SciPy, which takes longest to import

    data_seed, partition_seed = numpy_random.seeds(seed, data_seed, partition_seed)
    checks.counts(num_clients=num_clients, examples_per_client=examples_per_client)
    checks.counts(dimension=dimension)
    checks.number_within('heterogeneity', heterogeneity, 0, _LARGEST_SPREAD)
    checks.number_within('shift', shift, 0, _LARGEST_SHIFT)
    checks.number_within('sigma', sigma, 0, _LARGEST_SPREAD)
    # Measured peaks of memory: vectors, shifts and second moments, then also the examples.
    num_bytes = dimension * (60 * num_clients + 26 * dimension)
    checks.fits('dimension', dimension, num_bytes)
    num_bytes += num_clients * examples_per_client * (22 * dimension + 40)
    checks.fits('examples_per_client', examples_per_client, num_bytes)
    rng = numpy_random.generator(partition_seed, 'RC')
    common = rng.standard_normal(dimension)
    common /= np.linalg.norm(common)
    spread = rng.standard_normal((2, num_clients, dimension)) / np.sqrt(dimension)
    vectors = common + heterogeneity * spread[0]
    shifts = shift * spread[1]
    rng = numpy_random.generator(data_seed, 'RD')
    features = (
        rng.standard_normal((num_clients, examples_per_client, dimension))
        + shifts[:, None]
    )
    labels = np.einsum('ijk,ik->ij', features, vectors)
    labels += sigma * rng.standard_normal(labels.shape)
    fit = analysis.best_linear_fit(vectors, shifts, sigma=sigma)
    return dataclasses.replace(
        vector_regression(features, labels, _squared_error),
        eval_data=jax.tree.map(
            lambda part: jnp.asarray(part, jnp.result_type(float)), fit
        ),
        metrics=_population_metrics,
        attainable={'loss': np.asarray(fit.error, np.float64)},
    )


def _squared_error(params: Params, batch: Batch) -> Array:
    """Averages the squared errors of a batch."""
    return jnp.mean(jnp.square(batch.features @ params - batch.labels))


def _population_metrics(params: Params, fit: Any) -> dict[str, Array]:
    """Measures a model's error on the population, whose best fit is ``fit``."""
    deviation = params - fit.vector
    return {
        'loss': fit.error + deviation @ fit.moment @ deviation,
        'distance': jnp.linalg.norm(deviation),
    }
