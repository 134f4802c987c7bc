"""The best linear model of a population of clients, and its error, without a sample."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fedjax_links.core import errors


class LinearFit(NamedTuple):
    """The best linear model of clients together.

    Attributes:
      vector: float64[d], w*.
      error: its mean squared error, the least there is.
      moment: float64[d, d], S, the clients' mean of ``E[x x^T]``; a model w has error
        ``error + (w - w*)^T S (w - w*)``.
    """

    vector: np.ndarray
    error: float
    moment: np.ndarray


def best_linear_fit(
    vectors: ArrayLike, shifts: ArrayLike, *, sigma: float, weights: ArrayLike | None = None
) -> LinearFit:
    """Least squares over clients with ``x ~ N(s_i, I)`` and ``y = <x, v_i> + sigma e``.

    ``E_i[x x^T] = S_i = I + s_i s_i^T``, so client i has error
    ``sigma^2 + (w - v_i)^T S_i (w - v_i)``, and the weighted mean of these is least at
    ``w* = S^-1 sum_i w_i S_i v_i`` with ``S = sum_i w_i S_i``.

    Args:
      vectors: float[N, d], v_i.
      shifts: float[N, d], s_i.
      sigma: standard deviation of the noise, at least 0.
      weights: float[N], how much clients count, scaled to sum one; equal by default. With
        `fedavg_weights` the fit is FedAvg's limit under these links.

    Returns:
      The fit.

    Raises:
      ValueError: if an argument is out of range.
    """
    truths, centres = np.asarray(vectors, np.float64), np.asarray(shifts, np.float64)
    if truths.ndim != 2 or 0 in truths.shape:
        raise errors.invalid('vectors', 'have shape [N, d]', list(truths.shape))
    if centres.shape != truths.shape:
        raise errors.invalid('shifts', f'have shape {list(truths.shape)}', centres.shape)
    if not 0 <= sigma < np.inf:
        raise errors.invalid('sigma', 'be at least 0 and finite', sigma)
    num_clients, dimension = truths.shape
    shares = np.ones(num_clients) if weights is None else np.asarray(weights, np.float64)
    if shares.shape != (num_clients,) or not shares.sum() > 0 or shares.min() < 0:
        requirement = f'be {num_clients} non-negative numbers, not all zero'
        raise errors.invalid('weights', requirement, errors.shown(shares))
    shares = shares / shares.sum()
    moment = np.eye(dimension) + (shares[:, None] * centres).T @ centres
    images = truths + centres * np.sum(centres * truths, axis=1, keepdims=True)  # S_i v_i
    vector = linalg.solve(moment, shares @ images, assume_a='pos')
    off = vector - truths
    squares = np.sum(off**2, axis=1) + np.sum(centres * off, axis=1) ** 2
    return LinearFit(vector, float(sigma**2 + shares @ squares), moment)
