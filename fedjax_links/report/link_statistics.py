"""Gaps, memory and daily course of recorded links, with their exact laws where those are known."""

from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.report.laws import LinkLaw


class Folded(NamedTuple):
    """Number of participants by phase of the period.

    Attributes:
      mean: float64[P].
      low: float64[P], 5 % quantile over the repetitions.
      high: float64[P], 95 % quantile.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def gap_counts(active: np.ndarray) -> np.ndarray:
    """Gaps between consecutive participations of a client, over all clients.

    Args:
      active: bool[T, N].

    Returns:
      int64[T], entry k is the number of gaps of k rounds; entry 0 is 0.
    """
    clients, rounds = np.nonzero(active.T)
    same = clients[1:] == clients[:-1]
    return np.bincount(np.diff(rounds)[same], minlength=len(active))


def expected_gap_counts(law: LinkLaw, num_rounds: int, max_gap: int) -> np.ndarray | None:
    """Exact means of `gap_counts`, end effects included.

    A gap of k rounds begins in round t of a stationary link with the same probability for each of
    the T - k rounds from which it ends within the record.

    Args:
      law: the exact law of the links.
      num_rounds: T.
      max_gap: longest gap asked for, below T.

    Returns:
      float64[max_gap + 1], or None where the gap law is not known.
    """
    if law.up_rate is None or law.down_rate is None or law.rates is None:
        return None
    moving = law.up_rate + law.down_rate > 0
    laws = analysis.gap_distribution(law.up_rate[moving], law.down_rate[moving], max_gap)
    starts = num_rounds - np.arange(1, max_gap + 1)
    return np.append(0.0, law.rates[moving] @ laws * starts)


def autocorrelation(active: np.ndarray, max_lag: int) -> np.ndarray:
    """Autocorrelation of participation, clients pooled by their variance.

    Args:
      active: bool[T, N].
      max_lag: longest lag, below T.

    Returns:
      float64[max_lag + 1]; NaN if nobody ever changes.
    """
    centred = (active - active.mean(axis=0)).astype(np.float32)
    num_rounds = len(active)
    covariance = np.array(
        [
            np.einsum('tn,tn->', centred[: num_rounds - lag], centred[lag:]) / (num_rounds - lag)
            for lag in range(max_lag + 1)
        ],
        np.float64,
    )
    if covariance[0] <= 0:
        return np.full(max_lag + 1, np.nan)
    return covariance / covariance[0]


def expected_autocorrelation(law: LinkLaw, max_lag: int) -> np.ndarray | None:
    """Exact counterpart of `autocorrelation` for a long record; None where it is not known."""
    if law.up_rate is None or law.down_rate is None or law.rates is None:
        return None
    variance = law.rates * (1 - law.rates)
    if not variance.any():
        return None
    moving = variance > 0
    lags = np.arange(max_lag + 1)[:, None]
    each = analysis.markov_autocorrelation(law.up_rate[moving], law.down_rate[moving], lags)
    return each @ variance[moving] / variance.sum()


def fold(counts: np.ndarray, period: int) -> Folded:
    """Participants by round modulo a period.

    Args:
      counts: int[T], participants by round, at least one period of them.
      period: P.

    Returns:
      Mean and quantiles over the ``T // P`` whole periods.
    """
    whole = counts[: len(counts) // period * period].reshape(-1, period)
    low, high = np.quantile(whole, [0.05, 0.95], axis=0)
    return Folded(whole.mean(axis=0), low, high)


def foldable(law: LinkLaw, num_rounds: int) -> int | None:
    """The period at which a record can be folded: known, longer than a round, seen at least twice.

    Args:
      law: the exact law of the links.
      num_rounds: T.

    Returns:
      The period, or None.
    """
    period = law.period
    return period if period is not None and 1 < period <= num_rounds // 2 else None
