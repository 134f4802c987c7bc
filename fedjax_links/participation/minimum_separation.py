"""Minimum separation: who participates waits before being selected again."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Drawn, Key, Kinds, Participation
from fedjax_links.core import checks, errors, references, reprs
from fedjax_links.participation import (
    link_laws,
    rejection_sampling,
    schedules,
    subset_sampling,
)

_MAX_ENUMERATED_UNITS = 10
_NEVER = np.iinfo(np.int32).max

Free = Callable[[Any], Array]
"""Whether some units, int32[K] or all of them by ``slice(None)``, are selectable: bool[K]."""

Draw = Callable[[Key, Free], Array]
"""A cohort among those that are free: int32[B], in increasing order; U for nobody."""


class MinimumSeparationState(NamedTuple):
    """Carry of `minimum_separation`.

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

    R counts rounds to wait. R = 0 draws independently; with B = 1 and R = N - 1 participation is
    cyclic after the first N rounds. A weight of zero means never, in every design. The designs
    coincide for B = 1.

    Everybody starts selectable. The closer (R + 1) B comes to N, the longer a run remembers that:
    with 20 units of weights g^-1.5 and B = 1 the marginals have settled after 100 rounds for R = 5,
    and not yet after 2000 for R = 15.

    Args:
      weights: float[U], non-negative, of any scale; per client, or per group. Positive weights
        below 1e-30 of the largest count as that.
      separation: R, at least 0: one integer, or int[U].
      cohort_size: B, clients (or groups) per round.
      design: how weights turn into a cohort S of the eligible. ``'product'``, conditional Poisson:
        ``P(S) ~ prod w_i``; O(U B), sequential. ``'successive'``, one by one in proportion to
        weight (Plackett-Luce); O(U). ``'sum'``, Midzuno: ``P(S) ~ sum w_i``; O(U).
      groups: int[N], group of each client; whole groups then participate, and ``weights`` and
        ``separation`` are per group. None makes every client its own unit.

    Returns:
      The pattern. It reports ``w / sum w`` as ``prob`` for B = 1 and R = 0, where rounds are
      independent; NaN otherwise. Where traced values leave fewer than B eligible, all of those
      participate. Units that are many, of concrete weights and waits, and of which few wait are not
      all looked at: a draw costs O(B) then (`rejection_sampling`), in the product design unless so
      few weigh so much that B draws by weight seldom differ. The law is the same, the draws are
      not: in a sweep over weights or separations of 4,096 units or more, a lane meets other links
      than its own `simulate`.

    Raises:
      ValueError: for values out of range, or a separation that can leave fewer than B eligible.

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
      Sun et al. 2025, section 3. Its text states the sum design, its Proposition 1 the product;
      its experiments select groups, with B = 1, where they agree.
    """
    masses, positive = subset_sampling.relative_weights(weights)
    scaled, num_units = schedules.as_floats(masses), masses.size
    checks.static_int('cohort_size', cohort_size, maximum=num_units)
    checks.choice('design', design, subset_sampling.DESIGNS)
    _check_separation(separation, weights, cohort_size)
    is_certain = checks.is_concrete(weights) and checks.is_concrete(separation)
    waits = checks.array_module(separation).asarray(separation, np.int32)
    subset = subset_sampling.DESIGNS[design if cohort_size > 1 else 'successive']

    def among_all(key: Key, free: Free) -> Array:
        return subset(key, free(slice(None)), scaled, cohort_size)

    draw: Draw = among_all
    if is_certain:
        draw = _by_rejection(masses, int(waits.max()), cohort_size, design) or draw

    chance: Any = np.nan
    if cohort_size == 1 and checks.is_concrete(separation) and not waits.any():
        chance = scaled / jnp.sum(scaled)
        if checks.is_concrete(weights) and np.ptp(scaled) == 0:
            chance = chance[:1]
    num_clients, members, kinds = num_units, None, None
    if groups is not None:
        labels = subset_sampling.group_labels(groups, num_units)
        num_clients, members = len(labels), _members(labels)
        is_certain = is_certain and bool(
            (members[:-1] < num_clients).all()
        )  # of one size
        kinds = Kinds(labels.tobytes()) if np.size(chance) > 1 else None

    def sample(
        carry: MinimumSeparationState, key: Key, round: Array
    ) -> Drawn[MinimumSeparationState]:
        units = draw(key, lambda some: carry.free_from[some] <= round)
        again = round + 1 + (jnp.asarray(waits)[units] if waits.ndim else waits)
        free_from = carry.free_from.at[units].set(
            again, mode='drop', indices_are_sorted=True
        )
        ids = (
            units if members is None else jnp.sort(jnp.asarray(members)[units].ravel())
        )
        links = rejection_sampling.sample(
            ids, num_clients, chance, kinds, is_full=is_certain
        )
        return MinimumSeparationState(free_from=free_from), links

    def init(key: Key) -> MinimumSeparationState:
        """Everybody of positive weight may be selected from the start, nobody else ever."""
        return MinimumSeparationState(jnp.where(positive, 0, _NEVER).astype(jnp.int32))

    return Participation(init, sample, num_clients)


def _members(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Clients int32[G + 1, K] of each group, and at last of none; what is empty holds N."""
    sizes = np.bincount(labels)
    members = np.full((len(sizes) + 1, sizes.max()), len(labels), np.int32)
    members[:-1][np.arange(sizes.max()) < sizes[:, None]] = np.argsort(
        labels, kind='stable'
    )
    return members


def _by_rejection(
    masses: NDArray[np.float64], wait: int, cohort_size: int, design: str
) -> Draw | None:
    """The draw in O(B) per round; None where it does not pay (`rejection_sampling`)."""
    num_units = len(masses)
    most_away = min(
        (wait + 1) * cohort_size, num_units
    )  # waiting, or in the cohort already
    share = np.partition(masses, -most_away)[-most_away:].sum() / masses.sum()
    if cohort_size == 1 or np.ptp(masses) == 0:
        design = 'successive'
    if design == 'sum':
        share = max(share, most_away / num_units + np.mean(masses == 0))
    if not rejection_sampling.pays(num_units, share):
        return None
    left = float((1 - share) * masses.sum())
    if design == 'product' and not rejection_sampling.seldom_meet(
        cohort_size, masses, left
    ):
        return None
    by_weight, uniform = (
        rejection_sampling.by_weight(masses),
        rejection_sampling.uniform(num_units),
    )
    take = (
        rejection_sampling.all_at_once
        if design == 'product'
        else rejection_sampling.distinct
    )

    def draw(key: Key, free: Free) -> Array:
        if design != 'sum':
            return take(key, by_weight, cohort_size, num_units, free)
        first_key, rest_key = jax.random.split(key)
        first = rejection_sampling.distinct(first_key, by_weight, 1, num_units, free)
        rest = rejection_sampling.distinct(
            rest_key,
            uniform,
            cohort_size - 1,
            num_units,
            lambda ids: free(ids) & (ids != first),
        )
        return jnp.sort(jnp.concatenate([first, rest]))

    return draw


def _check_separation(
    separation: ArrayLike, weights: ArrayLike, cohort_size: int
) -> None:
    """Raises unless B units stay selectable whatever happens, as far as values are concrete."""
    num_units = np.shape(weights)[0]
    schedules.one_or_each('separation', separation, num_units)
    if not checks.is_concrete(separation):
        return
    given = checks.numbers('separation', separation)
    if given.dtype.kind not in 'iu' or (given < 0).any():
        raise errors.invalid('separation', 'be integers of at least 0', given.min())
    waits = np.broadcast_to(given, num_units)
    if checks.is_concrete(weights):
        waits = waits[np.asarray(weights) > 0]
    # The most that can wait at once: of those with separation at least k, B per round, from the
    # longest separation down.
    waiting = 0
    for above, value in itertools.pairwise(np.unique(np.append(waits, 0))[::-1]):
        waiting = min(
            waiting + cohort_size * (above - value), int((waits > value).sum())
        )
    if waiting + cohort_size > len(waits):
        wanted = f'leave `cohort_size` = {cohort_size} of {len(waits)} selectable in every round'
        if given.ndim == 0 and cohort_size <= len(waits):
            wanted += f', and so be at most {len(waits) // cohort_size - 1}'
        got = given if given.ndim == 0 else f'up to {waits.max()}'
        raise errors.invalid('separation', wanted, got)


def minimum_separation_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `minimum_separation`, as far as it is known or can be listed."""
    from fedjax_links import analysis  # SciPy takes long to import

    options, groups = given.options, given.options.get('groups')
    weights, separation = (
        np.asarray(options['weights'], float),
        np.asarray(options['separation']),
    )
    size, design = options.get('cohort_size', 1), options.get('design', 'product')
    unit = 'clients' if groups is None else 'groups'
    wait = reprs.span(str(separation.min()), str(separation.max()))
    description = (
        f'{size:,} of {weights.size:,} {unit} by weight, a separation of {wait} rounds'
    )
    law = link_laws.LinkLaw(description, never_empty=True)
    shares, positive = np.zeros(weights.size), weights > 0
    if separation.ndim == 0 and (size == 1 or design == 'product'):
        own = weights[positive], int(separation), size
        shares[positive], source = (
            analysis.minimum_separation_stationary(*own),
            'closed form',
        )
    elif positive.sum() > _MAX_ENUMERATED_UNITS:
        return law
    else:
        waits = separation if separation.ndim == 0 else separation[positive]
        try:
            chain = analysis.minimum_separation_chain(
                weights[positive], waits, size, design
            )
        except errors.InvalidError:  # more states than it lists
            return law
        shares[positive], source = (
            chain.marginal,
            f'chain of {len(chain.states)} states',
        )
    members = np.arange(weights.size) if groups is None else np.asarray(groups)
    sizes = np.bincount(members)
    equal = np.ptp(sizes) == 0
    group_size = int(sizes[0]) if groups is not None and equal else None
    return law._replace(
        memoryless=size == 1 and not separation.any(),
        rates=size * shares[members],
        weights=(shares / sizes)[members] if equal or size == 1 else None,
        weights_source=source,
        separation=link_laws.SeparationLaw(shares, group_size),
    )
