"""Gaps, memory and daily course of recorded links, with their exact laws where those are known."""

from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.participation.laws import LinkLaw


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


def expected_gap_counts(law: LinkLaw, num_rounds: int, max_gap: int) -> np.ndarray | None:
    """`analysis.expected_gap_counts` of a law; None where its gaps are not known."""
    if law.up_rate is None or law.down_rate is None:
        return None
    return analysis.expected_gap_counts(law.up_rate, law.down_rate, num_rounds, max_gap)


def expected_autocorrelation(law: LinkLaw, max_lag: int) -> np.ndarray | None:
    """`analysis.expected_autocorrelation` of a law; None where it is not known."""
    if law.up_rate is None or law.down_rate is None:
        return None
    return analysis.expected_autocorrelation(law.up_rate, law.down_rate, max_lag)


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
