"""The objective that averaging over whoever participates really minimises."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, independent_links
from fedjax_links.core import errors


class EffectiveWeights(NamedTuple):
    """Weights of the implicit objective ``sum_i w_i F_i``.

    Attributes:
      weights: float64[N], summing to 1.
      standard_errors: float64[N], zero for exact weights.
      exact: whether the weights come from a formula and not from an observed run.
      degrees_of_freedom: of the standard errors (batches - 1); infinite for exact weights.
    """

    weights: np.ndarray
    standard_errors: np.ndarray
    exact: bool
    degrees_of_freedom: float


def effective_weights(
    probs: ArrayLike | None = None,
    *,
    selection_law: ArrayLike | None = None,
    masks: ArrayLike | None = None,
    num_batches: int = 32,
) -> EffectiveWeights:
    r"""Weights ``w_i = E[1{i in A} / |A|  given A not empty]``, exact or estimated.

    Give exactly one of

    * ``probs``: independent links; the exact `fedavg_weights`.
    * ``selection_law``: cohorts of equal size (uniform cohorts, minimum separation); the share of
      selections per client is then the answer itself.
    * ``masks``: an observed run of any link process; the average over its non-empty rounds. (With
      memory in the links, the model seen at a given time weighs cohorts before a long silence a
      little more than this average does; without empty rounds there is no difference.)

    Standard errors come from batch means: the run is cut into ``num_batches`` contiguous batches,
    and the spread of the batches' own ratios around the overall one estimates the variance of the
    ratio estimator. This stays honest for links with memory as long as a batch is long beside that
    memory; rounds taken one by one would claim far too much precision. Compare
    ``(weights - w) / standard_errors`` with Student's t at the stated degrees of freedom. A run
    that starts away from stationarity carries that start in its weights.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      selection_law: float[N], shares of the selections, summing to 1.
      masks: bool[T, N], participation per round, with ``T >= num_batches``.
      num_batches: number of batches, at least 2; used with ``masks`` only.

    Returns:
      The weights, their standard errors, and whether they are exact.

    Raises:
      ValueError: if not exactly one source is given or it is invalid.

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
    given = [probs is not None, selection_law is not None, masks is not None]
    if sum(given) != 1:
        requirement = 'be given, or `selection_law` or `masks`, one of them'
        raise errors.invalid('probs', requirement, sum(given))
    if masks is not None:
        return _estimated(_checks.checked_masks('masks', masks, ndim=2), num_batches)
    if selection_law is not None:
        weights = _checks.checked_law('selection_law', selection_law)
    else:
        weights = independent_links.fedavg_weights(np.asarray(probs))
    return EffectiveWeights(weights, np.zeros(weights.size), True, np.inf)


def _estimated(masks: np.ndarray, num_batches: int) -> EffectiveWeights:
    batches = _checks.checked_int('num_batches', num_batches, minimum=2, maximum=len(masks))
    if not masks.any():
        raise errors.invalid('masks', 'hold an active client', f'{masks.shape[0]} empty rounds')
    return EffectiveWeights(*batch_means(masks, batches), False, batches - 1.0)


def batch_means(
    masks: np.ndarray, num_batches: int = 32, values: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """``sum_i w_i v_i`` with the weights of an observed run, and its standard errors.

    Args:
      masks: bool[T, N], not all of them empty.
      num_batches: number of contiguous batches.
      values: float64[N, d], v; by default the weights themselves are asked for, d = N.

    Returns:
      Both float64[d].
    """
    parts = np.array_split(masks, num_batches)
    sums = np.stack([share_sums(part) for part in parts])
    sums = sums if values is None else sums @ values
    counts = np.array([part.any(axis=1).sum() for part in parts], dtype=np.float64)
    means = sums.sum(axis=0) / counts.sum()
    residuals = sums - counts[:, None] * means
    spread = np.sum(residuals**2, axis=0) * num_batches / (num_batches - 1.0)
    return means, np.sqrt(spread) / counts.sum()


def share_sums(masks: np.ndarray) -> np.ndarray:
    """Sums over rounds of ``1{i in A} / |A|``, zero for empty rounds.

    Args:
      masks: bool[T, N].

    Returns:
      float64[N].
    """
    sizes = masks.sum(axis=1)
    shares = np.where(sizes > 0, 1.0 / np.maximum(sizes, 1), 0.0)
    return shares @ masks
