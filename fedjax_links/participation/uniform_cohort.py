"""Samples a fixed number of clients uniformly without replacement."""

import jax.numpy as jnp

from fedjax_links.base import (
    Array,
    CohortLinkSample,
    Key,
    Participation,
    PyTree,
    cohort_links,
)
from fedjax_links.core import checks, references
from fedjax_links.participation import link_laws, rejection_sampling, subset_sampling


@references.cite('wang2022unified')
def uniform_cohort(num_clients: int, cohort_size: int) -> Participation:
    """Samples ``cohort_size`` clients uniformly in each round, independent of the past.

    Args:
      num_clients: N, at least 1.
      cohort_size: S, from 1 to N.

    Returns:
      The pattern; it has no carry and reports S/N as ``prob``. A draw costs O(S) if there are many
      clients and S is small (`rejection_sampling`).

    Raises:
      ValueError: for a cohort larger than the federation.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.uniform_cohort(5, 2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[1 0 0 1 0]
       [0 0 1 0 1]
       [1 1 0 0 0]]

    References:
      Wang & Ji 2022, appendix D (independent sampling).
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('cohort_size', cohort_size, maximum=num_clients)

    prob = cohort_size / num_clients
    draws_by_rejection = rejection_sampling.is_worthwhile(num_clients, prob)

    def sample(
        carry: PyTree, key: Key, round: Array
    ) -> tuple[PyTree, CohortLinkSample]:
        if draws_by_rejection:
            propose = rejection_sampling.uniform_proposal(num_clients)
            ids = rejection_sampling.draw_distinct(
                key, propose, cohort_size, num_clients
            )
        else:
            everyone = jnp.ones(num_clients, bool)
            ids = subset_sampling.uniform_subset(key, everyone, cohort_size)
        return carry, cohort_links(ids, num_clients, prob)

    return Participation(init=lambda key: (), sample=sample, num_clients=num_clients)


def uniform_cohort_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `uniform_cohort`."""
    size = inputs.options['cohort_size']
    num_clients = inputs.options['num_clients']
    description = f'{size:,} of {num_clients:,} clients, uniformly, rounds independent'
    return link_laws.exchangeable(
        description, num_clients, size / num_clients, memoryless=True
    )
