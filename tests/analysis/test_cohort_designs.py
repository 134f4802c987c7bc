"""One-round cohort laws against their definitions, order by order."""

import numpy as np
import pytest

from fedjax_links import analysis
from tests.analysis import enumeration
from tests.analysis.refusals import refuses

DESIGNS = ['product', 'successive', 'sum']


@pytest.mark.parametrize('design', DESIGNS)
@pytest.mark.parametrize('size', [1, 2, 3, 5])
def test_law_equals_its_definition(rng, design, size):
    weights = rng.uniform(0.05, 1.0, size=5)
    law = analysis.cohort_law(weights, size, design)
    expected = enumeration.one_round(weights, size, design)
    assert [tuple(cohort) for cohort in law.cohorts] == sorted(expected)
    np.testing.assert_allclose(law.probs, [expected[tuple(c)] for c in law.cohorts], rtol=1e-12)


def test_sum_design_is_proportional_to_the_sum_of_weights():
    law = analysis.cohort_law([1.0, 2.0, 5.0], 2, 'sum')
    np.testing.assert_allclose(law.probs, np.array([3.0, 6.0, 7.0]) / 16.0, rtol=1e-14)


def test_designs_agree_for_a_single_client_and_differ_for_two():
    weights = [1.0, 2.0, 5.0]
    singles = [analysis.cohort_law(weights, 1, design).probs for design in DESIGNS]
    for probs in singles:
        np.testing.assert_allclose(probs, np.array(weights) / 8.0, rtol=1e-14)
    pairs = [analysis.cohort_law(weights, 2, design).probs[0] for design in DESIGNS]
    assert len({round(value, 6) for value in pairs}) == 3


@pytest.mark.parametrize('design', DESIGNS)
def test_extreme_weights_stay_finite(design):
    law = analysis.cohort_law([1e-250, 1.0, 1e250, 3e-200], 2, design)
    assert np.all(np.isfinite(law.probs))
    np.testing.assert_allclose(law.probs.sum(), 1.0, rtol=1e-14)


def test_errors():
    with refuses("`design` must be one of 'product', 'successive', 'sum', got 'gumbel'."):
        analysis.cohort_law([1.0, 2.0], 1, 'gumbel')
    with refuses('`cohort_size` must allow 1 to 200000 cohorts of 2 clients, got 3.'):
        analysis.cohort_law([1.0, 2.0], 3)
    with refuses('`cohort_size` must allow 1 to 200000 cohorts of 100 clients, got 5.'):
        analysis.cohort_law(np.ones(100), 5)
