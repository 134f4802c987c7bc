"""Computes exact curves and limits of linear algorithms under links with memory.

The state S of an algorithm holds its models and memories. On quadratics a round of a linear
algorithm is an affine map ``S' = A_j S + b_j``. It depends on the mode j of the link chain,
the joint state of all links. With the chain's transition matrix P this is a Markov jump
linear system.

Let pi_j be the probability of mode j before a round, ``q_j = E[S 1{j}]`` and
``Q_j = E[S S^T 1{j}]``. The round makes ``r_j = A_j q_j + pi_j b_j`` and
``R_j = A_j Q_j A_j^T + A_j q_j b_j^T + b_j q_j^T A_j^T + pi_j b_j b_j^T``. Then the links
move: ``q = P^T r`` and ``Q = P^T R``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.link_chains import moment_maps
from fedjax_links.analysis.link_chains.chains import LinkChain
from fedjax_links.analysis.link_chains.fixed_points import fixed_point, radius
from fedjax_links.analysis.link_chains.linear_systems import (
    LinearSystem,
    linear_system,
)
from fedjax_links.analysis.link_chains.moment_columns import moment_columns
from fedjax_links.analysis.link_chains.moments import Moments
from fedjax_links.analysis.link_chains.round_operators import (
    RoundOperator,
    round_operator,
)


class LinearCurve(NamedTuple):
    """Holds the law of an algorithm's models after each round, up to second order.

    Attributes:
      means: float64[T + 1, d] by model, ``'server'`` and maybe ``'client_mean'``: the
        expectation after rounds 0 to T, where 0 is the start.
      covariances: float64[T + 1, d, d] by model.
      optimum: float64[d], the minimiser of the mean of the losses.
    """

    means: Mapping[str, np.ndarray]
    covariances: Mapping[str, np.ndarray]
    optimum: np.ndarray


class ChainLimit(NamedTuple):
    """Holds the limits of an algorithm's models under a link chain.

    Under periodic links, limits are averages over the rounds of a period. The covariance is then
    that of a model after a random round.

    Attributes:
      means: float64[d] by model, ``'server'`` and maybe ``'client_mean'``; NaN if the
        mean does not settle.
      covariances: float64[d, d] by model; NaN if the second moment does not settle.
      optimum: float64[d], the minimiser of the mean of the losses.
      rate: factor by which the mean contracts per round, a spectral radius. Where clients are
        counted in groups, this is the mean of the server model and of the groups' sums.
      second_moment_rate: factor by which the second moment contracts per round. The second
        moment settles if this is below 1.
    """

    means: Mapping[str, np.ndarray]
    covariances: Mapping[str, np.ndarray]
    optimum: np.ndarray
    rate: float
    second_moment_rate: float

    @property
    def stability(self) -> str:
        """Says in words whether mean and variance settle."""
        if self.rate >= 1.0:
            return f'the mean does not settle: its rate is {self.rate:.4f} per round'
        if self.second_moment_rate >= 1.0:
            return (
                'the mean settles, the variance does not: the second moment has the rate '
                f'{self.second_moment_rate:.4f} per round'
            )
        return 'mean and variance settle'


def linear_curve(
    algorithm: str,
    chain: LinkChain,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    num_rounds: int,
    curvature: ArrayLike = 1.0,
    noise: float = 0.0,
    neighbours: ArrayLike | None = None,
    edge_probs: ArrayLike = 0.0,
    lump: bool | None = None,
    **options: Any,
) -> LinearCurve:
    """Computes mean and covariance of an algorithm's models after each round, exactly.

    All models and memories start at zero. For another start, measure the targets from that start.

    Clients with one law of links and equal curvature are exchangeable. A group of exchangeable
    clients is counted by state instead of listed client by client. So the computation is exact for
    many clients in few groups too, even if their targets differ. With CoGC, ColRel or links between
    clients, no two clients are exchangeable, and all clients are listed.

    Args:
      algorithm: name of the algorithm, one of `linear_rules.RULES`; its server learning rate is 1.
      chain: the uplinks, made by `link_chains`.
      targets: float64[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: eta, with ``eta h_i`` in (0, 2).
      local_steps: s.
      num_rounds: T, at least 0.
      curvature: h, positive, one number or float[N].
      noise: standard deviation of the independent noise in each coordinate of every local gradient.
      neighbours: int[N, K], neighbours of each client; None without links between clients. Links
        between clients are independent over rounds and of the uplinks.
      edge_probs: P(an edge is up), one number or float[N, K].
      lump: whether groups are counted, or all clients listed; None chooses what needs fewer
        numbers.
      **options: options of the algorithm, as in `linear_rule`.

    Returns:
      The curve.

    Raises:
      ValueError: for values out of range, too many modes, or more than 16 edges; and if the
        algorithm needs probabilities that the chain does not know.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.markov([0.5, 0.3], up_rate=0.05)
      >>> curve = analysis.linear_curve(
      ...     'fedavg', chain, [0.0, 100.0], 0.02, 5, num_rounds=100
      ... )
      >>> print(curve.means['server'][[0, 10, 100], 0].round(2))
      [ 0.   15.52 36.89]

    References:
      Costa, Fragoso and Marques, Discrete-Time Markov Jump Linear Systems, 2005, Section 3.
    """
    rounds = _checks.checked_rounds('num_rounds', num_rounds, minimum=0, num_bytes=16)
    system = linear_system(
        algorithm,
        chain,
        targets,
        learning_rate,
        local_steps,
        curvature=curvature,
        noise=noise,
        neighbours=neighbours,
        edge_probs=edge_probs,
        lump=lump,
        options=options,
    )
    law = system.layout.start_law()
    _, moments = moment_maps.start_moments(system.maps, system.targets, law)
    sums = [moments.sum_products()]
    num_bytes = 2 * (rounds + 1) * sums[0].nbytes
    _checks.check_memory('num_rounds', num_rounds, num_bytes)
    columns = moment_columns(system.maps.second, is_symmetric=False)
    for _ in range(rounds):
        moved = columns.from_moments(system.maps.second.move_models(moments))
        moments = columns.to_moments(columns.move_links(moved))
        sums.append(moments.sum_products())
    means, covariances = _models(system, np.stack(sums))
    return LinearCurve(means, covariances, system.optimum)


def linear_limit(
    algorithm: str,
    chain: LinkChain,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    curvature: ArrayLike = 1.0,
    noise: float = 0.0,
    neighbours: ArrayLike | None = None,
    edge_probs: ArrayLike = 0.0,
    lump: bool | None = None,
    **options: Any,
) -> ChainLimit:
    """Computes the limits of an algorithm's models under a link chain, exactly.

    An algorithm's mean may settle while its variance grows without bound. An example is MIFA for
    two clients with long outages. `ChainLimit.stability` says in words what settles.

    Args:
      algorithm: name of the algorithm, one of `linear_rules.RULES`; its server learning rate is 1.
      chain: the uplinks, made by `link_chains`.
      targets: float64[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: eta, with ``eta h_i`` in (0, 2).
      local_steps: s.
      curvature: h, positive, one number or float[N].
      noise: standard deviation of the independent noise in each coordinate of every local gradient.
      neighbours: int[N, K], neighbours of each client, as in `linear_curve`.
      edge_probs: P(an edge is up), one number or float[N, K].
      lump: whether groups are counted, or all clients listed; None chooses what needs fewer
        numbers.
      **options: options of the algorithm, as in `linear_rule`.

    Returns:
      The limits.

    Raises:
      ValueError: as `linear_curve` does, and for an algorithm that never moves.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.markov([0.5, 0.3], up_rate=0.05)
      >>> limit = analysis.linear_limit('fedavg_known', chain, [0.0, 100.0], 0.02, 5)
      >>> print(limit.means['server'].round(2), limit.optimum, limit.stability)
      [47.52] [50.] mean and variance settle

    References:
      Costa, Fragoso and Marques, Discrete-Time Markov Jump Linear Systems, 2005, Section 3.
    """
    system = linear_system(
        algorithm,
        chain,
        targets,
        learning_rate,
        local_steps,
        curvature=curvature,
        noise=noise,
        neighbours=neighbours,
        edge_probs=edge_probs,
        lump=lump,
        options=options,
        is_centred=True,
    )
    return _limit(system)


def _limit(system: LinearSystem) -> ChainLimit:
    """Computes the limits of an algorithm whose targets are measured from the optimum."""
    maps = system.maps
    law = system.layout.stationary_law()
    first, second = moment_maps.start_moments(maps, system.targets, law)
    mean_operator = round_operator(maps.mean, maps.mean_part)
    second_operator = round_operator(maps.second, maps.second_part, is_symmetric=True)
    rate = radius(mean_operator, law)
    second_rate = radius(second_operator, law)
    is_settling = rate < 1.0
    is_stable = is_settling and second_rate < 1.0
    if is_settling:
        first = fixed_point(mean_operator, first)
        # The first coordinate of v and w is 1. So E[v] is the first column of E[v w^T], and E[w]
        # its first row.
        means = first.products[..., 0]
        for index, (a, b) in enumerate(maps.pairs):
            second.products[..., index, :, 0] = means[..., a, :]
            second.products[..., index, 0, :] = means[..., b, :]
    if is_stable:
        second = _second_fixed_point(maps, second, second_operator)
    offsets, covariances = _models(system, second.sum_products()[None])
    limit_means = {}
    limit_covariances = {}
    for name, offset in offsets.items():
        limit_means[name] = system.optimum + offset[0]
        limit_covariances[name] = covariances[name][0]
        if not is_settling:
            limit_means[name] = np.full_like(offset[0], np.nan)
        if not is_stable:
            limit_covariances[name] = np.full_like(limit_covariances[name], np.nan)
    return ChainLimit(limit_means, limit_covariances, system.optimum, rate, second_rate)


def _second_fixed_point(
    maps: moment_maps.MomentMaps, known: Moments, operator: RoundOperator
) -> Moments:
    """Finds the second moments that a round does not change, from known first moments.

    For two coordinates a and b of the models, the result is the mean of ``E[v_a v_b^T]`` and its
    transpose. The results of this module do not depend on the difference of the two.

    Args:
      maps: the maps of the moments.
      known: moments. The first moments, and the products of target offsets, have their limits.
      operator: the round's map of the second moments of server and rows.

    Returns:
      The moments.
    """
    part = maps.cross_part
    if part.columns.size:
        known = fixed_point(round_operator(maps.second, part), known)
        # The law of target offsets is symmetric in the two coordinates, and so are these moments.
        known = known.with_part(part.transposed(), known.part(part).transposed())
    return fixed_point(operator, known)


def _models(
    system: LinearSystem, sums: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Computes means and covariances of the models.

    Args:
      system: the algorithm.
      sums: float64[T, pairs, n, n], ``E[v w^T]``.

    Returns:
      float64[T, d] and float64[T, d, d] by model.
    """
    pairs = system.maps.pairs
    dimension = len(system.optimum)
    means = {}
    covariances = {}
    for name, functional in system.models.items():
        mean = np.zeros((len(sums), dimension))
        square = np.zeros((len(sums), dimension, dimension))
        for index, (a, b) in enumerate(pairs):
            product = sums[:, index] @ functional
            square[:, a, b] = product @ functional
            square[:, b, a] = square[:, a, b]
            if a == b:
                mean[:, a] = product[:, 0]
        means[name] = mean
        covariance = square - mean[:, :, None] * mean[:, None, :]
        # Rounding may leave variances slightly below zero.
        diagonal = np.arange(dimension)
        variances = np.maximum(covariance[:, diagonal, diagonal], 0.0)
        covariance[:, diagonal, diagonal] = variances
        covariances[name] = covariance
    return means, covariances
