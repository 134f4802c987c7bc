"""Links with memory: every uplink is a two-state Markov chain."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinkSample, Participation
from fedjax_links.core import checks, errors, references
from fedjax_links.participation import link_laws, schedules

_UP_RATE = 0.05


class MarkovState(NamedTuple):
    """Carry of `markov`.

    Attributes:
      up: bool[N], the links of the last round.
    """

    up: Array


@references.cite('xiang2024empowering')
def markov(
    schedule: schedules.ScheduleLike,
    up_rate: ArrayLike | None = None,
    *,
    correlation_time: ArrayLike | None = None,
) -> Participation:
    """Markov links: each goes up with probability ``q*``, down with ``q = q* (1 - p) / p``.

    ``q* = up_rate``, unless that makes q exceed one: then ``q = 1`` and ``q* = p / (1 - p)``. For
    constant p the chain has stationary probability p, starts in it, and its autocorrelation at lag
    k is ``(1 - q - q*)^k``. The initial state makes one transition before round 0 is read. Where p
    varies, the chain moves with the rates of the round that it enters.

    With ``correlation_time`` tau in place of ``up_rate``, ``q* = p (1 - m)`` and
    ``q = (1 - p) (1 - m)`` with ``m = exp(-1 / tau)``: every link forgets at one rate, whatever its
    p, with autocorrelation ``exp(-k / tau)`` at lag k. Short times give independent rounds.

    Args:
      schedule: a `schedules.Schedule`, a vector float[N] of constant probabilities, or a function
        ``(key, round) -> float[N]``. Links with p = 0 never rise from down and leave up at once;
        links with p = 1 never leave up.
      up_rate: q*, in (0, 1], one number or float[N]; 0.05 by default.
      correlation_time: tau in rounds, positive, one number or float[N].

    Returns:
      The pattern. It reports the schedule's mean ``p_i^t`` as ``prob``: the marginal probability
      where p is constant, and the one that the links move towards where it varies, which is not how
      often they are up: rules that divide by it, as `fedavg_known` does, are then biased. NaN if it
      is not known (`schedules.as_schedule`).

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.markov([0.25, 0.75], up_rate=0.4)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=16)
      >>> print(links.mask.astype(int).T)
      [[0 0 0 1 0 0 0 0 0 0 1 0 1 0 0 0]
       [1 1 1 1 1 1 1 0 0 0 1 1 1 1 1 1]]

    References:
      Xiang et al. 2024, appendix B and figure 7.
    """
    schedule = schedules.as_schedule(schedule)
    if correlation_time is not None and up_rate is not None:
        raise errors.invalid('up_rate', 'be left out beside correlation_time', up_rate)
    stars = as_up_rate(_UP_RATE if up_rate is None else up_rate, schedule.num_clients)
    times = correlation_time
    if times is not None:
        checks.positive('correlation_time', times)
        times = schedules.each_within('correlation_time', times, schedule.num_clients)

    def init(key: Key) -> MarkovState:
        probs, uniforms = schedule.drawn(key, jnp.int32(0))
        return MarkovState(up=uniforms < probs)

    def sample(
        carry: MarkovState, key: Key, round: Array
    ) -> tuple[MarkovState, LinkSample]:
        probs, uniforms = schedule.drawn(key, round)
        rise, fall = rates(probs, stars) if times is None else forgetting(probs, times)
        up = move(carry.up, uniforms, rise, fall)
        return MarkovState(up=up), LinkSample(mask=up, prob=schedule.mean(round))

    return Participation(init, sample, schedule.num_clients, cycle=schedule.cycle)


def as_up_rate(up_rate: ArrayLike, num_clients: int) -> Array:
    """Validated up-rates, float[] or float[N] in (0, 1]."""
    each = schedules.each_within('up_rate', up_rate, num_clients, 0, 1)
    checks.positive('up_rate', up_rate)
    return each


def move(up: Array, uniforms: Array, rise: Array, fall: Array) -> Array:
    """One transition of every chain.

    Args:
      up: bool[N], the states before.
      uniforms: float[N] in [0, 1), the randomness.
      rise: float[N], P(down -> up).
      fall: float[N], P(up -> down).

    Returns:
      bool[N], the states after.
    """
    return jnp.where(up, uniforms >= fall, uniforms < rise)


def rates(probs: Any, up_rate: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """P(down -> up) and P(up -> down) of links with stationary probabilities p.

    Args:
      probs: float[N], p.
      up_rate: q*, one number or float[N].
      xp: JAX's NumPy, or NumPy.
    """
    ratio = (1 - probs) / xp.where(probs > 0, probs, 1)  # (1 - p) / p
    capped = (probs == 0) | (up_rate * ratio > 1)
    rise = xp.where(capped, probs / xp.where(capped, 1 - probs, 1), up_rate)
    return rise, xp.where(capped, 1, up_rate * ratio)


def forgetting(probs: Any, correlation_time: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """The same of links that forget their state at the rate of a correlation time."""
    forgotten = -xp.expm1(-1 / correlation_time)
    return probs * forgotten, (1 - probs) * forgotten


def markov_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `markov`."""
    kind, period = given.schedule
    if kind != 'constant':
        return link_laws.LinkLaw(
            f'probabilities follow a {kind} schedule, with memory', period=period
        )
    times, up_rate = (
        given.options.get(name) for name in ('correlation_time', 'up_rate')
    )
    if times is not None:
        up, down = forgetting(given.probs, np.asarray(times, float), np)
    else:
        up, down = rates(
            given.probs, np.asarray(_UP_RATE if up_rate is None else up_rate), np
        )
    law = link_laws.independent(
        'two-state Markov chains, independent over clients', given.probs
    )
    return law._replace(
        memoryless=False,
        weights_source='independent each round',
        up_rate=up,
        down_rate=down,
    )
