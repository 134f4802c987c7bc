"""Minimum separation as an enumerated Markov chain: any design, a separation per client."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis import _checks, cohort_designs
from fedjax_links.core import errors


class MinimumSeparationChain(NamedTuple):
    """The chain of waiting times, restricted to the states that recur.

    S states, N clients, B clients per round, E possible transitions. For an equal separation R a
    state is a window of the last R cohorts, each taken as a set.

    Attributes:
      states: int64[S, N], rounds that each client still has to wait; selectable at 0.
      transition: sparse float64[S, S], row-stochastic.
      stationary: float64[S], the stationary law over states. Where several classes of states
        recur (cyclic participation, R = M - 1) each has the mass with which a run reaches it from
        a start where everybody is selectable.
      marginal: float64[N], the share of selections per client; sums to 1.
      selection: float64[S, N], selection law of the next round given the state; rows sum to 1.
      sources: int64[E], state before each transition.
      targets: int64[E], state after it.
      cohorts: int64[E, B], the clients that it selects.
      probs: float64[E], its probability given the state before.
    """

    states: np.ndarray
    transition: sparse.csr_array
    stationary: np.ndarray
    marginal: np.ndarray
    selection: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    cohorts: np.ndarray
    probs: np.ndarray

    def total_variation(self, num_rounds: int) -> np.ndarray:
        """Distance to stationarity from the worst start, ``d(t) = max_x TV(P^t(x, .), zeta)``.

        Costs O(E S) operations per round.

        Args:
          num_rounds: T, at least 0.

        Returns:
          float64[T + 1], entry t is d(t): non-increasing where the chain is irreducible.

        Raises:
          ValueError: if ``num_rounds`` is negative.

        References:
          Sun et al., ICLR 2025, Appendix B, Definition 4.
        """
        rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
        law, distances = np.eye(self.stationary.size), []
        for _ in range(rounds + 1):
            distances.append(_worst_distance(law, self.stationary))
            law = self._advance(law)
        return np.array(distances)

    def mixing_time(self, epsilon: float = 0.25, *, max_rounds: int = 100_000) -> float:
        """First round from which the chain is within ``epsilon`` of stationarity from any start.

        ``tau_mix(epsilon) = min {t >= 1 : d(t) <= epsilon}``.

        Args:
          epsilon: total-variation distance, in (0, 1).
          max_rounds: rounds after which the search gives up.

        Returns:
          A whole number of rounds, or infinity for a periodic or reducible chain.

        Raises:
          ValueError: if ``epsilon`` is out of range or ``max_rounds`` is too small.

        References:
          Sun et al., ICLR 2025, Appendix B, Definition 4 (epsilon = 1/4).
        """
        if not 0.0 < epsilon < 1.0:
            raise errors.invalid('epsilon', 'lie in (0, 1)', epsilon)
        limit = _checks.checked_int('max_rounds', max_rounds, minimum=1)
        if _num_phases(self.transition) > 1:
            return math.inf
        law = np.eye(self.stationary.size)
        for num_rounds in range(1, limit + 1):
            law = self._advance(law)
            if _worst_distance(law, self.stationary) <= epsilon:
                return num_rounds
        raise errors.invalid('max_rounds', 'reach the mixing time', max_rounds)

    def spectral_gap(self) -> float:
        """Absolute spectral gap, 1 minus the second largest modulus of an eigenvalue; O(S^3).

        Returns:
          A number in [0, 1]: 1 for a chain without memory, 0 for a periodic or reducible one.
        """
        moduli = np.sort(np.abs(np.linalg.eigvals(self.transition.toarray())))
        return float(np.clip(1.0 - moduli[-2], 0.0, 1.0)) if moduli.size > 1 else 1.0

    def selection_curve(self, start: int, num_rounds: int) -> np.ndarray:
        """Selection law per round after a given state.

        Args:
          start: index of the state before the first round.
          num_rounds: T, at least 1.

        Returns:
          float64[T, N], rows sum to 1; ``0.5 * abs(curve - marginal).sum(axis=1)`` is the distance
          that the reference plots.

        Raises:
          ValueError: if an argument is out of range.

        References:
          Sun et al., ICLR 2025, Eq. (5) and Figure 5.
        """
        index = _checks.checked_int('start', start, minimum=0)
        if index >= self.stationary.size:
            raise errors.invalid('start', f'be below {self.stationary.size}', index)
        rounds = _checks.checked_int('num_rounds', num_rounds, minimum=1)
        law = np.zeros((1, self.stationary.size))
        law[0, index] = 1.0
        curve = []
        for _ in range(rounds):
            curve.append(law[0] @ self.selection)
            law = self._advance(law)
        return np.stack(curve)

    def gap_distribution(self, max_gap: int) -> np.ndarray:
        """Law of the gap between consecutive participations of each client at stationarity.

        The gap counts rounds as in `fedjax_links.analysis.gap_distribution`: it is at least the
        client's separation plus 1, and its mean is ``1 / (B pi(i))``.

        Args:
          max_gap: largest gap listed, at least 1.

        Returns:
          float64[N, max_gap], entry k - 1 is P(gap = k).

        Raises:
          ValueError: if ``max_gap`` is not positive.
        """
        longest = _checks.checked_int('max_gap', max_gap, minimum=1)
        num_clients = self.marginal.size
        laws = np.zeros((num_clients, longest))
        for client in range(num_clients):
            chosen = np.any(self.cohorts == client, axis=1)
            hit = self._edges(chosen)
            others = self._edges(~chosen).T.tocsr()
            law = hit.T @ self.stationary  # the state just after a participation
            law /= law.sum()
            success = np.asarray(hit.sum(axis=1)).ravel()
            for gap in range(longest):
                laws[client, gap] = law @ success
                law = others @ law
        return laws

    def _advance(self, law: np.ndarray) -> np.ndarray:
        return np.asarray((self.transition.T @ law.T).T)

    def _edges(self, keep: np.ndarray) -> sparse.csr_array:
        return _matrix(
            self.sources[keep], self.targets[keep], self.probs[keep], self.stationary.size
        )


def minimum_separation_chain(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort_size: int = 1,
    design: str = 'product',
    *,
    max_states: int = 5_000,
) -> MinimumSeparationChain:
    r"""Enumerates the chain of minimum separation for few clients.

    A client selected in round t may be selected again from round ``t + R_i + 1``. Each round a
    cohort of B is drawn by `cohort_law` among the clients that may be selected. The state is the
    vector of remaining waits. Starting with everybody selectable, all reachable states are listed;
    those that recur form the chain, and its stationary law solves ``zeta P = zeta``.

    Args:
      weights: float[N], positive selection weights of any scale.
      separation: R, or int[N] with one separation per client, at least 0.
      cohort_size: B, clients per round.
      design: ``'product'`` (conditional Poisson), ``'successive'`` (Plackett-Luce) or ``'sum'``
        (Midzuno).
      max_states: refuses chains with more reachable states. An equal separation has
        ``N! / (B!^R (N - R B)!)`` that recur.

    Returns:
      The chain, its stationary law and the selection law per client.

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
      separation per client. There states are ordered tuples, here their sets, which suffice.
    """
    weights = _checks.checked_weights('weights', weights)
    waits = _checked_separation(separation, weights.size)
    size = _checks.checked_int('cohort_size', cohort_size, minimum=1)
    cohort_designs.checked_design(design)
    limit = _checks.checked_int('max_states', max_states, minimum=1)
    states, edges = _explore(weights, waits, size, design, limit)
    sources, targets, cohorts, probs = edges
    law = _long_run_law(_matrix(sources, targets, probs, len(states)))
    recurrent = law > 0
    index = np.cumsum(recurrent) - 1
    kept = recurrent[sources]
    sources, targets, probs = index[sources[kept]], index[targets[kept]], probs[kept]
    cohorts, stationary = cohorts[kept], law[recurrent]
    selection = np.zeros((stationary.size, weights.size))
    np.add.at(selection, (sources[:, None], cohorts), probs[:, None] / size)
    return MinimumSeparationChain(
        states=states[recurrent],
        transition=_matrix(sources, targets, probs, stationary.size),
        stationary=stationary,
        marginal=stationary @ selection,
        selection=selection,
        sources=sources,
        targets=targets,
        cohorts=cohorts,
        probs=probs,
    )


def _explore(
    weights: np.ndarray, waits: np.ndarray, size: int, design: str, limit: int
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Lists reachable states, the empty history first, and every transition between them."""
    found = {(0,) * weights.size: 0}
    queue = list(found)
    laws: dict[tuple[int, ...], cohort_designs.CohortLaw] = {}
    sources, targets, cohorts, probs = [], [], [], []
    for source, state in enumerate(queue):  # grows while it is read
        eligible = tuple(i for i, wait in enumerate(state) if wait == 0)
        if len(eligible) < size:
            raise errors.invalid(
                'separation',
                f'leave `cohort_size` {size} of {weights.size} clients selectable in every round',
                waits.tolist(),
            )
        if eligible not in laws:
            ids = np.array(eligible)
            law = cohort_designs.cohort_law(weights[ids], size, design)
            laws[eligible] = law._replace(cohorts=ids[law.cohorts])
        rested = [max(wait - 1, 0) for wait in state]
        for cohort in laws[eligible].cohorts:
            after = rested.copy()
            for client in cohort:
                after[client] = int(waits[client])
            key = tuple(after)
            if key not in found:
                if len(found) == limit:
                    raise errors.invalid('max_states', 'cover every state', limit)
                found[key] = len(found)
                queue.append(key)
            targets.append(found[key])
        sources.append(np.full(len(laws[eligible].probs), source))
        cohorts.append(laws[eligible].cohorts)
        probs.append(laws[eligible].probs)
    edges = (np.concatenate(sources), np.array(targets), np.concatenate(cohorts))
    return np.array(queue), (*edges, np.concatenate(probs))


def _long_run_law(transition: sparse.csr_array) -> np.ndarray:
    """Long-run fraction of rounds in each state from state 0; zero for transient states."""
    num_states = transition.shape[0]
    _, label = csgraph.connected_components(transition, connection='strong')
    entries = transition.tocoo()
    sources, targets = entries.coords
    closed = np.ones(label.max() + 1, dtype=bool)
    closed[label[sources[label[sources] != label[targets]]]] = False
    transient = np.flatnonzero(~closed[label])
    mass = np.zeros(num_states)
    mass[0] = 1.0
    if transient.size and not closed[label[0]]:
        start = (transient == 0).astype(np.float64)
        inner = transition[transient][:, transient]
        system = sparse.eye_array(transient.size, format='csc') - inner.T
        visits = sparse_linalg.spsolve(sparse.csc_array(system), start)
        mass = np.atleast_1d(visits) @ transition[transient]
    law = np.zeros(num_states)
    for component in np.flatnonzero(closed):
        members = np.flatnonzero(label == component)
        law[members] = mass[members].sum() * _stationary(transition[members][:, members])
    return law


def _stationary(transition: sparse.csr_array) -> np.ndarray:
    """Stationary law of an irreducible chain: ``zeta (P - I) = 0`` with one row for the sum."""
    num_states = transition.shape[0]
    if num_states == 1:
        return np.ones(1)
    balance = (transition.T - sparse.eye_array(num_states)).tocsr()[:-1]
    system = sparse.vstack([balance, np.ones((1, num_states))], format='csc')
    right = np.zeros(num_states)
    right[-1] = 1.0
    return np.maximum(sparse_linalg.spsolve(system, right), np.finfo(np.float64).tiny)


def _num_phases(transition: sparse.csr_array) -> int:
    """Number of recurrent classes times the period of an irreducible chain; 1 where it mixes."""
    classes, _ = csgraph.connected_components(transition, connection='strong')
    if classes > 1:
        return int(classes)
    sources, targets = transition.tocoo().coords
    level = csgraph.shortest_path(transition, unweighted=True, indices=0).astype(np.int64)
    return int(np.gcd.reduce(level[sources] + 1 - level[targets]))


def _matrix(
    sources: np.ndarray, targets: np.ndarray, probs: np.ndarray, num_states: int
) -> sparse.csr_array:
    """Transition matrix from a list of transitions; parallel ones add up."""
    return sparse.csr_array((probs, (sources, targets)), shape=(num_states, num_states))


def _worst_distance(laws: np.ndarray, stationary: np.ndarray) -> float:
    return float(0.5 * np.abs(laws - stationary).sum(axis=1).max())


def _checked_separation(separation: ArrayLike, num_clients: int) -> np.ndarray:
    """Returns int[N] waits from one separation or one per client."""
    waits = np.asarray(separation)
    if waits.dtype.kind not in 'iu' or np.any(waits < 0) or waits.shape not in ((), (num_clients,)):
        raise errors.invalid(
            'separation', 'be an integer of at least 0, or one per client', f'{separation!r}'
        )
    return np.broadcast_to(waits, (num_clients,)).astype(np.int64)
