"""Makes each link a two-state Markov chain, so that links have memory."""

import types
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinkSample, Participation
from fedjax_links.core import checks, errors, references
from fedjax_links.participation import link_laws, schedules

_UP_RATE = 0.05


class MarkovState(NamedTuple):
    """Holds the carry of `markov`.

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
    """Makes each link a Markov chain that goes up and down at random.

    In each round a link that is down goes up with probability ``q*``. A link that is up goes
    down with probability ``q = q* (1 - p) / p``. ``q*`` is ``up_rate``, unless this makes q
    exceed one: then ``q = 1`` and ``q* = p / (1 - p)``.
    For constant p the chain has stationary probability p and starts in it. Its
    autocorrelation at lag k is ``(1 - q - q*)^k``. The initial state makes one transition
    before round 0. Where p varies, the chain moves with the rates of the round that it
    enters.

    With ``correlation_time`` tau in place of ``up_rate``, ``q* = p (1 - m)`` and
    ``q = (1 - p) (1 - m)`` with ``m = exp(-1 / tau)``. Then the autocorrelation at lag k is
    ``exp(-k / tau)`` for every p. Short times give independent rounds.

    Args:
      schedule: a `schedules.Schedule`, a vector float[N] of constant probabilities, or a function
        ``(key, round) -> float[N]``. Links with p = 0 never go up, and links with p = 1 never go
        down. With ``up_rate``, a link that is up when p becomes 0 goes down at once.
      up_rate: q*, in (0, 1], one number or float[N]; 0.05 by default.
      correlation_time: tau in rounds, positive, one number or float[N].

    Returns:
      The pattern. It reports the schedule's mean ``p_i^t`` as ``prob``; NaN if the mean is not
      known (`schedules.as_schedule`). Where p is constant, ``prob`` is the marginal
      probability. Where p varies, links move towards ``prob``, but are up more or less often.
      Algorithms that divide by ``prob``, as `fedavg_known` does, are then biased.

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
    up_rates = as_up_rate(
        _UP_RATE if up_rate is None else up_rate, schedule.num_clients
    )
    times = correlation_time
    if times is not None:
        checks.positive('correlation_time', times)
        times = schedules.each_within('correlation_time', times, schedule.num_clients)

    def init(key: Key) -> MarkovState:
        probs, uniforms = schedule.draw(key, jnp.int32(0))
        return MarkovState(up=uniforms < probs)

    def sample(
        carry: MarkovState, key: Key, round: Array
    ) -> tuple[MarkovState, LinkSample]:
        probs, uniforms = schedule.draw(key, round)
        if times is None:
            rise, fall = rates(probs, up_rates)
        else:
            rise, fall = rates_from_correlation_time(probs, times)
        up = move(carry.up, uniforms, rise, fall)
        return MarkovState(up=up), LinkSample(mask=up, prob=schedule.mean(round))

    return Participation(init, sample, schedule.num_clients, cycle=schedule.cycle)


def as_up_rate(up_rate: ArrayLike, num_clients: int) -> Array:
    """Checks rates of going up and returns them as float[] or float[N] in (0, 1]."""
    rate = schedules.each_within('up_rate', up_rate, num_clients, 0, 1)
    checks.positive('up_rate', up_rate)
    return rate


def move(up: Array, uniforms: Array, rise: Array, fall: Array) -> Array:
    """Moves all chains by one transition.

    Args:
      up: bool[N], the states before.
      uniforms: float[N] in [0, 1), the randomness.
      rise: float[N], P(down -> up).
      fall: float[N], P(up -> down).

    Returns:
      bool[N], the states after.
    """
    return jnp.where(up, uniforms >= fall, uniforms < rise)


def rates(probs: Any, up_rate: Any, xp: types.ModuleType = jnp) -> tuple[Any, Any]:
    """Returns P(down -> up) and P(up -> down) of links with stationary probabilities p.

    Args:
      probs: float[N], p.
      up_rate: q*, one number or float[N].
      xp: JAX's NumPy, or NumPy.
    """
    ratio = (1 - probs) / xp.where(probs > 0, probs, 1)
    is_capped = (probs == 0) | (up_rate * ratio > 1)
    rise = xp.where(is_capped, probs / xp.where(is_capped, 1 - probs, 1), up_rate)
    fall = xp.where(is_capped, 1, up_rate * ratio)
    return rise, fall


def rates_from_correlation_time(
    probs: Any, correlation_time: Any, xp: types.ModuleType = jnp
) -> tuple[Any, Any]:
    """Returns P(down -> up) and P(up -> down) of links with a correlation time.

    Args:
      probs: float[N], p.
      correlation_time: tau in rounds, one number or float[N].
      xp: JAX's NumPy, or NumPy.
    """
    redrawn = -xp.expm1(-1 / correlation_time)
    return probs * redrawn, (1 - probs) * redrawn


def markov_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `markov`."""
    if inputs.schedule_name != 'constant':
        description = (
            f'probabilities follow a {inputs.schedule_name} schedule, with memory'
        )
        return link_laws.LinkLaw(description, period=inputs.period)
    times = inputs.options.get('correlation_time')
    up_rate = inputs.options.get('up_rate')
    if times is not None:
        times = np.asarray(times, float)
        up, down = rates_from_correlation_time(inputs.probs, times, np)
    else:
        up_rate = np.asarray(_UP_RATE if up_rate is None else up_rate)
        up, down = rates(inputs.probs, up_rate, np)
    description = 'two-state Markov chains, independent over clients'
    law = link_laws.independent(description, inputs.probs)
    return law._replace(
        memoryless=False,
        weights_source='independent each round',
        up_rate=up,
        down_rate=down,
    )
