"""Defines a small federation that exercises all paths, and runs an algorithm on it.

The federation has clients with different amounts of data, a client that never delivers, and rounds
without active clients.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from fedjax_links import simulation
from fedjax_links.algorithms.fedavg import fedavg
from fedjax_links.base import (
    Algorithm,
    Array,
    Params,
    Participation,
    Problem,
    PyTree,
    RoundContext,
)
from fedjax_links.core import prng
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram
from fedjax_links.participation.replay import replay
from fedjax_links.problems.arrays import from_arrays
from fedjax_links.testing import facts, influence

NUM_CLIENTS = 6
NUM_ROUNDS = 12
_SAMPLE = 2
"""Rows of a minibatch."""
_NUM_SAMPLED = 4
"""Number of rounds in which each client draws one minibatch."""
NEVER_ACTIVE = 3
"""The client that is never active in `masks`."""
TWICE = 1
"""The client whose examples occur twice in the check of weights by examples."""


def masks() -> np.ndarray:
    """Makes masks bool[T, N] with all kinds of rounds.

    Some rounds are empty, some have a single client, and one has all but `NEVER_ACTIVE`.
    """
    mask = np.random.default_rng(7).random((NUM_ROUNDS, NUM_CLIENTS)) < 0.45
    mask[4:6] = False
    mask[7] = np.arange(NUM_CLIENTS) == 1
    mask[8] = True
    mask[:, NEVER_ACTIVE] = False
    return mask


def realised_links(
    order: Sequence[int] | None = None, *, peers: bool = False, everyone: bool = False
) -> tuple[np.ndarray, ...]:
    """Returns realised links, the arguments of `pattern`.

    Args:
      order: the original client behind each client, as in `problem`.
      peers: whether there are links between clients; all clients are then neighbours of each other.
      everyone: whether all links are up in all rounds.

    Returns:
      Masks and the probabilities of masks. With ``peers`` also neighbours, edges, and the
      probabilities of edges.
    """
    order = list(range(NUM_CLIENTS) if order is None else order)
    mask = masks()
    probs = np.linspace(0.3, 0.8, NUM_CLIENTS)
    prob = np.broadcast_to(probs, (NUM_ROUNDS, NUM_CLIENTS))
    is_up = _symmetric_edges()
    if everyone:
        mask = np.ones_like(mask)
        prob = np.ones_like(prob)
        is_up = np.ones_like(is_up)
    if not peers:
        return mask[:, order], prob[:, order]
    is_up = is_up[:, order][:, :, order]
    clients = np.arange(NUM_CLIENTS)
    neighbours = np.array([np.delete(clients, i) for i in clients])
    edges = is_up[:, clients[:, None], neighbours]
    edge_prob = np.full(edges.shape, 1.0 if everyone else 0.5)
    return mask[:, order], prob[:, order], neighbours, edges, edge_prob


def _symmetric_edges() -> np.ndarray:
    """Draws which links between clients are up: bool[T, N, N], symmetric."""
    draws = np.random.default_rng(8).random((NUM_ROUNDS, NUM_CLIENTS, NUM_CLIENTS))
    is_up = np.triu(draws < 0.5, 1)
    is_up[:, NEVER_ACTIVE] = False
    is_up[:, :, NEVER_ACTIVE] = False
    return is_up | is_up.transpose(0, 2, 1)


def pattern(mask: ArrayLike, prob: ArrayLike, *between: ArrayLike) -> Participation:
    """Replays links, which may be arguments of a program."""
    names = 'neighbours', 'edges', 'edge_prob'
    return replay(mask, prob, **dict(zip(names, between, strict=False)))


def problem(
    order: Sequence[int] | None = None,
    spoil: int | None = None,
    again: int | None = None,
) -> Problem:
    """Makes softmax regression on clients with different amounts of data.

    Args:
      order: ``order[i]`` is the original client that is now called i.
      spoil: a client, by its new name, whose features are NaN.
      again: the client that owns a second copy of the examples of client `TWICE`: `TWICE` itself or
        a further client.

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
    result = from_arrays(
        features, labels, owners, init_params=_init_params, loss_fn=_loss_fn
    )
    if spoil is None:
        return result
    is_spoilt = (np.sort(owners) == spoil)[:, None]
    spoilt = jnp.where(is_spoilt, jnp.nan, result.data.features)
    data = result.data._replace(features=spoilt)
    return dataclasses.replace(result, data=data, eval_data=data)


def _problem_of_cohort(problem: Problem, ctx: RoundContext) -> Problem:
    """Builds the problem whose clients own only the rows of their minibatch of a round."""

    def rows_of(client: Array) -> Array:
        _, offset, count = problem.examples_of(client)
        step_key = prng.step_keys(prng.client_key(ctx.client_key, client), 1)[0]
        return offset + prng.integers(step_key, (_SAMPLE,), count)

    clients = np.arange(NUM_CLIENTS)
    rows = jax.vmap(rows_of)(jnp.asarray(clients)).reshape(-1)
    owners = np.repeat(clients, _SAMPLE)
    shapes = np.zeros((len(owners), 4)), np.zeros(len(owners), int)
    shapes_only = from_arrays(
        *shapes, owners, init_params=_init_params, loss_fn=_loss_fn
    )
    data = jax.tree.map(lambda a: a[rows], problem.data)
    return dataclasses.replace(shapes_only, data=data, eval_data=data)


def _init_params(key):
    return {'weights': jnp.zeros((4, 3)), 'bias': jnp.zeros(3)}


def _loss_fn(params, batch):
    log_probs = jax.nn.log_softmax(
        batch.features @ params['weights'] + params['bias'][None]
    )
    return -jnp.mean(jnp.take_along_axis(log_probs, batch.labels[:, None], axis=1))


def simulate(
    algorithm: Algorithm, num_rounds: int = NUM_ROUNDS, **options: Any
) -> Callable[..., simulation.SimulationResult]:
    """Returns a run that keeps the server model after each round; links are an argument."""

    def run(key, problem, links, initial_state=None):
        return simulation.simulate(
            key,
            algorithm,
            pattern(*links),
            problem,
            num_rounds=num_rounds,
            eval_every=1,
            eval_fn=_params,
            initial_state=initial_state,
            **options,
        )

    return run


def _params(params, key, problem):
    del key, problem
    return params


class Runs:
    """Holds the runs of one algorithm, which its checks read; each program is compiled once.

    Attributes:
      algorithm: the algorithm on minibatches.
      run: the program of runs on minibatches, see `simulate`.
      run_full_batches: the program of runs on full batches.
      key: the key of all runs.
      problem: the problem of all runs.
      links: the links of all runs.
    """

    def __init__(self, traits: AlgorithmEntry) -> None:
        """Makes the algorithm; runs follow when a check needs them.

        Args:
          traits: a registered algorithm, or an entry of your own with its promises and values for
            its required hyper-parameters: ``AlgorithmEntry(my_factory, example={...})``.

        Raises:
          ValueError: if ``traits`` is no `AlgorithmEntry`.
        """
        facts.check_entry('traits', traits)
        self.traits = traits
        self.peers = traits.traffic.peers > 0
        self.key = jax.random.key(0)
        self.problem = problem()
        self.links = realised_links(peers=self.peers)
        self.algorithm = self._make(self._program(batch_size=_SAMPLE))
        self.run = jax.jit(simulate(self.algorithm))
        full_batches = self._make(self._program(batch_size=None))
        self.run_full_batches = jax.jit(simulate(full_batches))

    def _program(self, **options: Any) -> ClientProgram:
        return facts.client_program(self.traits, 0.2, local_steps=3, **options)

    def _make(self, program: ClientProgram, **options: Any) -> Algorithm:
        return self.traits(program, **self.traits.example, **options)

    def rounds_with(
        self, *, chunk_size: int | None = None, **options: Any
    ) -> facts.Rounds:
        """Makes `rounds` with a chunk size, or with options of the algorithm."""
        program = facts.client_program(self.traits, 0.1, local_steps=2)
        algorithm = self._make(program._replace(chunk_size=chunk_size), **options)
        return facts.Rounds(algorithm, peers=self.peers)

    def initial_types(self, dtype: DTypeLike | None) -> PyTree:
        """Returns the types of the initial state, for parameters of a dtype or unchanged."""

        def init() -> PyTree:
            params = self.problem.init_params(self.key)
            params = jax.tree.map(lambda a: a.astype(dtype or a.dtype), params)
            return self.algorithm.init(params, self.problem)

        return jax.eval_shape(init)

    @functools.cached_property
    def fedavg_runs(self) -> 'Runs':
        """Returns the runs of FedAvg with the same client program."""
        return Runs(self.traits._replace(factory=fedavg, example={}))

    @functools.cached_property
    def rounds(self) -> facts.Rounds:
        """Runs a few rounds on quadratics, under any kind of links."""
        return self.rounds_with()

    @functools.cached_property
    def influence(self) -> influence.Influence:
        """Returns whose data matter in a round with a lost uplink and an idle client."""
        return influence.of_later_round(self.rounds.algorithm)

    @functools.cached_property
    def standard(self) -> simulation.SimulationResult:
        """Returns the run on minibatches, over the links of the test federation."""
        return self.run(self.key, self.problem, self.links)

    @functools.cached_property
    def full_batches(self) -> simulation.SimulationResult:
        """Returns the same run on full batches."""
        return self.run_full_batches(self.key, self.problem, self.links)

    @functools.cached_property
    def weighted_by_examples(self) -> tuple[simulation.SimulationResult, ...]:
        """Runs with weights by examples: one client with its data twice, then two with it once."""
        weighted = self._make(self._program(), weights='examples')
        run = jax.jit(simulate(weighted))
        clients = list(range(NUM_CLIENTS))
        one_client = run(
            self.key, problem(again=TWICE), realised_links(clients, peers=self.peers)
        )
        two_clients = run(
            self.key,
            problem(again=NUM_CLIENTS),
            realised_links([*clients, TWICE], peers=self.peers),
        )
        return one_client, two_clients

    @functools.cached_property
    def sampled_once(self) -> tuple[list[Params], list[Params]]:
        """Returns server models after rounds in which each client draws one minibatch.

        The second list is of the same rounds on full batches, in a problem where a client owns only
        the rows of its minibatch.
        """
        sampled = self._make(self._program(batch_size=_SAMPLE, resample='round'))
        full = self._make(self._program())

        @jax.jit
        def round_twice(
            state: PyTree, ctx: RoundContext, problem: Problem
        ) -> tuple[PyTree, Params, Params]:
            new_state, _ = sampled.round_step(state, ctx, problem)
            on_rows, _ = full.round_step(state, ctx, _problem_of_cohort(problem, ctx))
            server = sampled.models(new_state)['server']
            server_of_rows = full.models(on_rows)['server']
            return new_state, server, server_of_rows

        replayed = pattern(*self.links)
        links = simulation.realised_links(self.key, replayed, num_rounds=_NUM_SAMPLED)
        state = sampled.init(self.problem.init_params(self.key), self.problem)
        on_minibatches: list[Params] = []
        on_all_rows: list[Params] = []
        for t in range(_NUM_SAMPLED):
            round_links = jax.tree.map(lambda a, t=t: a[t], links)
            ctx = simulation.round_context(self.key, t, round_links)
            state, server, server_of_rows = round_twice(state, ctx, self.problem)
            on_minibatches.append(server)
            on_all_rows.append(server_of_rows)
        return on_minibatches, on_all_rows

    @functools.cached_property
    def full_participation(self) -> simulation.SimulationResult:
        """Returns the run on minibatches, with all clients active in all rounds."""
        links = realised_links(peers=self.peers, everyone=True)
        return self.run(self.key, self.problem, links)
