"""Links that behave as a log of availability does, for any number of clients."""

import itertools
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
    """Two-state chains whose rates follow the time of day.

    Client i goes up in round c of the day with probability ``min(1, rise[i] up_by[c])`` and down
    with ``min(1, fall[i] down_by[c])``.

    Attributes:
      rise: float64[L], by client of the log.
      fall: float64[L], likewise.
      up_by: float64[C], by round of the day, 1 on average; the same within a part of the day.
      down_by: float64[C], likewise.
      marginal: float64[C, L], probability of being up by round of the day, the same every day.
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

    Each of the N clients takes the rates of a client of the log, drawn with replacement, and is up
    or down independently of all others. Rates are fitted by `look_alike.daily_rates`. Such chains
    stay up and down for geometric times, by the hour; logs often do not. `look_alike.losses` says
    what either law leaves out.

    Args:
      intervals: the log, as in `trace`; time 0 is midnight.
      num_clients: N, any number.
      tick: seconds per round, a whole part of a day.
      rounds: how much of the log is looked at, as in `availability`.
      wrap: as in `availability`.
      overlaps: as in `availability`.
      seed: of the draw of clients.
      law: ``'markov'``; ``'semi_markov'`` for clients that stay up and down for times that theirs
        in the log did, drawn from these, without a course of the day; ``'nearest'`` for the one
        that leaves out less.

    Returns:
      The pattern, with the exact probability: of the time of day, from midnight on, or stationary.

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
    if law == 'nearest' and np.subtract(*losses(mask, rounds_per_day=length)) > 0:
        law = 'semi_markov'
    if law == 'semi_markov':
        return _semi_markov(mask, chosen)
    by_client = fitted.rise[chosen], fitted.fall[chosen]
    rise, fall, up_by, down_by, marginal = map(
        schedules.as_floats, (*by_client, *fitted[2:])
    )

    def uniforms(key: Key) -> Array:
        return prng.uniform(jax.random.fold_in(key, _LINKS), (num_clients,))

    def init(key: Key) -> MarkovState:
        return MarkovState(up=uniforms(key) < marginal[-1][chosen])

    def sample(
        carry: MarkovState, key: Key, round: Array
    ) -> tuple[MarkovState, LinkSample]:
        time = jnp.mod(round, length)
        ups, downs = rise * jnp.asarray(up_by)[time], fall * jnp.asarray(down_by)[time]
        up = move(carry.up, uniforms(key), ups, downs)
        return MarkovState(up=up), LinkSample(
            mask=up, prob=jnp.asarray(marginal)[time][chosen]
        )

    return Participation(init, sample, num_clients, cycle=length)


class Losses(NamedTuple):
    """What laws of links leave out of a log; both lie in [0, 1].

    Attributes:
      of_markov: the largest distance of the log's survival functions of times up and down, over
        all clients, from those of chains with the clients' own rates.
      of_semi_markov: half of the range of the mean availability over the hours of the day.
    """

    of_markov: float
    of_semi_markov: float


def losses(mask: NDArray[np.bool_], *, rounds_per_day: int) -> Losses:
    """What each law leaves out of a record, which is taken to repeat.

    Args:
      mask: bool[T, L], from midnight on.
      rounds_per_day: C.

    Returns:
      How far times are from geometric, and the course of the day.
    """
    apart = 0.0
    for record in (mask, ~mask):
        lengths = [_durations(column) for column in record.T]
        counts = np.array([len(own) for own in lengths])
        if counts.any():
            mean = _ratio(record.sum(axis=0).astype(float), counts.astype(float))
            beyond = np.arange(
                1, 1 + max(int(own.max()) for own in lengths if len(own))
            )
            seen = (np.concatenate(lengths)[:, None] > beyond).mean(axis=0)
            stays = 1 - _ratio(np.ones(len(mean)), mean)[:, None]
            apart = max(
                apart, np.abs(seen - counts @ stays**beyond / counts.sum()).max()
            )
    hour = (
        np.arange(len(mask))
        % rounds_per_day
        * min(_HOURS, rounds_per_day)
        // rounds_per_day
    )
    day = np.bincount(hour, mask.mean(axis=1)) / np.bincount(hour)
    return Losses(float(apart), float(np.ptp(day) / 2))


def _durations(up: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Lengths of the runs of a record that repeats; none of one that never changes."""
    turns = np.flatnonzero(up != np.roll(up, 1))
    lengths = np.diff(turns, append=turns[:1] + len(up))
    return lengths[up[turns]]


def _semi_markov(mask: NDArray[np.bool_], chosen: NDArray[np.int64]) -> Participation:
    """Clients that draw their times up and down from those of clients of a record."""
    always, never = (np.asarray(still)[chosen] for still in (mask.all(0), ~mask.any(0)))
    laws, (kinds, rows) = [], np.unique(chosen, return_inverse=True)
    for record in (mask, ~mask):
        own = [
            _durations(record[:, i]) for i in kinds
        ]  # without any, the other law matters not
        tables = [
            durations.observed(lengths if len(lengths) else [1])[0] for lengths in own
        ]
        laws.append(np.array([*itertools.zip_longest(*tables, fillvalue=0.0)]).T)
    moving = semi_markov(*laws, kinds=rows)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        carry, links = moving.sample(carry, key, round)
        prob = jnp.where(always | never, always, links.prob)
        return carry, LinkSample((links.mask | always) & ~never, prob)

    return moving._replace(sample=sample)


def rounds_per_day(tick: float) -> int:
    """The rounds of a day; raises unless they are whole."""
    checks.positive('tick', tick)
    day = round(WRAPS['day'])
    number = day / tick
    if abs(number - round(number)) > 1e-9 * number or number < 1:
        divisors = (seconds for seconds in range(1, day + 1) if day % seconds == 0)
        nearest = min(divisors, key=lambda seconds: abs(seconds - tick))
        requirement = f'divide the {day} s of a day, as {nearest} s do'
        raise errors.invalid('tick', requirement, tick)
    return round(number)


def daily_rates(mask: NDArray[np.bool_], *, rounds_per_day: int) -> DailyRates:
    """Fits rates of clients and courses of the day to a record, which is taken to repeat.

    With ``R[i, b]`` rises out of ``D[i, b]`` rounds entered from below, the estimate solves
    ``sum_b R = rise[i] sum_b up_by[b] D`` and ``sum_i R = up_by[b] sum_i rise[i] D``: maximum
    likelihood of Poisson counts with a factor per client and one per part of the day, found by
    iterative scaling. Likewise for falls. Since the record repeats, every rise has its fall, and
    without a course of the day the chain of each client has exactly the client's availability.

    Args:
      mask: bool[T, L], from midnight on.
      rounds_per_day: C; its parts are the hours, or the rounds where these are longer.

    Returns:
      The chains.
    """
    parts = min(_HOURS, rounds_per_day)
    part = np.arange(rounds_per_day) * parts // rounds_per_day
    of_round = part[np.arange(len(mask)) % rounds_per_day]
    before = np.roll(mask, 1, axis=0)
    rises, falls, below, above = (
        np.stack(
            [hits[of_round == b].sum(axis=0) for b in range(parts)], axis=1
        ).astype(float)
        for hits in (~before & mask, before & ~mask, ~before, before)
    )
    shares = np.bincount(part, minlength=parts) / rounds_per_day
    rise, up_by = _scaled(rises, below, shares)
    fall, down_by = _scaled(falls, above, shares)
    ups = np.minimum(1, up_by[part][:, None] * rise)
    downs = np.minimum(1, down_by[part][:, None] * fall)
    marginal = _daily_course(ups, downs, mask.mean(axis=0))
    return DailyRates(rise, fall, up_by[part], down_by[part], marginal)


def _scaled(events: Floats, exposure: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Factors of rows and columns with which ``exposure`` has the margins of ``events``."""
    columns = np.ones(exposure.shape[1])
    for _ in range(_SWEEPS):
        rows = _ratio(events.sum(axis=1), exposure @ columns)
        columns = _ratio(events.sum(axis=0), rows @ exposure)
    columns = columns / (float(columns @ shares) or 1.0)
    return _ratio(events.sum(axis=1), exposure @ columns), columns


def _ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, zero where nothing was seen."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _daily_course(rise: Floats, fall: Floats, mean: Floats) -> Floats:
    """The probabilities [C, L] of being up that a day reproduces; ``mean`` where nothing moves."""
    keeps = 1 - rise - fall

    def day(probs: Floats) -> Floats:
        course = []
        for kept, risen in zip(keeps, rise, strict=True):
            probs = kept * probs + risen
            course.append(probs)
        return np.array(course)

    slope, shift = (
        np.prod(keeps, axis=0),
        day(np.zeros(rise.shape[1]))[-1],
    )  # p -> slope p + shift
    start = np.divide(shift, 1 - slope, out=mean.copy(), where=slope < 1)
    return np.clip(day(start), 0, 1)
