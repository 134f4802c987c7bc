"""Computes what independent links do to FedAvg's objective and to implicit gossip.

A is the set of active clients of a round, whose upload arrives. Implicit gossip replaces the models
of the clients in A by their mean, as FedPBC does. `effective_weights` also estimates FedAvg's
weights under any links from an observed run.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, cohort_sizes


class EffectiveWeights(NamedTuple):
    """Holds the weights of FedAvg's implicit objective ``sum_i w_i F_i``, F_i client i's loss.

    Attributes:
      weights: float64[N], summing to 1.
      standard_errors: float64[N], zero for exact weights.
      exact: whether the weights come from a formula and not from an observed run.
      degrees_of_freedom: degrees of freedom of the standard errors, the number of batches minus
        1; infinite for exact weights.
    """

    weights: np.ndarray
    standard_errors: np.ndarray
    exact: bool
    degrees_of_freedom: float


def fedavg_weights(probs: ArrayLike) -> np.ndarray:
    r"""Computes the weights of the objective that FedAvg minimises on independent links.

    ``w_i = E[1{i in A} / |A|  given A not empty] = p_i I_i / (1 - prod_j (1 - p_j))`` with
    ``I_i = E[1 / (1 + |A without i|)] = int_0^1 prod_{j != i} (1 - p_j + p_j z) dz``. The paper
    defines the weights by an alternating sum over subsets. Here a quadrature of some 70 nodes
    computes the integrals. It costs O(N) operations for all clients together, in bounded memory.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.

    Returns:
      float64[N], non-negative, summing to 1.

    Raises:
      ValueError: if ``probs`` is not a vector of probabilities or holds only zeros.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.fedavg_weights([0.5, 0.3]).round(4))
      [0.6538 0.3462]

    References:
      Xiang et al., Towards Bias Correction of FedAvg over Nonuniform and Time-Varying
      Communications, CDC 2023, Proposition 1.
    """
    probs = _checks.checked_some_link('probs', probs)
    non_empty = cohort_sizes.non_empty_probability(probs)
    return cohort_sizes.reciprocal_means(probs) / non_empty


def fedavg_fixed_point(probs: ArrayLike, targets: ArrayLike) -> np.ndarray:
    """Computes the limit of FedAvg's expected model on quadratics under independent links.

    Clients have ``F_i(x) = 0.5 ||x - u_i||^2``. Then ``lim E[x^t] = sum_i w_i u_i`` with
    `fedavg_weights`, for any step size in (0, 2) and any number of local steps. Unless all
    ``probs`` agree, the limit differs from the mean of the u_i for some u.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d] or float[N], the clients' minimisers u_i.

    Returns:
      float64[d], or a scalar for targets of shape [N].

    Raises:
      ValueError: if ``probs`` or ``targets`` is invalid.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(float(analysis.fedavg_fixed_point([0.5, 0.3], [0.0, 100.0])), 3))
      34.615

    References:
      Xiang et al., CDC 2023, Proposition 1.
    """
    weights = fedavg_weights(probs)
    return weights @ _checks.checked_targets('targets', targets, weights.size)


def effective_weights(
    probs: ArrayLike | None = None,
    *,
    selection_law: ArrayLike | None = None,
    masks: ArrayLike | None = None,
    num_batches: int = 32,
) -> EffectiveWeights:
    r"""Computes FedAvg's implicit weights, exactly or from an observed run.

    The weights are ``w_i = E[1{i in A} / |A|  given A not empty]``. Give exactly one of

    * ``probs``: for independent links; the weights are the exact `fedavg_weights`.
    * ``selection_law``: for cohorts of equal size (uniform cohorts, minimum separation). The
      weights are then the clients' shares of the selections.
    * ``masks``: for an observed run of any link process; the weights are averages over its
      non-empty rounds. (If links have memory, FedAvg's mean model differs a little. FedAvg keeps
      its model through empty rounds, so cohorts before long gaps count more.)

    With ``masks``, standard errors come from batch means. The run is cut into ``num_batches``
    contiguous batches. Each batch gives a ratio estimate, and the spread of these around the
    overall estimate gives the standard errors. Links may have memory if batches are much longer
    than the memory. Single rounds in place of batches would claim far too much precision.
    Compare ``(weights - w) / standard_errors`` with Student's t at the stated degrees of
    freedom. If a run starts away from stationarity, the start biases its weights.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      selection_law: float[N], shares of the selections, summing to 1.
      masks: bool[T, N], participation per round, with ``T >= num_batches``.
      num_batches: number of batches, at least 2; used with ``masks`` only.

    Returns:
      The weights, with standard errors and their degrees of freedom.

    Raises:
      ValueError: unless exactly one of the three sources is given, and for an invalid value.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.effective_weights([0.5, 0.3]).weights.round(4))
      [0.6538 0.3462]
      >>> print(analysis.effective_weights(selection_law=[0.25, 0.75]).weights)
      [0.25 0.75]

    References:
      Xiang et al., CDC 2023, Proposition 1; Sun et al., ICLR 2025, Theorem 1.
      Asmussen and Glynn, Stochastic Simulation, 2007 (batch means).
    """
    num_sources = sum(x is not None for x in (probs, selection_law, masks))
    requirement = 'be given, or else `selection_law` or `masks`, one of the three'
    got = f'{num_sources} of them'
    _checks.require(num_sources == 1, 'probs', requirement, got)
    if masks is not None:
        record = _checks.checked_masks('masks', masks, ndim=2)
        batches = _checks.checked_int(
            'num_batches', num_batches, minimum=2, maximum=len(record)
        )
        got = f'{len(record)} empty rounds'
        _checks.require(record.any(), 'masks', 'hold an active client', got)
        weights, standard_errors = batch_means(record, batches)
        return EffectiveWeights(
            weights, standard_errors, exact=False, degrees_of_freedom=batches - 1.0
        )
    if probs is not None:
        weights = fedavg_weights(probs)
    else:
        assert selection_law is not None
        weights = _checks.checked_law('selection_law', selection_law)
    return EffectiveWeights(
        weights, np.zeros(weights.size), exact=True, degrees_of_freedom=np.inf
    )


def batch_means(
    masks: np.ndarray, num_batches: int = 32, values: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates ``sum_i w_i v_i`` with the weights of an observed run.

    Args:
      masks: bool[T, N], with at least one round that is not empty.
      num_batches: number of contiguous batches.
      values: float64[N, d], v; by default unit vectors, which give the weights themselves.

    Returns:
      The estimate and its standard errors, float64[d] each.
    """
    parts = np.array_split(masks, num_batches)
    sums = np.stack([share_sums(part) for part in parts])
    if values is not None:
        sums = sums @ values
    counts = np.array([part.any(axis=1).sum() for part in parts], dtype=np.float64)
    means = sums.sum(axis=0) / counts.sum()
    residuals = sums - counts[:, None] * means
    spread = np.sum(residuals**2, axis=0) * num_batches / (num_batches - 1.0)
    return means, np.sqrt(spread) / counts.sum()


def share_sums(masks: np.ndarray) -> np.ndarray:
    """Sums ``1{i in A} / |A|`` over rounds, zero for empty rounds.

    Args:
      masks: bool[T, N].

    Returns:
      float64[N].
    """
    return 1.0 / np.maximum(masks.sum(axis=1), 1) @ masks


def mixing_matrix(mask: ArrayLike) -> np.ndarray:
    """Computes the mixing matrix of one round.

    The matrix W averages over the active clients and leaves other clients' models as they are.

    ``W_ij = 1/|A|`` for i and j in A, and W is the identity elsewhere. W is symmetric, doubly
    stochastic and a projection (``W W = W``). For at most one active client W is the identity.

    Args:
      mask: bool[..., N], the active set.

    Returns:
      float64[..., N, N].

    Raises:
      ValueError: if ``mask`` has no entries or is not boolean.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.mixing_matrix([True, False, True]))
      [[0.5 0.  0.5]
       [0.  1.  0. ]
       [0.5 0.  0.5]]

    References:
      Xiang et al., CDC 2023, Section IV, implicit gossiping.
    """
    mask = _checks.checked_masks('mask', mask)
    active = mask.astype(np.float64)
    size = np.maximum(active.sum(axis=-1, keepdims=True), 1.0)
    averaged = active[..., :, None] * (active / size)[..., None, :]
    return averaged + np.eye(mask.shape[-1]) * (1.0 - active)[..., None, :]


def expected_mixing_matrix(probs: ArrayLike) -> np.ndarray:
    r"""Computes the expected mixing matrix of independent links, ``M = E[W] = E[W^2]``.

    ``M_ii = E[1{i in A} / |A|] + 1 - p_i`` and, for i != j,
    ``M_ij = p_i p_j int_0^1 z prod_{k != i, j} (1 - p_k + p_k z) dz``. All pairs together
    are one Gram matrix over some 70 quadrature nodes: O(N^2) operations.

    Args:
      probs: float[N], participation probabilities in [0, 1]. If all are zero, M is the identity.

    Returns:
      float64[N, N], symmetric, doubly stochastic, positive semi-definite.

    Raises:
      ValueError: if ``probs`` is not a vector of probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.expected_mixing_matrix([0.5, 0.3]).round(4))
      [[0.925 0.075]
       [0.075 0.925]]

    References:
      Xiang et al., CDC 2023, the matrix M of Eq. (3).
    """
    probs = _checks.checked_probs('probs', probs)
    return cohort_sizes.pair_means(probs, power=1) + np.diag(1.0 - probs)


def mixing_rate(probs: ArrayLike) -> float:
    """Computes the contraction rate of implicit gossip under independent links.

    The rate is ``rho = lambda_2(M)``, the second largest eigenvalue of ``M = E[W]``. It satisfies
    ``E ||W y - mean(y)||^2 <= rho ||y - mean(y)||^2`` for the random mixing matrix W of a round.
    The computation costs O(N^3).

    Args:
      probs: float[N], participation probabilities in [0, 1].

    Returns:
      The second largest eigenvalue of `expected_mixing_matrix`, in [0, 1]; 0 for one client.

    Raises:
      ValueError: if ``probs`` is not a vector of probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.mixing_rate([0.2, 0.5, 0.9]), 4))
      0.8388

    References:
      Xiang et al., CDC 2023, Eq. (3).
    """
    ascending = np.linalg.eigvalsh(expected_mixing_matrix(probs))
    if ascending.size == 1:
        return 0.0
    if not np.all(probs):
        return 1.0  # Exact: a client that is never active keeps its model.
    return float(np.clip(ascending[-2], 0.0, 1.0))


def mixing_rate_bound(probs: ArrayLike) -> float:
    """Computes the published upper bound on `mixing_rate`.

    The bound is ``1 - c^4 [1 - (1 - c)^N]^2 / 8`` with ``c = min p``.

    Args:
      probs: float[N], participation probabilities in [0, 1]; only the least one and N matter.

    Returns:
      The bound, in [7/8, 1].

    Raises:
      ValueError: if ``probs`` is not a vector of probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.mixing_rate_bound([0.5, 0.5, 0.9]), 4))
      0.994
      >>> print(round(analysis.mixing_rate([0.5, 0.5, 0.9]), 4))
      0.6375

    References:
      Xiang et al., CDC 2023, Lemma 1.
    """
    probs = _checks.checked_probs('probs', probs)
    least = float(probs.min())
    non_empty = cohort_sizes.non_empty_probability(np.full(probs.size, least))
    return 1.0 - least**4 * non_empty**2 / 8.0
