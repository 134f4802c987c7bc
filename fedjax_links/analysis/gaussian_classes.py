r"""Gaussian classes of unit covariance: the minimiser over the population, and its accuracy.

A client's example is of class c with its own probability ``q_ic``, and then ``x ~ N(mu_c, I)``.
Under client weights w the classes have the shares ``q_c = sum_i w_i q_ic``, and Bayes' rule says
``P(c | x) ~ exp(mu_c^T x - |mu_c|^2 / 2 + log q_c)``: linear scores. The cross-entropy of a softmax
model is least at the true conditional probabilities, so its minimiser is known without any
minimisation, and weights move nothing but the intercept, by the logarithms of the shares.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedjax_links.analysis import _checks
from fedjax_links.analysis.linear.linear_models import LinearModel
from fedjax_links.core import errors

_SCRAMBLES, _POINTS = 16, 2**10


class GaussianAccuracy(NamedTuple):
    """Accuracy of a linear model on Gaussian classes.

    Attributes:
      accuracy: share of examples whose class has the largest score.
      error: standard error of the quadrature; 0 for two classes, where it is exact.
    """

    accuracy: float
    error: float


def gaussian_minimiser(means: ArrayLike, proportions: ArrayLike, weights: ArrayLike) -> LinearModel:
    r"""The softmax model that minimises ``sum_i w_i E[loss]`` over Gaussian classes, exactly.

    Args:
      means: float[C, d], mu_c.
      proportions: float[N, C], q_ic, the class shares of each client.
      weights: float[N], w_i, not negative.

    Returns:
      ``B_c = mu_c - mean``, ``b_c = log q_c - |mu_c|^2 / 2``, of which the mean over the classes is
      taken off, as a gradient method that starts at zero would leave it.

    Raises:
      ValueError: if an argument is out of range, or a class has no share under the weights: then
        its intercept falls for ever and there is no minimiser.
    """
    centres = _centres(means)
    shares = _shares(proportions, weights, len(centres))
    if not shares.all():
        label = int(np.argmin(shares))
        raise errors.invalid('proportions', 'give every class a share', f'0 for class {label}')
    intercept = np.log(shares) - 0.5 * np.sum(centres**2, axis=1)
    return LinearModel((centres - centres.mean(axis=0)).T, intercept - intercept.mean())


def gaussian_accuracy(model: LinearModel, means: ArrayLike) -> GaussianAccuracy:
    """Accuracy of a linear model on new examples of Gaussian classes that are equally likely.

    Exact for two classes. For more, quadrature in the directions that the scores depend on: 16
    scrambled Sobol sequences of 1024 points per class, from a fixed seed, whose spread gives the
    error (Owen 1995).

    Args:
      model: scores of d features.
      means: float[C, d].

    Returns:
      The accuracy and the error of the quadrature.

    Raises:
      ValueError: if an argument is out of range.
    """
    centres = _centres(means)
    count = len(centres)
    if model.coefficients.shape != centres.T.shape:
        expected = f'coefficients {list(centres.T.shape)}'
        raise errors.invalid('model', f'have {expected}', list(model.coefficients.shape))
    directions, sizes, _ = np.linalg.svd(
        model.coefficients - model.coefficients.mean(axis=1, keepdims=True), full_matrices=False
    )
    rank = int(np.sum(sizes > 1e-12 * max(sizes[0], 1e-300)))
    if count == 2:
        difference = model.coefficients[:, 0] - model.coefficients[:, 1]
        spread = np.linalg.norm(difference)
        lead = centres @ difference + model.intercept[0] - model.intercept[1]
        with np.errstate(divide='ignore', invalid='ignore'):
            first = np.where(spread > 0, special.ndtr(lead / spread), lead >= 0)
        return GaussianAccuracy(float((first[0] + 1 - first[1]) / 2), 0.0)
    if rank == 0:
        return GaussianAccuracy(1 / count, 0.0)
    offsets = directions[:, :rank].T @ model.coefficients
    levels = model.scores(centres)
    hits = np.empty(_SCRAMBLES)
    for scramble in range(_SCRAMBLES):
        sequence = stats.qmc.Sobol(rank, rng=np.random.default_rng(scramble))
        noise = special.ndtri(sequence.random(_POINTS)) @ offsets
        found = [np.mean(np.argmax(levels[c] + noise, axis=1) == c) for c in range(count)]
        hits[scramble] = np.mean(found)
    return GaussianAccuracy(float(hits.mean()), float(hits.std(ddof=1) / np.sqrt(_SCRAMBLES)))


def _centres(means: ArrayLike) -> np.ndarray:
    centres = np.asarray(means, np.float64)
    if centres.ndim != 2 or len(centres) < 2 or not np.isfinite(centres).all():
        raise errors.invalid('means', 'be finite, [C, d], C >= 2', f'shape {centres.shape}')
    return centres


def _shares(proportions: ArrayLike, weights: ArrayLike, num_classes: int) -> np.ndarray:
    """Class shares under client weights, summing to 1."""
    trusted = _checks.checked_vector('weights', weights)
    _checks.raise_where('weights', trusted, trusted < 0, 'be at least 0')
    table = np.asarray(proportions, np.float64)
    expected = [trusted.size, num_classes]
    if list(table.shape) != expected or not (np.isfinite(table) & (table >= 0)).all():
        shape = list(table.shape)
        raise errors.invalid('proportions', f'be at least 0, {expected}', f'shape {shape}')
    mixed: np.ndarray = trusted @ table
    if not mixed.sum() > 0:
        raise errors.invalid('weights', 'give some class a share', 'none')
    return mixed / mixed.sum()
