"""How numbers and their intervals are written."""

import numpy as np
import pytest

from fedjax_links.evaluation import Interval
from fedjax_links.results.metric import Metric, format_values


@pytest.mark.parametrize(
    'mean, half, shown',
    [
        (0.45702, 0.007826, '0.457 ± 0.008'),
        (1.504, 0.0424, '1.50 ± 0.04'),
        (0.5373, 0.01867, '0.537 ± 0.019'),
        (0.8236, 0.02, '0.82 ± 0.02'),
        (-0.3, 0.00999, '-0.300 ± 0.010'),
        (10.18, 2.3, '10 ± 2'),
        (1504.2, 42.4, '1504 ± 42'),
        (50.0, 0.0, '50 ± 0'),
        (1.234e-8, 3.123e-9, '1.234e-08 ± 3e-09'),
        (2e12, 3.1e12, '2e+12 ± 3e+12'),
        (0.1234567, np.nan, '0.1235'),
        (np.nan, np.nan, 'diverged'),
    ],
)
def test_an_interval_and_its_mean_have_the_same_decimals(mean, half, shown):
    assert Metric('train_loss').interval(Interval(mean, half, 5)) == shown


@pytest.mark.parametrize(
    'wide, shown',
    [
        (0.0123, '-0.028 ± 0.006 [0.012]'),
        (80054583.288, '-0.028 ± 0.006 [8e+07]'),
        (np.inf, '-0.028 ± 0.006 [inf]'),
        (np.nan, '-0.028 ± 0.006 [nan]'),
    ],
)
def test_a_wide_interval_of_millions_has_one_digit(wide, shown):
    interval = Interval(-0.0281, 0.00611, 10)
    wider = Interval(-0.0281, wide, 10)
    assert Metric('distance').interval(interval, wide=wider) == shown


@pytest.mark.parametrize(
    'mean, half, shown',
    [
        (0.933, 0.004, '+93.3 ± 0.4'),
        (0.559, 0.029, '+55.9 ± 2.9'),
        (-0.1, 0.1234, '-10.0 ± 12.3'),
        (0.99923, 0.0004, '+99.92 ± 0.04'),
        (0.1, 1e-17, '+10.0 ± 0.0'),
        (0.1, np.nan, '+10.0'),
    ],
)
def test_shares_have_a_decimal_of_a_per_cent_at_least(mean, half, shown):
    assert (
        Metric('eval_accuracy').interval(Interval(mean, half, 5), signed=True) == shown
    )


def test_a_difference_has_a_star_where_zero_is_outside():
    loss = Metric('train_loss')
    assert loss.difference(Interval(-0.1063, 0.02519, 3)) == '-0.11 ± 0.03 *'
    assert loss.difference(Interval(0.1, 0.2, 3)) == '+0.1 ± 0.2'
    assert loss.difference(Interval(np.nan, np.nan, 3)) == ''


def test_values_have_six_digits_if_these_tell_them_apart():
    assert format_values([0.1 + 1e-9, 1 / 3, 2, 'x']) == ['0.1', '0.333333', '2', 'x']
    assert format_values([0.1, 0.1 + 1e-9]) == ['0.1', '0.100000001']
    assert format_values(np.array([0.1, 0.1])) == ['0.1', '0.1']
    assert format_values([(1, 2), None]) == ['(1, 2)', 'None']
