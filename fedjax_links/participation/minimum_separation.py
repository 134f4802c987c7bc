"""Minimum separation: who participates waits before being selected again."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, CohortLinkSample, Key, LinkSample, Participation
from fedjax_links.core import checks, describing, errors
from fedjax_links.core.references import cite
from fedjax_links.participation import rejection, schedules, selection
from fedjax_links.participation.laws import Given, LinkLaw, SeparationLaw

_MAX_ENUMERATED_UNITS = 10
_NEVER = np.iinfo(np.int32).max


class MinimumSeparationState(NamedTuple):
    """Carry of `minimum_separation`.

    Attributes:
      free_from: int32[U], first round in which each client (or group) is selectable again.
    """

    free_from: Array


@cite('sun2025debiasing')
def minimum_separation(
    weights: ArrayLike,
    *,
    separation: ArrayLike,
    cohort_size: int = 1,
    design: str = 'product',
    groups: ArrayLike | None = None,
) -> Participation:
    """A cohort by weight among those who have waited: after round t0, again from t0 + R + 1.

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
      participate. Clients that are many and of which few wait are not all looked at: the cohort is
      named, in O(B) (`rejection`). That takes one integer for R, no groups and concrete weights, in
      the product design equal ones.

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
    scaled, positive = selection.relative_weights(weights)
    num_units = scaled.size
    checks.static_int('cohort_size', cohort_size, maximum=num_units)
    checks.choice('design', design, selection.DESIGNS)
    _check_separation(separation, weights, cohort_size)
    labels = None if groups is None else selection.group_labels(groups, num_units)
    independent = cohort_size == 1 and checks.is_concrete(separation) and not np.any(separation)
    if labels is None and not independent:
        named = _by_name(weights, separation, cohort_size, design)
        if named is not None:
            return named
    draw = selection.DESIGNS[design if cohort_size > 1 else 'successive']
    prob = scaled / scaled.sum() if independent else jnp.full_like(scaled, jnp.nan)
    num_clients = num_units if labels is None else len(labels)
    members = slice(None) if labels is None else labels

    def sample(
        carry: MinimumSeparationState, key: Key, round: Array
    ) -> tuple[MinimumSeparationState, LinkSample]:
        selected = draw(key, carry.free_from <= round, scaled, cohort_size)
        again = round + jnp.asarray(separation, jnp.int32) + 1
        free_from = jnp.where(selected, again, carry.free_from)
        links = LinkSample(mask=selected[members], prob=prob[members])
        return MinimumSeparationState(free_from=free_from), links

    return Participation(lambda key: _clocks(positive), sample, num_clients)


def _clocks(positive: Array | np.ndarray) -> MinimumSeparationState:
    """Everybody of positive weight may be selected from the start, nobody else ever."""
    return MinimumSeparationState(free_from=jnp.where(positive, 0, _NEVER).astype(jnp.int32))


def _by_name(
    weights: ArrayLike, separation: ArrayLike, cohort_size: int, design: str
) -> Participation | None:
    """`minimum_separation` in O(B) per round; None where it is not to be had."""
    concrete = checks.is_concrete(separation) and checks.is_concrete(weights)
    if not concrete or np.ndim(separation) > 0:
        return None
    masses = np.asarray(weights, np.float64)
    masses = np.where(masses > 0, np.maximum(masses / masses.max(), selection.SMALLEST_WEIGHT), 0)
    equal = bool(masses.min() == masses.max())
    if cohort_size > 1 and design == 'product' and not equal:
        return None
    num_clients, wait = len(masses), int(np.asarray(separation))
    most_away = min((wait + 1) * cohort_size, num_clients)  # waiting, or in the cohort already
    share = np.partition(masses, -most_away)[-most_away:].sum() / masses.sum()
    if design == 'sum':
        share = max(share, most_away / num_clients + np.mean(masses == 0))
    if not rejection.pays(num_clients, share):
        return None
    by_weight, uniform = rejection.by_weight(masses), rejection.uniform(num_clients)
    is_midzuno = design == 'sum' and cohort_size > 1 and not equal

    def draw(key: Key, free: Callable[[Array], Array]) -> Array:
        if not is_midzuno:
            return rejection.distinct(key, by_weight, cohort_size, num_clients, free)
        first_key, rest_key = jax.random.split(key)
        first = rejection.distinct(first_key, by_weight, 1, num_clients, free)
        rest = rejection.distinct(
            rest_key, uniform, cohort_size - 1, num_clients, lambda ids: free(ids) & (ids != first)
        )
        return jnp.sort(jnp.concatenate([first, rest]))

    def sample(
        carry: MinimumSeparationState, key: Key, round: Array
    ) -> tuple[MinimumSeparationState, CohortLinkSample]:
        ids = draw(key, lambda clients: carry.free_from[clients] <= round)
        free_from = carry.free_from.at[ids].set(
            round + wait + 1, mode='promise_in_bounds', indices_are_sorted=True, unique_indices=True
        )
        links = rejection.sample(ids, num_clients, jnp.nan)
        return MinimumSeparationState(free_from=free_from), links

    return Participation(lambda key: _clocks(masses > 0), sample, num_clients)


def _check_separation(separation: ArrayLike, weights: ArrayLike, cohort_size: int) -> None:
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
        waiting = min(waiting + cohort_size * (above - value), int((waits > value).sum()))
    if waiting + cohort_size > len(waits):
        raise errors.invalid(
            'separation',
            f'leave `cohort_size` = {cohort_size} of {len(waits)} selectable in every round',
            given if given.ndim == 0 else f'up to {waits.max()}',
        )


def minimum_separation_law(given: Given) -> LinkLaw:
    """Exact law of `minimum_separation`, as far as it is known or can be listed."""
    options, groups = given.options, given.options.get('groups')
    weights, separation = np.asarray(options['weights'], float), np.asarray(options['separation'])
    size, design = options.get('cohort_size', 1), options.get('design', 'product')
    unit = 'clients' if groups is None else 'groups'
    wait = describing.span(str(separation.min()), str(separation.max()))
    description = f'{size:,} of {weights.size:,} {unit} by weight, a separation of {wait} rounds'
    law = LinkLaw(description, never_empty=True)
    known = _selection_law(weights, separation, size, design)
    if known is None:
        return law
    shares, source = known
    members = np.arange(weights.size) if groups is None else np.asarray(groups)
    sizes = np.bincount(members)
    equal = bool((sizes == sizes[0]).all())
    group_size = int(sizes[0]) if groups is not None and equal else None
    return law._replace(
        memoryless=size == 1 and not separation.any(),
        rates=size * shares[members],
        weights=(shares / sizes)[members] if equal or size == 1 else None,
        weights_source=source,
        separation=SeparationLaw(shares, group_size),
    )


def _selection_law(
    weights: np.ndarray, separation: np.ndarray, size: int, design: str
) -> tuple[np.ndarray, str] | None:
    """Shares of the selections and where they come from; None beyond closed form and listing."""
    from fedjax_links import analysis  # SciPy takes long to import

    shares, positive = np.zeros(weights.size), weights > 0
    if separation.ndim == 0 and (size == 1 or design == 'product'):
        shares[positive] = analysis.minimum_separation_stationary(
            weights[positive], int(separation), size
        )
        return shares, 'closed form'
    if positive.sum() > _MAX_ENUMERATED_UNITS:
        return None
    waits = separation if separation.ndim == 0 else separation[positive]
    try:
        chain = analysis.minimum_separation_chain(weights[positive], waits, size, design)
    except errors.InvalidError:  # more states than it lists
        return None
    shares[positive] = chain.marginal
    return shares, f'chain of {len(chain.states)} states'
