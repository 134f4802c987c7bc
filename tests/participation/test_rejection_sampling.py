"""The alias table of rejection sampling."""

import numpy as np
import pytest

from fedjax_links.participation import rejection_sampling


def uniform(rng, size):
    return rng.random(size)


def small_integers(rng, size):
    """Returns integers with zeros among them, the last one positive."""
    return np.append(rng.integers(0, 4, size - 1).astype(float), 1)


def lognormal(rng, size):
    return np.exp(rng.normal(0, 5, size))


def equal(rng, size):
    return np.ones(size)


def tiny_or_one(rng, size):
    """Returns ones, and weights that a float32 rounds to zero."""
    return np.append(np.where(rng.random(size - 1) < 0.5, 1e-300, 1), 1)


@pytest.mark.parametrize(
    'draw', [uniform, small_integers, lognormal, equal, tiny_or_one]
)
def test_alias_table_has_the_law_of_the_weights(draw, rng):
    for _ in range(200):
        weights = draw(rng, int(rng.integers(1, 12)))
        size = len(weights)
        threshold, alias = rejection_sampling.alias_table(weights)
        thresholds = np.where(
            alias == np.arange(size), 2**32, threshold.astype(np.int64)
        )
        amounts = thresholds.copy()
        np.add.at(amounts, alias, 2**32 - thresholds)
        assert amounts.sum() == size * 2**32
        np.testing.assert_allclose(
            amounts / 2**32 / size, weights / weights.sum(), atol=size / 2**31
        )
        np.testing.assert_array_equal(amounts > 0, weights > 0)
