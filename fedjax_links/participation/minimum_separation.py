"""Makes clients that participated wait before they can be selected again.

A unit is what is selected: a client or a group of clients. U counts units.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import (
    Array,
    CarryAndLinks,
    ClientKinds,
    Key,
    Participation,
    cohort_links,
)
from fedjax_links.core import checks, errors, references, reprs
from fedjax_links.participation import (
    link_laws,
    rejection_sampling,
    schedules,
    subset_sampling,
)

_MAX_ENUMERATED_UNITS = 10
_NEVER = np.iinfo(np.int32).max

IsFree = Callable[[Any], Array]
"""Whether units are selectable, bool[K], for ids int32[K] or ``slice(None)`` for all."""

Draw = Callable[[Key, IsFree], Array]
"""Draws a cohort among the selectable units: int32[B], in increasing order; U for an empty slot."""


class MinimumSeparationState(NamedTuple):
    """Holds the carry of `minimum_separation`.

    Attributes:
      free_from: int32[U], first round in which each client (or group) is selectable again.
    """

    free_from: Array


@references.cite('sun2025debiasing')
def minimum_separation(
    weights: ArrayLike,
    *,
    separation: ArrayLike,
    cohort_size: int = 1,
    design: str = 'product',
    groups: ArrayLike | None = None,
) -> Participation:
    """Samples a cohort by weight among the clients that have waited R rounds.

    A client that participates in round t0 may do so again from round t0 + R + 1 on.

    With R = 0, rounds are independent. With B = 1 and R = N - 1, participation is cyclic after
    the first N rounds. A client of weight zero is never selected. For B = 1 all values of
    ``design`` draw by the same law.

    A selected client waits even if a pattern around this one (`cap`, `outage`, `duplex`, ...)
    keeps it from taking part in that round.

    All clients start selectable. The closer (R + 1) B is to N, the longer a run remembers its
    start. Take 20 clients of weights g^-1.5 for g = 1, ..., 20, and B = 1. The marginals settle
    within 100 rounds for R = 5, but not within 2000 rounds for R = 15.

    Args:
      weights: float[U], non-negative, of any scale; per client, or per group. A positive weight
        below 1e-30 of the largest counts as 1e-30 of the largest.
      separation: R, at least 0: one integer, or int[U].
      cohort_size: B, clients (or groups) per round.
      design: how weights determine the law of the cohort S among the selectable. ``'product'``,
        conditional Poisson: P(S) is proportional to ``prod w_i``; O(U B), sequential.
        ``'successive'``, one by one in proportion to weight (Plackett-Luce); O(U). ``'sum'``,
        Midzuno: P(S) is proportional to ``sum w_i``; O(U).
      groups: int[N], group of each client. Then all clients of a group participate together,
        and ``weights`` and ``separation`` are per group. By default each client is selected
        alone.

    Returns:
      The pattern. It reports ``w / sum w`` as ``prob`` for B = 1 and R = 0, where rounds are
      independent; NaN otherwise. If traced values leave fewer than B selectable, all selectable
      ones participate.

      Among 4,096 or more clients or groups a draw costs O(B) if weights and separation are
      concrete and few wait at a time (`rejection_sampling`). For the product design, B draws
      by weight must also often be B different clients. This draw has the same law as the one
      for fewer clients, but other random values. In a sweep over weights or separations, links
      of a lane therefore differ from the links that `simulate` draws.

    Raises:
      ValueError: for values out of range, or a separation that can leave fewer than B selectable.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.minimum_separation([0.25, 0.25, 0.5], separation=1)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=5)
      >>> print(links.mask.astype(int))
      [[0 0 1]
       [1 0 0]
       [0 0 1]
       [0 1 0]
       [0 0 1]]

    References:
      Sun et al. 2025, section 3. The text of the paper states the sum design, Proposition 1 the
      product design. The experiments select groups with B = 1, where all designs agree.
    """
    masses, is_positive = subset_sampling.relative_weights(weights)
    scaled = schedules.as_floats(masses)
    num_units = masses.size
    checks.static_int('cohort_size', cohort_size, maximum=num_units)
    checks.choice('design', design, subset_sampling.DESIGNS)
    _check_separation(separation, is_positive, cohort_size)
    is_concrete = checks.is_concrete(weights) and checks.is_concrete(separation)
    waits = checks.array_module(separation).asarray(separation, np.int32)

    draw = None
    if is_concrete:
        draw = _draw_by_rejection(masses, int(waits.max()), cohort_size, design)
    if draw is None:
        draw = _draw_among_all(scaled, cohort_size, design)

    prob = _unit_probs(scaled, waits, cohort_size)
    num_clients = num_units
    members = None
    kinds = None
    # Traced values may leave fewer than B selectable.
    is_full = is_concrete
    if groups is not None:
        labels = subset_sampling.group_labels(groups, num_units)
        num_clients = len(labels)
        members = _members(labels)
        has_equal_sizes = bool((members[:-1] < num_clients).all())
        is_full = is_full and has_equal_sizes
        if np.size(prob) > 1:
            kinds = ClientKinds(labels.tobytes())

    def sample(
        carry: MinimumSeparationState, key: Key, round: Array
    ) -> CarryAndLinks[MinimumSeparationState]:
        units = draw(key, lambda ids: carry.free_from[ids] <= round)
        wait = jnp.asarray(waits)[units] if waits.ndim else waits
        free_from = carry.free_from.at[units].set(
            round + 1 + wait, mode='drop', indices_are_sorted=True
        )
        ids = units
        if members is not None:
            ids = jnp.sort(jnp.asarray(members)[units].ravel())
        links = cohort_links(ids, num_clients, prob, kinds, is_full=is_full)
        return MinimumSeparationState(free_from=free_from), links

    def init(key: Key) -> MinimumSeparationState:
        # Units of positive weight are selectable from the start, the others never.
        free_from = jnp.where(is_positive, 0, _NEVER).astype(jnp.int32)
        return MinimumSeparationState(free_from=free_from)

    return Participation(init, sample, num_clients)


def _unit_probs(scaled: Array, waits: Array, cohort_size: int) -> Any:
    """Returns the probability that a unit is selected.

    Returns:
      float[U]; float[1] if all units have the same probability; NaN where it is not known exactly.
    """
    if cohort_size > 1 or not checks.is_concrete(waits) or waits.any():
        return np.nan
    prob = scaled / jnp.sum(scaled)
    has_equal_weights = checks.is_concrete(scaled) and np.ptp(scaled) == 0
    return prob[:1] if has_equal_weights else prob


def _members(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Lists the clients of each group.

    Returns:
      int32[G + 1, K], for groups of at most K clients. Row G stands for an empty slot of the
      cohort and lists no client. An empty entry holds N.
    """
    sizes = np.bincount(labels)
    is_taken = np.arange(sizes.max()) < sizes[:, None]
    members = np.full((len(sizes) + 1, sizes.max()), len(labels), np.int32)
    members[:-1][is_taken] = np.argsort(labels, kind='stable')
    return members


def _draw_among_all(scaled: Array, cohort_size: int, design: str) -> Draw:
    """Returns the draw that looks at all units."""
    subset = subset_sampling.DESIGNS[design if cohort_size > 1 else 'successive']

    def draw(key: Key, is_free: IsFree) -> Array:
        return subset(key, is_free(slice(None)), scaled, cohort_size)

    return draw


def _draw_by_rejection(
    masses: NDArray[np.float64], wait: int, cohort_size: int, design: str
) -> Draw | None:
    """Returns the draw in O(B) per round; None if it would cost more (`rejection_sampling`)."""
    num_units = len(masses)
    # The largest number of units that wait or are in the cohort already.
    num_away = min((wait + 1) * cohort_size, num_units)
    share = np.partition(masses, -num_away)[-num_away:].sum() / masses.sum()
    if cohort_size == 1 or np.ptp(masses) == 0:
        design = 'successive'
    if design == 'sum':
        share = max(share, num_away / num_units + np.mean(masses == 0))
    if not rejection_sampling.is_worthwhile(num_units, share):
        return None
    take: Callable[..., Array] = rejection_sampling.draw_distinct
    if design == 'product':
        eligible_weight = float((1 - share) * masses.sum())
        if not rejection_sampling.rarely_collide(cohort_size, masses, eligible_weight):
            return None
        take = rejection_sampling.redraw_until_distinct
    by_weight = rejection_sampling.weighted_proposal(masses)
    if design == 'sum':
        return _sum_draw(by_weight, cohort_size, num_units)

    def draw(key: Key, is_free: IsFree) -> Array:
        return take(key, by_weight, cohort_size, num_units, is_free)

    return draw


def _sum_draw(
    by_weight: rejection_sampling.Proposal, cohort_size: int, num_units: int
) -> Draw:
    """Returns the draw of the sum design: one unit by weight, the others uniformly."""
    uniform = rejection_sampling.uniform_proposal(num_units)

    def draw(key: Key, is_free: IsFree) -> Array:
        first_key, rest_key = jax.random.split(key)
        first = rejection_sampling.draw_distinct(
            first_key, by_weight, 1, num_units, is_free
        )

        def is_left(ids: Array) -> Array:
            return is_free(ids) & (ids != first)

        rest = rejection_sampling.draw_distinct(
            rest_key, uniform, cohort_size - 1, num_units, is_left
        )
        return jnp.sort(jnp.concatenate([first, rest]))

    return draw


def _check_separation(
    separation: ArrayLike, is_positive: Any, cohort_size: int
) -> None:
    """Checks that B units stay selectable in each round, as far as values are concrete."""
    checks.one_or_each('separation', separation, is_positive.size)
    if not checks.is_concrete(separation):
        return
    values = checks.numbers('separation', separation)
    if values.dtype.kind not in 'iu' or (values < 0).any():
        raise errors.invalid('separation', 'be integers of at least 0', values.min())
    # The first round after the wait must fit into int32.
    checks.within('separation', values, 0, 2**30)
    waits = np.broadcast_to(values, is_positive.size)
    if checks.is_concrete(is_positive):
        waits = waits[is_positive]
    # The largest number of units that can wait at once. Going down from the longest separation,
    # this counts the units of separation above a value, but at most B more per round.
    num_waiting = 0
    descending = np.unique(np.append(waits, 0))[::-1]
    for above, value in itertools.pairwise(descending):
        num_above = int((waits > value).sum())
        num_waiting = min(num_waiting + cohort_size * (above - value), num_above)
    if num_waiting + cohort_size <= len(waits):
        return
    requirement = (
        f'leave `cohort_size` = {cohort_size} of {len(waits)} selectable in every round'
    )
    if values.ndim == 0 and cohort_size <= len(waits):
        requirement += f', and so be at most {len(waits) // cohort_size - 1}'
    got = values if values.ndim == 0 else f'up to {waits.max()}'
    raise errors.invalid('separation', requirement, got)


def minimum_separation_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `minimum_separation`, as far as it is known."""
    options = inputs.options
    groups = options.get('groups')
    weights = np.asarray(options['weights'], float)
    separation = np.asarray(options['separation'])
    size = options.get('cohort_size', 1)
    unit = 'clients' if groups is None else 'groups'
    wait = reprs.span(str(separation.min()), str(separation.max()))
    description = (
        f'{size:,} of {weights.size:,} {unit} by weight, a separation of {wait} rounds'
    )
    law = link_laws.LinkLaw(description, never_empty=True)
    design = options.get('design', 'product')
    shares, source = _stationary_shares(weights, separation, size, design)
    if shares is None:
        return law
    labels = np.arange(weights.size) if groups is None else np.asarray(groups)
    group_sizes = np.bincount(labels)
    has_equal_sizes = np.ptp(group_sizes) == 0
    client_weights = None
    if has_equal_sizes or size == 1:
        client_weights = (shares / group_sizes)[labels]
    group_size = None
    if groups is not None and has_equal_sizes:
        group_size = int(group_sizes[0])
    return law._replace(
        memoryless=size == 1 and not separation.any(),
        rates=size * shares[labels],
        weights=client_weights,
        weights_source=source,
        separation=link_laws.SeparationLaw(shares, group_size),
    )


def _stationary_shares(
    weights: NDArray[np.float64],
    separation: NDArray[np.int64],
    cohort_size: int,
    design: str,
) -> tuple[NDArray[np.float64] | None, str]:
    """Computes the share of all selections that falls on each unit, in the long run.

    Returns:
      float64[U] and the method that gave the shares; None and no method where unknown.
    """
    from fedjax_links import analysis  # SciPy takes long to import

    shares = np.zeros(weights.size)
    is_positive = weights > 0
    if separation.ndim == 0 and (cohort_size == 1 or design == 'product'):
        shares[is_positive] = analysis.minimum_separation_stationary(
            weights[is_positive], int(separation), cohort_size
        )
        return shares, 'closed form'
    if is_positive.sum() > _MAX_ENUMERATED_UNITS:
        return None, ''
    waits = separation if separation.ndim == 0 else separation[is_positive]
    try:
        chain = analysis.minimum_separation_chain(
            weights[is_positive], waits, cohort_size, design
        )
    except errors.InvalidError:
        # The chain has too many states to enumerate.
        return None, ''
    shares[is_positive] = chain.marginal
    return shares, f'chain of {len(chain.states)} states'
