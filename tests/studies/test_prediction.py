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
    """Another compiler's roundings: the mean of the same five seeds, in standard errors."""
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
    data = [100 * prediction_of.limit['accuracy'] for prediction_of in result[:2]]
    computed = [population[0], data[0], population[1], data[1]]
    printed = [float(cell) for cell in row.groups()]
    np.testing.assert_allclose(computed, printed, atol=0.051)
