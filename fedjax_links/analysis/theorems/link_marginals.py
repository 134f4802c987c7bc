r"""Computes how often links with memory are up: Markov links with changing rates, cyclic links.

References:
  Xiang et al., journal version 2024, Figure 6 and Appendix B.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks


def periodic_markov_marginals(up_rates: ArrayLike, down_rates: ArrayLike) -> np.ndarray:
    r"""Computes the probability of being up in each round of a period, in the long run.

    A link moves in round t with ``q*_t`` = P(down -> up) and ``q_t`` = P(up -> down). So the
    probability m_t of being up follows ``m_t = m_{t-1} (1 - q_t) + (1 - m_{t-1}) q*_t``. The rates
    repeat after T rounds. m is the solution that also repeats after T rounds.

    Args:
      up_rates: float[T, N], q*_t for each round of a period and each client, in [0, 1].
      down_rates: float[T, N], q_t for each round of a period and each client, in [0, 1].

    Returns:
      float64[T, N], m_t after a move with the rates of row t.

    Raises:
      ValueError: if a rate is out of range, the shapes differ, or a link never forgets its start.

    Example:
      >>> from fedjax_links.analysis.theorems import link_marginals
      >>> print(link_marginals.periodic_markov_marginals([[0.5], [0.0]], [[0.0], [0.5]]).ravel())
      [0.66666667 0.33333333]

    References:
      Xiang et al., journal version 2024, links (5d).
    """
    rise = _checks.checked_rate('up_rates', up_rates)
    fall = _checks.checked_rate('down_rates', down_rates)
    is_valid = rise.ndim == 2 and rise.size > 0
    _checks.require(
        is_valid, 'up_rates', 'be a non-empty [T, N]', f'shape {rise.shape}'
    )
    fits = f'have the shape {rise.shape} of `up_rates`'
    _checks.require(fall.shape == rise.shape, 'down_rates', fits, fall.shape)
    # A round maps m to decay m + rise. Compose these maps over a period.
    decay = 1.0 - rise - fall
    period_decay = np.ones(rise.shape[1])
    period_rise = np.zeros(rise.shape[1])
    for t in range(len(rise)):
        period_decay = decay[t] * period_decay
        period_rise = decay[t] * period_rise + rise[t]
    forgets = np.abs(period_decay) < 1.0
    got = f'rates that do not for client {np.argmin(forgets)}'
    _checks.require(forgets.all(), 'up_rates', 'let every link forget its start', got)
    state = period_rise / (1.0 - period_decay)
    marginals = np.empty_like(rise)
    for t in range(len(rise)):
        state = decay[t] * state + rise[t]
        marginals[t] = state
    return marginals


def cyclic_marginals(
    probs: ArrayLike, *, cycle_length: int = 100, reset: bool = False
) -> np.ndarray:
    r"""Computes how often cyclic links are up in the long run.

    A cycle of L rounds has ``max(1, rint(L p))`` rounds up. The other rounds are down, at least one
    round. L p is computed in float64, as in `link_chains.cyclic`.

    Args:
      probs: float[N], p, in [0, 1].
      cycle_length: L, at least 2.
      reset: whether the offset is redrawn every L rounds. Each of these stretches of L rounds then
        holds one block of rounds up.

    Returns:
      float64[N], the fraction of rounds up.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import link_marginals
      >>> print(link_marginals.cyclic_marginals([0.0, 0.25, 1.0], cycle_length=8))
      [0.125      0.25       0.88888889]

    References:
      Xiang et al., journal version 2024, Appendix B.
    """
    link_probs = _checks.checked_probs('probs', probs)
    length = _checks.checked_int('cycle_length', cycle_length, minimum=2)
    active = np.maximum(1.0, np.rint(length * link_probs))
    if _checks.checked_flag('reset', reset):
        return active / length
    return active / (active + np.maximum(1.0, length - active))
