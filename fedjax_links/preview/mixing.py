"""Says how fast FedPBC's rounds mix client models under configured links; low rates are fast."""

import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis.theorems import mixing_rates, regularity
from fedjax_links.participation import SCHEDULES
from fedjax_links.preview import configured_links
from fedjax_links.preview.configured_links import ConfiguredLinks

_MAX_ROUNDS = 200
"""Most rounds with different probabilities, each of which takes O(N^3); a choice."""
_NUM_BATCHES = 8
"""Number of parts of the record, from which the standard error of rho is estimated."""


def rate(
    links: ConfiguredLinks, record: base.MaskLinks, active: np.ndarray
) -> tuple[float, str]:
    """Computes or estimates how fast FedPBC's rounds mix the models of its clients.

    Args:
      links: a pattern of an experiment, at the first point of its grid.
      record: the links of the pattern, leaves [T, ...].
      active: bool[T, N], who takes part in the rounds from which the rate is estimated.

    Returns:
      rho = lambda_2(E[W]), of the worst round if rounds differ, and a text that says how rho is
      known.
    """
    if links.law.probs is not None:
        return analysis.mixing_rate(links.law.probs), 'rho exact'
    if _are_conditionally_independent(links):
        probs = np.unique(np.asarray(record.prob, np.float64), axis=0)
        if len(probs) <= _MAX_ROUNDS and np.isfinite(probs).all():
            return mixing_rates.worst_mixing_rate(probs), 'rho exact, worst round'
    estimate = _estimate_rate(active)
    num_batches = min(_NUM_BATCHES, len(active))
    if num_batches == 1:
        return estimate, 'rho estimated'
    batches = np.array_split(active, num_batches)
    batch_rates = [_estimate_rate(batch) for batch in batches]
    standard_error = float(np.std(batch_rates, ddof=1) / np.sqrt(num_batches))
    return estimate, f'rho estimated, standard error {standard_error:.1g}'


def _are_conditionally_independent(links: ConfiguredLinks) -> bool:
    """Returns whether clients are independent in a round, with the reported probabilities."""
    bound = configured_links.bound_links(links.experiment, links.label)
    if bound is None or bound.name != 'bernoulli':
        return False
    # Random probabilities of a user's schedule may depend on each other.
    return bound.options['schedule'].name in SCHEDULES


def _estimate_rate(active: np.ndarray) -> float:
    """Estimates rho from recorded rounds, bool[T, N]."""
    weights = regularity.participation_weights(active)
    mean_matrix = weights.T @ active / len(active) + np.diag(1.0 - active.mean(axis=0))
    eigenvalues = np.linalg.eigvalsh(mean_matrix)
    return float(np.clip(eigenvalues[-2], 0.0, 1.0)) if eigenvalues.size > 1 else 0.0
