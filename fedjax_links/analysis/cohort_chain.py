"""Enumerates minimum separation as a Markov chain, for small numbers of clients.

Under minimum separation, a client that took part waits a number of rounds, its separation, before
it can be selected again. The selected clients of a round are its cohort. A design says how weights
determine the probabilities of cohorts of fixed size; there are three.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedjax_links.analysis import _checks, long_run_laws

MAX_COHORTS = 200_000  # Listing this many takes 0.1 s for each state of a chain.
# The largest cohort of the design 'successive'; its 10! orders take half a minute.
_MAX_ORDERED = 10


class CohortLaw(NamedTuple):
    """Holds the law of one round's cohort.

    Attributes:
      cohorts: int64[K, B], every set of B clients in lexicographic order.
      probs: float64[K], the probability of each cohort.
    """

    cohorts: np.ndarray
    probs: np.ndarray


class MinimumSeparationChain(NamedTuple):
    """Holds the chain of waiting times, restricted to the states that recur.

    There are S states, N clients and B clients per round. If all clients have the separation R, a
    state says which clients took part in each of the last R rounds.

    Attributes:
      states: int64[S, N], rounds that each client still has to wait; selectable at 0.
      transition: sparse float64[S, S], row-stochastic.
      stationary: float64[S], the stationary law over states. Under cyclic participation,
        ``(R + 1) B = N``, several classes of states recur. Each class then has the probability
        with which a run reaches it from a start where everybody is selectable.
      marginal: float64[N], the share of selections per client; sums to 1.
      selection: float64[S, N], share of each client in the next round's selections given the
        state; rows sum to 1.
      cohort_size: B.
    """

    states: np.ndarray
    transition: sparse.csr_array
    stationary: np.ndarray
    marginal: np.ndarray
    selection: np.ndarray
    cohort_size: int


def cohort_law(
    weights: ArrayLike, cohort_size: int, design: str = 'product'
) -> CohortLaw:
    r"""Computes the law of a cohort of fixed size drawn among weighted clients.

    * ``'product'``, conditional Poisson: ``P(S) = prod_{i in S} p_i / e_B(p)``.
    * ``'successive'``, Plackett-Luce: members are drawn one by one, each time among the remaining
      clients in proportion to weight; ``P(S)`` sums over the orders of S.
    * ``'sum'``, Midzuno: the first member is drawn by weight, the others uniformly;
      ``P(S) = sum_{i in S} p_i / (C(N-1, B-1) sum_i p_i)``.

    For a cohort of one client the three designs coincide.

    Args:
      weights: float[N], positive weights of the clients that may be selected.
      cohort_size: B, from 1 to N.
      design: ``'product'``, ``'successive'`` or ``'sum'``.

    Returns:
      The cohorts and their probabilities.

    Raises:
      ValueError: if an argument is out of range, if there are over 200,000 cohorts, or if more
        than 10 clients are drawn by the design ``'successive'``.

    Example:
      >>> from fedjax_links import analysis
      >>> law = analysis.cohort_law([1.0, 1.0, 2.0], 2)
      >>> print(law.cohorts.tolist(), law.probs.round(3))
      [[0, 1], [0, 2], [1, 2]] [0.2 0.4 0.4]

    References:
      Sun et al., ICLR 2025: Section 3 for the sum, Eq. (3) for the product.
    """
    weights = _checks.checked_weights('weights', weights)
    size = _checks.checked_int('cohort_size', cohort_size, minimum=1)
    requirement = f'allow 1 to {MAX_COHORTS} cohorts of {weights.size} clients'
    fits = 0 < math.comb(weights.size, size) <= MAX_COHORTS
    _checks.require(fits, 'cohort_size', requirement, size)
    masses = _DESIGNS[_checks.checked_choice('design', design, _DESIGNS)]
    if design == 'successive':
        requirement = f'be at most {_MAX_ORDERED} for successive draws'
        _checks.require(size <= _MAX_ORDERED, 'cohort_size', requirement, size)
    cohorts = np.array(list(itertools.combinations(range(weights.size), size)))
    # A ratio too small for float64 counts as the smallest float64: no 0 / 0 below.
    ratios = np.maximum(weights / weights.max(), np.finfo(np.float64).tiny)
    probs = masses(ratios, cohorts)
    return CohortLaw(cohorts, probs / probs.sum())


def minimum_separation_chain(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort_size: int = 1,
    design: str = 'product',
    *,
    max_states: int = 5_000,
) -> MinimumSeparationChain:
    r"""Enumerates the chain of minimum separation for few clients.

    Client i, selected in round t, may be selected again from round ``t + R_i + 1`` on. In each
    round a cohort of B clients is drawn by `cohort_law` among the selectable clients. The state is
    the vector of remaining waits. All states that can be reached from a start where everybody is
    selectable are listed. The recurrent states among them form the chain. The chain's stationary
    law solves ``zeta P = zeta``.

    Args:
      weights: float[N], positive selection weights of any scale.
      separation: R, or int[N] with one separation per client, at least 0.
      cohort_size: B, clients per round.
      design: ``'product'`` (conditional Poisson), ``'successive'`` (Plackett-Luce) or ``'sum'``
        (Midzuno).
      max_states: a chain with more reachable states raises an error. If all clients have the
        separation R, ``N! / (B!^R (N - R B)!)`` states recur.

    Returns:
      The chain, its stationary law and the clients' shares of the selections.

    Raises:
      ValueError: if an argument is out of range, a reachable state has fewer than B selectable
        clients, or there are too many states.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.minimum_separation_chain([0.25, 0.25, 0.5], 1)
      >>> print(len(chain.states), chain.marginal.round(3))
      3 [0.3 0.3 0.4]

    References:
      Sun et al., ICLR 2025, Definition 1, Proposition 1 and Eqs. (4) to (6); Section 5 for a
      separation per client. States are ordered tuples of clients in the paper. Here each cohort
      is a set, which suffices.
    """
    limit = _checks.checked_int('max_states', max_states, minimum=1)
    draws = cohort_draws(weights, separation, cohort_size, design, max_states=limit)
    states = draws.states
    size = draws.cohorts.shape[1]
    selection = np.zeros(states.shape)
    np.add.at(
        selection, (draws.sources[:, None], draws.cohorts), draws.probs[:, None] / size
    )
    shape = (len(states), len(states))
    matrix = sparse.csr_array(
        (draws.probs, (draws.sources, draws.targets)), shape=shape
    )
    first_state = (np.arange(len(states)) == 0).astype(np.float64)
    long_run = long_run_laws.long_run_law(matrix, first_state, argument='weights')
    recurs = np.flatnonzero(long_run)
    stationary = long_run[recurs]
    selection = selection[recurs]
    return MinimumSeparationChain(
        states=states[recurs],
        transition=matrix[recurs][:, recurs],
        stationary=stationary,
        marginal=stationary @ selection,
        selection=selection,
        cohort_size=size,
    )


class CohortDraws(NamedTuple):
    """Holds all draws of a cohort that a run can make from a start where everybody is selectable.

    There are S states and K draws.

    Attributes:
      states: int64[S, N], rounds that each client still has to wait. The first row is the start.
      sources: int64[K], the state before each draw.
      targets: int64[K], the state after each draw.
      probs: float64[K], the probability of each draw given the state before.
      cohorts: int64[K, B], the clients drawn.
    """

    states: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    probs: np.ndarray
    cohorts: np.ndarray


def cohort_draws(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort_size: int,
    design: str,
    *,
    max_states: int,
) -> CohortDraws:
    """Lists the draws of minimum separation, arguments as in `minimum_separation_chain`."""
    weights, waits, size = _checked_separation(weights, separation, cohort_size)
    requirement = (
        f'leave `cohort_size` {size} of {weights.size} clients selectable '
        'in every round'
    )
    all_waits = waits.tolist()
    states = [(0,) * weights.size]
    index_of_state = {states[0]: 0}
    transitions = []
    for source, state in enumerate(states):  # The list grows meanwhile.
        eligible = np.flatnonzero(np.equal(state, 0))
        has_cohort = len(eligible) >= size
        _checks.require(has_cohort, 'separation', requirement, all_waits)
        law = cohort_law(weights[eligible], size, design)
        cohorts = eligible[law.cohorts]
        # Waits fall by one. The waits of the selected clients start again.
        after = np.tile(np.maximum(np.array(state) - 1, 0), (len(cohorts), 1))
        np.put_along_axis(after, cohorts, waits[cohorts], axis=1)
        new_states = map(tuple, after.tolist())
        for new_state, prob, cohort in zip(
            new_states, law.probs, cohorts.tolist(), strict=True
        ):
            target = index_of_state.setdefault(new_state, len(states))
            _checks.require(
                target < max_states, 'max_states', 'cover every state', max_states
            )
            if target == len(states):
                states.append(new_state)
            transitions.append((source, target, prob, cohort))
    sources, targets, probs, all_cohorts = zip(*transitions, strict=True)
    return CohortDraws(
        states=np.array(states),
        sources=np.array(sources),
        targets=np.array(targets),
        probs=np.array(probs),
        cohorts=np.array(all_cohorts),
    )


def check_chain(chain: object) -> None:
    """Raises unless ``chain`` is a `MinimumSeparationChain`."""
    what = 'a chain, as `analysis.minimum_separation_chain` returns'
    _checks.checked_kind('chain', chain, MinimumSeparationChain, what)


def check_cohorts_of_one(chain: MinimumSeparationChain) -> None:
    """Raises unless ``chain`` is a `MinimumSeparationChain` with cohorts of one client."""
    check_chain(chain)
    size = chain.cohort_size
    _checks.require(size == 1, 'chain', 'have cohorts of one', f'cohorts of {size}')


def _checked_separation(
    weights: ArrayLike, separation: ArrayLike, cohort_size: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Checks weights float64[N], separations int64[N] and the cohort's size."""
    weights = _checks.checked_weights('weights', weights)
    requirement = 'be an integer of at least 0, or one per client'
    waits = _checks.as_array('separation', separation, requirement)
    are_counts = waits.dtype.kind in 'iu' and np.all(waits >= 0)
    is_valid = are_counts and waits.shape in ((), weights.shape)
    _checks.require_value(is_valid, 'separation', requirement, separation)
    waits = np.broadcast_to(waits, weights.shape).astype(np.int64)
    size = _checks.checked_int('cohort_size', cohort_size, minimum=1)
    return weights, waits, size


def _product_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    log_masses = np.log(weights)[cohorts].sum(axis=1)
    return np.exp(log_masses - log_masses.max())


def _successive_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    members = (cohorts[:, :, None] == np.arange(weights.size)).any(axis=1)
    outside = np.where(members, 0.0, weights).sum(axis=1, keepdims=True)
    masses = np.zeros(len(cohorts))
    for order in itertools.permutations(range(cohorts.shape[1])):
        ordered = weights[cohorts[:, order]]
        # Sum the remaining weights up from the last draw: subtracting would cancel digits.
        remaining = outside + np.cumsum(ordered[:, ::-1], axis=1)[:, ::-1]
        masses += np.prod(ordered / remaining, axis=1)
    return masses


def _sum_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    return weights[cohorts].sum(axis=1)


_DESIGNS = {
    'product': _product_masses,
    'successive': _successive_masses,
    'sum': _sum_masses,
}
