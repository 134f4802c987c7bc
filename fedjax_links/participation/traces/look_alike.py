"""Imitates a log of availability by synthetic clients, any number of them."""

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
from fedjax_links.participation.traces.intervals import Intervals
from fedjax_links.participation.traces.trace import WRAPS, availability

Floats = NDArray[np.float64]

_LINKS = 0
_HOURS = 24
_SWEEPS = 50


class DailyRates(NamedTuple):
    """Holds two-state chains whose rates follow the time of day.

    Client i goes up in round c of the day with probability ``min(1, rise[i] up_by[c])`` and down
    with ``min(1, fall[i] down_by[c])``.

    Attributes:
      rise: float64[L], by client of the log.
      fall: float64[L], by client of the log.
      up_by: float64[C], by round of the day, 1 on average; constant within a part of the day.
      down_by: float64[C], as ``up_by``.
      marginal: float64[C, L], probability of being up by round of the day.
    """

    rise: Floats
    fall: Floats
    up_by: Floats
    down_by: Floats
    marginal: Floats


def look_alike(
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
    """Imitates a log by synthetic clients: Markov chains with the log's course of a day.

    Each of the N clients takes the rates of a client of the log, drawn with replacement, and
    is up or down independently of all others. `look_alike.daily_rates` fits the rates. Within
    an hour such chains stay up and down for geometric times; logs often do not.
    `look_alike.losses` measures what either law leaves out.

    Args:
      intervals: the log, as in `trace`; time 0 is midnight.
      num_clients: N, any number.
      tick: seconds per round, a whole part of a day.
      rounds: how much of the log is used, as in `availability`.
      wrap: as in `availability`.
      overlaps: as in `availability`.
      seed: of the draw of clients.
      law: ``'markov'``; ``'semi_markov'`` for clients whose times up and down are drawn from
        those of their client in the log, without a course of the day; ``'nearest'`` for the
        law that leaves out less.

    Returns:
      The pattern, with the exact probability: by time of day, from midnight on, or stationary.

    Raises:
      ValueError: as for `availability`, if the tick does not divide the day, or for an unknown law.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> hour = 3600.0
      >>> log = participation.intervals([0, 1], [8 * hour, 12 * hour], [18 * hour, 22 * hour])
      >>> pattern = participation.look_alike(log, num_clients=50, tick=hour, wrap='day')
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=24)
      >>> print(links.mask.sum(axis=1)[8:15])
      [23 23 23 23 50 50 50]
    """
    checks.choice('law', law, ('markov', 'semi_markov', 'nearest'))
    checks.static_int('num_clients', num_clients)
    checks.static_int('seed', seed, minimum=0)
    mask = availability(
        intervals, tick=tick, rounds=rounds, wrap=wrap, overlaps=overlaps
    )
    length = rounds_per_day(tick)
    checks.fits('tick', tick, 32.0 * length * mask.shape[1])
    fitted = daily_rates(mask, rounds_per_day=length)
    chosen = np.random.default_rng(seed).integers(0, len(fitted.rise), num_clients)
    if law == 'nearest':
        left_out = losses(mask, rounds_per_day=length)
        if left_out.of_markov > left_out.of_semi_markov:
            law = 'semi_markov'
    if law == 'semi_markov':
        return _semi_markov(mask, chosen)
    rise = schedules.as_floats(fitted.rise[chosen])
    fall = schedules.as_floats(fitted.fall[chosen])
    up_by = schedules.as_floats(fitted.up_by)
    down_by = schedules.as_floats(fitted.down_by)
    marginal = schedules.as_floats(fitted.marginal)

    def uniforms(key: Key) -> Array:
        return prng.uniform(jax.random.fold_in(key, _LINKS), (num_clients,))

    def init(key: Key) -> MarkovState:
        return MarkovState(up=uniforms(key) < marginal[-1][chosen])

    def sample(
        carry: MarkovState, key: Key, round: Array
    ) -> tuple[MarkovState, LinkSample]:
        time = jnp.mod(round, length)
        rise_now = rise * jnp.asarray(up_by)[time]
        fall_now = fall * jnp.asarray(down_by)[time]
        up = move(carry.up, uniforms(key), rise_now, fall_now)
        prob = jnp.asarray(marginal)[time][chosen]
        return MarkovState(up=up), LinkSample(mask=up, prob=prob)

    return Participation(init, sample, num_clients, cycle=length)


class Losses(NamedTuple):
    """Measures what laws of links leave out of a log; both numbers lie in [0, 1].

    Attributes:
      of_markov: the largest distance of the log's survival functions of times up and down,
        over all clients, from those of chains with the clients' rates.
      of_semi_markov: half of the range of the mean availability over the hours of the day.
    """

    of_markov: float
    of_semi_markov: float


def losses(mask: NDArray[np.bool_], *, rounds_per_day: int) -> Losses:
    """Computes what each law leaves out of a record, which is assumed to repeat.

    Args:
      mask: bool[T, L], from midnight on.
      rounds_per_day: C.

    Returns:
      How far times are from geometric, and the range of the course of the day.
    """
    from_geometric = max(
        _distance_from_geometric(mask), _distance_from_geometric(~mask)
    )
    time_of_day = np.arange(len(mask)) % rounds_per_day
    part_of_day = time_of_day * min(_HOURS, rounds_per_day) // rounds_per_day
    counts = np.bincount(part_of_day)
    availability_by_part = np.bincount(part_of_day, mask.mean(axis=1)) / counts
    return Losses(from_geometric, float(np.ptp(availability_by_part) / 2))


def _distance_from_geometric(record: NDArray[np.bool_]) -> float:
    """Compares the durations of a record with geometric ones of the clients' means.

    Args:
      record: bool[T, L], whether each client is in a state.

    Returns:
      The largest distance of the survival functions over all clients; 0 without durations.
    """
    lengths = [_durations(column) for column in record.T]
    counts = np.array([len(of_client) for of_client in lengths])
    if not counts.any():
        return 0.0
    pooled = np.concatenate(lengths)
    mean = _ratio(record.sum(axis=0).astype(float), counts.astype(float))
    rounds = np.arange(1, 1 + pooled.max())
    observed = (pooled[:, None] > rounds).mean(axis=0)
    stays = 1 - _ratio(np.ones(len(mean)), mean)[:, None]
    geometric = counts @ stays**rounds / counts.sum()
    return float(np.abs(observed - geometric).max())


def _durations(up: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the lengths of the runs of a record that repeats; none if it never changes."""
    changes = np.flatnonzero(up != np.roll(up, 1))
    lengths = np.diff(changes, append=changes[:1] + len(up))
    return lengths[up[changes]]


def _semi_markov(mask: NDArray[np.bool_], chosen: NDArray[np.int64]) -> Participation:
    """Makes clients whose times up and down are drawn from those of clients of a record."""
    always = mask[:, chosen].all(axis=0)
    never = ~mask[:, chosen].any(axis=0)
    clients, rows = np.unique(chosen, return_inverse=True)
    up_law = _observed_laws(mask[:, clients])
    down_law = _observed_laws(~mask[:, clients])
    moving = semi_markov(up_law, down_law, kinds=rows)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        carry, links = moving.sample(carry, key, round)
        prob = jnp.where(always | never, always, links.prob)
        return carry, LinkSample((links.mask | always) & ~never, prob)

    return moving._replace(sample=sample)


def _observed_laws(record: NDArray[np.bool_]) -> durations.Survival:
    """Returns the clients' survival functions of times in a state, float64[L, K].

    A client that never changes has no times; its law then does not matter.
    """
    tables = []
    for column in record.T:
        lengths = _durations(column)
        tables.append(durations.observed(lengths if len(lengths) else [1])[0])
    num_rounds = max(map(len, tables))
    padded = [np.pad(table, (0, num_rounds - len(table))) for table in tables]
    by_round = np.stack(padded, axis=1)
    return by_round.T


def rounds_per_day(tick: float) -> int:
    """Returns the rounds of a day, which must be a whole number."""
    checks.positive('tick', tick)
    day = round(WRAPS['day'])
    number = day / tick
    if abs(number - round(number)) > 1e-9 * number or number < 1:
        divisors = [seconds for seconds in range(1, day + 1) if day % seconds == 0]
        nearest = min(divisors, key=lambda seconds: abs(seconds - tick))
        requirement = f'divide the {day} s of a day, as {nearest} s do'
        raise errors.invalid('tick', requirement, tick)
    return round(number)


def daily_rates(mask: NDArray[np.bool_], *, rounds_per_day: int) -> DailyRates:
    """Fits rates of clients and courses of the day to a record, which is assumed to repeat.

    In part b of the day, client i rises ``R[i, b]`` times out of ``D[i, b]`` rounds entered
    from below. The estimate solves ``sum_b R = rise[i] sum_b up_by[b] D`` and
    ``sum_i R = up_by[b] sum_i rise[i] D``. This is the maximum likelihood of Poisson counts
    with a factor per client and one per part of the day, found by iterative scaling. Falls
    are fitted in the same way. Since the record repeats, there are as many rises as falls. So
    without a course of the day the chain of each client has exactly its availability.

    Args:
      mask: bool[T, L], from midnight on.
      rounds_per_day: C; its parts are the hours, or the rounds where these are longer.

    Returns:
      The chains.
    """
    parts = min(_HOURS, rounds_per_day)
    part = np.arange(rounds_per_day) * parts // rounds_per_day
    of_round = part[np.arange(len(mask)) % rounds_per_day]

    def count_by_part(events: NDArray[np.bool_]) -> Floats:
        counts = [events[of_round == b].sum(axis=0) for b in range(parts)]
        return np.stack(counts, axis=1).astype(float)

    before = np.roll(mask, 1, axis=0)
    rises = count_by_part(~before & mask)
    falls = count_by_part(before & ~mask)
    from_below = count_by_part(~before)
    from_above = count_by_part(before)
    shares = np.bincount(part, minlength=parts) / rounds_per_day
    rise, up_by = _scaling_factors(rises, from_below, shares)
    fall, down_by = _scaling_factors(falls, from_above, shares)
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
    events: Floats, exposure: Floats, shares: Floats
) -> tuple[Floats, Floats]:
    """Computes factors of rows and columns that give ``exposure`` the margins of ``events``.

    The factors of columns have the mean 1 under ``shares``.
    """
    columns = np.ones(exposure.shape[1])
    for _ in range(_SWEEPS):
        rows = _ratio(events.sum(axis=1), exposure @ columns)
        columns = _ratio(events.sum(axis=0), rows @ exposure)
    columns = columns / (float(columns @ shares) or 1.0)
    return _ratio(events.sum(axis=1), exposure @ columns), columns


def _ratio(numerator: Floats, divisor: Floats) -> Floats:
    """Divides, with 0 where the divisor is not positive."""
    zeros = np.zeros_like(numerator)
    return np.divide(numerator, divisor, out=zeros, where=divisor > 0)


def _daily_course(rise: Floats, fall: Floats, mean: Floats) -> Floats:
    """Computes the probabilities [C, L] of being up that a day reproduces.

    They are ``mean`` for clients that never change.
    """
    factors = 1 - rise - fall

    def day(probs: Floats) -> Floats:
        course = []
        for factor, rise_now in zip(factors, rise, strict=True):
            probs = factor * probs + rise_now
            course.append(probs)
        return np.array(course)

    # A day maps p to slope p + shift.
    slope = np.prod(factors, axis=0)
    shift = day(np.zeros(rise.shape[1]))[-1]
    start = np.divide(shift, 1 - slope, out=mean.copy(), where=slope < 1)
    return np.clip(day(start), 0, 1)
