"""Amplified FedAvg against its listing, and as FedAvg in disguise."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import block_loops, harness, quadratic_loops


def follow(setting, expected, *, start_round=0, **options):
    options['start_round'] = start_round
    harness.follow(setting, algorithms.amplified_fedavg, expected, **options)


@pytest.mark.parametrize(
    'period, start_round', [(1, 0), (6, 0), (6, 9), (80, 0), (100, 0)]
)
def test_it_follows_the_listing(x64, period, start_round):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.amplified_fedavg(setting, period, 1.3, start_round)
    options = {'period': period, 'start_round': start_round}
    follow(setting, expected, amplification=1.3, **options)


def test_a_period_of_one_is_fedavg_with_that_server_rate(x64):
    setting = quadratic_loops.hard_setting()
    follow(setting, quadratic_loops.fedavg(setting), period=1, amplification=1.3)


def test_an_amplification_of_one_is_fedavg(x64):
    setting = quadratic_loops.hard_setting()._replace(server_lr=1.0)
    follow(setting, quadratic_loops.fedavg(setting), period=7, amplification=1.0)


def test_a_block_that_ends_in_an_empty_round_is_amplified_there(x64):
    setting = quadratic_loops.hard_setting()
    assert not setting.mask[11].any()
    options = {'period': 12, 'amplification': 2.0, 'start_round': 0}
    path, _ = harness.run(setting, algorithms.amplified_fedavg, **options)
    np.testing.assert_allclose(
        path[11] - setting.start, 2 * (path[10] - setting.start), rtol=1e-9
    )
