"""Ages of remembered updates, server optimizers on them, and two newer memories."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import algorithms, experiment, participation, problems, simulation
from tests import refusals
from tests.reference import harness, limits, peer_loops, quadratic_loops
from tests.tiers import cases

SERVER_LR = 0.7
TIGHT = {'rtol': 0, 'atol': 1e-12}
AGED = {'mifa': peer_loops.aged_mifa, 'fedvarp': peer_loops.aged_fedvarp}
WITH_OPTIMIZERS = {
    'mifa': {},
    'fedvarp': {},
    'fedstale': {'stale_weight': 0.4},
    'focus': {},
}
SGD = optax.sgd(1.0)


def histories():
    """Three settings that start at zero."""
    return [
        quadratic_loops.hard_setting(seed)._replace(
            server_lr=SERVER_LR, start=np.zeros(3)
        )
        for seed in range(3)
    ]


@pytest.mark.parametrize('max_age', [0, 1, 5, 200])
@pytest.mark.parametrize('name', AGED)
def test_ages_follow_the_listing(x64, name, max_age):
    settings = histories()
    paths = [AGED[name](setting, max_age) for setting in settings]
    options = {'server_lr': SERVER_LR, 'max_age': max_age}
    harness.follow_many(settings, getattr(algorithms, name), paths, **options)


def test_an_age_in_gradients_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()._replace(server_lr=SERVER_LR)
    expected = peer_loops.aged_mifa(setting, 4, 'gradient')
    options = {'server_lr': SERVER_LR, 'memory': 'gradient', 'max_age': 4}
    harness.follow(setting, algorithms.mifa, expected, atol=1e-12, **options)


@pytest.mark.parametrize('name', AGED)
@pytest.mark.parametrize('seed', cases(range(3), [0]))
def test_age_zero_is_fedavg_to_the_bit(x64, seed, name):
    setting = quadratic_loops.hard_setting(seed)
    aged = getattr(algorithms, name)
    path, _ = harness.run(setting, aged, server_lr=1.3, max_age=0)
    expected, _ = harness.run(setting, algorithms.fedavg, server_lr=1.3)
    np.testing.assert_array_equal(path, expected)


@pytest.mark.parametrize('name', WITH_OPTIMIZERS)
@pytest.mark.parametrize('seed', cases(range(3), [0]))
def test_sgd_of_unit_rate_changes_no_bit_of_an_algorithm(x64, seed, name):
    setting = quadratic_loops.gentle_setting(seed)
    make = getattr(algorithms, name)
    options = WITH_OPTIMIZERS[name]
    path, _ = harness.run(setting, make, **options, server_optimizer=SGD)
    # By default FOCUS steps by the local rate.
    unit_rate = {'server_lr': None if name == 'focus' else 1.0}
    expected, _ = harness.run(setting, make, **options, **unit_rate)
    np.testing.assert_array_equal(path, expected)


@pytest.mark.parametrize('name', WITH_OPTIMIZERS)
def test_a_server_rate_is_refused_with_an_optimizer(name):
    """An adaptive optimizer would cancel what multiplies its gradient."""
    make = algorithms.ALGORITHMS[name]
    options = WITH_OPTIMIZERS[name]
    for rate in (0.5, jnp.float32(0.5)):
        with refusals.names('server_lr', 'server_optimizer'):
            make(
                limits.program(),
                **options,
                server_lr=rate,
                server_optimizer=optax.adam(0.1),
            )


def test_every_algorithm_with_an_optional_optimizer_is_tried():
    both = {'server_lr', 'server_optimizer'}
    names = set()
    for name, entry in algorithms.ALGORITHMS.items():
        if both <= inspect.signature(entry.factory).parameters.keys():
            names.add(name)
    assert names == {*WITH_OPTIMIZERS}


def test_a_tuned_server_rate_skips_algorithms_with_optimizers():
    adam = {'name': 'adam', 'learning_rate': 0.1}
    config = {
        'title': 'both',
        'problem': {'name': 'quadratic', 'targets': [[1.0], [2.0]]},
        'links': 'always',
        'client': {'learning_rate': 0.5, 'local_steps': 1},
        'algorithms': {'mifa': {'server_optimizer': adam}, 'fedvarp': {}},
        'tuning': {'server_lrs': [0.5, 1.0]},
        'num_rounds': 2,
        'eval_every': 1,
    }
    plan = experiment.build(config).plan
    is_tuned = {
        label: 'server_lr' in maker.columns for label, maker in plan.algorithms.items()
    }
    assert is_tuned == {'mifa': False, 'fedvarp': True}


def test_momentum_on_remembered_updates(x64):
    """MIFA's step as the gradient of heavy-ball momentum, by hand."""
    setting = quadratic_loops.gentle_setting()
    x = setting.start.copy()
    trace = 0
    rows = np.zeros_like(setting.targets)
    path = []
    for t, active in enumerate(setting.mask):
        for i in np.flatnonzero(active):
            rows[i] = quadratic_loops.local(setting, x, i, t) - x
        trace = 0.9 * trace + rows.mean(axis=0)
        x = x + 0.5 * trace
        path.append(x)
    optimizer = optax.sgd(0.5, momentum=0.9)
    options = {'server_optimizer': optimizer, 'atol': 1e-12}
    harness.follow(setting, algorithms.mifa, np.array(path), **options)


def test_mimic_follows_the_listing(x64):
    settings = histories()
    paths, corrections = zip(*map(peer_loops.mimic, settings), strict=True)
    states = harness.follow_many(settings, algorithms.mimic, paths, server_lr=SERVER_LR)
    for state, correction in zip(states, corrections, strict=True):
        np.testing.assert_allclose(state.corrections, correction, **TIGHT)


def test_area_follows_the_listing(x64):
    settings = histories()
    paths, sent = zip(*map(peer_loops.area, settings), strict=True)
    states = harness.follow_many(settings, algorithms.area, paths)
    for state, models in zip(states, sent, strict=True):
        np.testing.assert_allclose(state.clients, models, **TIGHT)
        np.testing.assert_allclose(state.server, state.clients.mean(axis=0), **TIGHT)


@pytest.mark.slow
@pytest.mark.optimised
def test_in_single_precision_area_ends_where_mifa_does():
    """Compiled as users compile, by multiplications fused into additions."""
    targets = limits.TARGETS + 3 * limits.PROBS[:, None]
    problem = problems.quadratic(targets)
    links = participation.bernoulli(limits.PROBS)

    def end(name):
        algorithm = algorithms.ALGORITHMS[name](limits.program())
        run = jax.jit(
            lambda key: (
                simulation.simulate(
                    key, algorithm, links, problem, num_rounds=8_000
                ).state
            )
        )
        return jax.tree.map(np.float64, run(jax.random.key(0)).algorithm)

    area = end('area')
    mifa = end('mifa')
    np.testing.assert_allclose(
        area.server, area.clients.mean(axis=0), rtol=0, atol=1e-6
    )
    for state in area, mifa:
        np.testing.assert_allclose(
            state.server, targets.mean(axis=0), rtol=0, atol=5e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize('name', ['area', 'mimic'])
def test_the_printed_limits_come_out(x64, name):
    assert limits.distance(algorithms.ALGORITHMS[name](limits.program())) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize(
    'age, distance', [(0, 0.69), (5, 0.21), (20, 0.033), (50, 0.005)]
)
def test_the_printed_distances_by_age_come_out(x64, age, distance):
    result, _ = limits.distance_and_spread(
        algorithms.mifa(limits.program(), max_age=age), limits.mixed_links()
    )
    assert abs(result - distance) < 0.05 * distance + 0.004


@pytest.mark.parametrize('value', [-1, 1.5, 'a', 2**29 + 1, 2**30 + 5])
def test_what_is_no_age_is_refused(value):
    program = limits.program()
    for name in AGED:
        with refusals.names('max_age'):
            algorithms.ALGORITHMS[name](program, max_age=value)


@pytest.mark.parametrize('name', WITH_OPTIMIZERS)
def test_what_is_no_optimizer_is_refused(name):
    with refusals.names('server_optimizer'):
        algorithms.ALGORITHMS[name](
            limits.program(), **WITH_OPTIMIZERS[name], server_optimizer='adam'
        )
