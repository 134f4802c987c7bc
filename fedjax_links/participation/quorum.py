"""Rounds that go on with the first k of n."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.base import Array, Key, LinkSample, MaskLinks, Participation
from fedjax_links.core import checks, errors
from fedjax_links.participation import combining, link_laws, schedules
from fedjax_links.participation.always import always


class Times(NamedTuple):
    """How long clients take from the round's start until their result has arrived, in seconds.

    ``fixed_i + median_i exp(sigma_i z)``, z standard normal, afresh in every round: what is always
    the same, such as a payload over a rate, and what varies, such as the local steps.

    Attributes:
      median: float[N], at least 0.
      sigma: one number or float[N], at least 0; 0 for times that never vary.
      fixed: likewise, at least 0.
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

    Those that have arrived by then take part. The round's length is kept in ``links.duration``, and
    is what its price counts.

    Args:
      times: of the clients; float[N] for times that never vary.
      quorum: k, from 1 to N.
      grace: seconds to wait on from then, at least 0.
      deadline: seconds, positive; None to wait for the quorum as long as it takes.
      pattern: who is there at all and gets through; everybody by default. Others are not waited
        for: with fewer than k there, a round waits for all of them. If it tells how long a round
        takes, the longer time counts.

    Returns:
      The pattern. ``prob`` is exact where all times have one law that varies, without pattern,
      grace and deadline: ``k / N``; else NaN.

    Raises:
      ValueError: for a value out of range.

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
    num_clients = np.shape(times.median)[0]
    middle, width, fixed = (
        schedules.each_within(f'times.{name}', value, num_clients, 0, 1e30)
        for name, value in times._asdict().items()
    )
    checks.static_int('quorum', quorum, maximum=num_clients)
    checks.within('grace', grace, 0, 1e30)
    if deadline is not None:
        checks.positive('deadline', deadline)
    if pattern is not None and pattern.num_clients != num_clients:
        raise errors.invalid(
            'pattern', f'have {num_clients} clients', pattern.num_clients
        )
    known = pattern is None and deadline is None and _is_exchangeable(times, grace)
    limit = np.inf if deadline is None else deadline

    def sample(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        there = base.participants(samples[0])
        normal = jax.random.normal(key, (num_clients,), jnp.float32)
        taken = jnp.where(there, fixed + middle * jnp.exp(width * normal), jnp.inf)
        last = jnp.sort(taken)[jnp.clip(jnp.minimum(quorum, there.sum()) - 1, 0)]
        end = jnp.minimum(jnp.where(there.any(), last, 0) + grace, limit)
        prob = jnp.full(num_clients, quorum / num_clients if known else np.nan)
        links = samples[0]._replace(mask=samples[0].mask & (taken <= end), prob=prob)
        return links._replace(
            duration=combining.longest([links, LinkSample(there, prob, end)])
        )

    available = always(num_clients) if pattern is None else pattern
    return combining.combine('quorum', [available], sample)


def _is_exchangeable(times: Times, grace: float) -> bool:
    alike = all(
        checks.is_concrete(part) and np.ptp(np.asarray(part)) == 0 for part in times
    )
    no_grace = checks.is_concrete(grace) and grace == 0
    return alike and no_grace and np.min(times.sigma) > 0 and np.min(times.median) > 0


def quorum_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact rates and weights where all clients are alike: everyone's are equal."""
    times, options = given.options['times'], given.options
    times = times if isinstance(times, Times) else Times(times)
    plain = all(options.get(name) is None for name in ('deadline', 'pattern'))
    if not (plain and _is_exchangeable(times, options.get('grace', 0.0))):
        return link_laws.LinkLaw('the first that arrive')
    said, size = 'the first that arrive, all alike', np.size(times.median)
    return link_laws.alike(
        said, size, options['quorum'] / size, weights_source='all alike'
    )
