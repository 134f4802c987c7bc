"""The runs of an algorithm that its checks look at, and how they are compared."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.algorithms.fedavg import fedavg
from fedjax_links.base import Algorithm
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram
from fedjax_links.testing import facts, federation
from fedjax_links.testing.reasons import require, saying

_TOLERANCE = 2e-5  # float32 sums of a few terms in another order, over a dozen rounds


def simulate(
    algorithm: Algorithm,
    num_rounds: int = federation.NUM_ROUNDS,
    mesh: jax.sharding.Mesh | None = None,
) -> Callable[..., Any]:
    """A run with the server model after every round; links are arguments, as data are."""
    options: Any = {'num_rounds': num_rounds, 'eval_every': 1, 'mesh': mesh}
    options['eval_fn'] = lambda params, key, problem: params

    def run(key, problem, links, initial_state=None):
        given = key, algorithm, federation.pattern(*links), problem
        return simulation.simulate(*given, initial_state=initial_state, **options)

    return run


class Runs:
    """The runs of one algorithm that its checks look at; every program is compiled once."""

    def __init__(self, traits: AlgorithmEntry) -> None:
        """Takes the algorithm; what the checks need is built when they ask for it.

        Args:
          traits: a registered algorithm, or one of your own with what it promises and values for
            its required hyper-parameters: ``AlgorithmEntry(my_factory, example={...})``.
        """
        self.traits, self.peers = traits, traits.traffic.peers > 0
        self.key, self.problem = jax.random.key(0), federation.problem()
        self.links = federation.realised_links(peers=self.peers)

    def _make(self, program: ClientProgram, **options: Any) -> Algorithm:
        return self.traits(program, **self.traits.example, **options)

    def _of_batches(self, batch_size: int | None) -> Algorithm:
        program = facts.client_program(self.traits, 0.2, local_steps=3, batch_size=batch_size)
        return self._make(program)

    @functools.cached_property
    def of_fedavg(self) -> 'Runs':
        """Those of FedAvg with the same client program."""
        program, example = self.traits.client_program, self.traits.client_example
        return Runs(AlgorithmEntry(fedavg, client_program=program, client_example=example))

    @functools.cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm on minibatches."""
        return self._of_batches(2)

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        """Its program."""
        return jax.jit(simulate(self.algorithm))

    @functools.cached_property
    def run_full_batches(self) -> Callable[..., Any]:
        """The program of the algorithm on full batches."""
        return jax.jit(simulate(self._of_batches(None)))

    @functools.cached_property
    def rounds(self) -> facts.Rounds:
        """A few rounds on quadratics, under any kind of links."""
        return self.rounds_with()

    def rounds_with(self, *, chunk_size: int | None = None, **options: Any) -> facts.Rounds:
        """The same with so many clients side by side, or options of the algorithm."""
        program = facts.client_program(self.traits, 0.1, local_steps=2)
        algorithm = self._make(program._replace(chunk_size=chunk_size), **options)
        return facts.Rounds(algorithm, peers=self.peers)

    @functools.cached_property
    def standard(self) -> simulation.SimulationResult:
        """On minibatches, over the links of the test federation."""
        return self.run(self.key, self.problem, self.links)

    @functools.cached_property
    def full_batches(self) -> simulation.SimulationResult:
        """The same on full batches."""
        return self.run_full_batches(self.key, self.problem, self.links)

    @functools.cached_property
    def full_participation(self) -> simulation.SimulationResult:
        """On minibatches, with everybody active in every round."""
        links = federation.realised_links(peers=self.peers, everyone=True)
        return self.run(self.key, self.problem, links)


def close(actual: Any, expected: Any, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless both agree to rounding."""
    with saying(message):
        chex.assert_trees_all_close(actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE)


def identical(actual: Any, expected: Any, message: str) -> None:
    """Raises an AssertionError of the message, unless both have the same bits."""
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        require(np.array_equal(a, b, equal_nan=jnp.issubdtype(a.dtype, jnp.inexact)), message)
