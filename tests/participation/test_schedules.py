"""Probability schedules: the formulas in float64, the uniform law, the day curve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.participation import (
    bernoulli,
    constant,
    diurnal,
    jitter,
    markov,
    schedules,
    sine,
)
from fedjax_links.participation.schedules import as_schedule
from tests import refusals
from tests.participation.sampling import Z, refuses, roll, roll_together

P = np.array([0.0, 0.05, 0.9, 1.0])


def values(schedule, num_rounds, key=None):
    key = jax.random.key(0) if key is None else key
    of_rounds = jax.jit(jax.vmap(lambda t: schedule(jax.random.fold_in(key, t), t)))
    return np.asarray(of_rounds(np.arange(num_rounds, dtype=np.int32)))


def test_sine_in_a_plain_loop():
    expected = [
        [min(1, p * ((1 - 0.4) + 0.4 * np.sin(2 * np.pi * t / 40))) for p in P]
        for t in range(100)
    ]
    np.testing.assert_allclose(
        values(sine(P, gamma=0.4, period=40), 100), expected, atol=1e-6
    )
    np.testing.assert_array_equal(values(constant(P), 3), np.float32([P] * 3))


@pytest.mark.statistical
def test_jitter_is_uniform_fresh_and_of_mean_p():
    draws = values(jitter([0.05, 0.9], width=0.02), 40_000)
    u = (draws - [0.05, 0.9]) / 0.02
    assert np.abs(u).max() <= 1 + 1e-4
    # Mean 0 and variance 1/3 with variance 4/45 of the square; independent rounds and clients.
    assert np.all(np.abs(u.mean(axis=0)) < Z * np.sqrt(1 / 3 / 40_000))
    assert np.all(np.abs((u**2).mean(axis=0) - 1 / 3) < Z * np.sqrt(4 / 45 / 40_000))
    for product in (u[1:] * u[:-1], u[:, 0] * u[:, 1]):
        assert np.all(np.abs(product.mean(axis=0)) < Z * np.sqrt(1 / 9 / 39_999))
    np.testing.assert_array_equal(
        jitter([0.05, 0.9], width=0.02).mean(jnp.int32(7)), np.float32([0.05, 0.9])
    )


def test_jitter_of_width_zero_is_constant():
    np.testing.assert_array_equal(values(jitter(P, width=0.0), 5), np.float32([P] * 5))


def test_diurnal_windows():
    # 24 rounds per day: client 0 up at 0..7 o'clock, client 1 six hours ahead, client 2 never.
    schedule = diurnal(np.ones(3), up_hours=[8, 8, 0], phase=[0, 6, 0])
    hours = np.arange(72)
    expected = np.stack([hours % 24 < 8, (hours + 6) % 24 < 8, hours < 0], axis=1)
    np.testing.assert_array_equal(values(schedule, 72), expected)
    links = roll(bernoulli(schedule), 72)
    np.testing.assert_array_equal(links.mask, expected)
    np.testing.assert_array_equal(links.prob, expected)


@pytest.mark.parametrize('rounds_per_day', [6, 24, 144, 1440, 7])
def test_diurnal_share_of_the_day_is_exact_far_out(rounds_per_day):
    schedule = diurnal(
        [0.8, 0.6], trough=[0.1, 0.0], rounds_per_day=rounds_per_day, up_hours=12
    )
    # Arrays of one shape for days of all lengths.
    rounds = 10_000 * rounds_per_day + np.arange(1440, dtype=np.int32)
    day = np.asarray(jax.vmap(schedule.mean)(rounds))[:rounds_per_day]
    up = (rounds_per_day + 1) // 2
    np.testing.assert_allclose(day[:up], np.tile([0.8, 0.6], (up, 1)), rtol=1e-6)
    np.testing.assert_allclose(
        day[up:], np.tile([0.1, 0.0], (len(day) - up, 1)), rtol=1e-6
    )


def test_schedules_take_tracers():
    probs = np.float32([[0.2, 0.4], [0.5, 0.5]])
    widths = np.float32([0.1, 0.2])

    def both(p, width):
        key = jax.random.key(0)
        jittered = jitter(p, width=width)(key, 1)
        modulated = sine(p, gamma=width, period=9)(key, 2)
        return jnp.stack([jittered, modulated])

    swept = jax.jit(jax.vmap(both))(probs, widths)
    alone = jax.jit(lambda: jnp.stack([both(probs[g], widths[g]) for g in range(2)]))()
    np.testing.assert_allclose(swept, alone, rtol=1e-6)


def test_plain_functions_are_schedules():
    schedule = as_schedule(lambda key, round: jnp.full(3, 0.5) / (1 + round))
    np.testing.assert_allclose(schedule.mean(jnp.int32(1)), 0.25)
    assert schedule.num_clients == 3

    @jax.jit
    def ignores(key, round):
        del key
        return jnp.full(3, 0.5) / (1 + round)

    np.testing.assert_allclose(as_schedule(ignores).mean(jnp.int32(1)), 0.25)


def fleeting(key, round):
    """Probabilities around one half that are drawn afresh in every round."""
    return 0.5 + 0.4 * (2 * jax.random.uniform(jax.random.fold_in(key, 0), (3,)) - 1)


@pytest.mark.parametrize(
    'make, function', [(bernoulli, fleeting), (markov, jax.jit(fleeting))]
)
def test_a_random_functions_mean_is_unknown_unless_declared(make, function):
    mean = np.full(3, 0.5, np.float32)
    declared = schedules.Schedule(function, lambda round: jnp.asarray(mean), 3)
    links, known = roll_together([make(function), make(declared)], 5)
    assert np.isnan(links.prob).all()
    assert links.prob.dtype == np.float32
    np.testing.assert_array_equal(known.prob, np.tile(mean, (5, 1)))
    np.testing.assert_array_equal(known.mask, links.mask)


NO_SCHEDULES = {
    'percentages': lambda key, round: jnp.array([30, 60]),
    'percentages in floats': lambda key, round: jnp.array([30.0, 60.0]),
    'a sine below zero': lambda key, round: 0.5 + jnp.sin(round / 5.0) * jnp.ones(2),
    'a growth without end': lambda key, round: (0.1 + 0.001 * round) * jnp.ones(2),
    'not a number': lambda key, round: jnp.array([0.5, jnp.nan]),
    'a draw beyond one': lambda key, round: 0.9 + jax.random.uniform(key, (2,)),
    'one number': lambda key, round: jnp.float32(0.5),
    'a matrix': lambda key, round: jnp.full((2, 2), 0.5),
}


@pytest.mark.parametrize('name', NO_SCHEDULES)
def test_a_function_that_returns_no_probabilities_is_refused(name):
    function = NO_SCHEDULES[name]
    for make in (as_schedule, bernoulli):
        with refusals.names('schedule', 'return'):
            make(function)
    with refusals.names('schedule', 'return'):
        jax.jit(lambda: bernoulli(function).num_clients)()


@pytest.mark.parametrize(
    'field, functions',
    [
        ('schedule.probs', {'probs': lambda key, round: jnp.ones(3)}),
        ('schedule.probs', {'probs': lambda key, round: jnp.array([1, 1])}),
        ('schedule.mean', {'mean': lambda round: jnp.float32(0.5)}),
    ],
)
def test_a_schedule_of_other_shapes_is_refused(field, functions):
    schedule = schedules.constant([0.5, 0.5])._replace(**functions)
    with refusals.names(field, 'float[2]'):
        bernoulli(schedule)


def test_a_function_of_traced_values_is_not_looked_at():
    @jax.jit
    def mean(p):
        return as_schedule(lambda key, round: p * jnp.ones(2)).mean(jnp.int32(0))

    np.testing.assert_array_equal(mean(7.0), [7.0, 7.0])


def test_errors():
    refuses(
        lambda: jitter([0.5], width=-0.1), '`width` must lie in [0, 0.5], got -0.1.'
    )
    refuses(
        lambda: jitter([0.5, 0.25], width=0.3),
        '`width` must keep `p` within [0, 1], got 0.3 around 0.25 at client 1.',
    )
    refuses(
        lambda: jitter([0.5, 0.75], width=np.array([0.5, 0.5])),
        '`width` must keep `p` within [0, 1], got 0.5 around 0.75 at client 1.',
    )
    refuses(lambda: diurnal([0.5], trough=1.2), '`trough` must lie in [0, 1], got 1.2.')
    refuses(lambda: diurnal([1.5]), '`peak` must lie in [0, 1], got 1.5 at client 0.')
    refuses(
        lambda: diurnal([0.5], rounds_per_day=0),
        '`rounds_per_day` must be positive, got 0.',
    )
    refuses(
        lambda: diurnal([0.5], up_hours=25), '`up_hours` must lie in [0, 24], got 25.'
    )
    refuses(lambda: diurnal([0.5], phase=-1), '`phase` must lie in [0, 24], got -1.')
    refuses(
        lambda: sine([0.5], gamma=0.6, period=40),
        '`gamma` must lie in [0, 0.5], got 0.6.',
    )
