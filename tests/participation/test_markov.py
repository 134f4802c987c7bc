"""Markov links: the law from round 0 on, memory, degenerate probabilities, moving rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.core import prng
from fedjax_links.participation import markov, sine
from fedjax_links.participation.markov import _UP_RATE
from fedjax_links.participation.schedules import jitter
from tests.participation.sampling import (
    advance,
    assert_frequencies,
    masks,
    refuses,
    roll,
)

PROBS = np.array([0.02, 0.05, 0.3, 0.5, 0.97])
SEEDS = 20_000


def rates(p, up_rate):
    """(q*, q) as the paper writes them."""
    fall = up_rate * (1 - p) / p if p > 0 else np.inf
    return (p / (1 - p), 1.0) if fall > 1 else (up_rate, fall)


@pytest.mark.statistical
def test_stationary_from_round_zero():
    mask = masks(markov(PROBS), 26, SEEDS)
    for t in (0, 1, 5, 25):
        assert_frequencies(mask[:, t].sum(axis=0), PROBS, SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize('up_rate', [0.05, 0.6])
def test_autocorrelation(up_rate):
    mask = masks(markov(PROBS, up_rate), 12, SEEDS)
    for lag in (1, 2, 5, 10):
        rho = [analysis.markov_autocorrelation(*rates(p, up_rate), lag) for p in PROBS]
        both = (mask[:, 1] & mask[:, 1 + lag]).sum(axis=0)
        law = PROBS**2 + PROBS * (1 - PROBS) * np.array(rho)
        assert_frequencies(both, np.where(law > 1e-15, law, 0), SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize('time', [0.4, 6.0])
def test_every_link_forgets_at_the_rate_of_the_correlation_time(time):
    mask = masks(markov(PROBS, correlation_time=time), 12, SEEDS)
    for lag in (0, 1, 2, 5, 10):
        assert_frequencies(mask[:, lag].sum(axis=0), PROBS, SEEDS)
        both = (mask[:, 1] & mask[:, 1 + lag]).sum(axis=0)
        law = PROBS**2 + PROBS * (1 - PROBS) * np.exp(-lag / time)
        assert_frequencies(both, law, SEEDS)


def test_a_correlation_time_leaves_certain_links_certain():
    mask = roll(markov([0.0, 1.0, 0.5], correlation_time=[1e-3, 5.0, 1e9]), 200).mask
    assert not mask[:, 0].any()
    assert mask[:, 1].all()
    assert len(np.unique(mask[:, 2])) == 1  # never forgets


def test_capped_links_never_stay_up():
    mask = masks(markov(PROBS[:1]), 200, 50)[..., 0]
    assert mask.any()
    assert not (mask[:, 1:] & mask[:, :-1]).any()


def test_degenerate_probabilities():
    links = roll(markov([0.0, 1.0, 0.5]), 300)
    assert not links.mask[:, 0].any()
    assert links.mask[:, 1].all()
    assert 0 < links.mask[:, 2].mean() < 1
    np.testing.assert_array_equal(links.prob[0], np.float32([0.0, 1.0, 0.5]))


def test_transitions_in_a_plain_loop(x64):
    # The same uniforms through the rules of the paper: a transition, then the report.
    key = jax.random.key(3)
    p = np.array([0.0, 0.01, 0.2, 0.6, 1.0])
    num_rounds = 60
    mask = roll(markov(p, 0.1), num_rounds, 3).mask

    def uniforms(key):
        return np.asarray(
            jax.random.uniform(jax.random.fold_in(key, 1), (5,), 'float32')
        )

    up = uniforms(prng.pattern_key(key)) < p
    for t in range(num_rounds):
        draw = uniforms(prng.round_key(key, 'participation', t))
        for i in range(5):
            rise, fall = rates(p[i], 0.1)
            up[i] = draw[i] >= fall if up[i] else draw[i] < rise
        np.testing.assert_array_equal(mask[t], up)


@pytest.mark.statistical
def test_varying_rates_are_those_of_the_round_entered():
    p = np.array([0.1, 0.5, 0.9])
    schedule = sine(p, gamma=0.4, period=8)
    mask = masks(markov(schedule, 0.3), 10, SEEDS)
    prob = np.stack([np.asarray(schedule.mean(jnp.int32(t)), float) for t in range(10)])
    mean = prob[0]
    for t in range(10):
        rise, fall = np.transpose([rates(value, 0.3) for value in prob[t]])
        mean = mean * (1 - fall) + (1 - mean) * rise
        assert_frequencies(mask[:, t].sum(axis=0), mean, SEEDS)
    # The reported probability is the one moved towards, which the links lag behind.
    np.testing.assert_allclose(roll(markov(schedule), 10).prob, prob, rtol=1e-6)
    assert np.abs(mean - prob[9]).max() > 0.02


def test_random_schedules_keep_their_range():
    links = roll(markov(jitter([0.05, 0.9], width=0.05)), 500)
    np.testing.assert_array_equal(links.prob[3], np.float32([0.05, 0.9]))
    assert 0 < links.mask[:, 0].mean() < links.mask[:, 1].mean() < 1


def test_traced_parameters_agree_with_concrete_ones():
    p = np.float32([[0.1, 0.7], [0.0, 1.0]])
    up = np.float32([0.05, 0.5])
    key = jax.random.key(0)

    def run(p, up):
        pattern = markov(p, up)
        return advance(pattern, pattern.init(key), key, 0, 6)[1]

    swept = jax.jit(jax.vmap(run))(p, up)
    alone = jax.jit(lambda: jnp.stack([run(p[g], up[g]) for g in range(2)]))()
    np.testing.assert_array_equal(swept, alone)


def test_errors():
    refuses(lambda: markov([0.5], 0.0), '`up_rate` must be positive, got 0.0.')
    refuses(lambda: markov([0.5], 1.5), '`up_rate` must lie in [0, 1], got 1.5.')
    refuses(
        lambda: markov([0.5], [0.1, 0.2]),
        '`up_rate` must be one number or a list of 1, got shape (2,).',
    )
    refuses(
        lambda: markov([0.5], 0.2, correlation_time=3.0),
        '`up_rate` must be left out beside correlation_time, got 0.2.',
    )
    refuses(
        lambda: markov([0.5], _UP_RATE, correlation_time=3.0),
        '`up_rate` must be left out beside correlation_time, got 0.05.',
    )
    refuses(
        lambda: markov([0.5], correlation_time=0.0),
        '`correlation_time` must be positive, got 0.0.',
    )
    refuses(
        lambda: markov([0.5], correlation_time=[1.0, 2.0]),
        '`correlation_time` must be one number or a list of 1, got shape (2,).',
    )
    refuses(
        lambda: markov([0.5, 1.5]),
        '`schedule` must lie in [0, 1], got 1.5 at client 1.',
    )
