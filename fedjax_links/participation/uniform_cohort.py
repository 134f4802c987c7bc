"""A fixed number of clients, uniformly without replacement."""

import jax
import jax.numpy as jnp

from fedjax_links import checks
from fedjax_links.base import LinkSample, Participation


def uniform_cohort(num_clients: int, cohort_size: int) -> Participation:
    """Every round, ``cohort_size`` of ``num_clients`` clients, uniformly, independent of the past.

    Args:
      num_clients: N, at least 1.
      cohort_size: S, from 1 to N.

    Returns:
      The pattern; it has no carry and reports S/N as ``prob``.

    Raises:
      ValueError: for a cohort larger than the federation.

    References:
      Wang & Ji 2022, appendix D (independent sampling).
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('cohort_size', cohort_size, maximum=num_clients)

    def sample(carry, key, round):
        del round
        _, ids = jax.lax.top_k(jax.random.bits(key, (num_clients,), 'uint32'), cohort_size)
        mask = jnp.zeros(num_clients, bool).at[ids].set(True)
        prob = jnp.full(num_clients, cohort_size / num_clients, jnp.result_type(float))
        return carry, LinkSample(mask=mask, prob=prob)

    return Participation(init=lambda key: (), sample=sample, num_clients=num_clients)
