"""What screens count in the links of a record."""

import numpy as np

from fedjax_links.analysis.implicit_objective import share_sums
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens.recording import LinkRecord


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


def chain(law: LinkLaw) -> tuple[np.ndarray, np.ndarray] | None:
    """P(absent -> present) and P(present -> absent), float64[N] each, where both are known."""
    if law.memoryless and law.rates is not None:
        return law.rates, 1 - law.rates
    return None if law.up_rate is None or law.down_rate is None else (law.up_rate, law.down_rate)


def stated_rates(law: LinkLaw, record: LinkRecord) -> tuple[str, np.ndarray | None]:
    """What is said of the clients' rates: ``exact`` or ``nominal`` ones, or nothing.

    Args:
      law: what is known of the links.
      record: the same, simulated.

    Returns:
      The name, and float64[N], NaN where a client's is unknown; None where all are.
    """
    if law.rates is not None:
        return 'exact', law.rates
    nominal = record.prob.mean(axis=0, dtype=np.float64)
    return 'nominal', None if np.isnan(nominal).all() else nominal


def standard_errors(active: np.ndarray, values: np.ndarray, num_batches: int = 32) -> np.ndarray:
    """Of ``sum_i w_i v_i`` with weights estimated from a record, by batch means.

    Args:
      active: bool[T, N], who took part.
      values: float64[N, d].
      num_batches: number of contiguous batches.

    Returns:
      float64[d].
    """
    parts = np.array_split(active, num_batches)
    sums = np.stack([share_sums(part) for part in parts]) @ values
    counts = np.array([part.any(axis=1).sum() for part in parts], np.float64)
    residuals = sums - np.outer(counts, sums.sum(axis=0) / counts.sum())
    spread = np.sum(residuals**2, axis=0) * num_batches / (num_batches - 1)
    return np.sqrt(spread) / counts.sum()
