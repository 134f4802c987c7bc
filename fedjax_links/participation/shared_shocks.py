"""Adds outages that groups of clients have in common."""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, MaskLinks, Participation
from fedjax_links.core import checks, contracts, errors
from fedjax_links.participation import combining, link_laws, schedules, subset_sampling
from fedjax_links.participation.markov import markov


def shared_shocks(
    pattern: Participation,
    groups: ArrayLike,
    *,
    up_rate: ArrayLike,
    down_rate: ArrayLike,
) -> Participation:
    """Adds outages that the clients of a group share, such as outages of a cell or a region.

    Each group has a hidden two-state Markov chain, independent of all other draws. While the
    chain is down, no uplink of the group delivers. The chain starts stationary: up with
    probability ``s = up_rate / (up_rate + down_rate)``.

    Args:
      pattern: the uplinks while their group is up.
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      up_rate: P(down -> up) per round, in (0, 1], one number or float[G].
      down_rate: P(up -> down), likewise.

    Returns:
      The pattern. Its ``prob`` is s times the ``prob`` of ``pattern``: the probability without
      knowledge of the group's state. `analysis.shock_correlation` is the correlation of two
      clients of a group.

    Raises:
      ValueError: for a value out of range, or if numbers of clients differ.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.shared_shocks(
      ...     participation.always(4), groups=[0, 0, 1, 1], up_rate=0.5, down_rate=0.5
      ... )
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
      >>> print(links.mask.astype(int))
      [[0 0 1 1]
       [1 1 1 1]
       [0 0 0 0]
       [1 1 0 0]]
    """
    contracts.check_pattern(pattern, 'pattern')
    labels = subset_sampling.group_labels(groups)
    if len(labels) != pattern.num_clients:
        raise errors.invalid(
            'groups', f'have {pattern.num_clients} entries', len(labels)
        )
    num_groups = int(labels.max()) + 1
    for name, rate in (('up_rate', up_rate), ('down_rate', down_rate)):
        checks.positive(name, rate, axis='group')
        checks.within(name, rate, 0, 1, axis='group')
        checks.one_or_each(name, rate, num_groups)
    rise = schedules.as_floats(up_rate)
    fall = schedules.as_floats(down_rate)
    group_probs = rise / (rise + fall)
    group_probs = checks.array_module(rise, fall).broadcast_to(group_probs, num_groups)

    def sample(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        links, shocks = samples
        return links._replace(
            mask=links.mask & shocks.mask[labels],
            prob=links.prob * shocks.prob[labels],
        )

    parts = [pattern, markov(group_probs, up_rate)]
    shocked = combining.combine('shared_shocks', parts, sample, pattern.num_clients)
    # The second part is over groups, so take the client names from the first part.
    return shocked._replace(client_names=pattern.client_names)


def shared_shocks_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact rates of `shared_shocks`, whose clients depend on each other."""
    part = inputs.parts['pattern']
    if part.rates is None:
        return link_laws.UNKNOWN
    rise = np.asarray(inputs.options['up_rate'], float)
    fall = np.asarray(inputs.options['down_rate'], float)
    labels = np.asarray(inputs.options['groups'])
    group_probs = np.broadcast_to(rise / (rise + fall), labels.max() + 1)
    return link_laws.LinkLaw(
        'groups of clients go down together',
        rates=part.rates * group_probs[labels],
        is_duplex=part.is_duplex,
    )
