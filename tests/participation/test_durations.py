"""Laws of durations: their means, and the values that they refuse."""

import math

import numpy as np
import pytest

from fedjax_links.participation import durations
from tests import refusals

TOO_LONG = {
    'rate': lambda: durations.geometric([0.5, 1e-6]),
    'median': lambda: durations.lognormal(1e6, 1.0),
    'scale': lambda: durations.weibull(1e4, 0.3),
}


@pytest.mark.parametrize('name', TOO_LONG)
def test_sojourns_that_would_be_cut_are_refused(name):
    with refusals.names(name, '1,000,000 rounds', 'of the mean lies beyond'):
        TOO_LONG[name]()


def test_an_observed_sojourn_of_any_length_is_named():
    with refusals.names('durations', 'from 1 to 1,000,000 rounds', 'got 1e+300'):
        durations.observed([3.0, 1e300])
    with refusals.names('durations', 'be positive', '0.0 at duration 1'):
        durations.observed([3.0, 0.0])


def test_long_sojourns_have_their_mean():
    """E[D] = sum_k P(D > k); rounding up adds a half, nearly, where D is long and smooth."""
    np.testing.assert_allclose(durations.geometric(2e-5).sum(), 5e4, rtol=1e-6)
    mean = 200 * np.exp(1.5**2 / 2)
    np.testing.assert_allclose(
        durations.lognormal(200.0, 1.5).sum(), mean + 0.5, rtol=2e-5
    )
    scale = 300.0
    shape = 0.5
    np.testing.assert_allclose(
        durations.weibull(scale, shape).sum(), 2 * scale + 0.5, rtol=2e-3
    )


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize(
    'scale, shape, survival',
    [(1.0, 2000.0, [1.0, np.exp(-1.0)]), (0.001, 120.0, [1.0])],
)
def test_steep_weibull_durations_do_not_warn(scale, shape, survival):
    np.testing.assert_allclose(durations.weibull(scale, shape), [survival], rtol=1e-12)


@pytest.mark.filterwarnings('error')
def test_steep_weibull_durations_near_the_limit_do_not_warn():
    law = durations.weibull(900_000.0, 30.0)
    mean = 900_000.0 * math.gamma(1 + 1 / 30)
    np.testing.assert_allclose(law.sum(), mean + 0.5, rtol=1e-6)
