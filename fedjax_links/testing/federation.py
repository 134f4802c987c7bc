"""A small federation that exercises every path, and the runs of an algorithm on it.

It has uneven clients, of whom one is silent, and empty rounds.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import simulation
from fedjax_links.algorithms.fedavg import fedavg
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram
from fedjax_links.participation.replay import replay
from fedjax_links.problems.arrays import from_arrays
from fedjax_links.testing import facts

NUM_CLIENTS = 6
NUM_ROUNDS = 12
SILENT = 3  # never active in `masks`
TWICE = 1  # whose examples are there twice where weights by examples are looked at


def masks() -> np.ndarray:
    """bool[T, N]: two empty rounds in a row, a single client, almost everyone, one never."""
    mask = np.random.default_rng(7).random((NUM_ROUNDS, NUM_CLIENTS)) < 0.45
    mask[4:6] = False
    mask[7] = np.arange(NUM_CLIENTS) == 1
    mask[8] = True
    mask[:, SILENT] = False
    return mask


def realised_links(
    order: Sequence[int] | None = None, *, peers: bool = False, everyone: bool = False
) -> tuple[np.ndarray, ...]:
    """What `pattern` replays: masks and their probabilities; neighbours, edges and theirs.

    Args:
      order: of the clients, as in `problem`.
      peers: whether there are links between clients, everyone a neighbour of everyone.
      everyone: whether all that there is is up in every round.
    """
    chosen = list(range(NUM_CLIENTS) if order is None else order)
    prob = np.broadcast_to(
        np.linspace(0.3, 0.8, NUM_CLIENTS), (NUM_ROUNDS, NUM_CLIENTS)
    )
    mask = masks()
    up = np.triu(
        np.random.default_rng(8).random((NUM_ROUNDS, NUM_CLIENTS, NUM_CLIENTS)) < 0.5, 1
    )
    up[:, SILENT] = up[:, :, SILENT] = False
    up |= up.transpose(0, 2, 1)
    if everyone:
        mask, prob, up = np.ones_like(mask), np.ones_like(prob), np.ones_like(up)
    found = mask[:, chosen], prob[:, chosen]
    if not peers:
        return found
    clients = np.arange(NUM_CLIENTS)
    neighbours = np.array([np.delete(clients, i) for i in clients])
    up = up[:, chosen][:, :, chosen]
    edges = up[:, clients[:, None], neighbours]
    return *found, neighbours, edges, np.full(edges.shape, 1.0 if everyone else 0.5)


def pattern(mask: ArrayLike, prob: ArrayLike, *between: ArrayLike) -> Participation:
    """The links replayed, as arguments of a program perhaps."""
    names = 'neighbours', 'edges', 'edge_prob'
    return replay(mask, prob, **dict(zip(names, between, strict=False)))


def problem(
    order: Sequence[int] | None = None,
    spoil: int | None = None,
    again: int | None = None,
) -> Problem:
    """Softmax regression on uneven clients.

    Args:
      order: ``order[i]`` is the original client that is now called i.
      spoil: a client, by its new name, whose features are NaN.
      again: who owns the examples of client `TWICE` a second time: that client, or a further one.

    Returns:
      The problem.
    """
    rng = np.random.default_rng(3)
    owners = np.repeat(np.arange(NUM_CLIENTS), [3, 5, 4, 2, 6, 3])
    features = rng.normal(size=(len(owners), 4)) + 0.3 * owners[:, None]
    labels = rng.integers(0, 3, len(owners))
    if order is not None:
        owners = np.argsort(np.asarray(order))[owners]
    if again is not None:
        rows = owners == TWICE
        features = np.concatenate([features, features[rows]])
        labels = np.concatenate([labels, labels[rows]])
        owners = np.concatenate([owners, np.full(rows.sum(), again)])
    features = features.astype(jnp.result_type(float))
    made = from_arrays(
        features, labels, owners, init_params=_init_params, loss_fn=_loss_fn
    )
    if spoil is None:
        return made
    spoiled = jnp.where(
        (np.sort(owners) == spoil)[:, None], jnp.nan, made.data.features
    )
    data = made.data._replace(features=spoiled)
    return dataclasses.replace(made, data=data, eval_data=data)


def _init_params(key):
    return {'weights': jnp.zeros((4, 3)), 'bias': jnp.zeros(3)}


def _loss_fn(params, batch):
    log_probs = jax.nn.log_softmax(
        batch.features @ params['weights'] + params['bias'][None]
    )
    return -jnp.mean(jnp.take_along_axis(log_probs, batch.labels[:, None], axis=1))


def simulate(
    algorithm: Algorithm, num_rounds: int = NUM_ROUNDS, **options: Any
) -> Callable[..., Any]:
    """A run with the server model after every round; links are arguments, as data are."""
    options |= {'num_rounds': num_rounds, 'eval_every': 1}
    options['eval_fn'] = lambda params, key, problem: params

    def run(key, problem, links, initial_state=None):
        given = key, algorithm, pattern(*links), problem
        return simulation.simulate(*given, initial_state=initial_state, **options)

    return run


class Runs:
    """The runs of one algorithm that its checks look at; every program is compiled once.

    Attributes:
      algorithm: the algorithm on minibatches.
      run: its program, `simulate`.
      run_full_batches: that of the algorithm on full batches.
      key: the key of all of them.
      problem: the problem of all of them.
      links: the links of all of them.
    """

    def __init__(self, traits: AlgorithmEntry) -> None:
        """Takes the algorithm; what the checks need is run when they ask for it.

        Args:
          traits: a registered algorithm, or one of your own with what it promises and values for
            its required hyper-parameters: ``AlgorithmEntry(my_factory, example={...})``.
        """
        self.traits, self.peers = traits, traits.traffic.peers > 0
        self.key, self.problem = jax.random.key(0), problem()
        self.links = realised_links(peers=self.peers)
        self.algorithm, full_batches = (
            self._make(
                facts.client_program(traits, 0.2, local_steps=3, batch_size=size)
            )
            for size in (2, None)
        )
        self.run = jax.jit(simulate(self.algorithm))
        self.run_full_batches = jax.jit(simulate(full_batches))

    def _make(self, program: ClientProgram, **options: Any) -> Algorithm:
        return self.traits(program, **self.traits.example, **options)

    def rounds_with(
        self, *, chunk_size: int | None = None, **options: Any
    ) -> facts.Rounds:
        """As `rounds`, with so many clients side by side, or options of the algorithm."""
        program = facts.client_program(self.traits, 0.1, local_steps=2)
        algorithm = self._make(program._replace(chunk_size=chunk_size), **options)
        return facts.Rounds(algorithm, peers=self.peers)

    @functools.cached_property
    def of_fedavg(self) -> 'Runs':
        """Those of FedAvg with the same client program."""
        return Runs(self.traits._replace(factory=fedavg, example={}))

    @functools.cached_property
    def rounds(self) -> facts.Rounds:
        """A few rounds on quadratics, under any kind of links."""
        return self.rounds_with()

    @functools.cached_property
    def standard(self) -> simulation.SimulationResult:
        """On minibatches, over the links of the test federation."""
        return self.run(self.key, self.problem, self.links)

    @functools.cached_property
    def full_batches(self) -> simulation.SimulationResult:
        """The same on full batches."""
        return self.run_full_batches(self.key, self.problem, self.links)

    @functools.cached_property
    def weighted_by_examples(self) -> tuple[simulation.SimulationResult, ...]:
        """On full batches, weighted by examples: a client has its own twice, or is there twice."""
        program = facts.client_program(self.traits, 0.2, local_steps=3)
        run = jax.jit(simulate(self._make(program, weights='examples')))
        once, found = [*range(NUM_CLIENTS)], []
        for again, order in ((TWICE, once), (NUM_CLIENTS, [*once, TWICE])):
            links = realised_links(order, peers=self.peers)
            found.append(run(self.key, problem(again=again), links))
        return tuple(found)

    @functools.cached_property
    def full_participation(self) -> simulation.SimulationResult:
        """On minibatches, with everybody active in every round."""
        links = realised_links(peers=self.peers, everyone=True)
        return self.run(self.key, self.problem, links)
