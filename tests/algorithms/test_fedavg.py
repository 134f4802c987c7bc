"""FedAvg in its two forms and its divisor-N variant, against the listing.

Their limits are tested in `tests.statistical.test_fixed_points`.
"""

import numpy as np
import pytest

from fedjax_links import algorithms, local_training
from tests.reference import harness, quadratic_loops


def test_active_form_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected = quadratic_loops.fedavg(setting)
    harness.follow(setting, algorithms.fedavg, expected, server_lr=1.3)


def test_the_all_compute_form_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected_path, expected_models = quadratic_loops.fedavg_all_compute(setting)
    result = harness.follow(
        setting, algorithms.fedavg, expected_path, server_lr=1.3, compute='all'
    )
    np.testing.assert_allclose(
        result.state.algorithm.clients, expected_models, rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(
        expected_path, quadratic_loops.fedavg(setting), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(
        result.evals['client_mean'][-1], expected_models.mean(axis=0), rtol=0, atol=1e-9
    )


def test_fedavg_all_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected = quadratic_loops.fedavg_all(setting)
    harness.follow(setting, algorithms.fedavg_all, expected, server_lr=1.3)


def test_the_reference_tells_the_divisors_apart():
    setting = quadratic_loops.hard_setting()
    gap = np.abs(
        quadratic_loops.fedavg(setting) - quadratic_loops.fedavg_all(setting)
    ).max()
    assert gap > 1e-3


@pytest.mark.parametrize('options', [{}, {'compute': 'all'}])
def test_metrics_count_active_and_computing_clients(x64, options):
    setting = quadratic_loops.hard_setting()
    _, result = harness.run(setting, algorithms.fedavg, server_lr=1.3, **options)
    num_active = setting.mask.sum(axis=1)
    np.testing.assert_array_equal(result.rounds.num_active, num_active)
    num_computing = np.full(80, 7) if options else num_active
    np.testing.assert_array_equal(result.rounds.num_computing, num_computing)


def test_an_unknown_compute_mode_is_refused_with_the_nearest():
    program = local_training.local_sgd(0.1, local_steps=1)
    with pytest.raises(
        ValueError, match="`compute` has no 'activ'; did you mean 'active'"
    ):
        algorithms.fedavg(program, compute='activ')
