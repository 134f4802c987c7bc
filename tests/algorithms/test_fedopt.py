"""FedOpt against hand-written server optimizers."""

import jax
import numpy as np
import optax
import pytest

from fedjax_links import (
    algorithms,
    experiment,
    local_training,
    participation,
    problems,
    simulation,
)
from tests import refusals
from tests.reference import block_loops, harness, quadratic_loops


def test_server_momentum_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(
        harness.client_program(setting), server_optimizer=optax.sgd(0.4, momentum=0.8)
    )
    harness.follow(setting, algorithm, block_loops.fedavgm(setting, 0.4, 0.8))


def test_server_adam_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(
        harness.client_program(setting), server_optimizer=optax.adam(0.1)
    )
    result = harness.follow(setting, algorithm, block_loops.fedadam(setting, 0.1))
    steps = optax.tree.get(result.state.algorithm.optimizer, 'count')
    assert steps == setting.mask.any(axis=1).sum()


@pytest.mark.parametrize('kind', ['adagrad', 'adam', 'yogi'])
@pytest.mark.parametrize('initial', [None, 0.0])
def test_algorithm_2_as_printed_follows_the_listing(x64, kind, initial):
    setting = quadratic_loops.hard_setting()
    decays = {'b1': 0.8} if kind == 'adagrad' else {'b1': 0.8, 'b2': 0.9}
    make = getattr(algorithms, f'fed{kind}')
    optimizer = make(0.2, **decays, tau=0.01, initial_second_moment=initial)
    algorithm = algorithms.fedopt(
        harness.client_program(setting), server_optimizer=optimizer
    )
    expected = block_loops.adaptive(setting, kind, 0.2, 0.8, 0.9, 0.01, initial)
    harness.follow(setting, algorithm, expected)
    corrected = block_loops.fedadam(setting, 0.2)
    harness.assert_caught(expected, corrected)


def test_algorithm_2_by_name_in_a_config():
    """The first step of one client from 0 to 1 by half: m = 0.05, v = 0.99 tau^2 + 0.0025."""
    config = {
        'title': 'by name',
        'problem': {'name': 'quadratic', 'targets': [[1.0]]},
        'links': 'always',
        'client': {'learning_rate': 0.5, 'local_steps': 1},
        'algorithms': {
            'fedopt': {'server_optimizer': {'name': 'fedadam', 'learning_rate': 0.1}}
        },
        'num_rounds': 1,
        'eval_every': 1,
    }
    (distance,) = experiment.build(config).run()['server/distance']
    step = 0.1 * 0.05 / (np.sqrt(0.99e-6 + 0.01 * 0.25) + 1e-3)
    assert distance == pytest.approx(1 - step, rel=1e-5)


@pytest.mark.parametrize(
    'field, value',
    [
        ('learning_rate', -1.0),
        ('b1', 1.0),
        ('b2', 1.5),
        ('tau', 0.0),
        ('initial_second_moment', -1.0),
    ],
)
def test_numbers_out_of_range_of_algorithm_2_are_refused(field, value):
    with refusals.names(field):
        algorithms.fedyogi(**{'learning_rate': 0.1, field: value})


def test_plain_sgd_at_the_server_is_fedavg(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(
        harness.client_program(setting), server_optimizer=optax.sgd(1.3)
    )
    harness.follow(setting, algorithm, quadratic_loops.fedavg(setting))


def test_a_server_optimizer_with_a_traced_rate_is_swept(x64):
    setting = quadratic_loops.hard_setting()
    program = harness.client_program(setting)
    links = participation.replay(setting.mask)
    problem = problems.quadratic(setting.targets, initial_point=setting.start)
    rates = np.array([0.1, 0.2])

    def end(rate):
        algorithm = algorithms.fedopt(program, server_optimizer=optax.adam(rate))
        result = simulation.simulate(
            jax.random.key(0), algorithm, links, problem, num_rounds=80
        )
        return result.state.algorithm.server

    swept = jax.jit(jax.vmap(end))(rates)
    expected = [block_loops.fedadam(setting, rate)[-1] for rate in rates]
    np.testing.assert_allclose(swept, expected, rtol=0, atol=1e-9)


def test_anything_but_an_optax_transformation_is_refused():
    program = local_training.local_sgd(0.1, local_steps=1)
    message = (
        r'^`server_optimizer` must be an optax gradient transformation, got 0\.1\.$'
    )
    with pytest.raises(ValueError, match=message):
        algorithms.fedopt(program, server_optimizer=0.1)
