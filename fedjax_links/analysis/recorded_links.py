"""Gaps and memory of recorded links, and their exact means over stationary two-state links."""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.markov import gap_distribution, markov_autocorrelation
from fedjax_links.core import errors

_CELLS = 2**22  # rounds times clients worked on at a time


def gap_counts(masks: ArrayLike) -> np.ndarray:
    """Gaps between consecutive participations of a client, over all clients.

    Args:
      masks: bool[T, N], participation per round.

    Returns:
      int64[T], entry k is the number of gaps of k rounds; entry 0 is 0.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or not boolean.
    """
    masks = _checks.checked_masks('masks', masks, ndim=2)
    clients, rounds = np.nonzero(masks.T)
    same = clients[1:] == clients[:-1]
    return np.bincount(np.diff(rounds)[same], minlength=len(masks))


def expected_gap_counts(
    up_rate: ArrayLike, down_rate: ArrayLike, num_rounds: int, max_gap: int
) -> np.ndarray:
    """Exact means of `gap_counts`, end effects included.

    A gap of k rounds begins in round t of a stationary link with the same probability for each of
    the T - k rounds from which it ends within the record.

    Args:
      up_rate: float[N], P(down -> up) per round, see `gap_distribution`.
      down_rate: float[N], P(up -> down) per round. A link with both rates zero has no gaps here.
      num_rounds: T.
      max_gap: longest gap asked for, below T.

    Returns:
      float64[max_gap + 1].

    Raises:
      ValueError: if a rate or number is out of range.
    """
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=2)
    max_gap = _below(rounds, 'max_gap', max_gap, minimum=1)
    up, down = _moving(up_rate, down_rate)
    laws = gap_distribution(up, down, max_gap)
    starts = rounds - np.arange(1, max_gap + 1)
    return np.append(0.0, up / (up + down) @ laws * starts)


def autocorrelation(masks: ArrayLike, max_lag: int) -> np.ndarray:
    """Autocorrelation of participation, clients pooled by their variance.

    Args:
      masks: bool[T, N], participation per round.
      max_lag: longest lag, below T.

    Returns:
      float64[max_lag + 1]; NaN if nobody ever changes.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or not boolean, or the lag out of range.
    """
    masks = _checks.checked_masks('masks', masks, ndim=2)
    num_rounds = len(masks)
    max_lag = _below(num_rounds, 'max_lag', max_lag, minimum=0)
    sums = np.zeros(max_lag + 1)
    for part in np.array_split(masks, -(-masks.size // _CELLS), axis=1):  # in little memory
        centred = part - part.mean(axis=0)
        sums += [np.vdot(centred[: num_rounds - lag], centred[lag:]) for lag in range(max_lag + 1)]
    covariance: np.ndarray = sums / (num_rounds - np.arange(max_lag + 1))
    if covariance[0] <= 0:
        return np.full(max_lag + 1, np.nan)
    return covariance / covariance[0]


def expected_autocorrelation(
    up_rate: ArrayLike, down_rate: ArrayLike, max_lag: int
) -> np.ndarray | None:
    """Exact counterpart of `autocorrelation` for a long record of stationary links.

    Args:
      up_rate: float[N], as in `expected_gap_counts`.
      down_rate: float[N].
      max_lag: longest lag.

    Returns:
      float64[max_lag + 1]; None if nobody ever changes.

    Raises:
      ValueError: if a rate or lag is out of range.
    """
    max_lag = _checks.checked_int('max_lag', max_lag, minimum=0)
    up, down = _moving(up_rate, down_rate)
    variance = up * down / (up + down) ** 2
    changing = variance > 0
    if not changing.any():
        return None
    lags = np.arange(max_lag + 1)[:, None]
    each = markov_autocorrelation(up[changing], down[changing], lags)
    return each @ variance[changing] / variance[changing].sum()


def _below(num_rounds: int, name: str, value: int, *, minimum: int) -> int:
    """Raises unless a gap or lag is an integer in range that a record of T rounds can have."""
    number = _checks.checked_int(name, value, minimum=minimum)
    if number >= num_rounds:
        raise errors.invalid(name, f'be below the number of rounds, {num_rounds}', number)
    return number


def _moving(up_rate: ArrayLike, down_rate: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The rates of the links that do not keep their state for ever."""
    rates = np.atleast_1d(np.asarray(up_rate, np.float64), np.asarray(down_rate, np.float64))
    up, down = np.broadcast_arrays(*rates)
    moving = up + down > 0
    return up[moving], down[moving]
