"""The generators of synthetic data client by client, on the streams that the problems draw from."""

from typing import NamedTuple

import numpy as np


class SyntheticDraw(NamedTuple):
    """Synthetic(alpha, beta): features and labels [E], all else by client."""

    features: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    model_means: np.ndarray
    centres: np.ndarray
    centre_means: np.ndarray


def draw_counts(rng, num_clients):
    """Draws the numbers of examples of Synthetic(alpha, beta) before any cap."""
    deviates = [rng.standard_normal() for _ in range(num_clients)]
    return [int(np.exp(4 + 2 * deviate)) + 50 for deviate in deviates]


def draw_synthetic(alpha=1.0, beta=1.0, *, num_clients=30, max_examples=None, seed=0):
    """Draws as Li et al. (MLSys 2020, section 5.1) describe; alpha and beta are deviations."""
    rng = np.random.default_rng([seed, 0x5341])
    clients = range(num_clients)
    counts = draw_counts(rng, num_clients)
    model_means = [alpha * rng.standard_normal() for _ in clients]
    centre_means = [beta * rng.standard_normal() for _ in clients]
    weights = [mean + rng.standard_normal((60, 10)) for mean in model_means]
    biases = [mean + rng.standard_normal(10) for mean in model_means]
    centres = [mean + rng.standard_normal(60) for mean in centre_means]
    counts = [min(count, max_examples or count) for count in counts]
    features = []
    labels = []
    for i in clients:
        for _ in range(counts[i]):
            noise = rng.standard_normal(60) * np.arange(1, 61) ** -0.6
            features.append(noise + centres[i])
            labels.append(np.argmax(features[-1] @ weights[i] + biases[i]))
    parts = (
        features,
        labels,
        counts,
        weights,
        biases,
        model_means,
        centres,
        centre_means,
    )
    return SyntheticDraw(*map(np.array, parts))


class RobustDraw(NamedTuple):
    """The robust regression: alpha, and mu_i, theta_i, A_i and b_i by client."""

    common_mean: float
    reference_means: np.ndarray
    references: np.ndarray
    features: np.ndarray
    labels: np.ndarray


def draw_robust_regression(
    *, num_clients=100, dimension=20, examples_per_client=100, seed=0
):
    """Draws as Sun et al. (2025, section 6) describe."""
    rng = np.random.default_rng([seed, 0x5253])
    clients = range(num_clients)
    common_mean = 10 * rng.standard_normal()
    means = [common_mean + rng.standard_normal() for _ in clients]
    references = [mean + rng.standard_normal(dimension) for mean in means]
    shape = examples_per_client, dimension
    features = [2 / (i + 1) * rng.standard_normal(shape) for i in clients]
    noise = [0.5 * rng.standard_normal(examples_per_client) for _ in clients]
    labels = []
    for rows, reference, errors in zip(features, references, noise, strict=True):
        outputs = [sum(row * reference) for row in rows]
        labels.append(np.add(outputs, errors))
    return RobustDraw(
        common_mean, *map(np.array, (means, references, features, labels))
    )


def draw_regression_clients(*, num_clients, dimension, heterogeneity, shift, seed):
    """Draws regression vectors and means of features, float[N, d] each."""
    rng = np.random.default_rng([seed, 0x5243])
    common = rng.standard_normal(dimension)
    common /= np.sqrt(sum(common**2))

    def unit_vectors():
        """Draws a vector of unit length on average for each client."""
        draws = [rng.standard_normal(dimension) for _ in range(num_clients)]
        return [draw / np.sqrt(dimension) for draw in draws]

    vectors = [common + heterogeneity * deviation for deviation in unit_vectors()]
    means = [shift * direction for direction in unit_vectors()]
    return np.array(vectors), np.array(means)
