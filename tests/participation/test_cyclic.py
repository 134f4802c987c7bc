"""Cyclic links: the exact block structure, with and without reset."""

from decimal import ROUND_HALF_EVEN, Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core import prng
from fedjax_links.participation import cyclic
from tests.participation.sampling import assert_frequencies, masks, refuses, roll

PROBS = np.array([0.0, 0.004, 0.015, 0.1, 0.505, 0.5, 0.9, 0.995, 1.0])
# Active rounds in a cycle of 100: 100 p with halves rounded to even, and at least 1.
ACTIVE = np.array([1, 1, 2, 10, 50, 50, 90, 100, 100])


def offsets(pattern, seed=0):
    return np.asarray(pattern.init(prng.pattern_key(jax.random.key(seed))).offset)


def test_blocks_in_a_plain_loop():
    pattern = cyclic(PROBS)
    mask = roll(pattern, 450).mask
    for i, offset in enumerate(offsets(pattern)):
        up = False
        rounds_to_switch = int(offset)
        for t in range(450):
            if rounds_to_switch == 0:
                up = not up
                rounds_to_switch = (
                    int(ACTIVE[i]) if up else max(1, 100 - int(ACTIVE[i]))
                )
            rounds_to_switch -= 1
            assert mask[t, i] == up


def test_halves_round_to_even():
    probs = [Decimal(5 + 10 * k) / 1000 for k in range(100)]
    pattern = cyclic(np.array([float(p) for p in probs]), reset=True)
    active = roll(pattern, 100).mask.sum(axis=0)
    expected = [
        max(1, int((100 * p).quantize(Decimal(1), ROUND_HALF_EVEN))) for p in probs
    ]
    differing = [
        str(p) for p, a, e in zip(probs, active, expected, strict=True) if a != e
    ]
    assert differing == ['0.295']  # whose nearest float32 is below the tie
    assert active[50] == 50


def test_share_of_the_cycle_is_reported_exactly():
    links = roll(cyclic(PROBS), 100 * 101)
    cycles = np.where(ACTIVE == 100, 101, 100)
    for i, cycle in enumerate(cycles):
        window = links.mask[: 100 * 101 // cycle * cycle, i]
        assert abs(window.mean() - links.prob[0, i]) < 1e-7
    np.testing.assert_allclose(links.prob[0], ACTIVE / cycles, rtol=1e-6)


def test_links_repeat_after_the_cycle_and_no_sooner():
    pattern = cyclic([0.5, 1.0], cycle_length=4)
    assert pattern.cycle == 20
    mask = roll(pattern, 4 * 20).mask[20:]  # past the start in a down block
    repeats = [k for k in range(1, 41) if (mask[k:] == mask[:-k]).all()]
    assert repeats == [20, 40]
    assert cyclic(PROBS, cycle_length=100, reset=True).cycle == 100
    assert cyclic([0.25, 0.5], cycle_length=4).cycle == 4


@pytest.mark.statistical
def test_offset_is_uniform_and_never_inside_a_block():
    mask = masks(cyclic([0.9, 0.6], cycle_length=10), 6, 20_000)
    first = np.argmax(mask, axis=1)
    for i, inactive in enumerate([1, 4]):
        assert mask[np.arange(20_000), first[:, i], i].all()
        counts = np.bincount(first[:, i], minlength=inactive)
        assert_frequencies(counts, np.full(inactive, 1 / inactive), 20_000)


def test_reset_gives_one_block_per_cycle():
    links = roll(cyclic(PROBS, reset=True), 2000)
    blocks = links.mask.reshape(20, 100, -1)
    np.testing.assert_array_equal(blocks.sum(axis=1), np.tile(ACTIVE, (20, 1)))
    rises = (np.diff(blocks.astype(int), axis=1, prepend=0) == 1).sum(axis=1)
    np.testing.assert_array_equal(rises, 1)
    np.testing.assert_allclose(links.prob[0], ACTIVE / 100, rtol=1e-6)
    first = np.argmax(blocks, axis=1)
    # Offsets are drawn afresh, where a block does not fill the cycle.
    can_move = ACTIVE < 100
    assert np.all((first.max(axis=0) > first.min(axis=0)) == can_move)


@pytest.mark.statistical
def test_reset_offsets_are_uniform_in_every_block():
    mask = masks(cyclic([0.6], cycle_length=10, reset=True), 30, 8000)
    first = np.argmax(mask.reshape(8000, 3, 10), axis=2)
    for block in range(3):
        assert_frequencies(
            np.bincount(first[:, block], minlength=4), np.full(4, 0.25), 8000
        )
    together = np.bincount(4 * first[:, 0] + first[:, 1], minlength=16)
    assert_frequencies(together, np.full(16, 1 / 16), 8000)


def test_traced_probabilities_agree_with_concrete_ones():
    probs = np.float32(np.random.default_rng(0).random((3, 40)))

    def mask_and_prob(probs):
        pattern = cyclic(probs)
        carry = pattern.init(jax.random.key(1))
        _, links = pattern.sample(carry, jax.random.key(2), jnp.int32(17))
        return jnp.stack([links.mask, links.prob])

    swept = jax.jit(jax.vmap(mask_and_prob))(probs)
    alone = jax.jit(lambda: jnp.stack([mask_and_prob(row) for row in probs]))()
    np.testing.assert_array_equal(swept, alone)


def test_errors():
    refuses(
        lambda: cyclic([0.5, -0.1]), '`probs` must lie in [0, 1], got -0.1 at client 1.'
    )
    refuses(
        lambda: cyclic([0.5], cycle_length=1),
        '`cycle_length` must be at least 2, got 1.',
    )
    refuses(
        lambda: cyclic([0.5], cycle_length=9.5),
        '`cycle_length` must be a Python integer, got 9.5.',
    )
