"""The page on memory prints what its script computes, and simulation agrees."""

from pathlib import Path

import numpy as np
import pytest

from studies import memory
from tests.reference.statistics import BOUND

PAGE = Path(memory.__file__).with_name('memory.md').read_text()


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_script():
    assert memory.bias_table() in PAGE
    assert memory.spread_table() in PAGE
    assert memory.rare_table() in PAGE


def test_rows_of_few_clients_are_those_of_the_script():
    for name, algorithm in memory.CORRECTED.items():
        for num_clients in (2, 4):
            ends = [memory.end(algorithm, num_clients, t) for t in memory.TIMES]
            row = [f'{end.bias:.2f}'.replace('-0.00', '0.00') for end in ends]
            assert f'| {name} | {num_clients} | {" | ".join(row)} |' in PAGE


def test_simulated_points_agree_with_exact_ones():
    assert memory.simulated_table() in PAGE
    for point in memory.recorded():
        # FedAU estimates its weights; `linear_curve` has no such algorithm.
        if point.algorithm != 'FedAU':
            exact = memory.bias_after_rounds(point)
            assert abs(point.bias - exact) < BOUND * point.error, point


def test_the_bias_falls_with_the_number_of_clients():
    """To first order: N times the bias is the same for each N."""
    biases = [n * memory.first_order('fedavg_known', n, 10.0) for n in memory.CLIENTS]
    np.testing.assert_allclose(biases, biases[0])
