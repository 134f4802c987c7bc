"""Optimizers and schedules of optax by name, against the same in NumPy."""

import numpy as np
import pytest

from fedjax_links import experiment


def distances(**changes):
    """Distances to the optimum 2 by round: x starts at 0, and the mean gradient is x - 2."""
    config = {
        'title': 'by name',
        'problem': {'name': 'quadratic', 'targets': [[1.0], [3.0]]},
        'links': {'name': 'always'},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 4,
        'eval_every': 1,
        **changes,
    }
    return experiment.build(config).run()['server/distance']


def test_a_decay_of_optax_is_given_the_rate():
    decay = {'name': 'optax:cosine_decay_schedule', 'decay_steps': 4}
    rates = [0.1 * 0.5 * (1 + np.cos(np.pi * t / 4)) for t in range(4)]
    result = distances(client={'learning_rate': 0.1, 'local_steps': 1, 'decay': decay})
    np.testing.assert_allclose(result, 2 * np.cumprod(1 - np.array(rates)), rtol=1e-5)


@pytest.mark.parametrize('option', ['b1', 'b2'])
@pytest.mark.parametrize('decay', [1.0, 1 - 1e-9])
def test_decays_whose_bias_cannot_be_corrected_are_refused(option, decay):
    """In float32 both are 1, and the first step would divide zero by zero."""
    optimizer = {'name': 'adam', option: decay}
    client = {'learning_rate': 0.1, 'local_steps': 1, 'optimizer': optimizer}
    with pytest.raises(ValueError, match=rf'optimizer\.{option}` must be below 1, got'):
        distances(client=client)


def test_a_rate_of_the_server_may_be_a_schedule():
    rate = {
        'name': 'optax:linear_schedule',
        'init_value': 1.0,
        'end_value': 0.0,
        'transition_steps': 4,
    }
    server = {'name': 'sgd', 'learning_rate': rate}
    result = distances(algorithms={'fedopt': {'server_optimizer': server}})
    rates = 0.1 * np.array([1.0, 0.75, 0.5, 0.25])
    np.testing.assert_allclose(result, 2 * np.cumprod(1 - rates), rtol=1e-5)


def test_sign_steps_of_an_optimizer_by_module():
    optimizer = {'name': 'optax:lion', 'b1': 0.0, 'b2': 0.0, 'weight_decay': 0.0}
    result = distances(
        client={'learning_rate': 0.1, 'local_steps': 1, 'optimizer': optimizer}
    )
    np.testing.assert_allclose(result, 2 - 0.1 * np.arange(1, 5), rtol=1e-5)


def test_a_schedule_that_is_none_is_named():
    server = {'name': 'sgd', 'learning_rate': {'name': 'cosine'}}
    with pytest.raises(
        ValueError, match=r'learning_rate\.name` must be module:factory'
    ):
        distances(algorithms={'fedopt': {'server_optimizer': server}})
