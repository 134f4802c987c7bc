"""Defines link chains: Markov chains with finitely many modes, which say which uplinks are up.

A link chain has two parts. A *shared* chain moves what all clients have in common, such as the
phase of a cycle, an outage of a region, or who waits. Given the path of the shared chain, each
client has a chain of its own, independent of the other clients. A mode of the link chain is a
shared state together with the state of each client. The mode determines the mask of the round.

Clients of one kind follow the same law. So it is enough to count how many clients of a kind are in
each state, which `layouts.LinkLayout` does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from fedjax_links.analysis import _checks, long_run_laws
from fedjax_links.core import errors

MAX_MODES = 100_000
MAX_TRANSITIONS = 20_000_000  # Half a gigabyte, indices included.

# A law that changes by less than this in a round is stationary.
_STATIONARY_TOLERANCE = 1e-12


class ClientLinks(NamedTuple):
    """Holds the law of the links of clients of one kind, given the shared chain.

    E is the number of shared states, m the number of states of a client.

    Attributes:
      transition: float64[E, m, m]. Entry e is the transition matrix of a client's state in a
        round in which the shared chain enters state e. Rows are the states before.
      start: float64[E, m], law of the client's state in the first round.
      is_up: bool[E, m], whether the uplink delivers.
      prob: float64[E], what the participation pattern reports as the probability of the
        uplink, NaN where it is not known.
    """

    transition: np.ndarray
    start: np.ndarray
    is_up: np.ndarray
    prob: np.ndarray


class LinkModes(NamedTuple):
    """Holds the modes of a link chain, one by one.

    There are M modes and N clients. Only modes that can be reached from the start are listed.

    Attributes:
      transition: sparse float64[M, M], row-stochastic.
      masks: bool[M, N], whose uplinks are up.
      probs: float64[M, N], the probabilities that the participation pattern reports.
      start: float64[M], law of the mode in the first round.
      stationary: float64[M], fraction of the rounds of a long run in each mode. If several
        classes of modes recur, each class has the probability with which a run reaches it.
      shared_state: int64[M], state of the shared chain.
      client_states: int64[M, N], states of the clients' own chains.
    """

    transition: sparse.csr_array
    masks: np.ndarray
    probs: np.ndarray
    start: np.ndarray
    stationary: np.ndarray
    shared_state: np.ndarray
    client_states: np.ndarray


class LinkChain(NamedTuple):
    """Holds the law of links as a Markov chain with finitely many modes.

    The module `link_chains` makes the link chains of common participation patterns.
    `from_modes` makes a link chain from a transition matrix.

    Attributes:
      transition: sparse float64[E, E], transition matrix of the shared chain, row-stochastic.
      start: float64[E], law of the shared state in the first round.
      kinds: the laws of the clients' own chains.
      kind_of_client: int64[N], index into ``kinds``.
    """

    transition: sparse.csr_array
    start: np.ndarray
    kinds: tuple[ClientLinks, ...]
    kind_of_client: np.ndarray

    @property
    def num_clients(self) -> int:
        """Returns N."""
        return len(self.kind_of_client)

    @property
    def num_modes(self) -> int:
        """Returns the number of modes, including modes that are never reached."""
        sizes = [kind.start.shape[1] for kind in self.kinds]
        product = len(self.start)
        for kind in self.kind_of_client:
            product *= sizes[kind]
        return product

    def kind(self, client: int) -> ClientLinks:
        """Returns the law of a client's own chain."""
        return self.kinds[self.kind_of_client[client]]

    def modes(self) -> LinkModes:
        """Lists the modes that a run can reach.

        Raises:
          ValueError: for more than 100,000 modes or 20 million transitions.

        Example:
          >>> from fedjax_links import analysis
          >>> modes = analysis.link_chains.markov([0.5], up_rate=0.1).modes()
          >>> print(modes.masks.ravel(), modes.stationary)
          [False  True] [0.5 0.5]
          >>> print(modes.transition.toarray())
          [[0.9 0.1]
           [0.1 0.9]]
        """
        return joint_modes(self, np.arange(self.num_clients))


def check_chain(chain: object) -> None:
    """Raises unless ``chain`` is a `LinkChain`."""
    what = 'a link chain, such as `link_chains.independent(probs)`'
    _checks.checked_kind('chain', chain, LinkChain, what)


def from_modes(
    transition: ArrayLike | sparse.csr_array,
    masks: ArrayLike,
    start: ArrayLike | None = None,
    probs: ArrayLike | None = None,
) -> LinkChain:
    """Makes a link chain from a transition matrix and the mask of each mode.

    Args:
      transition: float[M, M], row-stochastic, an array or a sparse array.
      masks: bool[M, N], whose uplinks are up.
      start: float[M], law of the mode in the first round. By default the stationary law, which
        must then be unique: there is only one class of modes that no run leaves.
      probs: probabilities of the uplinks, for algorithms that use them. float[M, N], or float[N]
        if all modes have the same. By default the probabilities are unknown.

    Returns:
      The chain. Clients are of one kind only if their columns of ``masks`` and ``probs`` are
      equal.

    Raises:
      ValueError: for a matrix that is not stochastic, shapes that disagree, or several
        stationary laws and no ``start``.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.from_modes([[0, 1], [1, 0]], [[1, 0], [0, 1]])
      >>> print(chain.modes().stationary)
      [0.5 0.5]
    """
    is_up = _checks.checked_masks('masks', masks, ndim=2)
    size, num_clients = is_up.shape
    if sparse.issparse(transition):
        table = sparse.csr_array(transition, dtype=np.float64, copy=True)
    else:
        table = _checks.as_doubles('transition', transition)
    if table.shape != (size, size):
        raise errors.invalid('transition', f'have shape [{size}, {size}]', table.shape)
    matrix = sparse.csr_array(table)
    matrix.eliminate_zeros()
    _checks.check_stochastic('transition', matrix, tolerance=1e-9)
    if start is None:
        start = _only_stationary_law(matrix)
    law = _checks.checked_law('start', start, axis='mode')
    _checks.require(len(law) == size, 'start', f'have {size} entries', len(law))
    reported = np.full(is_up.shape, np.nan)
    if probs is not None:
        reported = _checks.as_doubles('probs', probs)
        is_valid = np.isnan(reported) | ((reported >= 0) & (reported <= 1))
        _checks.checked('probs', reported, is_valid, 'lie in [0, 1], or be NaN')
        fits = reported.shape in (is_up.shape, (num_clients,))
        requirement = f'have shape {list(is_up.shape)} or [{num_clients}]'
        _checks.require(fits, 'probs', requirement, f'shape {list(reported.shape)}')
    reported = np.broadcast_to(reported, is_up.shape)
    # Clients with equal columns are of one kind.
    columns = np.concatenate([is_up, np.nan_to_num(reported, nan=-1.0)])
    _, firsts, kind_of_client = np.unique(
        columns, axis=1, return_index=True, return_inverse=True
    )
    kinds = tuple(shared_links(is_up[:, i], reported[:, i]) for i in firsts)
    return LinkChain(matrix, law, kinds, kind_of_client.ravel())


def shared_links(is_up: np.ndarray, prob: np.ndarray) -> ClientLinks:
    """Returns links that the shared chain alone determines.

    Args:
      is_up: bool[E].
      prob: float64[E].
    """
    ones = np.ones((len(is_up), 1))
    return ClientLinks(ones[:, :, None], ones, is_up[:, None], prob)


def _only_stationary_law(transition: sparse.csr_array) -> np.ndarray:
    """Computes the stationary law of a chain; raises if there are several such laws."""
    _, classes = long_run_laws.closed_classes(transition)
    if len(classes) > 1:
        requirement = f'be given, as runs end in one of {len(classes)} classes of modes'
        raise errors.invalid('start', requirement, None)
    # Every run ends in the one closed class, so any start leads to the stationary law.
    first_mode = np.zeros(transition.shape[0])
    first_mode[0] = 1.0
    return long_run_laws.long_run_law(transition, first_mode)


def joint_modes(chain: LinkChain, clients: np.ndarray) -> LinkModes:
    """Lists the joint states of the shared chain and some clients.

    Args:
      chain: the link chain.
      clients: int64[n], ids of these clients; empty for the shared chain alone.

    Returns:
      The modes, with masks and probabilities of these clients.
    """
    transition = chain.transition.tocoo()
    sources, targets = transition.coords
    probabilities = transition.data
    start = chain.start
    shared = np.arange(len(start))
    states = np.zeros((len(start), 0), np.int64)
    for client in clients:
        kind = chain.kind(client)
        size = kind.start.shape[1]
        _check_sizes(chain, len(start) * size, len(probabilities) * size)
        # Combine each transition of the joint chain so far with each transition of the client.
        moves = kind.transition[shared[targets]]
        which, before, after = np.nonzero(moves)
        _check_sizes(chain, len(start) * size, len(which))
        probabilities = probabilities[which] * moves[which, before, after]
        sources = sources[which] * size + before
        targets = targets[which] * size + after
        start = (start[:, None] * kind.start[shared]).ravel()
        shared = np.repeat(shared, size)
        client_states = np.tile(np.arange(size), len(states))
        states = np.column_stack([np.repeat(states, size, axis=0), client_states])
        # Leave out modes that no run enters.
        is_reached = _reached(start, sources, targets)
        new_index = np.cumsum(is_reached) - 1
        start = start[is_reached]
        shared = shared[is_reached]
        states = states[is_reached]
        from_reached = is_reached[sources]
        sources = new_index[sources[from_reached]]
        targets = new_index[targets[from_reached]]
        probabilities = probabilities[from_reached]
    shape = (len(start), len(start))
    matrix = sparse.csr_array((probabilities, (sources, targets)), shape=shape)
    masks = np.zeros(states.shape, bool)
    probs = np.zeros(states.shape)
    for position, client in enumerate(clients):
        kind = chain.kind(client)
        masks[:, position] = kind.is_up[shared, states[:, position]]
        probs[:, position] = kind.prob[shared]
    stationary = start
    if np.abs(start @ matrix - start).max() > _STATIONARY_TOLERANCE:
        stationary = long_run_laws.long_run_law(matrix, start)
    return LinkModes(matrix, masks, probs, start, stationary, shared, states)


def _check_sizes(chain: LinkChain, num_modes: int, num_transitions: int) -> None:
    """Raises for more modes or transitions than can be listed."""
    if num_modes <= MAX_MODES and num_transitions <= MAX_TRANSITIONS:
        return
    requirement = (
        f'have at most {MAX_MODES:,} modes and {MAX_TRANSITIONS:,} transitions '
        'where clients are listed one by one'
    )
    got = f'{errors.count_text(chain.num_modes)} modes of {chain.num_clients} clients'
    raise errors.invalid('chain', requirement, got)


def _reached(start: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Finds the modes that a run can enter, bool[M]."""
    size = len(start)
    starts = np.flatnonzero(start > 0)
    # Add one node, with an edge to each mode that a run can start in.
    rows = np.append(sources, np.full(starts.size, size))
    columns = np.append(targets, starts)
    shape = (size + 1, size + 1)
    graph = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=shape)
    entered = csgraph.breadth_first_order(graph, size, return_predecessors=False)
    is_reached = np.zeros(size + 1, bool)
    is_reached[entered] = True
    return is_reached[:-1]
