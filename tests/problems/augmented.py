"""A batch of two images, its crops, and many draws of a transformation of it."""

import jax
import jax.numpy as jnp
import numpy as np

NUM_DRAWS = 1800
IMAGES = np.arange(1, 2 * 5 * 6 * 2 + 1, dtype=np.float32).reshape(2, 5, 6, 2)


def windows(padding):
    """Returns every crop of the batch, by its position."""
    padded = np.pad(IMAGES, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    positions = range(2 * padding + 1)
    return {
        (i, j): padded[:, i : i + 5, j : j + 6] for i in positions for j in positions
    }


def draws_of(transform):
    """Returns `NUM_DRAWS` draws of a transformation of the batch."""
    keys = jax.random.split(jax.random.key(7), NUM_DRAWS)
    return np.asarray(
        jax.jit(jax.vmap(lambda key: transform(key, jnp.asarray(IMAGES))))(keys)
    )


def chi_squared(counts, num_cells):
    """Returns Pearson's statistic of equal frequencies, in standard errors from its mean."""
    expected = sum(counts.values()) / num_cells
    observed = [*counts.values(), *[0] * (num_cells - len(counts))]
    statistic = sum((count - expected) ** 2 / expected for count in observed)
    return (statistic - (num_cells - 1)) / np.sqrt(2 * (num_cells - 1))
