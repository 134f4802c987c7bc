"""Waiting for everybody: steps of full participation at the end of each block."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import block_loops, harness, quadratic_loops


@pytest.mark.parametrize('period, start_round', [(1, 0), (7, 0), (7, 9)])
def test_it_follows_the_listing(x64, period, start_round):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.wait_for_all(setting, period, start_round)
    options = {'period': period, 'start_round': start_round}
    harness.follow(setting, algorithms.wait_for_all, expected, **options)


def test_only_the_last_round_of_a_block_trains_anybody(x64):
    setting = quadratic_loops.hard_setting()
    options = {'period': 7, 'start_round': 0}
    path, result = harness.run(setting, algorithms.wait_for_all, **options)
    num_rounds, num_clients = setting.mask.shape
    ends_block = np.arange(1, num_rounds + 1) % 7 == 0
    num_computing = np.where(ends_block, num_clients, 0)
    np.testing.assert_array_equal(result.rounds.num_computing, num_computing)
    moved = np.abs(np.diff(np.vstack([setting.start, path]), axis=0)).max(axis=1) > 0
    np.testing.assert_array_equal(moved, ends_block)


def test_a_period_of_one_is_fedavg_with_everybody(x64):
    setting = quadratic_loops.hard_setting()._replace(server_lr=1.0)
    everyone = setting._replace(mask=np.ones_like(setting.mask))
    expected = quadratic_loops.fedavg(everyone)
    options = {'period': 1, 'start_round': 0}
    harness.follow(setting, algorithms.wait_for_all, expected, **options)
