"""Rolling patterns out, and comparing frequencies with exact probabilities.

Statistical tests use fixed seeds. Had these been drawn afresh, one comparison would raise a false
alarm with probability 4e-8 (z = 5.5, two-sided, exact for frequencies but for the normal
approximation); no test makes more than a thousand.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis, base, simulation

Z = 5.5


def roll(pattern, num_rounds, seed=0):
    """Returns the links of one run as NumPy arrays [T, N], those of cohorts as masks."""
    return roll_together([pattern], num_rounds, seed)[0]


def roll_together(patterns, num_rounds, seed=0):
    """Returns the links of each pattern in a run of its own, by one program."""

    @jax.jit
    def run(key):
        return [
            base.as_masks(
                simulation.realised_links(key, pattern, num_rounds=num_rounds)
            )
            for pattern in patterns
        ]

    return jax.tree.map(np.asarray, run(jax.random.key(seed)))


def masks(pattern, num_rounds, num_seeds):
    """Returns the masks of independent runs, bool[S, T, N]."""
    return masks_together([pattern], num_rounds, num_seeds)[0]


def masks_together(patterns, num_rounds, num_seeds):
    """Returns the masks of each pattern in runs of its own, by one program."""

    @jax.jit
    @jax.vmap
    def run(seed):
        key = jax.random.key(seed)
        return [
            simulation.realised_links(key, pattern, num_rounds=num_rounds).mask
            for pattern in patterns
        ]

    return [np.asarray(mask) for mask in run(np.arange(num_seeds, dtype=np.uint32))]


def advance(pattern, carry, key, first, num_rounds):
    """Returns the carry after some rounds and their masks, bool[T, N], by hand from any carry."""

    def step(carry, round):
        carry, links = pattern.sample(carry, jax.random.fold_in(key, round), round)
        return carry, links.mask

    rounds = jnp.arange(first, first + num_rounds, dtype=jnp.int32)
    return jax.jit(lambda carry: jax.lax.scan(step, carry, rounds))(carry)


def assert_resumes(pattern):
    """Asserts that twelve rounds in two halves are twelve rounds at once, from any carry."""
    key = jax.random.key(5)
    rounds = np.arange(12, dtype=np.int32)

    @jax.jit
    def run(carry, rounds):
        def step(carry, round):
            carry, links = pattern.sample(carry, jax.random.fold_in(key, round), round)
            return carry, links.mask

        return jax.lax.scan(step, carry, rounds)

    carry = jax.jit(pattern.init)(key)
    _, full = run(carry, rounds)
    middle, first = run(carry, rounds[:6])
    _, second = run(middle, rounds[6:])
    np.testing.assert_array_equal(np.concatenate([first, second]), full)


def assert_frequencies(hits, probs, num_draws):
    """Asserts that counts of independent events agree with their exact probabilities."""
    probs = np.asarray(probs, float)
    certain = (probs == 0) | (probs == 1)
    np.testing.assert_array_equal(hits[certain], (probs * num_draws)[certain])
    deviation = np.sqrt(num_draws * probs * (1 - probs))
    z = np.abs(hits - num_draws * probs)[~certain] / deviation[~certain]
    assert z.size == 0 or z.max() < Z, f'{z.max():.1f} standard errors'


def codes(mask):
    """Returns sets of clients, bool[..., N], as integers: bit i stands for client i."""
    return mask @ (1 << np.arange(mask.shape[-1]))


def law_of_sets(weights, size, design):
    """Returns the codes of all cohorts and their probabilities, by enumeration."""
    law = analysis.cohort_law(weights, size, design)
    return (1 << law.cohorts).sum(axis=1), law.probs


def assert_uniform_pairs(mask):
    """Asserts that cohorts of two of five clients, bool[S, 2, 5], are uniform and drawn afresh."""
    num_seeds = len(mask)
    assert (mask.sum(axis=2) == 2).all()
    result = codes(mask)
    sets = [code for code in range(32) if code.bit_count() == 2]
    counts = np.array([(result[:, 0] == code).sum() for code in sets])
    assert_frequencies(counts, np.full(10, 0.1), num_seeds)
    repeated = np.array((result[:, 0] == result[:, 1]).sum())
    assert_frequencies(repeated, 0.1, num_seeds)


def assert_second_cohort(mask, weights, design):
    """Asserts the joint law of two rounds of cohorts of two of five, with separation 1.

    The second cohort follows the design among the three clients that the first one leaves.

    Args:
      mask: bool[S, 2, 5].
      weights: float[5].
      design: of the cohorts.
    """
    result = 32 * codes(mask[:, 0]) + codes(mask[:, 1])
    pairs = []
    probs = []
    first = analysis.cohort_law(weights, 2, design)
    for cohort, prob in zip(first.cohorts, first.probs, strict=True):
        selectable = np.setdiff1d(np.arange(5), cohort)
        second = analysis.cohort_law(weights[selectable], 2, design)
        second_codes = (1 << selectable[second.cohorts]).sum(axis=1)
        pairs.extend(32 * (1 << cohort).sum() + second_codes)
        probs.extend(prob * second.probs)
    assert len(pairs) == 30
    counts = (result[:, None] == np.array(pairs)).sum(axis=0)
    assert_frequencies(counts, probs, len(mask))


def refuses(call, message):
    """Asserts that the call raises a ValueError of exactly this one line."""
    with pytest.raises(ValueError, match='`') as caught:
        call()
    assert str(caught.value) == message
    assert '\n' not in message
