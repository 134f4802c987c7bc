"""Imitates an availability log by any number of synthetic clients.

An availability log says when recorded clients were up. Each synthetic client imitates one of them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors, prng
from fedjax_links.participation import durations, schedules
from fedjax_links.participation.markov import MarkovState, move
from fedjax_links.participation.semi_markov import semi_markov
from fedjax_links.participation.traces.intervals import (
    Intervals,
    as_intervals,
    warn_about,
)
from fedjax_links.participation.traces.trace import WRAPS, availability

Floats = NDArray[np.float64]

# Number of the random stream, derived from a round's key, from which links are drawn.
_LINKS = 0
_HOURS = 24
# Iterations of the fit of rates. After 20 the error was 1e-12 for 50 clients over two weeks.
_SWEEPS = 50


class DailyRates(NamedTuple):
    """Holds the rates of two-state chains, which follow the time of day.

    In round c of the day, client i comes up with probability ``min(1, rise[i] up_by[c])`` and goes
    down with ``min(1, fall[i] down_by[c])``. There are L clients in the log and C rounds in a day.

    Attributes:
      rise: float64[L], rate of coming up.
      fall: float64[L], rate of going down.
      up_by: float64[C], factor of the time of day, 1 on average, constant within an hour.
      down_by: float64[C], as ``up_by``.
      marginal: float64[C, L], probability of being up.
    """

    rise: Floats
    fall: Floats
    up_by: Floats
    down_by: Floats
    marginal: Floats


def synthetic_trace(
    intervals: Intervals | ArrayLike,
    *,
    num_clients: int,
    tick: float,
    rounds: int | None = None,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    seed: int = 0,
    law: str = 'markov',
) -> Participation:
    """Imitates a log by synthetic clients: Markov chains whose rates follow the time of day.

    Each of the N clients takes the rates of a client of the log, drawn with replacement, and
    is up or down independently of all others. `synthetic_trace.daily_rates` fits the rates. Within
    an hour a chain stays up and down for geometric times. The times of recorded clients are often
    not geometric. `synthetic_trace.losses` measures what each ``law`` leaves out.

    Args:
      intervals: the log, as in `trace`; time 0 is midnight.
      num_clients: N, at least 1, more or fewer than in the log.
      tick: seconds per round, a whole part of a day.
      rounds: how many rounds of the log are used, as in `availability`.
      wrap: as in `availability`.
      overlaps: as in `availability`.
      seed: seed of the draw of clients, integer in ``[0, 2**32)``.
      law: ``'markov'`` as above; ``'semi_markov'``, where a client's times up and down are drawn
        from the times of the client that it imitates, whatever the time of day; or
        ``'nearest'``, the law of these two that leaves out less.

    Returns:
      The pattern. Its ``prob`` is exact: the probability at the time of day under ``'markov'``,
      the stationary probability under ``'semi_markov'``.

    Raises:
      ValueError: as for `availability`; for a tick that does not divide the day; for rates of
        fewer rounds than a day has; for an unknown law.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> hour = 3600.0
      >>> log = participation.intervals([0, 1], [8 * hour, 12 * hour], [18 * hour, 22 * hour])
      >>> pattern = participation.synthetic_trace(log, num_clients=50, tick=hour, wrap='day')
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=24)
      >>> print(links.mask.sum(axis=1)[8:15])
      [23 23 23 23 50 50 50]
    """
    checks.choice('law', law, ('markov', 'semi_markov', 'nearest'))
    checks.static_int('num_clients', num_clients)
    checks.seed('seed', seed)
    log = as_intervals(intervals)
    warn_about(log)
    mask = availability(log, tick=tick, rounds=rounds, wrap=wrap, overlaps=overlaps)
    day_length = rounds_per_day(tick)
    # A fit holds about eight float64 tables [C, L].
    checks.fits('tick', tick, 68.0 * day_length * mask.shape[1])
    log_clients = np.random.default_rng(seed).integers(0, mask.shape[1], num_clients)
    if law == 'nearest':
        loss = losses(mask, rounds_per_day=day_length)
        law = 'markov'
        if loss.of_markov > loss.of_semi_markov:
            law = 'semi_markov'
    if law == 'semi_markov':
        return _semi_markov(mask, log_clients)
    return _markov(daily_rates(mask, rounds_per_day=day_length), log_clients)


def _markov(fitted: DailyRates, log_clients: NDArray[np.int64]) -> Participation:
    """Builds the pattern of Markov chains with the rates of clients of a log.

    Args:
      fitted: the rates.
      log_clients: int[N], the client of the log that each client imitates.
    """
    num_clients = len(log_clients)
    day_length = len(fitted.up_by)
    rise = schedules.as_floats(fitted.rise[log_clients])
    fall = schedules.as_floats(fitted.fall[log_clients])
    up_by = schedules.as_floats(fitted.up_by)
    down_by = schedules.as_floats(fitted.down_by)
    marginal = schedules.as_floats(fitted.marginal)

    def uniforms(key: Key) -> Array:
        return prng.uniform(jax.random.fold_in(key, _LINKS), (num_clients,))

    def init(key: Key) -> MarkovState:
        # Round 0 is the first round of a day. So the state before it has the law of a day's last
        # round.
        return MarkovState(up=uniforms(key) < marginal[-1][log_clients])

    def sample(
        carry: MarkovState, key: Key, round: Array
    ) -> tuple[MarkovState, LinkSample]:
        time = jnp.mod(round, day_length)
        rise_now = rise * jnp.asarray(up_by)[time]
        fall_now = fall * jnp.asarray(down_by)[time]
        up = move(carry.up, uniforms(key), rise_now, fall_now)
        prob = jnp.asarray(marginal)[time][log_clients]
        return MarkovState(up=up), LinkSample(mask=up, prob=prob)

    return Participation(init, sample, num_clients, cycle=day_length)


class Losses(NamedTuple):
    """Measures what each law leaves out of a log, in [0, 1].

    Attributes:
      of_markov: how far the times up and down are from geometric times. This is the largest
        distance between two survival functions that pool all clients: one of the log's times,
        one of geometric times with the same mean for each client.
      of_semi_markov: half of the range of the mean availability over the hours of the day.
    """

    of_markov: float
    of_semi_markov: float


def losses(mask: NDArray[np.bool_], *, rounds_per_day: int) -> Losses:
    """Computes what each law leaves out of a record, which is assumed to repeat.

    Args:
      mask: bool[T, L], who was up in each round from midnight on.
      rounds_per_day: C.

    Returns:
      The loss of each law.
    """
    from_geometric = max(
        _distance_from_geometric(mask), _distance_from_geometric(~mask)
    )
    part_of_round = _parts_of_rounds(len(mask), rounds_per_day)
    counts = np.bincount(part_of_round)
    availability_by_part = np.bincount(part_of_round, mask.mean(axis=1)) / counts
    return Losses(from_geometric, float(np.ptp(availability_by_part) / 2))


def _parts_of_rounds(num_rounds: int, rounds_per_day: int) -> NDArray[np.int64]:
    """Returns the part of the day of each round from midnight on: its hour, or its own number.

    The parts are the rounds themselves if a day has fewer than 24 rounds.
    """
    time_of_day = np.arange(num_rounds) % rounds_per_day
    return time_of_day * min(_HOURS, rounds_per_day) // rounds_per_day


def _distance_from_geometric(record: NDArray[np.bool_]) -> float:
    """Compares the durations in a record with geometric durations of the same mean per client.

    Args:
      record: bool[T, L], whether each client is in a state.

    Returns:
      The largest distance between the two survival functions, which pool the durations of all
      clients; 0 without durations.
    """
    lengths = [_durations(column) for column in record.T]
    counts = np.array([len(lengths_of_client) for lengths_of_client in lengths])
    if not counts.any():
        return 0.0
    pooled = np.concatenate(lengths)
    mean = _ratio(record.sum(axis=0).astype(float), counts.astype(float))
    rounds = np.arange(1, 1 + pooled.max())
    observed = 1 - np.cumsum(np.bincount(pooled))[1:] / len(pooled)
    # A geometric time lasts another round with probability 1 - 1 / mean.
    stay_prob = 1 - _ratio(np.ones(len(mean)), mean)
    geometric = np.zeros(len(rounds))
    for count, prob in zip(counts, stay_prob, strict=True):
        geometric += count * prob**rounds
    return float(np.abs(observed - geometric / counts.sum()).max())


def _durations(record: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns how long a client stays in a state each time; empty if it never changes.

    Args:
      record: bool[T], whether the client is in the state; assumed to repeat.
    """
    changes = np.flatnonzero(record != np.roll(record, 1))
    lengths = np.diff(changes, append=changes[:1] + len(record))
    return lengths[record[changes]]


def _semi_markov(
    mask: NDArray[np.bool_], log_clients: NDArray[np.int64]
) -> Participation:
    """Builds the pattern of clients whose times up and down are drawn from those in a log.

    Args:
      mask: bool[T, L], the log.
      log_clients: int[N], the client of the log that each client imitates.
    """
    always = mask[:, log_clients].all(axis=0)
    never = ~mask[:, log_clients].any(axis=0)
    # Clients that imitate the same client share its laws.
    clients, kinds = np.unique(log_clients, return_inverse=True)
    up_law = _observed_laws(mask[:, clients])
    down_law = _observed_laws(~mask[:, clients])
    moving = semi_markov(up_law, down_law, kinds=kinds)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        carry, links = moving.sample(carry, key, round)
        prob = jnp.where(always | never, always, links.prob)
        return carry, LinkSample((links.mask | always) & ~never, prob)

    return moving._replace(sample=sample)


def _observed_laws(record: NDArray[np.bool_]) -> durations.Survival:
    """Returns each client's survival function of the times in a state, float64[L, K].

    A client that never changes its state has no times, and its row does not matter.
    """
    tables = []
    for column in record.T:
        lengths = _durations(column)
        tables.append(durations.observed(lengths if len(lengths) else [1])[0])
    num_rounds = max(map(len, tables))
    padded = [np.pad(table, (0, num_rounds - len(table))) for table in tables]
    return np.stack(padded)


def rounds_per_day(tick: float) -> int:
    """Returns the number of rounds in a day, which must be whole."""
    day_seconds = round(WRAPS['day'])
    ratio = day_seconds / tick
    is_integer = abs(ratio - round(ratio)) <= 1e-9 * ratio
    if not is_integer or ratio < 1:
        candidates = range(1, day_seconds + 1)
        divisors = [seconds for seconds in candidates if day_seconds % seconds == 0]
        nearest = min(divisors, key=lambda seconds: abs(seconds - tick))
        requirement = f'divide the {day_seconds} s of a day, as {nearest} s do'
        raise errors.invalid('tick', requirement, tick)
    return round(ratio)


def daily_rates(mask: NDArray[np.bool_], *, rounds_per_day: int) -> DailyRates:
    """Fits rates of clients and of times of day to a record, which is assumed to repeat.

    In part b of the day, client i was down before ``D[i, b]`` rounds and came up in ``R[i, b]`` of
    them. The fit matches the number of rises of each client and of each part of the day:

    ``sum_b R[i, b] = rise[i] sum_b up_by[b] D[i, b]`` for each i, and
    ``sum_i R[i, b] = up_by[b] sum_i rise[i] D[i, b]`` for each b.

    This is the maximum-likelihood fit of Poisson counts, with a factor for each client and a factor
    for each part of the day. Iterative scaling finds it. Falls are fitted in the same way. Since
    the record repeats, there are as many rises as falls. So if rates are the same all day, each
    chain has exactly the availability of its client.

    Args:
      mask: bool[T, L], who was up in each round from midnight on, for a day at least.
      rounds_per_day: C. The parts of the day are the hours, or the rounds if these are longer.

    Returns:
      The rates.

    Raises:
      ValueError: for fewer rounds than a day has.
    """
    if len(mask) < rounds_per_day:
        requirement = f'be at least {rounds_per_day}, those of a day'
        raise errors.invalid('rounds', requirement, len(mask))
    num_parts = min(_HOURS, rounds_per_day)
    part = _parts_of_rounds(rounds_per_day, rounds_per_day)
    part_of_round = _parts_of_rounds(len(mask), rounds_per_day)

    def count_by_part(events: NDArray[np.bool_]) -> Floats:
        counts = [events[part_of_round == b].sum(axis=0) for b in range(num_parts)]
        return np.stack(counts, axis=1).astype(float)

    before = np.roll(mask, 1, axis=0)
    rises = count_by_part(~before & mask)
    falls = count_by_part(before & ~mask)
    part_lengths = np.bincount(part, minlength=num_parts) / rounds_per_day
    rise, up_by = _scaling_factors(rises, count_by_part(~before), part_lengths)
    fall, down_by = _scaling_factors(falls, count_by_part(before), part_lengths)
    rise_probs = np.minimum(1, up_by[part][:, None] * rise)
    fall_probs = np.minimum(1, down_by[part][:, None] * fall)
    return DailyRates(
        rise=rise,
        fall=fall,
        up_by=up_by[part],
        down_by=down_by[part],
        marginal=_daily_course(rise_probs, fall_probs, mask.mean(axis=0)),
    )


def _scaling_factors(
    events: Floats, exposure: Floats, column_weights: Floats
) -> tuple[Floats, Floats]:
    """Computes factors of rows and columns that give ``exposure`` the margins of ``events``.

    The weighted mean of the columns' factors is 1, unless all factors are 0.
    """
    row_events = events.sum(axis=1)
    column_events = events.sum(axis=0)
    columns = np.ones(exposure.shape[1])
    for _ in range(_SWEEPS):
        rows = _ratio(row_events, exposure @ columns)
        columns = _ratio(column_events, rows @ exposure)
    mean = float(columns @ column_weights)
    if mean > 0:
        columns = columns / mean
    return _ratio(row_events, exposure @ columns), columns


def _ratio(numerator: Floats, divisor: Floats) -> Floats:
    """Divides, with 0 where the divisor is not positive."""
    zeros = np.zeros_like(numerator)
    return np.divide(numerator, divisor, out=zeros, where=divisor > 0)


def _daily_course(rise: Floats, fall: Floats, mean: Floats) -> Floats:
    """Computes the periodic probabilities of being up, [C, L].

    Args:
      rise: float64[C, L], probability of coming up.
      fall: float64[C, L], probability of going down.
      mean: float64[L], the probability of being up for clients that never change.
    """
    factors = 1 - rise - fall

    def day(probs: Floats) -> Floats:
        course = []
        for factor, rise_now in zip(factors, rise, strict=True):
            probs = factor * probs + rise_now
            course.append(probs)
        return np.array(course)

    # A day maps p to slope p + shift, whose fixed point is the probability before the day.
    slope = np.prod(factors, axis=0)
    shift = day(np.zeros(rise.shape[1]))[-1]
    start = np.divide(shift, 1 - slope, out=mean.copy(), where=slope < 1)
    return np.clip(day(start), 0, 1)
