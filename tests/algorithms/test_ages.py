"""Ages of remembered updates, server optimizers on them, and two newer memories."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import algorithms, participation, problems, simulation
from tests import refusals
from tests.reference import harness, limits, peer_loops, quadratic_loops
from tests.tiers import cases

SEEDS = range(10)
TIGHT = {'rtol': 0, 'atol': 1e-12}
AGED = {'mifa': peer_loops.aged_mifa, 'fedvarp': peer_loops.aged_fedvarp}
WITH_OPTIMIZERS = {
    'mifa': {},
    'fedvarp': {},
    'fedstale': {'stale_weight': 0.4},
    'focus': {'server_lr': 0.05},
}


def follow(setting, algorithm, expected):
    path, result = harness.run(setting, algorithm)
    np.testing.assert_allclose(path, expected, **TIGHT)
    return result.state.algorithm


@pytest.mark.parametrize('max_age', [0, 1, 5, 200])
@pytest.mark.parametrize('name', AGED)
@pytest.mark.parametrize('seed', cases(SEEDS, [0]))
def test_ages_follow_the_listing(x64, seed, name, max_age):
    setting = quadratic_loops.hard_setting(seed)._replace(server_lr=0.7)
    program = harness.client_program(setting)
    algorithm = algorithms.ALGORITHMS[name](program, server_lr=0.7, max_age=max_age)
    follow(setting, algorithm, AGED[name](setting, max_age))


def test_an_age_in_gradients_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()._replace(server_lr=0.7)
    algorithm = algorithms.mifa(
        harness.client_program(setting), server_lr=0.7, memory='gradient', max_age=4
    )
    follow(setting, algorithm, peer_loops.aged_mifa(setting, 4, 'gradient'))


@pytest.mark.parametrize('name', AGED)
@pytest.mark.parametrize('seed', cases(SEEDS, [0]))
def test_age_zero_is_fedavg_to_the_bit(x64, seed, name):
    setting = quadratic_loops.hard_setting(seed)
    program = harness.client_program(setting)
    aged = algorithms.ALGORITHMS[name](program, server_lr=1.3, max_age=0)
    (path, _), (expected, _) = (
        harness.run(setting, rule) for rule in (aged, algorithms.fedavg(program, server_lr=1.3))
    )
    np.testing.assert_array_equal(path, expected)


@pytest.mark.parametrize('name', AGED)
def test_an_age_may_be_traced(name):
    """So that ages are swept in one program."""
    setting = quadratic_loops.hard_setting()
    program = harness.client_program(setting)

    def end(max_age):
        rule = algorithms.ALGORITHMS[name](program, max_age=max_age)
        problem = problems.quadratic(setting.targets, initial_point=setting.start)
        links = participation.replay(setting.mask)
        state = simulation.simulate(jax.random.key(0), rule, links, problem, num_rounds=80).state
        return state.algorithm.server

    together = jax.vmap(end)(jnp.array([0, 5]))
    np.testing.assert_allclose(together, [end(0), end(5)], rtol=1e-5)


@pytest.mark.parametrize('name', WITH_OPTIMIZERS)
@pytest.mark.parametrize('seed', cases(SEEDS, [0]))
def test_sgd_of_unit_rate_is_the_rule_to_the_bit(x64, seed, name):
    setting = quadratic_loops.gentle_setting(seed)
    program, make = harness.client_program(setting), algorithms.ALGORITHMS[name]
    options = {'server_lr': 1.0, **WITH_OPTIMIZERS[name]}
    with_sgd = make(program, **options, server_optimizer=optax.sgd(1.0))
    (path, _), (expected, _) = (
        harness.run(setting, rule) for rule in (with_sgd, make(program, **options))
    )
    np.testing.assert_array_equal(path, expected)


def test_momentum_on_remembered_updates(x64):
    """MIFA's step as the gradient of heavy-ball momentum, by hand."""
    setting = quadratic_loops.gentle_setting()
    rule = algorithms.mifa(
        harness.client_program(setting), server_optimizer=optax.sgd(0.5, momentum=0.9)
    )
    x, trace, rows, path = setting.start.copy(), 0, np.zeros_like(setting.targets), []
    for t, active in enumerate(setting.mask):
        for i in np.flatnonzero(active):
            rows[i] = quadratic_loops.local(setting, x, i, t) - x
        trace = 0.9 * trace + rows.mean(axis=0)
        x = x + 0.5 * trace
        path.append(x)
    follow(setting, rule, np.array(path))


@pytest.mark.parametrize('seed', cases(SEEDS, [0]))
def test_mimic_follows_the_listing(x64, seed):
    setting = quadratic_loops.hard_setting(seed)._replace(server_lr=0.7)
    algorithm = algorithms.mimic(harness.client_program(setting), server_lr=0.7)
    expected, corrections = peer_loops.mimic(setting)
    state = follow(setting, algorithm, expected)
    np.testing.assert_allclose(state.corrections, corrections, **TIGHT)


@pytest.mark.parametrize('seed', cases(SEEDS, [0]))
def test_area_follows_the_listing(x64, seed):
    setting = quadratic_loops.hard_setting(seed)
    expected, sent = peer_loops.area(setting)
    state = follow(setting, algorithms.area(harness.client_program(setting)), expected)
    np.testing.assert_allclose(state.clients, sent, **TIGHT)
    np.testing.assert_allclose(state.server, state.clients.mean(axis=0), **TIGHT)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['area', 'mimic'])
def test_the_printed_limits_come_out(x64, name):
    assert limits.distance(algorithms.ALGORITHMS[name](limits.program())) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize('age, distance', [(0, 0.69), (5, 0.21), (20, 0.033), (50, 0.005)])
def test_the_printed_distances_by_age_come_out(x64, age, distance):
    found, _ = limits.mixed(algorithms.mifa(limits.program(), max_age=age))
    assert abs(found - distance) < 0.05 * distance + 0.004


@pytest.mark.parametrize('value', [-1, 1.5, 'a'])
def test_no_age(value):
    program = limits.program()
    for name in AGED:
        with refusals.names('max_age'):
            algorithms.ALGORITHMS[name](program, max_age=value)


@pytest.mark.parametrize('name', WITH_OPTIMIZERS)
def test_no_optimizer(name):
    with refusals.names('server_optimizer'):
        algorithms.ALGORITHMS[name](
            limits.program(), **WITH_OPTIMIZERS[name], server_optimizer='adam'
        )
