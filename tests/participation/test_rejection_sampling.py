"""The alias table of rejection sampling."""

import numpy as np
import pytest

from fedjax_links.participation import (
    rejection_sampling,
)


@pytest.mark.parametrize('kind', range(5))
def test_alias_table_has_the_law_of_the_weights(kind):
    rng = np.random.default_rng(kind)
    for _ in range(200):
        size = int(rng.integers(1, 12))
        weights = (
            rng.random(size),
            np.append(rng.integers(0, 4, size - 1).astype(float), 1),
            np.exp(rng.normal(0, 5, size)),
            np.ones(size),
            np.append(np.where(rng.random(size - 1) < 0.5, 1e-300, 1), 1),
        )[kind]
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
