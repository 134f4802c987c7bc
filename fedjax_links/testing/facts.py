"""What an algorithm needs, keeps and tells whom: found by running it, not by reading about it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Algorithm, Array, Problem
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram, local_sgd
from fedjax_links.participation import rejection_sampling
from fedjax_links.problems.vectors import quadratic

_NUM_CLIENTS, _DIMENSION = 24, 2
_NUM_ACTIVE = 12  # in a row, from another client on in every round
_NUM_WITH_PEERS = (
    23  # likewise of rules with links between clients, some of which need nearly all
)
_NUM_ROUNDS = 8  # more than twice the periods of the registered examples
_ODD_ROUND = 4  # is varied; by then everybody has delivered, each in rounds of its own
_ACTIVE_THEN, _ABSENT_THEN = (
    0,
    19,
)  # clients, in the odd round; both are active in the next one


class AlgorithmFacts(NamedTuple):
    """What a run shows of an algorithm.

    Attributes:
      needs_prob: whether the server model depends on the links' probabilities.
      models: models that the state holds once, whatever the number of clients.
      client_models: models that it holds for each client, whoever keeps them.
      client_numbers: numbers that it holds for each client.
      computing: who trains in a round: ``'all'`` clients; ``'active'``, those whose uplink
        delivers; ``'asked'``, fewer than these.
      hearing: when the active clients must hear the server: at the ``'start'`` of a round, from the
        model of which they train; at its ``'end'``; ``'never'`` where links are not looked at.
      others_hear: whether it matters that a client whose uplink is down hears the server.
      moves_when_empty: whether rounds in which nobody delivers can move the server model.
    """

    needs_prob: bool
    models: int
    client_models: int
    client_numbers: int
    computing: str
    hearing: str
    others_hear: bool
    moves_when_empty: bool


def algorithm_facts(entry: AlgorithmEntry) -> AlgorithmFacts:
    """Runs an algorithm for a few rounds on quadratics and reports what it did.

    Args:
      entry: a registered algorithm, or one of your own with values for its required
        hyper-parameters: ``AlgorithmEntry(my_factory, example={...})``.

    Returns:
      What was seen.
    """
    algorithm = entry(client_program(entry, 0.1, local_steps=2), **entry.example)
    run = Rounds(algorithm, peers=entry.traffic.peers > 0)
    as_usual, computing = run.rounds()
    empty = run.servers(empty=True)
    return AlgorithmFacts(
        needs_prob=_differ(as_usual, run.servers(prob=np.nan)),
        **_memory(algorithm),
        computing={_NUM_CLIENTS: 'all', run.num_active: 'active'}.get(
            max(computing), 'asked'
        ),
        hearing=hearing(run),
        others_hear=_differ(as_usual, run.servers(downlink_lost=_ABSENT_THEN)),
        moves_when_empty=_differ(empty[_ODD_ROUND - 1], empty[-1]),
    )


def client_program(
    entry: AlgorithmEntry, learning_rate: float, **options: Any
) -> ClientProgram:
    """The client program that an algorithm is defined with, plain SGD unless it says otherwise."""
    factory = entry.client_program or local_sgd
    return factory(learning_rate, **{**options, **entry.client_example})


def hearing(run: 'Rounds') -> str:
    """When the active clients must hear the server, see `AlgorithmFacts`."""
    as_usual, downlink_lost = run.servers(), run.servers(downlink_lost=_ACTIVE_THEN)
    if _differ(as_usual[: _ODD_ROUND + 1], downlink_lost[: _ODD_ROUND + 1]):
        return 'start'
    return 'end' if _differ(as_usual, downlink_lost) else 'never'


def trains_unavailable_clients(run: 'Rounds') -> bool:
    """Whether everybody is counted as training in a round in which one client cannot."""
    _, num_computing = run.rounds(cannot_compute=_ABSENT_THEN)
    return num_computing[_ODD_ROUND] == _NUM_CLIENTS


def _problem(num_clients: int, dimension: int) -> Problem:
    return quadratic(np.random.default_rng(0).normal(size=(num_clients, dimension)))


def _memory(algorithm: Algorithm) -> dict[str, int]:
    """Coefficients of d, N d and N in the size of the state, from four sizes of N and d."""

    def size(num_clients: int, dimension: int) -> int:
        problem = _problem(num_clients, dimension)
        params = problem.init_params(jax.random.key(0))
        state = jax.eval_shape(lambda params: algorithm.init(params, problem), params)
        return sum(leaf.size for leaf in jax.tree.leaves(state))

    more_d, more_n = size(1, 2) - size(1, 1), size(2, 1) - size(1, 1)
    both = size(2, 2) - size(1, 1) - more_d - more_n  # per client and coordinate
    return {
        'models': more_d - both,
        'client_models': both,
        'client_numbers': more_n - both,
    }


class Rounds:
    """A few rounds with half of the clients active, varied in one thing at a time.

    Where there are links between clients, nearly all are active, and everyone hears two others.
    """

    def __init__(self, algorithm: Algorithm, *, peers: bool = False) -> None:
        """Makes the program of a round."""
        self.peers, self.num_active = peers, _NUM_WITH_PEERS if peers else _NUM_ACTIVE
        problem, key = _problem(_NUM_CLIENTS, _DIMENSION), jax.random.key(1)
        self.start = algorithm.init(problem.init_params(key), problem)
        self.models = algorithm.models

        @jax.jit
        def step(
            state: Any, t: Array, links: base.Links
        ) -> tuple[Any, base.RoundMetrics]:
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
        alone: bool = False,
        named: bool = False,
    ) -> tuple[np.ndarray, list[int]]:
        """The server model after every round, float[T, d], and how many clients trained in it.

        Args:
          prob: what the links say of every client's probability.
          downlink_lost: the client that does not hear the server in the odd round.
          cannot_compute: the client that cannot train in the odd round.
          empty: whether nobody delivers from the odd round on.
          alone: whether links say no more than who is active.
          named: the same, with links that name the active clients as a cohort.
        """
        clients = jnp.arange(_NUM_CLIENTS)
        state, servers, num_computing = self.start, [], []
        for t in range(_NUM_ROUNDS):
            active = (clients + 7 * t) % _NUM_CLIENTS < self.num_active
            able, hears = (
                (clients != client) | (t != _ODD_ROUND)
                for client in (cannot_compute, downlink_lost)
            )
            mask, chances = (
                active & able & (t < _ODD_ROUND or not empty),
                jnp.full(len(able), prob),
            )
            links: base.Links = base.DuplexLinkSample(mask, chances, hears, able)
            if self.peers:
                beside = jnp.stack(
                    [jnp.roll(clients, 1), jnp.roll(clients, -1)], axis=1
                )
                ring = jnp.sort(beside, axis=1).astype(jnp.int32)
                between = ring, ring >= 0, jnp.full(ring.shape, prob)
                links = base.PeerLinkSample(mask, chances, *between, hears, able)
            if alone:
                links = base.LinkSample(active, chances)
            if named:
                ids = jnp.flatnonzero(active).astype(jnp.int32)
                links = rejection_sampling.sample(ids, _NUM_CLIENTS, prob)
            state, metrics = self.step(state, jnp.int32(t), links)
            servers.append(np.asarray(self.models(state)['server']))
            num_computing.append(int(metrics.num_computing))
        return np.stack(servers), num_computing

    def servers(self, **variation: Any) -> np.ndarray:
        """float[T, d], the server model after every round."""
        return self.rounds(**variation)[0]


def _differ(one: Array | np.ndarray, other: Array | np.ndarray) -> bool:
    return not np.array_equal(one, other, equal_nan=True)
