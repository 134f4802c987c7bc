"""Where algorithms end on quadratics after many rounds with links from .05 to .9, in float64."""

import functools

import jax
import numpy as np

from fedjax_links import local_training, participation, problems, simulation

NUM_CLIENTS = 20
DIMENSION = 3
NUM_ROUNDS = 20_000
PROBS = np.linspace(0.05, 0.9, NUM_CLIENTS)
TARGETS = (
    np.random.default_rng(0).normal(size=(NUM_CLIENTS, DIMENSION)) + PROBS[:, None]
)
OPTIMUM = TARGETS.mean(axis=0)
ROUNDING = 1e-12

_RNG = np.random.default_rng(0)
MIXED_PROBS = _RNG.permutation(PROBS)
"""Probabilities in no order, for algorithms with neighbours; targets grow with them."""
MIXED_TARGETS = _RNG.normal(size=(NUM_CLIENTS, DIMENSION)) + 3 * MIXED_PROBS[:, None]


def program(learning_rate=0.002, local_steps=5):
    """Plain SGD on full data."""
    return local_training.local_sgd(learning_rate, local_steps=local_steps)


def late_models(
    algorithm, links=None, *, model='server', targets=TARGETS, seed=0
) -> np.ndarray:
    """A candidate after every tenth round of the second half of a run, [1000, d]."""
    problem = problems.quadratic(targets)
    links = links or participation.bernoulli(PROBS)
    models = _simulate(jax.random.key(seed), algorithm, links, problem)
    path = np.asarray(models[model])
    assert path.dtype == np.float64
    return path[len(path) // 2 :]


@functools.partial(jax.jit, static_argnames=('algorithm', 'links'))
def _simulate(key, algorithm, links, problem):
    """The candidates after every tenth round."""
    return simulation.simulate(
        key,
        algorithm,
        links,
        problem,
        num_rounds=NUM_ROUNDS,
        eval_every=10,
        eval_fn=lambda params, key, problem: params,
    ).evals


def mixed_links(graph=None):
    """Links of `MIXED_PROBS`, and edges of a graph that are up half of the time."""
    links = participation.bernoulli(MIXED_PROBS)
    if graph is None:
        return links
    return participation.peers(links, graph, prob=0.5)


def distance_and_spread(
    algorithm, links, *, model='server', seed=0
) -> tuple[float, float]:
    """Distance of the late mean from the optimum, and root mean square about the mean.

    Args:
      algorithm: the one that runs.
      links: those of `mixed_links`.
      model: the name of the candidate.
      seed: of the run.
    """
    ends = late_models(algorithm, links, model=model, targets=MIXED_TARGETS, seed=seed)
    mean = ends.mean(axis=0)
    spread = np.sqrt(((ends - mean) ** 2).sum(axis=1).mean())
    return float(np.linalg.norm(mean - MIXED_TARGETS.mean(axis=0))), float(spread)


def distance(algorithm) -> float:
    """From the last model to the optimum."""
    return float(np.linalg.norm(late_models(algorithm)[-1] - OPTIMUM))
