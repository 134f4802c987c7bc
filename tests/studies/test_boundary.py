"""Points of studies/records/boundary.csv, made again, and what studies/boundary.md has of them."""

import numpy as np
import pytest

from studies import boundary
from tests import ROOT

THEORY = boundary.Point._fields[5:-2]


@pytest.mark.parametrize('index', [8, 59])  # clustered or random, and equally far
def test_theory_of_a_point(index, monkeypatch):
    """The quadrature's axes depend on the processor, so the exact loss is compared to its error."""
    errors = []
    accuracy = boundary.gaussian_accuracy

    def record_error(model, means):
        result = accuracy(model, means)
        errors.append(result.error)
        return result

    monkeypatch.setattr(boundary, 'gaussian_accuracy', record_error)
    saved = boundary.read()[index]
    (again, _) = boundary.point(index)
    assert again[:5] == saved[:5]
    equal, fedavg = errors[-2:]
    error = 100 * np.hypot(equal, fedavg)
    tolerance = 4 * np.sqrt(2) * error + 1e-3 * abs(saved.exact)
    assert abs(again.exact - saved.exact) < tolerance
    for name in set(THEORY) - {'exact'}:
        np.testing.assert_allclose(
            getattr(again, name), getattr(saved, name), rtol=1e-3
        )


def test_the_page_has_the_table():
    page = (ROOT / 'studies' / 'boundary.md').read_text()
    for line in '\n'.join(boundary.table(boundary.read())).split('\n'):
        assert line in page


@pytest.mark.slow
@pytest.mark.optimised
def test_runs_of_a_point():
    """Up to another compiler's roundings: the same two seeds over the same data."""
    saved = boundary.read()[2]
    result, _ = boundary.simulated(boundary.point(2)[1])
    assert abs(result - saved.simulated) < 0.02  # of 0.66 points
