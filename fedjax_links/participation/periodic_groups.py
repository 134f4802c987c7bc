"""Makes groups of clients available in turn."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import (
    Array,
    CarryAndLinks,
    ClientKinds,
    Key,
    Participation,
    cohort_links,
)
from fedjax_links.core import checks, prng, references
from fedjax_links.participation import link_laws, rejection_sampling, subset_sampling


class PeriodicGroupsState(NamedTuple):
    """Holds the carry of `periodic_groups`.

    Attributes:
      offset: int32[], rounds by which the first turn of group 0 is shorter than the others.
    """

    offset: Array


@references.cite('wang2022unified')
def periodic_groups(
    groups: ArrayLike, *, active_rounds: int, cohort_size: int
) -> Participation:
    """Makes groups of clients available in turn, ``active_rounds`` rounds each.

    Group ``((t + offset) // active_rounds) mod G`` is available in round t. In each round S
    clients of the available group participate. They are drawn uniformly without replacement,
    independently of other rounds.

    The offset is drawn once, uniformly on {0, ..., active_rounds - 1}. Group 0 has the first turn,
    which is shorter by the offset.

    Args:
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      active_rounds: rounds of one turn, at least 1; a cycle has G turns.
      cohort_size: S, from 1 to the size of the smallest group.

    Returns:
      The pattern. Its ``prob``, given the offset, is ``S / |group|`` for clients of the available
      group, and zero for other clients. A draw costs O(S) if there are many clients and S is small
      (`rejection_sampling`).

    Raises:
      ValueError: for labels with gaps or a cohort larger than a group.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.periodic_groups([0, 0, 1, 1], active_rounds=2, cohort_size=1)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
      >>> print(links.mask.astype(int))
      [[1 0 0 0]
       [0 1 0 0]
       [0 0 0 1]
       [0 0 0 1]]

    References:
      Wang & Ji 2022, appendix D: 250 clients in 5 groups, turns of 100 rounds, S = 10.
    """
    labels = subset_sampling.group_labels(groups)
    # The round and the offset add up to an int32.
    checks.static_int('active_rounds', active_rounds, maximum=2**30)
    sizes = np.bincount(labels)
    checks.static_int('cohort_size', cohort_size, maximum=int(sizes.min()))
    num_clients = len(labels)
    group_probs = cohort_size / sizes
    kinds = ClientKinds(labels.tobytes())
    draws_by_rejection = rejection_sampling.is_worthwhile(
        num_clients, group_probs.max()
    )
    # In the order of groups, group g has the positions group_bounds[g] to group_bounds[g + 1].
    group_bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    clients_by_group = None
    if (np.diff(labels) < 0).any():
        clients_by_group = np.argsort(labels, kind='stable').astype(np.int32)

    def init(key: Key) -> PeriodicGroupsState:
        offset = jax.random.randint(key, (), 0, active_rounds, 'int32')
        return PeriodicGroupsState(offset=offset)

    def sample(
        carry: PeriodicGroupsState, key: Key, round: Array
    ) -> CarryAndLinks[PeriodicGroupsState]:
        group = jnp.mod((round + carry.offset) // active_rounds, len(sizes))
        if draws_by_rejection:
            first = jnp.asarray(group_bounds)[group]
            stop = jnp.asarray(group_bounds)[group + 1]

            def propose(key: Key, count: int) -> Array:
                position = first + prng.integers(key, (count,), stop - first)
                if clients_by_group is None:
                    return position
                return jnp.asarray(clients_by_group)[position]

            ids = rejection_sampling.draw_distinct(
                key, propose, cohort_size, num_clients
            )
        else:
            ids = subset_sampling.uniform_subset(key, labels == group, cohort_size)
        prob = jnp.where(np.arange(len(sizes)) == group, group_probs, 0)
        return carry, cohort_links(ids, num_clients, prob, kinds)

    cycle = active_rounds * len(sizes)
    return Participation(init, sample, num_clients, cycle=cycle)


def periodic_groups_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `periodic_groups`."""
    size = inputs.options['cohort_size']
    active_rounds = inputs.options['active_rounds']
    groups = np.asarray(inputs.options['groups'])
    sizes = np.bincount(groups)
    weights = 1 / (len(sizes) * sizes[groups])
    return link_laws.LinkLaw(
        f'{len(sizes)} groups in turns of {active_rounds} rounds, {size} clients each',
        rates=size * weights,
        weights=weights,
        weights_source='equal turns of groups',
        never_empty=True,
        period=len(sizes) * active_rounds,
    )
