"""Where algorithms end on quadratics after many rounds with links from .05 to .9, in float64."""

import jax
import numpy as np

from fedjax_links import local_training, participation, problems, simulation

NUM_CLIENTS, DIMENSION, NUM_ROUNDS = 20, 3, 20_000
PROBS = np.linspace(0.05, 0.9, NUM_CLIENTS)
TARGETS = np.random.default_rng(0).normal(size=(NUM_CLIENTS, DIMENSION)) + PROBS[:, None]
OPTIMUM = TARGETS.mean(axis=0)
ROUNDING = 1e-12


def program(learning_rate=0.002, local_steps=5):
    """Plain SGD on full data."""
    return local_training.local_sgd(learning_rate, local_steps=local_steps)


def late_models(algorithm, links=None, model='server') -> np.ndarray:
    """A candidate in every tenth round in the second half of a run, [1000, d]."""
    problem, links = problems.quadratic(TARGETS), links or participation.bernoulli(PROBS)
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=NUM_ROUNDS,
            eval_every=10,
            eval_fn=lambda params, key, problem: params,
        ).evals[model]
    )
    path = np.asarray(run(jax.random.key(0), problem))
    assert path.dtype == np.float64
    return path[len(path) // 2 :]


def distance(algorithm) -> float:
    """From the last model to the optimum."""
    return float(np.linalg.norm(late_models(algorithm)[-1] - OPTIMUM))
