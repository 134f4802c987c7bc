"""Periodic availability: groups of clients take turns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Links, LinkSample, Participation
from fedjax_links.core import checks
from fedjax_links.core.references import cite
from fedjax_links.participation import rejection, selection
from fedjax_links.participation.laws import Given, LinkLaw


class PeriodicGroupsState(NamedTuple):
    """Carry of `periodic_groups`.

    Attributes:
      offset: int32[], rounds by which group 0's first turn is cut.
    """

    offset: Array


@cite('wang2022unified')
def periodic_groups(groups: ArrayLike, *, active_rounds: int, cohort_size: int) -> Participation:
    """Group ``((t + offset) // active_rounds) mod G`` is available in round t; S of it participate.

    The S clients are drawn uniformly without replacement, independently over rounds. The offset is
    uniform on {0, ..., active_rounds - 1}, drawn once: group 0 has the first turn, cut by it.

    Args:
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      active_rounds: rounds of one turn, at least 1; a cycle has G turns.
      cohort_size: S, at most the size of the smallest group.

    Returns:
      The pattern; given the offset it reports ``S / |group|`` for the available group, zero for the
      others. Where each group is a range of many clients, its cohort is named, in O(S)
      (`rejection`).

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
    labels = selection.group_labels(groups)
    checks.static_int('active_rounds', active_rounds, maximum=2**30)
    sizes = np.bincount(labels)
    checks.static_int('cohort_size', cohort_size, maximum=int(sizes.min()))
    group = jnp.asarray(labels)
    shares = cohort_size / sizes
    share = jnp.asarray(shares[labels], jnp.result_type(float))
    named = rejection.pays(len(labels), shares.max()) and (np.diff(labels) >= 0).all()
    bounds = jnp.asarray(np.concatenate([[0], np.cumsum(sizes)]), jnp.int32)

    def init(key: Key) -> PeriodicGroupsState:
        return PeriodicGroupsState(offset=jax.random.randint(key, (), 0, active_rounds, 'int32'))

    def sample(
        carry: PeriodicGroupsState, key: Key, round: Array
    ) -> tuple[PeriodicGroupsState, Links]:
        turn = jnp.mod((round + carry.offset) // active_rounds, len(sizes))
        if named:
            members = bounds[turn], bounds[turn + 1]
            return carry, rejection.uniform_cohort(key, cohort_size, len(labels), members)
        available = group == turn
        mask = selection.uniform_subset(key, available, cohort_size)
        return carry, LinkSample(mask=mask, prob=jnp.where(available, share, 0))

    cycle = active_rounds * len(sizes)
    return Participation(init, sample, num_clients=len(labels), cycle=cycle)


def periodic_groups_law(given: Given) -> LinkLaw:
    """Exact law of `periodic_groups`."""
    size, active_rounds = given.options['cohort_size'], given.options['active_rounds']
    groups = np.asarray(given.options['groups'])
    sizes = np.bincount(groups)
    weights = 1 / (len(sizes) * sizes[groups])
    return LinkLaw(
        f'{len(sizes)} groups in turns of {active_rounds} rounds, {size} clients each',
        rates=size * weights,
        weights=weights,
        weights_source='equal turns of groups',
        never_empty=True,
        period=len(sizes) * active_rounds,
    )
