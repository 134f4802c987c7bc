"""Rolling patterns out, and comparing frequencies with exact probabilities.

Statistical tests use fixed seeds. Had these been drawn afresh, one comparison would raise a false
alarm with probability 4e-8 (z = 5.5, two-sided, exact for frequencies but for the normal
approximation); no test makes more than a thousand.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import simulation

Z = 5.5


def roll(pattern, num_rounds, seed=0):
    """The links of one run as NumPy arrays [T, N]."""
    run = jax.jit(
        lambda key: simulation.realised_links(key, pattern, num_rounds=num_rounds)
    )
    return jax.tree.map(np.asarray, run(jax.random.key(seed)))


def masks(pattern, num_rounds, num_seeds, start=0):
    """Masks bool[S, T, N] of independent runs."""
    seeds = jnp.arange(start, start + num_seeds, dtype=jnp.uint32)

    def run(seed):
        return simulation.realised_links(
            jax.random.key(seed), pattern, num_rounds=num_rounds
        ).mask

    return np.asarray(jax.jit(jax.vmap(run))(seeds))


def advance(pattern, carry, key, first, num_rounds):
    """Carry and masks of some rounds by hand, from any carry."""

    def step(carry, round):
        carry, links = pattern.sample(carry, jax.random.fold_in(key, round), round)
        return carry, links.mask

    rounds = jnp.arange(first, first + num_rounds, dtype=jnp.int32)
    return jax.jit(lambda carry: jax.lax.scan(step, carry, rounds))(carry)


def assert_frequencies(hits, probs, num_draws):
    """Counts of independent events against their exact probabilities."""
    probs = np.asarray(probs, float)
    certain = (probs == 0) | (probs == 1)
    np.testing.assert_array_equal(hits[certain], (probs * num_draws)[certain])
    deviation = np.sqrt(num_draws * probs * (1 - probs))
    z = np.abs(hits - num_draws * probs)[~certain] / deviation[~certain]
    assert z.size == 0 or z.max() < Z, f'{z.max():.1f} standard errors'


def refuses(call, message):
    """The call raises a ValueError of exactly this one line."""
    with pytest.raises(ValueError, match='`') as caught:
        call()
    assert str(caught.value) == message
    assert '\n' not in message
