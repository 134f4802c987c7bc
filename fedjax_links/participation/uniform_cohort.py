"""A fixed number of clients, uniformly without replacement."""

import jax.numpy as jnp

from fedjax_links import checks
from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.participation import selection


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

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        del round
        mask = selection.uniform_subset(key, jnp.ones(num_clients, bool), cohort_size)
        prob = jnp.full(num_clients, cohort_size / num_clients, jnp.result_type(float))
        return carry, LinkSample(mask=mask, prob=prob)

    return Participation(init=lambda key: (), sample=sample, num_clients=num_clients)
