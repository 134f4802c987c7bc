r"""Computes where algorithms end under links with memory, to first order in the step.

Clients have quadratic losses of equal curvature, as in `linear_rules`. Let
``epsilon = 1 - (1 - eta)^s``. A round of FedAvg and its relatives is then
``x' = x + epsilon sum_i c_i (u_i - x)`` with coefficients c_i that depend on the links alone. Let
``c = sum_i c_i``. In the stationary state ``E[sum_i c_i (u_i - x)] = 0``. If c is not correlated
with the past, E[x] is therefore ``m_0 = sum_i E[c_i] u_i / E[c]``, at any step. In general x also
holds the terms ``epsilon c_i (u_i - m_0)`` of the last rounds, so that

``E[x] = m_0 - epsilon / E[c] sum_i (u_i - m_0) G_i + O(epsilon^2)`` with
``G_i = sum_{k >= 1} Cov(c^t, c_i^(t-k))``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, cohort_sizes, markov
from fedjax_links.analysis.linear_rounds import Round, State
from fedjax_links.analysis.link_chains import linear_systems, moment_maps
from fedjax_links.analysis.link_chains.chains import LinkChain, check_chain
from fedjax_links.analysis.link_chains.fixed_points import fixed_point
from fedjax_links.analysis.link_chains.round_operators import round_operator
from fedjax_links.core import errors

_ALGORITHMS = 'fedau', 'fedavg', 'fedavg_all', 'fedavg_known', 'fedpbc'
# Sums over lags end where the links' autocorrelation falls below _FORGOTTEN.
_FORGOTTEN = 1e-17
_MAX_LAGS = 100_000  # This many lags take four seconds for two clients.


class FirstOrderMean(NamedTuple):
    """Holds where an algorithm's expected server model ends, to first order in the step.

    Attributes:
      limit: float64[d], limit of the expected model as the step tends to zero.
      bias: float64[d], the term of first order in ``1 - (1 - eta)^s``.
      mean: float64[d], ``limit + bias``; its error is of second order.
      optimum: float64[d], the mean of the targets.
    """

    limit: np.ndarray
    bias: np.ndarray
    mean: np.ndarray
    optimum: np.ndarray


class _TwoStateLinks(NamedTuple):
    """Holds the rates float64[N] at which independent two-state links go up and down."""

    up_rate: np.ndarray
    down_rate: np.ndarray

    @property
    def probs(self) -> np.ndarray:
        """Returns the stationary probabilities p of being up, float64[N]."""
        return self.up_rate / (self.up_rate + self.down_rate)

    @property
    def memory(self) -> np.ndarray:
        """Returns the autocorrelation at lag one, ``lambda``."""
        return 1.0 - self.up_rate - self.down_rate


def first_order_mean(
    algorithm: str,
    chain: LinkChain,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    cutoff: int | None = None,
) -> FirstOrderMean:
    r"""Computes where the expected server model ends, to first order in the step.

    Clients have curvature one, and their number N is any. Client i is active with probability
    p_i. In a round its link comes up with probability q*_i and goes down with q_i. Let
    ``lambda_i = 1 - q_i - q*_i`` and ``epsilon = 1 - (1 - eta)^s``.

    * ``'fedavg_known'``: the limit is the optimum ubar, and the bias is ``-epsilon / N^2 sum_i
      (1 - p_i) / p_i lambda_i / (1 - lambda_i) (u_i - ubar)``. The bias falls with 1/N and
      grows with the correlation time.
    * ``'fedavg_all'`` and ``'fedau'`` multiply client i's update by v_i. For ``'fedavg_all'``
      v_i is one. For FedAU v_i is the mean interval to which its weights tend. The limit is
      ``m_0 = sum_i v_i p_i u_i / sum_i v_i p_i``, and the bias ``-epsilon / N sum_i v_i^2
      p_i (1 - p_i) lambda_i / (1 - lambda_i) (u_i - m_0) / sum_i v_i p_i``.
    * ``'fedavg'``: the limit is ``m_0 = sum_i w_i u_i`` with `fedavg_weights`. The bias is
      due to empty rounds alone. Let ``P_0`` be the probability of an empty round, and ``R_i(p) =
      E[1{i in A} / |A|]`` for independent links. The bias is ``epsilon P_0 / (1 - P_0) sum_i
      (u_i - m_0) sum_{k >= 1} (R_i(p (1 - lambda^k)) - R_i(p))``.
    * ``'fedpbc'``: the limit is the optimum, under any chain. Client models differ from the
      optimum by terms Y of first order. These follow ``Y' = W (Y + epsilon (U - ubar))``. The
      stationary mean of Y solves a linear system over the chain's modes.

    Args:
      algorithm: one of the names above.
      chain: for FedPBC any link chain. For other algorithms links are independent over clients,
        with two states and constant rates (`link_chains.independent`, `link_chains.markov`).
      targets: float64[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: eta, in (0, 2).
      local_steps: s.
      cutoff: K of FedAU, at least 1; None for no cut-off, and for all other algorithms.

    Returns:
      The mean. Its error is of second order in epsilon.

    Raises:
      ValueError: for another algorithm or chain, and for values out of range. For FedAvg also if
        links are correlated over 100,000 rounds.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.markov([0.5, 0.3], up_rate=0.05)
      >>> law = analysis.first_order_mean('fedavg_known', chain, [0.0, 100.0], 0.001, 5)
      >>> print(law.bias.round(3))
      [-0.166]
      >>> exact = analysis.linear_limit('fedavg_known', chain, [0.0, 100.0], 0.001, 5)
      >>> print((exact.means['server'] - 50.0).round(3))
      [-0.165]
    """
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise errors.unknown_name('algorithm', algorithm, _ALGORITHMS)
    check_chain(chain)
    size = chain.num_clients
    points = _checks.checked_targets('targets', targets, size).reshape(size, -1)
    epsilon = 1.0 - _checks.checked_contraction(learning_rate, local_steps)
    if cutoff is not None:
        _checks.checked_int('cutoff', cutoff, minimum=1)
        requirement = f"be left out for {algorithm!r}, as only 'fedau' has one"
        _checks.require(algorithm == 'fedau', 'cutoff', requirement, cutoff)
    optimum = points.mean(axis=0)
    if algorithm == 'fedpbc':
        limit = optimum
        slope = _fedpbc_slope(chain, points)
    else:
        links = _two_state_links(chain)
        if algorithm == 'fedavg':
            limit, slope = _fedavg(links, points)
        else:
            weights = _weights(algorithm, links, cutoff)
            limit, slope = _weighted(links, weights, points)
    bias = epsilon * slope
    return FirstOrderMean(limit, bias, limit + bias, optimum)


def _two_state_links(chain: LinkChain) -> _TwoStateLinks:
    """Reads the rates of independent two-state links."""
    kinds = [chain.kind(client) for client in range(chain.num_clients)]
    is_two_state = len(chain.start) == 1
    for kind in kinds:
        is_two_state = is_two_state and kind.is_up.tolist() == [[False, True]]
    requirement = 'have independent clients with two states and constant rates'
    num_modes = errors.count_text(chain.num_modes)
    got = f'{num_modes} modes of {chain.num_clients} clients'
    _checks.require(is_two_state, 'chain', requirement, got)
    up_rate = np.array([kind.transition[0, 0, 1] for kind in kinds])
    down_rate = np.array([kind.transition[0, 1, 0] for kind in kinds])
    got = f'client {np.argmin(up_rate)}, which stays down'
    _checks.require(up_rate.all(), 'chain', 'let each client come up', got)
    return _TwoStateLinks(up_rate, down_rate)


def _weights(algorithm: str, links: _TwoStateLinks, cutoff: int | None) -> np.ndarray:
    """Returns the factor by which an algorithm multiplies each client's update, float64[N]."""
    if algorithm == 'fedavg_all':
        return np.ones_like(links.probs)
    if algorithm == 'fedavg_known':
        return 1.0 / links.probs
    return markov.markov_interval_mean(links.up_rate, links.down_rate, cutoff)


def _weighted(
    links: _TwoStateLinks, weights: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the limit, and the bias over epsilon, for ``c_i = v_i 1{i in A} / N``."""
    size = len(weights)
    probs = links.probs
    means = weights * probs / size
    limit = means @ targets / means.sum()
    # The sum of lambda^k over all lags k.
    correlation_sums = links.memory / (1.0 - links.memory)
    variances = (weights / size) ** 2 * probs * (1.0 - probs)
    covariances = variances * correlation_sums
    return limit, -(covariances @ (targets - limit)) / means.sum()


def _fedavg(
    links: _TwoStateLinks, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes FedAvg's limit, and its bias over epsilon. c is one, but zero in empty rounds."""
    probs = links.probs
    non_empty = cohort_sizes.non_empty_probability(probs)
    stationary = cohort_sizes.reciprocal_means(probs)
    limit = stationary @ targets / non_empty
    if 1.0 - non_empty < _FORGOTTEN:
        return limit, np.zeros_like(limit)
    slowest = links.memory[np.abs(links.memory).argmax()]
    allowed = _FORGOTTEN ** (1.0 / _MAX_LAGS)
    requirement = (
        f'have links whose autocorrelation at lag 1 lies within {allowed:.5f} of zero'
    )
    _checks.require(abs(slowest) <= allowed, 'chain', requirement, f'{slowest:.7g}')
    correlation = links.memory.copy()  # lambda^k
    # Given that a round is empty, links were up k rounds before with probability p (1 - lambda^k).
    change = np.zeros_like(probs)
    while np.abs(correlation).max() >= _FORGOTTEN:
        before = probs * (1.0 - correlation)
        change += cohort_sizes.reciprocal_means(before) - stationary
        correlation *= links.memory
    slope = (1.0 - non_empty) / non_empty * (change @ (targets - limit))
    return limit, slope


def _fedpbc_slope(chain: LinkChain, targets: np.ndarray) -> np.ndarray:
    """Computes the bias of FedPBC's server model, divided by epsilon."""

    def small_steps(links: Round, server: np.ndarray, rows: np.ndarray) -> State:
        # Rows are the clients' differences from the optimum, divided by epsilon.
        trained = rows + links.targets - links.targets.mean(axis=0)
        if not links.active.any():
            return server, trained
        mean = links.mean(trained)
        return mean, links.stored(mean[None], trained)

    system = linear_systems.linear_system(
        'fedpbc', chain, targets, 1.0, 1, options={}, is_centred=True, rule=small_steps
    )
    law = system.layout.stationary_law()
    maps = system.maps
    first, _ = moment_maps.start_moments(maps, system.targets, law)
    moments = fixed_point(round_operator(maps.mean, maps.mean_part), first)
    return moments.sum_products()[:, 1, 0]
