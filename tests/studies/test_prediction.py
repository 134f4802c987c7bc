"""Cells of studies/prediction.md, computed again."""

import re

import numpy as np
import pytest

from studies import prediction
from tests import ROOT

PAGE = (ROOT / 'studies' / 'prediction.md').read_text()


def cells():
    """The first row of digits: predicted, simulated and its standard error, for FedAvg."""
    row = re.search(
        r'^\| 0 \| \.02 \| 1,000 \| 5 \| (\S+) \| (\S+) ± (\S+) \|', PAGE, re.MULTILINE
    )
    return map(float, row.groups())


def test_the_predicted_cell():
    expected, _, _ = cells()
    result = prediction.predicted(prediction.digits(0.0, 0.02, 1000, 5))
    assert f'{100 * result.fedavg.reached["accuracy"]:.1f}' == f'{expected}'
    assert not result.fedavg.limit


@pytest.mark.slow
@pytest.mark.optimised
def test_the_simulated_cell():
    """Compilers round differently, so means of the same seeds agree in standard errors."""
    _, expected, error = cells()
    setting = prediction.digits(0.0, 0.02, 1000, 5)
    curves = prediction.simulated(setting, 'fedavg')['server']
    assert abs(np.mean(curves[:, -1]) - expected) < 3 * error


@pytest.mark.slow
def test_a_predicted_cell_of_gaussian_classes():
    row = re.search(
        r'^\| 0, 1\.5 \| (\S+), (\S+) \|.* \| (\S+), (\S+) \|', PAGE, re.MULTILINE
    )
    setting, population = prediction.gaussians(0, 1.5, 4000)
    result = prediction.predicted(setting)
    fedavg = 100 * result.fedavg.limit['accuracy']
    fedpbc = 100 * result.fedpbc.limit['accuracy']
    computed = [population[0], fedavg, population[1], fedpbc]
    printed = [float(cell) for cell in row.groups()]
    # One decimal of the population, two of the data, where a test example is 0.002.
    errors = np.abs(np.subtract(computed, printed))
    np.testing.assert_array_less(errors, [0.051, 0.011, 0.051, 0.011])
