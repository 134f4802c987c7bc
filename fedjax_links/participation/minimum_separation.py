"""Minimum separation: who participates waits before being selected again."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, CohortLinkSample, Key, LinkSample, Participation
from fedjax_links.core import checks, describing, errors
from fedjax_links.core.references import cite
from fedjax_links.participation import rejection, selection
from fedjax_links.participation.grouping import group_labels
from fedjax_links.participation.laws import Given, LinkLaw, SeparationLaw

_MAX_ENUMERATED_UNITS = 10

Separation = ArrayLike | Callable[[Array], Array]
"""Rounds to wait: integers, or a function ``round -> int32[]`` or ``int32[U]``."""


class MinimumSeparationState(NamedTuple):
    """Carry of `minimum_separation`.

    Attributes:
      wait: int32[U], rounds that each client (or group) still has to wait; selectable at 0.
    """

    wait: Array


class SeparationClocks(NamedTuple):
    """Carry of `minimum_separation` among many clients.

    Attributes:
      free_from: int32[N], first round in which each client is selectable again.
    """

    free_from: Array


@cite('sun2025debiasing')
def minimum_separation(
    weights: ArrayLike,
    *,
    separation: Separation,
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
      separation: R, at least 0: one integer, int[U], or a function ``round -> int32[]`` or
        ``int32[U]`` that says how long those selected in that round wait.
      cohort_size: B, clients (or groups) per round.
      design: how weights turn into a cohort S of the eligible. ``'product'``, conditional Poisson:
        ``P(S) ~ prod w_i``; O(U B), sequential. ``'successive'``, one by one in proportion to
        weight (Plackett-Luce); O(U). ``'sum'``, Midzuno: ``P(S) ~ sum w_i``; O(U).
      groups: int[N], group of each client; whole groups then participate, and ``weights`` and
        ``separation`` are per group. None makes every client its own unit.

    Returns:
      The pattern. It reports ``w / sum w`` as ``prob`` for B = 1 and R = 0, where rounds are
      independent; NaN otherwise. Where traced values or a function of the round leave fewer than B
      eligible, all of those participate. Clients that are many and of which few wait are not all
      looked at: the cohort is named, in O(B) (`rejection`). That takes one integer for R, no groups
      and concrete weights, in the product design equal ones.

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
    selection.check_weights(weights)
    num_units = np.shape(weights)[0]
    checks.static_int('cohort_size', cohort_size, maximum=num_units)
    checks.choice('design', design, selection.DESIGNS)
    _check_separation(separation, weights, cohort_size)
    labels = None if groups is None else group_labels(groups, num_units)
    draw = selection.DESIGNS[design if cohort_size > 1 else 'successive']
    never_waits = (
        not callable(separation) and checks.is_concrete(separation) and not np.any(separation)
    )
    independent = cohort_size == 1 and never_waits
    if labels is None and not independent:
        named = _by_name(weights, separation, cohort_size, design)
        if named is not None:
            return named
    scaled, positive = selection.relative_weights(weights)
    prob = scaled / scaled.sum() if independent else jnp.full_like(scaled, jnp.nan)

    def init(key: Key) -> MinimumSeparationState:
        del key
        return MinimumSeparationState(wait=jnp.zeros(num_units, jnp.int32))

    def sample(
        carry: MinimumSeparationState, key: Key, round: Array
    ) -> tuple[MinimumSeparationState, LinkSample]:
        selected = draw(key, (carry.wait == 0) & positive, scaled, cohort_size)
        pause = jnp.asarray(separation(round) if callable(separation) else separation, jnp.int32)
        wait = jnp.where(selected, pause, jnp.maximum(carry.wait - 1, 0))
        links = LinkSample(mask=selected, prob=prob)
        if labels is not None:
            links = LinkSample(mask=selected[labels], prob=prob[labels])
        return MinimumSeparationState(wait=wait), links

    num_clients = num_units if labels is None else len(labels)
    return Participation(init=init, sample=sample, num_clients=num_clients)


def _by_name(
    weights: ArrayLike, separation: Separation, cohort_size: int, design: str
) -> Participation | None:
    """`minimum_separation` in O(B) per round; None where it is not to be had."""
    if callable(separation) or np.ndim(separation) > 0:
        return None
    if not (checks.is_concrete(separation) and checks.is_concrete(weights)):
        return None
    masses = np.asarray(weights, np.float64)
    equal = bool(masses.min() == masses.max())
    if equal:
        masses = np.broadcast_to(1.0, masses.shape)
    else:
        masses = masses / masses.max()
        masses = np.where(masses > 0, np.maximum(masses, selection.SMALLEST_WEIGHT), 0)
    num_clients, wait = len(masses), int(np.asarray(separation))
    most_away = min((wait + 1) * cohort_size, num_clients)  # waiting, or in the cohort already
    if cohort_size > 1 and design == 'product' and not equal:
        return None
    share = most_away / num_clients
    if not equal:
        heaviest = np.partition(masses, -most_away)[-most_away:].sum() / masses.sum()
        never = float(np.mean(masses == 0))
        share = max(heaviest, share + never if design == 'sum' else 0)
    if not rejection.pays(num_clients, share):
        return None
    by_weight, uniform = rejection.by_weight(masses), rejection.uniform(num_clients)
    hidden = None if masses.min() > 0 else np.flatnonzero(masses == 0)

    def init(key: Key) -> SeparationClocks:
        del key
        free_from = jnp.zeros(num_clients, jnp.int32)
        if hidden is not None:
            free_from = free_from.at[hidden].set(np.iinfo(np.int32).max)
        return SeparationClocks(free_from=free_from)

    def sample(
        carry: SeparationClocks, key: Key, round: Array
    ) -> tuple[SeparationClocks, CohortLinkSample]:
        def free(clients: Array) -> Array:
            return carry.free_from[clients] <= round

        if design == 'sum' and cohort_size > 1 and not equal:
            ids = _midzuno(key, by_weight, uniform, free, cohort_size, num_clients)
        else:
            ids = rejection.distinct(key, by_weight, free, cohort_size, num_clients)
        free_from = carry.free_from.at[ids].set(
            round + wait + 1, mode='promise_in_bounds', indices_are_sorted=True, unique_indices=True
        )
        links = rejection.sample(ids, num_clients, jnp.nan)
        return SeparationClocks(free_from=free_from), links

    return Participation(init=init, sample=sample, num_clients=num_clients)


def _midzuno(
    key: Key,
    by_weight: rejection.Proposal,
    uniform: rejection.Proposal,
    free: Callable[[Array], Array],
    size: int,
    num_clients: int,
) -> Array:
    """int32[B], one client by weight and the others uniformly among the rest, sorted."""
    first_key, rest_key = jax.random.split(key)
    first = rejection.distinct(first_key, by_weight, free, 1, num_clients)
    rest = rejection.distinct(
        rest_key, uniform, lambda ids: free(ids) & (ids != first), size - 1, num_clients
    )
    return jnp.sort(jnp.concatenate([first, rest]))


def _check_separation(separation: Separation, weights: ArrayLike, cohort_size: int) -> None:
    """Raises unless B units stay selectable whatever happens, as far as values are concrete."""
    if callable(separation):
        return
    if np.shape(separation) not in ((), np.shape(weights)):
        allowed = f'be one integer or {np.shape(weights)[0]}'
        raise errors.invalid('separation', allowed, f'shape {np.shape(separation)}')
    if not checks.is_concrete(separation):
        return
    waits = np.asarray(separation)
    if waits.dtype.kind not in 'iu' or (waits < 0).any():
        raise errors.invalid('separation', 'be integers of at least 0', waits.min())
    num_units = np.shape(weights)[0]
    if checks.is_concrete(weights):
        positive = np.asarray(weights) > 0
        waits, num_units = waits[positive] if waits.ndim else waits, int(positive.sum())
    # The most that can wait at once: of those with separation at least k, B per round, from the
    # longest separation down.
    waiting, above = 0, 0
    for value in sorted({0, *waits.ravel().tolist()}, reverse=True):
        if above:
            longer = int((waits > value).sum()) if waits.ndim else num_units
            waiting = min(waiting + cohort_size * (above - value), longer)
        above = value
    if waiting + cohort_size > num_units:
        raise errors.invalid(
            'separation',
            f'leave `cohort_size` = {cohort_size} of {num_units} selectable in every round',
            waits.max() if waits.ndim == 0 else f'up to {waits.max()}',
        )


def minimum_separation_law(given: Given) -> LinkLaw:
    """Exact law of `minimum_separation`, as far as it is known or can be listed."""
    options = given.options
    weights = np.asarray(options['weights'], np.float64)
    separation, size = options['separation'], options.get('cohort_size', 1)
    design = options.get('design', 'product')
    groups = None if options.get('groups') is None else np.asarray(options['groups'])
    unit = 'clients' if groups is None else 'groups'
    if np.ndim(separation) == 0:
        wait = f'a separation of {separation} rounds'
    else:
        each = describing.span(str(np.min(separation)), str(np.max(separation)))
        wait = f'separations of {each} rounds'
    description = f'{size:,} of {weights.size:,} {unit} by weight, {wait}'
    selected = weights > 0
    found = _selection_law(
        weights[selected],
        separation if np.ndim(separation) == 0 else np.asarray(separation)[selected],
        size,
        design,
    )
    if found is None:
        return LinkLaw(description, never_empty=True)
    law = np.zeros(weights.size)
    law[selected], source = found
    group_sizes = np.ones(weights.size) if groups is None else np.bincount(groups)
    equal = np.unique(group_sizes).size == 1
    members = np.arange(weights.size) if groups is None else groups
    rates = size * law[members]
    independent = size == 1 and not np.any(separation)
    return LinkLaw(
        description,
        memoryless=independent,
        rates=rates,
        weights=(law / group_sizes)[members] if equal or size == 1 else None,
        weights_source=source,
        never_empty=True,
        up_rate=rates if independent else None,
        down_rate=1 - rates if independent else None,
        separation=SeparationLaw(
            law=law,
            separation=separation,
            cohort_size=size,
            group_size=int(group_sizes[0]) if groups is not None and equal else None,
            source=source,
        ),
    )


def _selection_law(
    weights: np.ndarray, separation: Any, size: int, design: str
) -> tuple[np.ndarray, str] | None:
    """Shares of the selections and where they come from; None beyond closed form and listing."""
    from fedjax_links import analysis  # SciPy takes long to import

    if np.ndim(separation) == 0 and (size == 1 or design == 'product'):
        law = analysis.minimum_separation_stationary(weights, int(separation), size)
        return law, 'closed form'
    if weights.size > _MAX_ENUMERATED_UNITS:
        return None
    try:
        chain = analysis.minimum_separation_chain(weights, separation, size, design)
    except errors.InvalidError:  # more states than it lists
        return None
    return chain.marginal, f'chain of {len(chain.states)} states'
