"""The report on a log, against numbers computed by hand."""

import numpy as np

from fedjax_links.participation import intervals
from fedjax_links.report.screens import availability

HOUR = 3600.0


def test_day_absences_and_bias_by_hand():
    """Client 0 is up from 8 to 20 h, client 1 from 12 to 13 h, client 2 never; over ten days."""
    days = 86_400.0 * np.arange(10)
    log = intervals(
        np.repeat([0, 1], 10),
        np.r_[days + 8 * HOUR, days + 12 * HOUR],
        np.r_[days + 20 * HOUR, days + 13 * HOUR],
        num_clients=3,
    )._replace(period=np.full(3, 864_000.0))
    found = availability.of_log(log, tick=HOUR).log
    assert found.mask.shape == (240, 3)
    expected = np.zeros(24)
    expected[8:20], expected[12] = 1 / 3, 2 / 3
    np.testing.assert_allclose(found.day, expected)
    assert {k: n for k, n in enumerate(found.absences) if n and k} == {12: 9, 23: 9}
    weights = np.array([11.5, 0.5, 0]) / 12  # of the twelve hours with somebody, one is shared
    np.testing.assert_allclose(found.weights, weights)
    np.testing.assert_allclose(found.bias, np.abs(weights - 1 / 3).sum())
    text = availability.text('a log', availability.LogReport(found, None)).splitlines()
    assert text[1] == '3 clients, 240 rounds of 3600 s (10 days)'
    table = {line[:34].strip(): line[34:].strip() for line in text[3:10]}
    assert table['mean availability'] == f'{13 / 72:.4f}'
    assert table['clients never available'] == '1'
    assert table['rounds without anybody'] == '50.0%'
    assert table['median absence'] == '12 h'
    assert table['90 % of absences end within'] == '23 h'
    assert table["bias of FedAvg's weights"] == f'{found.bias:.4f}'


def test_the_error_of_the_bias_is_its_spread_over_records():
    """Of independent rounds: the stated variance, on average, beside that over many records."""
    rng = np.random.default_rng(0)
    probs = np.array([0.2, 0.4, 0.6, 0.8])
    found = [availability.describe(rng.random((960, 4)) < probs, HOUR) for _ in range(300)]
    spread = np.var([each.bias for each in found], ddof=1)
    stated = np.mean([each.bias_error**2 for each in found])
    assert abs(spread / stated - 1) < 4 * np.sqrt(2 / 299)


def test_chains_know_neither_habits_nor_hours_of_their_own():
    """Where a look-alike's bias is too large, and where it is too small."""
    days = 86_400.0 * np.arange(28)
    steady = intervals(
        np.repeat(np.arange(30), 28), np.tile(days, 30), np.tile(days, 30) + 9 * HOUR
    )
    steady = steady._replace(period=np.full(30, 28 * 86_400.0))
    found, copy = availability.of_log(steady, tick=HOUR)
    assert found.bias < 1e-12
    assert copy.bias > 5 * copy.bias_error

    rng = np.random.default_rng(0)
    hour = np.repeat([8, 16], [5, 55])[:, None] + rng.uniform(-2, 2, (60, 28))
    start = (days + hour * HOUR).ravel()
    end = start + rng.uniform(3, 7, start.size) * HOUR
    shifts = intervals(np.repeat(np.arange(60), 28), start, end)
    found, copy = availability.of_log(shifts._replace(period=np.full(60, 28 * 86_400.0)), tick=1800)
    assert copy.bias < found.bias - 5 * np.hypot(copy.bias_error, found.bias_error)


def test_a_log_of_nobody_and_hours_without_a_round():
    found = availability.describe(np.zeros((6, 2), bool), 4 * HOUR)
    assert np.isnan(found.bias)
    assert np.isnan(found.day).sum() == 18
    lines = availability.text('none', availability.LogReport(found, None)).splitlines()
    assert len([line for line in lines if ' h |' in line]) == 6


def test_a_tick_that_divides_no_day_is_said_to_leave_out_the_look_alike():
    log = intervals([0, 1], [0, 1000], [50_000, 90_000])
    for tick, nearest in ((1000.0, 960), (7000.0, 7200), (0.7 * 86_400, 43_200), (1e5, 86_400)):
        found = availability.of_log(log, tick=tick, rounds=5)
        assert found.copy is None
        said = f'(no look-alike: {tick:g} s do not divide a day; a tick of {nearest} s does)'
        assert availability.text('log', found).splitlines().count(said) == 1
        assert len(said) <= 80
        assert availability.of_log(log, tick=nearest, rounds=5).copy is not None
    assert 'no look-alike' not in availability.text('log', availability.of_log(log, tick=HOUR))
