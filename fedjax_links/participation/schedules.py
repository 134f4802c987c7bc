"""Computes participation probabilities as pure functions of (key, round): schedules.

Patterns such as `bernoulli` and `markov` take a schedule for probabilities that vary over rounds.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Numbers, PyTree
from fedjax_links.core import checks, contracts, errors, prng, reprs
from fedjax_links.core.registry import Registry

# Numbers of the random streams that are derived from a round's key.
_PROBS = 0
_LINKS = 1
# Rounds in which a user's function is tried.
_TRIED_ROUNDS = 0, 1, 2, 3, 10, 30, 100, 300, 1000, 10_000


@reprs.described_by('mean')
class Schedule(NamedTuple):
    """Holds the probabilities of all clients in all rounds; call it with a round to get them.

    Attributes:
      probs: ``(key, round) -> float[N]``, the probabilities in force, which may be random.
      mean: ``round -> float[N]``, the mean of ``probs`` over keys, which patterns report.
      num_clients: N.
      cycle: rounds after which ``mean`` repeats; None if it does not, or if that is unknown.
    """

    probs: Callable[[Key, Array], Array]
    mean: Callable[[Array], Array]
    num_clients: int
    cycle: int | None = None

    def __call__(self, key: Key, round: Array) -> Array:
        """Returns the probabilities in force in ``round``, float[N]."""
        return self.probs(key, round)

    def draw(self, key: Key, round: Array) -> tuple[Array, Array]:
        """Draws the probabilities of a round, and uniform numbers to compare with them.

        Returns:
          float[N] and float32[N]. A link is up where its uniform number is below its probability.
        """
        probs = self(jax.random.fold_in(key, _PROBS), round)
        return probs, prng.uniform(jax.random.fold_in(key, _LINKS), probs.shape)


ScheduleLike = Schedule | ArrayLike | Callable[[Key, Array], Array]
"""A schedule, a vector float[N] of probabilities, or a function ``(key, round) -> float[N]``."""


def constant(p: ArrayLike) -> Schedule:
    """Keeps the same probabilities in all rounds.

    Args:
      p: float[N] in [0, 1].

    Raises:
      ValueError: for a probability outside [0, 1] or NaN, or if ``p`` is not a vector.
    """
    p = as_probs(p)
    return _deterministic(lambda round: jnp.asarray(p), p)


def sine(p: ArrayLike, *, gamma: Numbers, period: Numbers) -> Schedule:
    """Modulates probabilities by a sine wave.

    ``p_i^t = min(1, p_i [(1 - gamma) + gamma sin(2 pi t / period)])``, t from 0.

    Args:
      p: float[N] in [0, 1], the probabilities before modulation.
      gamma: amplitude in [0, 0.5]; the trough is ``p (1 - 2 gamma)``.
      period: rounds per cycle, positive.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import participation
      >>> schedule = participation.sine([0.5], gamma=0.4, period=4)
      >>> print([round(float(schedule.mean(t)[0]), 2) for t in range(4)])
      [0.3, 0.5, 0.3, 0.1]

    References:
      Xiang et al. 2024, section 7.2, with a period of 40 rounds.
    """
    p = as_probs(p)
    checks.within('gamma', gamma, 0, 0.5)
    checks.positive('period', period)
    gamma = one_or_each('gamma', gamma, p.size)
    period = one_or_each('period', period, p.size)

    def mean(round: Array) -> Array:
        # The phase stays small, so that it is exact in float32.
        phase = jnp.mod(jnp.asarray(round, p.dtype), period) / period
        return jnp.minimum(1, p * ((1 - gamma) + gamma * jnp.sin(2 * jnp.pi * phase)))

    return _deterministic(mean, p, _common_period(period))


def jitter(p: ArrayLike, *, width: Numbers) -> Schedule:
    """Adds uniform noise to probabilities, ``p_i^t = p_i + U(-width, width)``.

    The noise is drawn afresh for each client and round.

    Args:
      p: float[N] in [0, 1], the mean probabilities, which patterns report.
      width: half width of the uniform law, at least 0, one number or float[N]; ``p - width`` and
        ``p + width`` stay in [0, 1].

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2023, experiments, with a width of 0.02.
    """
    p = as_probs(p)
    checks.within('width', width, 0, 0.5)
    width = one_or_each('width', width, p.size)
    if checks.is_concrete(p) and checks.is_concrete(width):
        widths = np.broadcast_to(width, p.shape)
        largest = np.minimum(p, 1 - np.asarray(p)) + 4 * np.finfo(p.dtype).eps
        if (widths > largest).any():
            client = int(np.argmax(widths > largest))
            got = f'{widths[client]} around {p[client]} at client {client}'
            raise errors.invalid('width', 'keep `p` within [0, 1]', got)

    def probs(key: Key, round: Array) -> Array:
        return p + width * (2 * prng.uniform(key, p.shape) - 1).astype(p.dtype)

    return Schedule(probs, lambda round: jnp.asarray(p), num_clients=p.size)


def diurnal(
    peak: ArrayLike,
    *,
    trough: Numbers = 0.0,
    rounds_per_day: Numbers = 24,
    up_hours: Numbers = 8.0,
    phase: Numbers = 0.0,
) -> Schedule:
    """Raises probabilities during a daily window.

    ``p_i^t`` is ``peak_i`` inside client i's window and ``trough_i`` outside. At the start of
    round t it is ``24 t / rounds_per_day + phase_i`` o'clock at client i. The client's window
    lasts from 0 to ``up_hours_i`` o'clock. With a peak of one and a trough of zero, links are
    deterministic under `bernoulli`. Under `markov`, they change gradually at the window's edges.

    Args:
      peak: float[N] in [0, 1], probabilities inside the window.
      trough: probabilities outside the window, in [0, 1]. This and the arguments below are one
        number or float[N].
      rounds_per_day: rounds in 24 hours, positive.
      up_hours: length of the window in hours, in [0, 24].
      phase: hours since the window's start in round 0, in [0, 24]: the time zone.

    Raises:
      ValueError: for a value out of range.
    """
    peak = as_probs(peak, 'peak')
    checks.positive('rounds_per_day', rounds_per_day)
    low = each_within('trough', trough, peak.size, 0, 1)
    per_day = each_within('rounds_per_day', rounds_per_day, peak.size)
    window = each_within('up_hours', up_hours, peak.size, 0, 24)
    start = each_within('phase', phase, peak.size, 0, 24)

    def mean(round: Array) -> Array:
        # In rounds, not hours: with whole numbers of rounds every comparison is exact.
        day_length = jnp.asarray(per_day)
        window_length = jnp.asarray(window) * day_length / 24
        elapsed = jnp.asarray(start) * day_length / 24
        rounds_today = jnp.mod(jnp.asarray(round, day_length.dtype), day_length)
        time = jnp.mod(rounds_today + elapsed, day_length)
        return jnp.where(time < window_length, peak, low)

    return _deterministic(mean, peak, _common_period(rounds_per_day))


def as_schedule(schedule: ScheduleLike) -> Schedule:
    """Makes a schedule from a schedule, probabilities, or a function of (key, round).

    If a plain function does not use its key, its value is reported as the probability. If the
    function draws from the key, its mean is unknown and reported as NaN. Pass
    ``Schedule(probs=function, mean=..., num_clients=...)`` to state the mean. A function is
    called for a few rounds as a check.

    Raises:
      ValueError: for a schedule that does not return floats, one per client, or a function that
        returns other than probabilities in a round of the check.
    """
    if isinstance(schedule, Schedule):
        _check_schedule(schedule)
        return schedule
    if not callable(schedule):
        probs = as_probs(schedule, 'schedule')
        return _deterministic(lambda round: jnp.asarray(probs), probs)
    checks.function('schedule', schedule, 'key', 'round')
    shape = jax.eval_shape(schedule, *_shapes_of_arguments())
    if len(getattr(shape, 'shape', ())) != 1:
        requirement = 'return a vector with one entry per client'
        raise errors.invalid('schedule', requirement, contracts.kind_of(shape))
    _check_floats('schedule', shape, shape.shape[0])
    _try_rounds(schedule)
    is_random = _draws_from_key(schedule)

    def mean(round: Array) -> Array:
        if is_random:
            return jnp.full(shape.shape, jnp.nan, shape.dtype)
        return schedule(jax.random.key(0), round)

    return Schedule(probs=schedule, mean=mean, num_clients=shape.shape[0])


def _shapes_of_arguments() -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Returns the shapes of a key and a round."""
    key = jax.eval_shape(jax.random.key, 0)
    return key, jax.ShapeDtypeStruct((), np.int32)


def _draws_from_key(schedule: Callable[[Key, Array], Array]) -> bool:
    """Returns whether a function uses its key: it fails when called without one."""
    _, round = _shapes_of_arguments()
    try:
        jax.eval_shape(lambda round: schedule(cast(Key, None), round), round)
    except Exception:
        return True
    return False


def _check_schedule(schedule: Schedule) -> None:
    """Checks by shapes that both functions return one float per client."""
    key, round = _shapes_of_arguments()
    shapes = {
        'schedule.probs': jax.eval_shape(schedule.probs, key, round),
        'schedule.mean': jax.eval_shape(schedule.mean, round),
    }
    for name, shape in shapes.items():
        _check_floats(name, shape, schedule.num_clients)


def _check_floats(argument: str, shape: PyTree, num_clients: int) -> None:
    """Checks that a shape is float[N], for the probabilities of N clients."""
    is_float = jnp.issubdtype(getattr(shape, 'dtype', np.dtype(bool)), jnp.floating)
    if not is_float or shape.shape != (num_clients,):
        requirement = f'return probabilities, float[{num_clients}]'
        raise errors.invalid(argument, requirement, contracts.kind_of(shape))


def _try_rounds(schedule: Callable[[Key, Array], Array]) -> None:
    """Checks that a function returns probabilities in some rounds."""
    rounds = np.array(_TRIED_ROUNDS, np.int32)
    with jax.ensure_compile_time_eval():
        keys = jax.vmap(jax.random.key)(rounds)
        probs = jax.jit(jax.vmap(schedule))(keys, rounds)
    if not checks.is_concrete(probs):
        # The function holds traced values.
        return
    table = np.asarray(probs)
    is_prob = (table >= 0) & (table <= 1)
    if not is_prob.all():
        row, client = np.argwhere(~is_prob)[0]
        got = f'{table[row, client]:g} for client {client} in round {rounds[row]}'
        raise errors.invalid('schedule', 'return probabilities in [0, 1]', got)


def as_probs(p: ArrayLike, argument: str = 'p', *, axis: str = 'client') -> Array:
    """Checks probabilities, one per client (or per ``axis``), and converts them by `as_floats`."""
    checks.probabilities(argument, p, axis=axis)
    return as_floats(p)


def as_floats(value: Any) -> Array:
    """Converts numbers to the default float dtype, in NumPy unless they are traced."""
    floats: Array = checks.array_module(value).asarray(value, jnp.result_type(float))
    return floats


def one_or_each(argument: str, value: Any, num_clients: int) -> Numbers:
    """Checks that ``value`` is one number, or one for each client; makes a list an array."""
    checks.one_or_each(argument, value, num_clients)
    if isinstance(value, list | tuple):
        return as_floats(value)
    return value


def each_within(
    argument: str, value: Any, num_clients: int, low: float = 0.0, high: float = np.inf
) -> Array:
    """Checks that one number, or one for each client, lies in ``[low, high]``.

    Returns:
      float[] or float[N].

    Raises:
      ValueError: for another shape, or a value out of range.
    """
    checks.within(argument, value, low, high)
    return as_floats(one_or_each(argument, value, num_clients))


def _common_period(period: Numbers) -> int | None:
    """Returns the rounds after which all clients' periods repeat together.

    Returns:
      None if a period is not a whole number of rounds.
    """
    if not checks.is_concrete(period):
        return None
    periods = np.unique(np.asarray(period, float))
    # Beyond 2^24, float32 does not have every whole number.
    if (periods != np.rint(periods)).any() or periods.max() > 2**24:
        return None
    return int(np.lcm.reduce(periods.astype(int).astype(object)))


def _deterministic(
    mean: Callable[[Array], Array], p: Array, cycle: int | None = None
) -> Schedule:
    """Makes a schedule that does not use its key."""

    def probs(key: Key, round: Array) -> Array:
        return mean(round)

    return Schedule(probs, mean, num_clients=p.size, cycle=cycle)


SCHEDULES: Mapping[str, Callable[..., Schedule]] = Registry(
    {schedule.__name__: schedule for schedule in (constant, sine, jitter, diurnal)}
)
