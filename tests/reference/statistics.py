"""Simulated means against exact ones, in standard errors.

A test over k coordinates with bound z raises a false alarm with probability at most
``k * erfc(z / sqrt(2))``: 6.8e-6 per coordinate at z = 4.5.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import local_training, participation, problems, simulation

PROBS = np.array([0.2, 0.5, 0.9, 0.4])
TARGETS = np.array([[0.0, 3.0], [1.0, -2.0], [5.0, 0.5], [-4.0, 1.0]])
OPTIMUM = TARGETS.mean(axis=0)
BOUND = 4.5


def noisy_quadratic(targets: np.ndarray, spread: float = 1.0, points: int = 8):
    """Half the mean squared distance to a client's examples, whose mean is its target exactly.

    With a batch size of 1 its gradients are unbiased and noisy.
    """
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(len(targets), points, targets.shape[1])) * spread
    noise -= noise.mean(axis=1, keepdims=True)
    features = (targets[:, None] + noise).reshape(-1, targets.shape[1])
    return problems.from_arrays(
        features,
        np.zeros(len(features)),
        np.repeat(np.arange(len(targets)), points),
        init_params=lambda key: jnp.zeros(targets.shape[1]),
        loss_fn=lambda params, batch: (
            0.5 * jnp.mean(jnp.sum(jnp.square(params[None] - batch.features), axis=-1))
        ),
    )


def final_models(algorithm, problem, **options) -> np.ndarray:
    """The server model after the last round of the runs of `final_candidates`, [S, d]."""
    return final_candidates(algorithm, problem, **options)['server']


def final_candidates(
    algorithm,
    problem,
    *,
    num_rounds,
    num_seeds,
    links=None,
    masks=None,
    seed=5,
) -> dict[str, np.ndarray]:
    """The candidate models after the last round of independent runs, [S, d] by name.

    Links are Bernoulli(PROBS), or a given pattern, or the given masks, bool[S, T, N].
    """
    known = links or participation.bernoulli(PROBS)

    def run(key, mask):
        pattern = known if mask is None else participation.replay(mask)
        result = simulation.simulate(
            key, algorithm, pattern, problem, num_rounds=num_rounds
        )
        return algorithm.models(result.state.algorithm)

    keys = jax.random.split(jax.random.key(seed), num_seeds)
    axes = (0, None) if masks is None else (0, 0)
    models = jax.jit(jax.vmap(run, in_axes=axes))(keys, masks)
    return jax.tree.map(np.asarray, models)


def z_scores(samples: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Deviation of the mean over samples [S, d] from what is expected, in standard errors."""
    return (samples.mean(0) - expected) / (
        samples.std(0, ddof=1) / np.sqrt(len(samples))
    )


def assert_mean_and_variance(
    samples: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> None:
    """Asserts that samples, [S, ...], have this mean and variance, to `BOUND` standard errors.

    A coordinate without variance must have its mean to 1e-7, and a variance below 1e-9.
    """
    num_samples = len(samples)
    mean_error = np.sqrt(np.maximum(variance, 0) / num_samples)
    assert (np.abs(samples.mean(axis=0) - mean) < BOUND * mean_error + 1e-7).all()
    # The standard error of a variance follows from the fourth moment of the samples.
    squares = (samples - mean) ** 2
    square_error = squares.std(axis=0) / np.sqrt(num_samples)
    deviation = np.abs(squares.mean(axis=0) - variance)
    assert (deviation < BOUND * square_error + 1e-9).all()


def assert_ends_at_the_optimum(make) -> None:
    """Under unequal links: to rounding with full gradients, on average with noisy ones.

    Two coordinates at 4.5 standard errors: false alarm 1.4e-5.

    Args:
      make: ``local_train -> Algorithm``.
    """
    noisy = final_models(
        make(local_training.local_sgd(0.02, local_steps=4, batch_size=1)),
        noisy_quadratic(TARGETS),
        num_rounds=300,
        num_seeds=2000,
    )
    assert np.abs(z_scores(noisy, OPTIMUM)).max() < BOUND
    exact = final_models(
        make(local_training.local_sgd(0.02, local_steps=4)),
        problems.quadratic(TARGETS),
        num_rounds=1500,
        num_seeds=5,
    )
    np.testing.assert_allclose(exact - OPTIMUM, 0, atol=1e-11)
