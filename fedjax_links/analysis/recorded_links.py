"""Computes statistics of recorded links: gaps, memory and weights, and a short report.

For gaps and memory the module also computes the exact means under stationary two-state links.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.independent_links import effective_weights, share_sums
from fedjax_links.analysis.markov import gap_distribution, markov_autocorrelation
from fedjax_links.core import errors

_BATCHES = 32
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Entries, rounds times clients, in memory at a time.
_CELLS = 2**22


class ParticipationReport(NamedTuple):
    """Describes the participation of N clients over T rounds.

    A gap is the number of rounds from one participation of a client to the client's next
    participation. The staleness of a client in round t is t minus its last active round before
    t. Without such a round the staleness is t + 1. A is the set of active clients of a round.

    Attributes:
      num_rounds: T.
      empty_rounds: rounds without any active client.
      counts: int64[N], participations.
      rates: float64[N], participations per round.
      mean_gaps: float64[N], NaN for clients with fewer than two participations.
      max_gaps: float64[N], NaN for the same clients.
      min_separations: float64[N], least number of rounds waited between two participations (the
        least gap minus 1), NaN for the same clients.
      mean_staleness: float64[N], mean over all rounds; it tends to 1/p for Bernoulli(p) links.
      max_staleness: int64[N].
      weights: float64[N], realised ``mean of 1{i in A} / |A|`` over non-empty rounds: each
        client's mean weight in the average over active clients. NaN if all rounds are empty.
      weight_errors: float64[N], standard errors of the weights, as in `effective_weights`; NaN
        for fewer than 32 rounds.
      distance_to_uniform: L1 distance of the weights to 1/N.
      effective_sample_size: ``1 / sum_i w_i^2``, the number of equally weighted clients whose mean
        has the same variance; N for uniform weights.
    """

    num_rounds: int
    empty_rounds: int
    counts: np.ndarray
    rates: np.ndarray
    mean_gaps: np.ndarray
    max_gaps: np.ndarray
    min_separations: np.ndarray
    mean_staleness: np.ndarray
    max_staleness: np.ndarray
    weights: np.ndarray
    weight_errors: np.ndarray
    distance_to_uniform: float
    effective_sample_size: float

    def __repr__(self) -> str:
        """Returns the report's text, which ``print`` and a notebook show."""
        return self.text()

    def text(self) -> str:
        """Formats the report as a table of quantiles over clients, at most 80 columns wide."""
        num_clients = self.counts.size
        never = int(np.sum(self.counts == 0))
        lines = [
            f'clients {num_clients}, rounds {self.num_rounds}, empty rounds {self.empty_rounds}, '
            f'clients never active {never}',
            f'{"per client":<18}' + ''.join(f'{q:>12.0%}' for q in _QUANTILES),
        ]
        rows = {
            'participations': self.counts,
            'rate': self.rates,
            'mean gap': self.mean_gaps,
            'longest gap': self.max_gaps,
            'least separation': self.min_separations,
            'mean staleness': self.mean_staleness,
            'max staleness': self.max_staleness,
            'weight x N': self.weights * num_clients,
            '  standard error': self.weight_errors * num_clients,
        }
        for label, values in rows.items():
            known = values[~np.isnan(values)]
            quantiles = np.quantile(known, _QUANTILES) if known.size else []
            cells = [f'{value:.4g}' for value in quantiles] or ['-'] * len(_QUANTILES)
            lines.append(f'{label:<18}' + ''.join(f'{cell:>12}' for cell in cells))
        if self.empty_rounds == self.num_rounds:
            lines.append('weights: none, as each round is empty')
        else:
            lines.append(
                f'weights: L1 distance to uniform {self.distance_to_uniform:.4g}, '
                f'effective clients {self.effective_sample_size:.4g} of {num_clients}'
            )
        return '\n'.join(lines)


def participation_report(masks: ArrayLike) -> ParticipationReport:
    """Computes counts, gaps, staleness and realised weights of a recorded run.

    Args:
      masks: bool[T, N], participation per round.

    Returns:
      The report; ``report.text()`` is its form for reading.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or not boolean.

    Example:
      >>> from fedjax_links import analysis
      >>> import numpy as np
      >>> masks = np.array([[1, 0], [1, 1], [0, 0], [1, 0]], bool)
      >>> print(analysis.participation_report(masks).counts)
      [3 1]
    """
    masks = _checks.checked_masks('masks', masks, ndim=2)
    num_rounds, num_clients = masks.shape
    counts = masks.sum(axis=0)
    active_rounds = int(masks.any(axis=1).sum())
    weights = np.full(num_clients, np.nan)
    weight_errors = np.full(num_clients, np.nan)
    if active_rounds and num_rounds >= _BATCHES:
        estimate = effective_weights(masks=masks, num_batches=_BATCHES)
        weights = estimate.weights
        weight_errors = estimate.standard_errors
    elif active_rounds:
        weights = share_sums(masks) / active_rounds

    statistics = [_gaps_and_ages(part) for part in _parts(masks)]
    mean_gaps, longest, shortest, age_sums, oldest = np.concatenate(statistics, axis=1)
    has_gap = counts > 1
    return ParticipationReport(
        num_rounds=num_rounds,
        empty_rounds=num_rounds - active_rounds,
        counts=counts,
        rates=counts / num_rounds,
        mean_gaps=np.where(has_gap, mean_gaps, np.nan),
        max_gaps=np.where(has_gap, longest, np.nan),
        min_separations=np.where(has_gap, shortest - 1.0, np.nan),
        mean_staleness=age_sums / num_rounds,
        max_staleness=oldest.astype(np.int64),
        weights=weights,
        weight_errors=weight_errors,
        distance_to_uniform=float(np.abs(weights - 1.0 / num_clients).sum()),
        effective_sample_size=float(1.0 / np.sum(weights**2)),
    )


def _parts(masks: np.ndarray) -> list[np.ndarray]:
    """Cuts a record into parts of some clients, each with some tens of megabytes of indices."""
    num_parts = min(math.ceil(masks.size / _CELLS), masks.shape[1])
    return np.array_split(masks, num_parts, axis=1)


def _gaps_and_ages(masks: np.ndarray) -> np.ndarray:
    """Computes statistics of how long clients wait, float64[5, N].

    The rows are the mean, the longest and the shortest gap, the sum of ages over all
    rounds, and the largest age. An age is the staleness of a client in a round.

    A stretch is the rounds after one participation of a client up to the next participation.
    The first stretch begins with the record. In a stretch of g rounds the ages are 1 to g. All
    stretches but a client's first are gaps. The rounds after its last participation are no stretch.
    """
    num_rounds, num_clients = masks.shape
    counts = masks.sum(axis=0)
    clients, rounds = np.nonzero(masks.T)
    first = np.diff(clients, prepend=-1) > 0
    stretches = rounds - np.where(first, -1, np.roll(rounds, 1))
    gaps = stretches[~first]
    owners = clients[~first]
    longest = np.zeros(num_clients)
    shortest = np.full(num_clients, np.inf)
    np.maximum.at(longest, owners, gaps)
    np.minimum.at(shortest, owners, gaps)
    mean_gaps = np.bincount(owners, gaps, num_clients) / np.maximum(counts - 1, 1)
    # Count the rounds after the last participation; their ages run from 1 to this number.
    num_after = np.where(counts > 0, masks[::-1].argmax(axis=0), num_rounds)
    age_sums = np.bincount(clients, stretches * (stretches + 1) / 2, num_clients)
    age_sums = age_sums + num_after * (num_after + 1) / 2
    oldest = num_after.copy()
    np.maximum.at(oldest, clients, stretches)
    return np.stack([mean_gaps, longest, shortest, age_sums, oldest])


def gap_counts(masks: ArrayLike) -> np.ndarray:
    """Counts the gaps between consecutive participations of a client, over all clients.

    Args:
      masks: bool[T, N], participation per round.

    Returns:
      int64[T], entry k is the number of gaps of k rounds; entry 0 is 0.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or not boolean.
    """
    masks = _checks.checked_masks('masks', masks, ndim=2)
    total = np.zeros(len(masks), np.int64)
    for part in _parts(masks):
        clients, rounds = np.nonzero(part.T)
        same = clients[1:] == clients[:-1]
        total += np.bincount(np.diff(rounds)[same], minlength=len(masks))
    return total


def expected_gap_counts(
    up_rate: ArrayLike, down_rate: ArrayLike, num_rounds: int, max_gap: int
) -> np.ndarray:
    """Computes the exact means of `gap_counts`, end effects included.

    On a stationary link a gap of k rounds begins in each round with the same probability. A gap
    that begins in one of the first T - k rounds ends within the record.

    Args:
      up_rate: float[N], P(down -> up) per round, see `gap_distribution`.
      down_rate: float[N], P(up -> down) per round. A link whose rates are both zero counts as
        without gaps.
      num_rounds: T, at least 2.
      max_gap: the longest gap, at least 1 and below T.

    Returns:
      float64[max_gap + 1], entry k is the mean number of gaps of k rounds.

    Raises:
      ValueError: if a rate or number is out of range.
    """
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=2)
    max_gap = _below(rounds, 'max_gap', max_gap, minimum=1)
    up, down = _changing(up_rate, down_rate)
    if not up.size:
        return np.zeros(max_gap + 1)
    laws = gap_distribution(up, down, max_gap)
    starts = rounds - np.arange(1, max_gap + 1)
    return np.append(0.0, up / (up + down) @ laws * starts)


def expected_num_gaps(
    up_rate: ArrayLike, down_rate: ArrayLike, num_rounds: int
) -> float:
    """Computes the exact mean number of gaps, the sum of all `expected_gap_counts`.

    A client with n participations has n - 1 gaps. A client that never takes part has none.

    Args:
      up_rate: float[N], as in `expected_gap_counts`.
      down_rate: float[N], as in `expected_gap_counts`.
      num_rounds: T, at least 2.

    Returns:
      The mean over records of stationary links, summed over clients.

    Raises:
      ValueError: if a rate or number is out of range.
    """
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=2)
    up, down = _changing(up_rate, down_rate)
    rates = up / (up + down)
    with np.errstate(divide='ignore'):  # log1p(-1) = -inf is right for links always up.
        log_never_up = np.log1p(-rates) + (rounds - 1) * np.log1p(-up)
    return float(np.sum(rounds * rates + np.expm1(log_never_up)))


def autocorrelation(masks: ArrayLike, max_lag: int) -> np.ndarray:
    """Computes the autocorrelation of participation, pooled over clients by their variance.

    Args:
      masks: bool[T, N], participation per round.
      max_lag: longest lag, at least 0 and below T.

    Returns:
      float64[max_lag + 1]; NaN if no client ever changes its state.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or not boolean, or the lag out of range.
    """
    masks = _checks.checked_masks('masks', masks, ndim=2)
    num_rounds = len(masks)
    max_lag = _below(num_rounds, 'max_lag', max_lag, minimum=0)
    sums = np.zeros(max_lag + 1)
    for part in _parts(masks):
        centred = part - part.mean(axis=0)
        for lag in range(max_lag + 1):
            sums[lag] += np.vdot(centred[: num_rounds - lag], centred[lag:])
    covariance: np.ndarray = sums / (num_rounds - np.arange(max_lag + 1))
    return covariance / (covariance[0] if covariance[0] > 0 else np.nan)


def expected_autocorrelation(
    up_rate: ArrayLike, down_rate: ArrayLike, max_lag: int
) -> np.ndarray | None:
    """Computes the exact counterpart of `autocorrelation` for stationary links.

    Args:
      up_rate: float[N], as in `expected_gap_counts`.
      down_rate: float[N], as in `expected_gap_counts`.
      max_lag: longest lag, at least 0.

    Returns:
      float64[max_lag + 1]; None if no client ever changes its state.

    Raises:
      ValueError: if a rate or lag is out of range.
    """
    max_lag = _checks.checked_length('max_lag', max_lag, minimum=0)
    up, down = _changing(up_rate, down_rate)
    variance = up * down / (up + down) ** 2
    if not variance.any():
        return None
    by_client = markov_autocorrelation(up, down, np.arange(max_lag + 1)[:, None])
    return by_client @ variance / variance.sum()


def _below(num_rounds: int, name: str, value: int, *, minimum: int) -> int:
    """Checks that a gap or lag is an integer that a record of T rounds can have."""
    number = _checks.checked_int(name, value, minimum=minimum)
    requirement = f'be below the number of rounds, {num_rounds}'
    _checks.require(number < num_rounds, name, requirement, number)
    return number


def _changing(
    up_rate: ArrayLike, down_rate: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rates of the links that ever change their state."""
    rates = np.atleast_1d(
        _checks.checked_rate('up_rate', up_rate),
        _checks.checked_rate('down_rate', down_rate),
    )
    if 1 not in (rates[0].size, rates[1].size) and rates[0].shape != rates[1].shape:
        requirement = f'have the shape of `up_rate` {list(rates[0].shape)}'
        raise errors.invalid('down_rate', requirement, list(rates[1].shape))
    up, down = np.broadcast_arrays(*rates)
    changes = up + down > 0
    return up[changes], down[changes]
