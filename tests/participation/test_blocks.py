"""Rounds side by side: patterns without a carry draw by `vmap` what they draw one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import base, participation
from fedjax_links.core import prng
from fedjax_links.participation import PARTICIPATION, rejection_sampling
from tests.tiers import cases

NUM_CLIENTS = 12
P = np.linspace(0, 1, NUM_CLIENTS)
LONGEST = 257

SCHEDULES = {
    'constant': lambda: participation.constant(P),
    'sine': lambda: participation.sine(P, gamma=0.4, period=40),
    'sines': lambda: participation.sine(P, gamma=P / 2, period=7 + P),
    'jitter': lambda: participation.jitter(0.1 + 0.8 * P, width=0.1 * P),
    'diurnal': lambda: participation.diurnal(P, trough=0.05, phase=24 * P),
    'diurnals': lambda: participation.diurnal(P, rounds_per_day=7.3 + P, up_hours=11),
    'function': lambda: lambda key, round: jnp.exp(-P * round / 50),
}


def _others():
    """Patterns of parts, and draws that look at few of many clients."""
    cohort = participation.uniform_cohort(NUM_CLIENTS, 3)
    sine = participation.bernoulli(SCHEDULES['sine']())
    jitter = participation.bernoulli(SCHEDULES['jitter']())
    yield (
        'mixture of cohorts',
        participation.mixture([cohort, sine, jitter], [0.25, 0.4, 0.35]),
    )
    yield 'both', participation.both(sine, jitter)
    yield 'either', participation.either(sine, jitter)
    yield 'switch', participation.switch([cohort, sine], 100)
    yield 'capped', participation.cap(sine, 4)
    yield 'record', participation.replay(np.eye(NUM_CLIENTS, dtype=bool))
    yield 'many', participation.uniform_cohort(rejection_sampling.FEWEST_CLIENTS, 700)


def memoryless():
    """Returns all patterns without a carry, by name."""
    patterns = {
        name: entry.example(NUM_CLIENTS) for name, entry in PARTICIPATION.items()
    }
    patterns |= {
        name: participation.bernoulli(make()) for name, make in SCHEDULES.items()
    }
    patterns |= dict(_others())
    key = jax.random.key(0)
    return {
        name: pattern
        for name, pattern in patterns.items()
        if not jax.tree.leaves(jax.eval_shape(pattern.init, key))
    }


PATTERNS = memoryless()


def test_patterns_of_all_kinds_have_no_carry():
    assert {'always', 'bernoulli', 'replay', 'trace', 'uniform_cohort'} < set(PATTERNS)
    assert set(SCHEDULES) < set(PATTERNS)


@pytest.mark.optimised  # bits: jax 0.12 compiled fast rounds a sine otherwise in a loop
@pytest.mark.parametrize(
    'name',
    cases(
        PATTERNS,
        default=['sine'],
        covered_by='test_blocks_of_rounds_have_the_bits_of_single_rounds',
    ),
)
def test_blocks_of_rounds_have_the_bits_of_single_rounds(name):
    pattern = PATTERNS[name]
    key = jax.random.key(3)
    carry = pattern.init(key)

    def sample(round):
        links = pattern.sample(
            carry, prng.round_key(key, 'participation', round), round
        )[1]
        return jax.tree.leaves(base.as_masks(links))

    rounds = np.arange(LONGEST, dtype=np.int32)
    in_a_scan = jax.jit(
        lambda: jax.lax.scan(lambda _, t: ((), sample(t)), (), rounds)[1]
    )()
    alone = jax.jit(sample)
    for t in (0, 1, 6, 99, 256):
        for one, expected in zip(alone(np.int32(t)), in_a_scan, strict=True):
            np.testing.assert_array_equal(one, expected[t])
    for size in (7, 100, LONGEST):
        block = jax.jit(jax.vmap(sample))
        for start in range(0, LONGEST - size + 1, size):
            samples = block(rounds[start : start + size])
            for several, expected in zip(samples, in_a_scan, strict=True):
                np.testing.assert_array_equal(several, expected[start : start + size])
