"""Probability schedules: participation probabilities as pure functions of (key, round)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links import checks, errors
from fedjax_links.base import Array, Key


class Schedule(NamedTuple):
    """Probabilities of every client in every round; calling it gives those of one round.

    Attributes:
      probs: ``(key, round) -> float[N]``, the probabilities in force, which may be random.
      mean: ``round -> float[N]``, their mean, which patterns report.
      num_clients: N.
    """

    probs: Callable[[Key, Array], Array]
    mean: Callable[[Array], Array]
    num_clients: int

    def __call__(self, key: Key, round: Array) -> Array:
        """float[N], the probabilities in force in ``round``."""
        return self.probs(key, round)


def constant(p: Any) -> Schedule:
    """The same probabilities in every round.

    Args:
      p: float[N] in [0, 1].

    Raises:
      ValueError: for a probability outside [0, 1] or NaN, or if ``p`` is no vector.
    """
    p = as_probs(p)
    return _deterministic(lambda round: p, p.shape[0])


def sine(p: Any, *, gamma: Any, period: Any) -> Schedule:
    """``p_i^t = min(1, p_i [(1 - gamma) + gamma sin(2 pi t / period)])``, t from 0.

    Args:
      p: float[N] in [0, 1], the probabilities before modulation.
      gamma: amplitude in [0, 0.5]; the trough is ``p (1 - 2 gamma)``.
      period: rounds per cycle, positive.

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2024, section 7.2, with a period of 40 rounds.
    """
    p = as_probs(p)
    checks.within('gamma', gamma, 0, 0.5)
    checks.positive('period', period)

    def mean(round: Array) -> Array:
        phase = jnp.mod(jnp.asarray(round, p.dtype), period) / period  # small: exact in float32
        return jnp.minimum(1, p * ((1 - gamma) + gamma * jnp.sin(2 * jnp.pi * phase)))

    return _deterministic(mean, p.shape[0])


def as_schedule(schedule: Any) -> Schedule:
    """A schedule from a schedule, a vector of probabilities, or a function of (key, round).

    A plain function counts as deterministic: its value is reported as the probability.
    """
    if isinstance(schedule, Schedule):
        return schedule
    if not callable(schedule):
        return constant(schedule)
    shape = jax.eval_shape(schedule, jax.random.key(0), jnp.int32(0)).shape
    if len(shape) != 1:
        raise errors.invalid('schedule', 'return a vector with one entry per client', shape)
    return Schedule(
        probs=schedule, mean=lambda round: schedule(jax.random.key(0), round), num_clients=shape[0]
    )


def as_probs(p: Any, argument: str = 'p') -> Array:
    """Validated probabilities float[N] in the default float dtype."""
    checks.probabilities(argument, p)
    return jnp.asarray(p, jnp.result_type(float))


def _deterministic(mean: Callable[[Array], Array], num_clients: int) -> Schedule:
    return Schedule(probs=lambda key, round: mean(round), mean=mean, num_clients=num_clients)
