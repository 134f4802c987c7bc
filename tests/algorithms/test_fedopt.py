"""FedOpt against hand-written server optimizers."""

import numpy as np
import optax
import pytest

from fedjax_links import algorithms, experiment, local_training
from tests import refusals
from tests.reference import block_loops, harness, quadratic_loops


def test_server_momentum_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.fedavgm(setting, 0.4, 0.8)
    optimizer = optax.sgd(0.4, momentum=0.8)
    harness.follow(setting, algorithms.fedopt, expected, server_optimizer=optimizer)


def with_adam(client, rate):
    return algorithms.fedopt(client, server_optimizer=optax.adam(rate))


@pytest.mark.parametrize('rate', [0.1, 0.2])
def test_server_adam_of_a_traced_rate_follows_the_listing(x64, rate):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.fedadam(setting, rate)
    result = harness.follow(setting, with_adam, expected, rate=rate)
    steps = optax.tree.get(result.state.algorithm.optimizer, 'count')
    assert steps == setting.mask.any(axis=1).sum()


@pytest.mark.parametrize(
    'kind, initial',
    [('adagrad', None), ('adam', None), ('yogi', None), ('yogi', 0.0)],
)
def test_algorithm_2_as_printed_follows_the_listing(x64, kind, initial):
    setting = quadratic_loops.hard_setting()
    decays = {'b1': 0.8} if kind == 'adagrad' else {'b1': 0.8, 'b2': 0.9}
    make = getattr(algorithms, f'fed{kind}')
    optimizer = make(0.2, **decays, tau=0.01, initial_second_moment=initial)
    expected = block_loops.adaptive(setting, kind, 0.2, 0.8, 0.9, 0.01, initial)
    harness.follow(setting, algorithms.fedopt, expected, server_optimizer=optimizer)
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
    expected = quadratic_loops.fedavg(setting)
    harness.follow(
        setting, algorithms.fedopt, expected, server_optimizer=optax.sgd(1.3)
    )


def test_anything_but_an_optax_transformation_is_refused():
    program = local_training.local_sgd(0.1, local_steps=1)
    message = (
        r'^`server_optimizer` must be an optax gradient transformation, got 0\.1\.$'
    )
    with pytest.raises(ValueError, match=message):
        algorithms.fedopt(program, server_optimizer=0.1)
