"""Rates over the rounds: closed forms, warm-up and blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training
from fedjax_links.clients import rates as learning_rates
from fedjax_links.clients.rates import LEARNING_RATES
from tests import refusals
from tests.reference import harness, quadratic_loops

ROUNDS = np.arange(60)


def schedule_of(name, eta):
    options = {'initial': 0.3, 'rounds': 7} if name == 'warmup' else {}
    return LEARNING_RATES[name](eta, **options)


def rates(schedule):
    return np.asarray(jax.jit(jax.vmap(schedule))(jnp.arange(60)))


@pytest.mark.parametrize(
    'name, expected',
    [
        ('constant', np.full(60, 0.05)),
        ('inverse_sqrt', 0.05 / np.sqrt(ROUNDS / 10 + 1)),
        ('inverse', 0.05 / (ROUNDS + 1)),
        ('warmup', np.array([0.3] * 7 + [0.05] * 53)),
    ],
)
def test_closed_forms(name, expected):
    schedule = schedule_of(name, 0.05)
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-6)


@pytest.mark.parametrize('name', LEARNING_RATES)
def test_rates_are_exact_in_double_precision(x64, name):
    expected = {
        'constant': 0.05,
        'inverse_sqrt': 0.05 / np.sqrt(1.3),
        'inverse': 0.05 / 4,
        'warmup': 0.3,
    }
    rate = schedule_of(name, 0.05)(jnp.int32(3))
    assert rate.dtype == np.float64
    np.testing.assert_allclose(rate, expected[name], rtol=1e-15)


@pytest.mark.parametrize('name', LEARNING_RATES)
def test_a_traced_rate_scales_the_schedule(name):
    @jax.jit
    def traced(eta):
        return jax.vmap(schedule_of(name, eta))(jnp.arange(60))

    for eta in (0.05, 0.7):
        expected = rates(schedule_of(name, eta))
        np.testing.assert_allclose(traced(eta), expected, rtol=1e-6)
    assert traced._cache_size() == 1
    assert schedule_of(name, 0.05)(jnp.int32(3)).dtype == jnp.float32


@pytest.mark.parametrize('name', LEARNING_RATES)
@pytest.mark.parametrize('eta', [0.0, -0.1, float('nan'), float('inf')])
def test_a_rate_that_is_not_positive_is_refused(name, eta):
    with refusals.names('eta'):
        schedule_of(name, eta)


@pytest.mark.parametrize(
    'initial, rounds, field',
    [(0.0, 3, 'initial'), (0.2, -1, 'rounds'), (0.2, 2.5, 'rounds')],
)
def test_a_wrong_warm_up_is_refused(initial, rounds, field):
    with refusals.names(field):
        learning_rates.warmup(0.1, initial=initial, rounds=rounds)


def amplified_after_warmup(setting, initial, warmup, period, amplification):
    """Wang and Ji 2022: plain FedAvg while warming up, then x_ref and the clock start."""
    x = setting.start.copy()
    path = []
    for t, active in enumerate(setting.mask):
        if t == warmup:
            reference = x.copy()
        rate = initial if t < warmup else setting.rate(t)
        ends = []
        for target in setting.targets[active]:
            y = x.copy()
            for _ in range(setting.local_steps):
                y = y - rate * (y - target)
            ends.append(y)
        if ends:
            x = np.mean(ends, axis=0)
        if t >= warmup and (t - warmup + 1) % period == 0:
            x = reference + amplification * (x - reference)
            reference = x.copy()
        path.append(x)
    return np.array(path)


def test_blocks_begin_where_the_warm_up_ends(x64):
    setting = quadratic_loops.hard_setting()._replace(rate=lambda t: 0.05)
    schedule = learning_rates.warmup(0.05, initial=0.3, rounds=9)
    expected = amplified_after_warmup(setting, 0.3, 9, 6, 1.5)

    def path_from(start_round):
        path, _ = harness.run(
            setting,
            algorithms.amplified_fedavg,
            make_client=lambda rate, **kwargs: local_training.local_sgd(
                schedule, **kwargs
            ),
            period=6,
            amplification=1.5,
            start_round=start_round,
        )
        return path

    np.testing.assert_allclose(path_from(9), expected, rtol=0, atol=1e-9)
    for start_round in (8, 10):
        path = path_from(start_round)
        harness.assert_caught(expected, path)
