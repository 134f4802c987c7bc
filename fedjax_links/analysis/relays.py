"""Computes ColRel's relay weights and the outage of CoGC's gradient code.

Under ColRel a client that receives a neighbour's update relays it: the client uploads a weighted
sum of updates. Under CoGC a client uploads a coded sum of several updates.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from fedjax_links.analysis import _checks


def colrel_weights(probs: ArrayLike, edge_probs: ArrayLike) -> np.ndarray:
    """Computes ColRel's relay weights of least variance, for `fedjax_links.algorithms.colrel`.

    Client i uploads ``sum_j alpha_ij Delta_j`` over the updates that reach client i. The weights
    are unbiased, ``sum_i p_i q_ji alpha_ij = 1`` for every j, and not negative. They have
    the least ``S = sum_i p_i (1 - p_i) (sum_j q_ji alpha_ij)^2
    + sum_ij p_i q_ji (1 - q_ji) alpha_ij^2
    + sum_{i != l} p_i p_l q_il (1 - q_il) alpha_il alpha_li``. This is a convex programme.
    Non-negative least squares solves it. The solution is then scaled to be unbiased to rounding.

    Args:
      probs: float[N], p, probabilities of the uplinks.
      edge_probs: float[N, N], q, symmetric; its diagonal is ignored.

    Returns:
      float64[N, N]; row i has the weights of what client i sends.

    Raises:
      ValueError: for values that are no probabilities, for edges that are not symmetric or not
        [N, N], or if there is no path from a client to the server.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.colrel_weights([0.5, 1.0], [[1, 1], [1, 1]]).round(2))
      [[0. 0.]
       [1. 1.]]

    References:
      Yemini et al. 2024, section V.
    """
    uplink = _checks.checked_probs('probs', probs)
    size = uplink.size
    edges = _checked_edges(edge_probs, size)
    # One unknown for each path: the update of `source`, relayed by `carrier`.
    carrier, source = np.nonzero(edges * uplink[:, None])
    path_probs = uplink[carrier] * edges[source, carrier]
    # Row j of the constraints is the expected weight of client j's update.
    constraints = (source == np.arange(size)[:, None]) * path_probs
    has_path = constraints.any(axis=1)
    got = f'none of client {np.argmin(has_path)}'
    _checks.require(has_path.all(), 'probs', 'let every update through', got)
    variance = _colrel_variance(uplink, edges, carrier, source)
    alpha = _least_variance(variance, constraints)
    # The expected weight of each update is only nearly one, so divide by this weight.
    weights = np.zeros((size, size))
    weights[carrier, source] = alpha / (constraints @ alpha)[source]
    return weights


def _least_variance(variance: np.ndarray, constraints: np.ndarray) -> np.ndarray:
    """Minimises ``alpha^T V alpha`` over alpha >= 0 with ``C alpha = 1``, nearly.

    Non-negative least squares minimises ``|root alpha|^2 + |w (C alpha - 1)|^2`` with a root of V
    and a large weight w.

    Args:
      variance: float64[P, P], V, positive semi-definite.
      constraints: float64[N, P], C.

    Returns:
      float64[P], alpha.
    """
    values, vectors = np.linalg.eigh(variance)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    # With this weight, alpha misses its constraints by about 1e-8.
    weight = 1e4 * max(1.0, float(np.sqrt(values[-1])))
    lhs = np.vstack([root, weight * constraints])
    rhs = np.r_[np.zeros(len(root)), np.full(len(constraints), weight)]
    alpha, _ = optimize.nnls(lhs, rhs, maxiter=100 * lhs.shape[1])
    return np.asarray(alpha)


def colrel_variance(
    probs: ArrayLike, edge_probs: ArrayLike, weights: ArrayLike
) -> float:
    """Computes the variance S, as defined in `colrel_weights`, for any weights.

    Without relays and with unbiased weights S is ``sum_i (1 - p_i) / p_i``.

    Args:
      probs: float[N], p.
      edge_probs: float[N, N], q, symmetric; its diagonal is ignored.
      weights: float[N, N], alpha.

    Returns:
      The variance.

    Raises:
      ValueError: for values that are no probabilities, edges that are not symmetric, weights
        that are not finite, or a matrix that is not [N, N].
    """
    uplink = _checks.checked_probs('probs', probs)
    edges = _checked_edges(edge_probs, uplink.size)
    carrier, source = np.indices(edges.shape).reshape(2, -1)
    alpha = _square('weights', weights, uplink.size).ravel()
    _checks.checked('weights', alpha, np.isfinite(alpha), 'be finite')
    return float(alpha @ _colrel_variance(uplink, edges, carrier, source) @ alpha)


def _checked_edges(edge_probs: ArrayLike, size: int) -> np.ndarray:
    """Returns symmetric probabilities float64[N, N], with ones on the diagonal."""
    edges = _square('edge_probs', edge_probs, size)
    np.fill_diagonal(edges, 1.0)
    _checks.checked_rate('edge_probs', edges)
    asymmetry = np.abs(edges - edges.T)
    first, second = np.unravel_index(np.argmax(asymmetry), asymmetry.shape)
    got = f'{edges[first, second]} and {edges[second, first]} for {first} and {second}'
    _checks.require(not asymmetry.any(), 'edge_probs', 'be symmetric', got)
    return edges


def _square(name: str, values: ArrayLike, size: int) -> np.ndarray:
    """Returns a copy of a matrix float64[N, N]; raises for another shape."""
    matrix = np.array(_checks.as_doubles(name, values))
    got = f'shape {list(matrix.shape)}'
    _checks.require(matrix.shape == (size, size), name, f'be [{size}, {size}]', got)
    return matrix


def _colrel_variance(
    uplink: np.ndarray, edges: np.ndarray, carrier: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Returns the matrix of S as a quadratic form in the weights alpha[carrier, source]."""
    p = uplink[carrier]
    q = edges[source, carrier]
    same_carrier = carrier[:, None] == carrier
    uplink_term = same_carrier * (p * (1 - p))[:, None] * np.outer(q, q)
    edge_term = np.diag(p * q * (1 - q))
    # Two clients that relay for each other use the same edge.
    is_swapped = (carrier[:, None] == source) & (source[:, None] == carrier)
    is_mirrored = is_swapped & ~same_carrier
    mirror_term = is_mirrored * np.outer(p, p) * (q * (1 - q))[:, None]
    return uplink_term + edge_term + mirror_term


def cogc_probability(num_clients: int, p: float, q: float, tolerance: int) -> float:
    """Computes the probability that CoGC takes a step, ``P(Bin(N, p q^r) >= N - r)``.

    Each client uploads a sum of the updates of itself and of r neighbours. The server needs any
    N - r sums. A client's sum arrives if the client's uplink and r edges are up. The formula is
    exact for ``2 r < N``, where no two sums share an edge.

    Args:
      num_clients: N.
      p: probability of every uplink.
      q: probability of every edge.
      tolerance: r, from 0 to N - 1.

    Returns:
      The probability.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.cogc_probability(10, 0.9, 1.0, 2), 3))
      0.93

    References:
      Weng et al. 2025, section IV (outage of the standard decoder).
    """
    num_clients = _checks.checked_int('num_clients', num_clients, minimum=1)
    tolerance = _checks.checked_int(
        'tolerance', tolerance, minimum=0, maximum=num_clients - 1
    )
    uplink_prob = _checks.checked_prob('p', p)
    edge_prob = _checks.checked_prob('q', q)
    sum_prob = uplink_prob * edge_prob**tolerance
    # `bdtrc` is the probability that more than N - r - 1 sums arrive.
    return float(special.bdtrc(num_clients - tolerance - 1, num_clients, sum_prob))
