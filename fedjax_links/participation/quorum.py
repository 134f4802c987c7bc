"""Ends rounds when the first k of n results have arrived."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.base import Array, Key, MaskLinks, Participation
from fedjax_links.core import checks, contracts, errors
from fedjax_links.participation import combining, link_laws, schedules
from fedjax_links.participation.always import always

_LONGEST = 1e30  # seconds, finite in float32


class Times(NamedTuple):
    """Describes how long clients take from the round's start until their result arrives.

    Client i takes ``fixed_i + median_i exp(sigma_i z)`` seconds, with a standard normal z drawn
    in each round. The first term is constant, such as the time of a transfer. The second varies,
    such as the time of local steps.

    Attributes:
      median: float[N], seconds, at least 0: the median of the term that varies.
      sigma: one number or float[N], at least 0: the standard deviation of its logarithm. With 0,
        times never vary.
      fixed: one number or float[N], seconds, at least 0.
    """

    median: ArrayLike
    sigma: ArrayLike = 0.0
    fixed: ArrayLike = 0.0


def quorum(
    times: Times | ArrayLike,
    *,
    quorum: int,
    grace: float = 0.0,
    deadline: float | None = None,
    pattern: Participation | None = None,
) -> Participation:
    """Ends a round when k results have arrived, plus a grace period, or at a deadline.

    Clients whose result has arrived by then take part. The round's length is in
    ``links.duration``, from which costs are computed.

    Args:
      times: the `Times` of the clients; or float[N], seconds that never vary.
      quorum: k, from 1 to N.
      grace: seconds between the k-th arrival and the end of the round, at least 0.
      deadline: longest wait in seconds, positive; None to wait for the quorum as long as it takes.
      pattern: who is active; all clients by default. A round waits only for active clients: for all
        of them if fewer than k are active. If the pattern has a duration, a round lasts at
        least that long.

    Returns:
      The pattern. ``prob`` is ``k / N`` where that is exact: the times of all clients vary and have
      the same law, and ``pattern``, ``grace`` and ``deadline`` are not given. Otherwise it is NaN.

    Raises:
      ValueError: for a value out of range, or a pattern of another number of clients.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.quorum([1.0, 2.0, 5.0], quorum=2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=1)
      >>> print(links.mask.astype(int), links.duration)
      [[1 1 0]] [2.]
    """
    times = times if isinstance(times, Times) else Times(times)
    checks.per_client('times', times.median)
    (num_clients,) = checks.shape('times', times.median)

    def checked_field(name: str) -> Array:
        """Checks a field of the times, and returns it as float[] or float[N]."""
        value = getattr(times, name)
        return schedules.each_within(f'times.{name}', value, num_clients, 0, _LONGEST)

    median = checked_field('median')
    sigma = checked_field('sigma')
    fixed = checked_field('fixed')
    checks.static_int('quorum', quorum, maximum=num_clients)
    checks.number_within('grace', grace, 0, _LONGEST)
    if deadline is not None:
        checks.positive_number('deadline', deadline)
    if pattern is not None:
        contracts.check_pattern(pattern, 'pattern')
        if pattern.num_clients != num_clients:
            requirement = f'have {num_clients} clients'
            raise errors.invalid('pattern', requirement, pattern.num_clients)
    known_prob = np.nan
    if pattern is None and deadline is None and _is_exchangeable(times, grace):
        known_prob = quorum / num_clients
    limit = np.inf if deadline is None else deadline

    def sample(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        available_links = samples[0]
        active = base.participants(available_links)
        normal = jax.random.normal(key, (num_clients,), jnp.float32)
        arrival = jnp.where(active, fixed + median * jnp.exp(sigma * normal), jnp.inf)
        # The k-th arrival, or the last one if fewer clients are active.
        num_awaited = jnp.minimum(quorum, active.sum())
        quorum_time = jnp.sort(arrival)[jnp.clip(num_awaited - 1, 0)]
        quorum_time = jnp.where(active.any(), quorum_time, 0)
        round_end = jnp.minimum(quorum_time + grace, limit)
        prob = jnp.full(num_clients, known_prob)
        mask = available_links.mask & (arrival <= round_end)
        duration = combining.longest(available_links.duration, round_end)
        return available_links._replace(mask=mask, prob=prob, duration=duration)

    available = always(num_clients) if pattern is None else pattern
    return combining.combine('quorum', [available], sample)


def _is_exchangeable(times: Times, grace: float) -> bool:
    """Returns whether all clients have one law of times, these vary, and there is no grace."""
    for values in times:
        if not checks.is_concrete(values) or np.ptp(np.asarray(values)) > 0:
            return False
    if not checks.is_concrete(grace) or grace != 0:
        return False
    return np.min(times.sigma) > 0 and np.min(times.median) > 0


def quorum_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the law of `quorum`, exact if all clients have the same law of times."""
    options = inputs.options
    times = options['times']
    times = times if isinstance(times, Times) else Times(times)
    has_deadline = options.get('deadline') is not None
    has_pattern = options.get('pattern') is not None
    is_exchangeable = _is_exchangeable(times, options.get('grace', 0.0))
    if has_deadline or has_pattern or not is_exchangeable:
        return link_laws.LinkLaw('the first that arrive')
    size = np.size(times.median)
    description = 'the first that arrive, times of one law'
    rate = options['quorum'] / size
    return link_laws.exchangeable(description, size, rate, memoryless=True)
