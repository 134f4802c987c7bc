r"""The best linear models of clients with Gaussian features: of the population, without a sample.

Of unit covariance, such clients leave nothing to be minimised numerically. With classes, a client's
example is of class c with its own probability ``q_ic``, and then ``x ~ N(mu_c, I)``. Under client
weights w the classes have the shares ``q_c = sum_i w_i q_ic``, and Bayes' rule says
``P(c | x) ~ exp(mu_c^T x - |mu_c|^2 / 2 + log q_c)``: linear scores. The cross-entropy of a softmax
model is least at the true conditional probabilities, so weights move nothing but the intercept, by
the logarithms of the shares.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fedjax_links.analysis import _checks
from fedjax_links.analysis.linear.linear_models import LinearModel
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
    centres = np.asarray(means, np.float64)
    if centres.ndim != 2 or len(centres) < 2 or not np.isfinite(centres).all():
        raise errors.invalid('means', 'be finite, [C, d], C >= 2', f'shape {centres.shape}')
    trusted = _checks.checked_client_weights('weights', weights)
    table = np.asarray(proportions, np.float64)
    expected = (trusted.size, len(centres))
    if table.shape != expected or not (np.isfinite(table) & (table >= 0)).all():
        shape = list(table.shape)
        raise errors.invalid('proportions', f'be at least 0, {list(expected)}', f'shape {shape}')
    shares = trusted @ table
    if not shares.all():
        label = int(np.argmin(shares))
        raise errors.invalid('proportions', 'give every class a share', f'0 for class {label}')
    shares = shares / shares.sum()
    intercept = np.log(shares) - 0.5 * np.sum(centres**2, axis=1)
    return LinearModel((centres - centres.mean(axis=0)).T, intercept - intercept.mean())


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
    weights = np.ones(num_clients) if weights is None else weights
    shares = _checks.checked_client_weights('weights', weights)
    if shares.size != num_clients:
        raise errors.invalid('weights', f'have one entry per client ({num_clients})', shares.size)
    shares = shares / shares.sum()
    moment = np.eye(dimension) + (shares[:, None] * centres).T @ centres
    images = truths + centres * np.sum(centres * truths, axis=1, keepdims=True)  # S_i v_i
    vector = linalg.solve(moment, shares @ images, assume_a='pos')
    off = vector - truths
    squares = np.sum(off**2, axis=1) + np.sum(centres * off, axis=1) ** 2
    return LinearFit(vector, float(sigma**2 + shares @ squares), moment)
