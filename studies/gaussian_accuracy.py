"""Accuracy of a linear model on Gaussian classes, by quadrature."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedjax_links import analysis

_SCRAMBLES = 16
_POINTS = 2**10


class GaussianAccuracy(NamedTuple):
    """Accuracy of a linear model on Gaussian classes.

    Attributes:
      accuracy: share of examples whose class has the largest score.
      error: standard error of the quadrature; 0 for two classes, where it is exact.
    """

    accuracy: float
    error: float


def gaussian_accuracy(
    model: analysis.LinearModel, means: ArrayLike
) -> GaussianAccuracy:
    """Returns a linear model's accuracy on new examples of equally likely Gaussian classes.

    Exact for two classes. For more, quadrature in the directions that the scores depend on: 16
    scrambled Sobol sequences of 1024 points per class, from a fixed seed, whose spread gives the
    error (Owen 1995).

    Args:
      model: scores of d features.
      means: float[C, d].

    Returns:
      The accuracy and the error of the quadrature.
    """
    centres = np.asarray(means, np.float64)
    count = len(centres)
    directions, sizes, _ = np.linalg.svd(
        model.coefficients - model.coefficients.mean(axis=1, keepdims=True),
        full_matrices=False,
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
    scores = model.scores(centres)
    hits = np.empty(_SCRAMBLES)
    for scramble in range(_SCRAMBLES):
        sequence = stats.qmc.Sobol(rank, rng=np.random.default_rng(scramble))
        noise = special.ndtri(sequence.random(_POINTS)) @ offsets
        accuracies = [
            np.mean(np.argmax(scores[c] + noise, axis=1) == c) for c in range(count)
        ]
        hits[scramble] = np.mean(accuracies)
    return GaussianAccuracy(
        float(hits.mean()), float(hits.std(ddof=1) / np.sqrt(_SCRAMBLES))
    )
