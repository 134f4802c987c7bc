"""Runs an algorithm to find what it needs, what it stores, and which clients train and receive."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Algorithm, Array, Problem, PyTree
from fedjax_links.core import errors
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram, local_sgd
from fedjax_links.problems.vectors import quadratic

_NUM_CLIENTS = 24
_DIMENSION = 2
# Active clients in a round: consecutive ids, which move on from round to round.
_NUM_ACTIVE = 12
# Some algorithms with links between clients need nearly all clients.
_NUM_ACTIVE_WITH_PEERS = 23
# More than twice the periods of the registered examples.
_NUM_ROUNDS = 8
# The round that is varied. By then all clients have delivered, in different rounds.
_VARIED_ROUND = 4
# A client that is active in the varied round, and one that is not. Both are active in the next.
_ACTIVE_CLIENT = 0
_ABSENT_CLIENT = 19


class AlgorithmFacts(NamedTuple):
    """Holds what a run shows about an algorithm.

    Attributes:
      needs_prob: whether the server model depends on the links' probabilities.
      models: models that the state holds once, whatever the number of clients.
      client_models: models that the state holds for each client, on server and clients together.
      client_numbers: numbers that the state holds for each client.
      computing: who trains in a round: ``'all'`` clients; ``'active'``, clients whose
        uplink delivers; ``'selected'``, only some of the active clients.
      receive_at: when the active clients must receive the broadcast: at the ``'start'`` of a round,
        if clients train from the broadcast, or at its ``'end'``. It is ``'never'`` if links are not
        used.
      inactive_receive: whether it matters that a client whose uplink is down receives the
        broadcast.
      moves_when_empty: whether rounds in which nobody delivers can move the server model.
    """

    needs_prob: bool
    models: int
    client_models: int
    client_numbers: int
    computing: str
    receive_at: str
    inactive_receive: bool
    moves_when_empty: bool


def algorithm_facts(entry: AlgorithmEntry) -> AlgorithmFacts:
    """Runs an algorithm for a few rounds on quadratics, and reports what the runs show.

    Args:
      entry: a registered algorithm, or one of your own with values for its required
        hyper-parameters: ``AlgorithmEntry(my_factory, example={...})``.

    Returns:
      What the runs show.

    Raises:
      ValueError: if ``entry`` is no `AlgorithmEntry`.
    """
    check_entry('entry', entry)
    algorithm = entry(client_program(entry, 0.1, local_steps=2), **entry.example)
    return facts_of(Rounds(algorithm, peers=entry.traffic.peers > 0))


def facts_of(run: 'Rounds') -> AlgorithmFacts:
    """Reports what the rounds of an algorithm show, see `algorithm_facts`."""
    servers, num_computing = run.rounds()
    empty = run.servers(empty=True)
    computing = {_NUM_CLIENTS: 'all', run.num_active: 'active'}
    return AlgorithmFacts(
        needs_prob=_differ(servers, run.servers(prob=np.nan)),
        **_memory(run.algorithm),
        computing=computing.get(max(num_computing), 'selected'),
        receive_at=receive_time(run),
        inactive_receive=_differ(servers, run.servers(downlink_lost=_ABSENT_CLIENT)),
        moves_when_empty=_differ(empty[_VARIED_ROUND - 1], empty[-1]),
    )


def check_entry(argument: str, entry: object) -> None:
    """Raises unless a value is an `AlgorithmEntry`."""
    if not isinstance(entry, AlgorithmEntry):
        requirement = "be an `AlgorithmEntry`, such as fl.ALGORITHMS['fedavg']"
        raise errors.invalid(argument, requirement, errors.text_of(entry))


def client_program(
    entry: AlgorithmEntry, learning_rate: float, **options: Any
) -> ClientProgram:
    """Makes the client program that an algorithm is defined with, plain SGD by default."""
    factory = entry.client_program or local_sgd
    return factory(learning_rate, **{**options, **entry.client_example})


def receive_time(run: 'Rounds') -> str:
    """Returns when the active clients must receive from the server, see `AlgorithmFacts`."""
    usual = run.servers()
    varied = run.servers(downlink_lost=_ACTIVE_CLIENT)
    until_varied = slice(_VARIED_ROUND + 1)
    if _differ(usual[until_varied], varied[until_varied]):
        return 'start'
    return 'end' if _differ(usual, varied) else 'never'


def trains_unavailable_clients(run: 'Rounds') -> bool:
    """Returns whether all clients count as training in a round in which one cannot compute."""
    _, num_computing = run.rounds(cannot_compute=_ABSENT_CLIENT)
    return num_computing[_VARIED_ROUND] == _NUM_CLIENTS


def _problem(num_clients: int, dimension: int) -> Problem:
    return quadratic(np.random.default_rng(0).normal(size=(num_clients, dimension)))


def _memory(algorithm: Algorithm) -> dict[str, int]:
    """Computes the coefficients of d, N d and N in the size of the state, from small N and d."""

    def size(num_clients: int, dimension: int) -> int:
        problem = _problem(num_clients, dimension)
        params = problem.init_params(jax.random.key(0))
        state = jax.eval_shape(lambda params: algorithm.init(params, problem), params)
        return sum(leaf.size for leaf in jax.tree.leaves(state))

    # The size is s(N, d) = const + a d + b N d + c N.
    per_coordinate = size(1, 2) - size(1, 1)
    per_client = size(2, 1) - size(1, 1)
    per_both = size(2, 2) - size(1, 1) - per_coordinate - per_client
    return {
        'models': per_coordinate - per_both,
        'client_models': per_both,
        'client_numbers': per_client - per_both,
    }


class Rounds:
    """Runs a few rounds with half of the clients active; each call can vary one thing.

    With links between clients, nearly all are active, and each client has two neighbours.
    """

    def __init__(self, algorithm: Algorithm, *, peers: bool = False) -> None:
        """Makes the program of a round."""
        self.algorithm = algorithm
        self.peers = peers
        self.num_active = _NUM_ACTIVE_WITH_PEERS if peers else _NUM_ACTIVE
        problem = _problem(_NUM_CLIENTS, _DIMENSION)
        key = jax.random.key(1)
        self.start = algorithm.init(problem.init_params(key), problem)
        self.models = algorithm.models

        @jax.jit
        def step(
            state: PyTree, t: Array, links: base.Links
        ) -> tuple[PyTree, base.RoundMetrics]:
            return algorithm.round_step(
                state, simulation.round_context(key, t, links), problem
            )

        self.step = step

    def rounds(
        self,
        *,
        prob: float = 0.5,
        downlink_lost: int = -1,
        cannot_compute: int = -1,
        empty: bool = False,
        mask_only: bool = False,
        named: bool = False,
    ) -> tuple[np.ndarray, list[int]]:
        """Returns the server model after each round, float[T, d], and how many clients trained.

        Args:
          prob: the probability that the links report for each client.
          downlink_lost: the client whose downlink is lost in the varied round.
          cannot_compute: the client that cannot compute in the varied round.
          empty: whether no upload arrives from the varied round on.
          mask_only: whether links hold only who is active, as a mask.
          named: whether links hold only who is active, as their ids (a cohort).
        """
        clients: Any = np.arange(_NUM_CLIENTS)
        probs: Any = np.full(_NUM_CLIENTS, prob)
        state = self.start
        servers: list[np.ndarray] = []
        num_computing: list[int] = []
        for t in range(_NUM_ROUNDS):
            active = (clients + 7 * t) % _NUM_CLIENTS < self.num_active
            compute = (clients != cannot_compute) | (t != _VARIED_ROUND)
            downlink = (clients != downlink_lost) | (t != _VARIED_ROUND)
            mask = active & compute & (t < _VARIED_ROUND or not empty)
            duplex = base.DuplexLinkSample(mask, probs, downlink, compute)
            links: base.Links = duplex
            if self.peers:
                links = _with_ring(duplex, prob)
            if mask_only:
                links = base.LinkSample(active, probs)
            if named:
                ids: Any = np.flatnonzero(active).astype(np.int32)
                links = base.cohort_links(ids, _NUM_CLIENTS, prob)
            state, metrics = self.step(state, np.int32(t), links)
            servers.append(np.asarray(self.models(state)['server']))
            num_computing.append(int(metrics.num_computing))
        return np.stack(servers), num_computing

    def servers(self, **variation: Any) -> np.ndarray:
        """Returns the server model after each round, float[T, d]."""
        return self.rounds(**variation)[0]


def _with_ring(links: base.DuplexLinkSample, prob: float) -> base.PeerLinkSample:
    """Adds links between neighbours on a ring, all of them up."""
    clients = np.arange(_NUM_CLIENTS, dtype=np.int32)
    both_sides = [np.roll(clients, 1), np.roll(clients, -1)]
    neighbours: Any = np.sort(np.stack(both_sides, axis=1), axis=1)
    edge_prob: Any = np.full(neighbours.shape, prob)
    return base.PeerLinkSample(
        links.mask,
        links.prob,
        neighbours,
        neighbours >= 0,
        edge_prob,
        links.downlink,
        links.compute,
    )


def _differ(one: Array | np.ndarray, other: Array | np.ndarray) -> bool:
    return not np.array_equal(one, other, equal_nan=True)
