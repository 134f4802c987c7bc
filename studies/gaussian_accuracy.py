"""Computes the accuracy of a linear model on Gaussian classes, by quadrature."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedjax_links import analysis

_SCRAMBLES = 16
_POINTS = 2**10


class GaussianAccuracy(NamedTuple):
    """Holds the accuracy of a linear model on Gaussian classes.

    Attributes:
      accuracy: fraction of examples whose class has the largest score, in [0, 1].
      error: standard error of the quadrature; 0 for two classes, where it is exact.
    """

    accuracy: float
    error: float


def gaussian_accuracy(
    model: analysis.LinearModel, means: ArrayLike
) -> GaussianAccuracy:
    """Computes a linear model's accuracy on new examples of equally likely Gaussian classes.

    It is exact for two classes. For more, it is a quadrature in the directions that the scores
    depend on. That has 16 scrambled Sobol sequences of 1024 points per class, from a fixed seed,
    whose spread gives the error (Owen 1995).

    Args:
      model: the linear model of d features.
      means: float[C, d], of the classes, whose covariance is the identity.

    Returns:
      The accuracy and the error of the quadrature.
    """
    centres = np.asarray(means, np.float64)
    num_classes = len(centres)
    if num_classes == 2:
        return GaussianAccuracy(_two_class_accuracy(model, centres), 0.0)
    # Scores depend on the features only in the directions in which coefficients differ.
    mean_coefficients = model.coefficients.mean(axis=1, keepdims=True)
    directions, sizes, _ = np.linalg.svd(
        model.coefficients - mean_coefficients, full_matrices=False
    )
    rank = int(np.sum(sizes > 1e-12 * max(sizes[0], 1e-300)))
    if rank == 0:
        return GaussianAccuracy(1 / num_classes, 0.0)
    offsets = directions[:, :rank].T @ model.coefficients
    scores = model.scores(centres)
    accuracies = np.empty(_SCRAMBLES)
    for scramble in range(_SCRAMBLES):
        sequence = stats.qmc.Sobol(rank, rng=np.random.default_rng(scramble))
        noise = special.ndtri(sequence.random(_POINTS)) @ offsets
        class_accuracies = [
            np.mean(np.argmax(scores[c] + noise, axis=1) == c)
            for c in range(num_classes)
        ]
        accuracies[scramble] = np.mean(class_accuracies)
    error = accuracies.std(ddof=1) / np.sqrt(_SCRAMBLES)
    return GaussianAccuracy(float(accuracies.mean()), float(error))


def _two_class_accuracy(model: analysis.LinearModel, centres: np.ndarray) -> float:
    """Computes the exact accuracy on two classes with means float64[2, d]."""
    difference = model.coefficients[:, 0] - model.coefficients[:, 1]
    spread = np.linalg.norm(difference)
    lead = centres @ difference + model.intercept[0] - model.intercept[1]
    # The probability that an example of each class is taken for the first class.
    with np.errstate(divide='ignore', invalid='ignore'):
        first_prob = np.where(spread > 0, special.ndtr(lead / spread), lead >= 0)
    return float((first_prob[0] + 1 - first_prob[1]) / 2)
