"""Clients fitted to a log: their law beside the log's, in standard errors."""

import itertools
import tracemalloc

import numpy as np
import pytest

from fedjax_links.participation import availability, intervals, synthetic_trace
from fedjax_links.participation.traces.synthetic_trace import (
    daily_rates,
    losses,
    rounds_per_day,
)
from tests.participation.sampling import (
    assert_frequencies,
    masks,
    refuses,
    roll,
    roll_together,
)

TICK = 3600.0
DAY = 24
RISE_BY = 1 + 0.9 * np.sin(2 * np.pi * (np.arange(DAY) - 16) / DAY)
FALL_BY = 1 + 0.6 * np.cos(2 * np.pi * np.arange(DAY) / DAY)


def written_log(num_clients, days, seed=0):
    """Chains of known rates, drawn in NumPy, as bool[T, N] after a week that is thrown away."""
    rng = np.random.default_rng(seed)
    rise = rng.uniform(0.05, 0.3, num_clients)
    fall = rng.uniform(0.1, 0.4, num_clients)
    up = rng.random(num_clients) < 0.5
    rows = []
    for t in range((days + 7) * DAY):
        draw = rng.random(num_clients)
        hour = t % DAY
        up = np.where(up, draw >= fall * FALL_BY[hour], draw < rise * RISE_BY[hour])
        rows.append(up)
    return np.stack(rows[7 * DAY :]), rise, fall


def as_intervals(mask):
    """Hours in which clients are up, as the intervals that a log has."""
    changes = np.diff(np.pad(mask.T, ((0, 0), (1, 1))).astype(int), axis=1)
    client, start = np.nonzero(changes == 1)
    _, end = np.nonzero(changes == -1)
    log = intervals(client, start * TICK, end * TICK, num_clients=mask.shape[1])
    return log._replace(period=np.full(mask.shape[1], len(mask) * TICK))


@pytest.fixture(scope='module')
def log():
    """A hundred days of 150 clients, and their rates."""
    return written_log(150, 100)


def test_rates_are_found_again(log):
    """A factor behind k events has a relative standard error of at most 1 / sqrt(k)."""
    mask, rise, fall = log
    result = daily_rates(mask, rounds_per_day=DAY)
    before = np.roll(mask, 1, axis=0)
    hours = np.arange(len(mask)) % DAY
    for events, rates, by, true, true_by in (
        (~before & mask, result.rise, result.up_by, rise, RISE_BY),
        (before & ~mask, result.fall, result.down_by, fall, FALL_BY),
    ):
        assert abs(by.mean() - 1) < 1e-9
        assert np.abs((rates / true - 1) * np.sqrt(events.sum(axis=0))).max() < 5
        by_hour = np.array([events[hours == h].sum() for h in range(DAY)])
        assert np.abs((by / true_by - 1) * np.sqrt(by_hour)).max() < 5


def test_the_margins_of_the_counts_are_met(log):
    """What the estimate solves: as many rises expected as seen, by client and by hour."""
    mask, _, _ = log
    result = daily_rates(mask, rounds_per_day=DAY)
    before = np.roll(mask, 1, axis=0)
    hours = np.arange(len(mask)) % DAY
    for events, state, rates, by in (
        (~before & mask, ~before, result.rise, result.up_by),
        (before & ~mask, before, result.fall, result.down_by),
    ):
        expected = state * rates * by[hours][:, None]
        np.testing.assert_allclose(expected.sum(axis=0), events.sum(axis=0), rtol=1e-6)
        for hour in range(DAY):
            rows = hours == hour
            np.testing.assert_allclose(
                expected[rows].sum(), events[rows].sum(), rtol=1e-6
            )


def test_the_reported_course_is_the_law_of_the_links(log):
    """Over independent runs clients are up as often as is reported, in the first day and later."""
    pattern = synthetic_trace(as_intervals(log[0]), num_clients=9, tick=TICK, seed=3)
    links = roll(pattern, 60)
    assert pattern.cycle == DAY
    np.testing.assert_array_equal(links.prob[:DAY], links.prob[DAY : 2 * DAY])
    runs = masks(pattern, 60, 4000)
    for t in (0, 1, 7, 30, 59):
        assert_frequencies(runs[:, t].sum(axis=0), links.prob[t].astype(float), 4000)


def test_the_fitted_day_is_the_logs(log):
    """No draw of clients in between: the mean course beside the days of the log."""
    mask, _, _ = log
    days = mask.mean(axis=1).reshape(-1, DAY)
    fitted = daily_rates(mask, rounds_per_day=DAY).marginal.mean(axis=1)
    errors = days.std(axis=0, ddof=1) / np.sqrt(len(days))
    assert np.abs((fitted - days.mean(axis=0)) / errors).max() < 4
    assert np.ptp(fitted) > 30 * errors.max()


def clientwise(numerators, denominators):
    """A ratio of sums over clients, with the standard error of independent clients."""
    ratio = numerators.sum() / denominators.sum()
    residuals = numerators - ratio * denominators
    return ratio, np.sqrt((residuals**2).sum()) / denominators.sum()


def absences(mask, longer_than):
    """By client, absences that end within the record: those that are longer, and all."""
    counts = np.zeros((2, mask.shape[1]))
    for i in range(mask.shape[1]):
        lengths = np.diff(np.flatnonzero(mask[:, i])) - 1
        counts[:, i] = (lengths > longer_than).sum(), (lengths > 0).sum()
    return counts


def test_mean_day_and_absences_agree_with_the_log(log):
    """Both are drawn: the difference is measured in the standard errors of both."""
    mask, _, _ = log
    pattern = synthetic_trace(as_intervals(mask), num_clients=400, tick=TICK, seed=1)
    copy = roll(pattern, 60 * DAY, seed=5).mask

    def compare(measure):
        a, error_a = clientwise(*measure(mask))
        b, error_b = clientwise(*measure(copy))
        assert abs(a - b) < 4 * np.hypot(error_a, error_b), (a, b, error_a, error_b)
        return a

    overall = compare(lambda m: (m.mean(axis=0), np.ones(m.shape[1])))
    hours = [
        compare(lambda m, h=h: (m[h::DAY].mean(axis=0), np.ones(m.shape[1])))
        for h in range(DAY)
    ]
    # The day is seen: it swings by more than six standard errors of a mean over clients.
    assert max(hours) - min(hours) > 0.15
    assert 6 * clientwise(mask.mean(axis=0), np.ones(150))[1] < 0.15
    assert min(hours) < overall < max(hours)
    shares = [compare(lambda m, k=k: absences(m, k)) for k in (1, 2, 4, 8, 16)]
    assert 0 < shares[-1] < 0.2 < shares[0]


def test_without_a_day_each_client_has_its_own_availability():
    """The chain of a log that repeats has exactly its availability, never and always included."""
    rng = np.random.default_rng(0)
    mask = rng.random((DAY * 40, 6)) < np.array([0.1, 0.3, 0.5, 0.9, 1.0, 0.0])
    result = daily_rates(mask, rounds_per_day=1)
    np.testing.assert_allclose(result.marginal[0], mask.mean(axis=0), rtol=1e-9)
    pattern = synthetic_trace(
        as_intervals(mask), num_clients=300, tick=86_400.0, rounds=40
    )
    assert pattern.cycle == 1


def test_any_number_of_clients_and_the_draw_of_them(log):
    small = as_intervals(log[0][:, :5])
    patterns = [
        synthetic_trace(small, num_clients=1000, tick=TICK, seed=seed)
        for seed in (0, 0, 1)
    ]
    first, again, other = (links.prob[0] for links in roll_together(patterns, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert len(np.unique(first)) == 5
    assert synthetic_trace(small, num_clients=1, tick=TICK).num_clients == 1


def test_what_does_not_fit_is_refused(log):
    small = as_intervals(log[0][:, :2])
    refuses(
        lambda: rounds_per_day(7.0),
        '`tick` must divide the 86400 s of a day, as 6 s do, got 7.0.',
    )
    refuses(
        lambda: synthetic_trace(small, num_clients=3, tick=100_000.0),
        '`tick` must divide the 86400 s of a day, as 86400 s do, got 100000.0.',
    )
    refuses(
        lambda: synthetic_trace(small, num_clients=0, tick=TICK),
        '`num_clients` must be at least 1, got 0.',
    )
    assert availability(small, tick=TICK, rounds=5).shape == (5, 2)
    refuses(
        lambda: synthetic_trace(small, num_clients=3, tick=TICK, rounds=23),
        '`rounds` must be at least 24, those of a day, got 23.',
    )
    # Times up and down have no time of day.
    synthetic_trace(small, num_clients=3, tick=TICK, rounds=23, law='semi_markov')


# Up and down times of any law (`semi_markov`), in place of Markov chains.


def sojourns_of(mask):
    """Lengths of whole runs up and down, over all clients, by hand."""
    results = {True: [], False: []}
    for column in mask.T:
        runs = [
            (bool(state), len(list(run))) for state, run in itertools.groupby(column)
        ]
        for state, length in runs[1:-1]:
            results[state].append(length)
    return results


def regular_log(num_clients=30, rounds=480):
    """Clients that are up for 3 rounds and down for 5 or 9 in turn: nothing geometric."""
    one = np.resize(np.repeat([True, False, True, False], [3, 5, 3, 9]), rounds)
    return np.array([np.roll(one, 7 * i) for i in range(num_clients)]).T


def test_losses_need_no_table_of_durations_by_round():
    # 160,000 durations of up to 18,000 rounds: 2.9 GB, if each were compared with each length.
    mask = np.arange(20_000)[:, None] // np.array([1] * 16 + [18_000]) % 2 == 0
    tracemalloc.start()
    lost = losses(mask, rounds_per_day=1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    assert 0 <= lost.of_markov <= 1


def test_losses_by_hand():
    """The largest distance of survival functions, and half the range of the mean day.

    Regular times are far from geometric ones. A Markov chain loses nothing but sampling noise, for
    which the bounds leave room. A day that is all up or all down has the range one.
    """
    regular = regular_log()
    lost = losses(regular, rounds_per_day=24)
    # P(D > 2) = 1 in the log, (2 / 3)^2 of a chain with the mean of three rounds.
    stays = 1 - 1 / 3
    assert abs(lost.of_markov - (1 - stays**2)) < 1e-12
    rng = np.random.default_rng(0)
    chain = np.zeros((24 * 400, 5), bool)
    for t in range(1, len(chain)):
        draw = rng.random(5)
        chain[t] = np.where(chain[t - 1], draw >= 0.2, draw < 0.1)
    markov = losses(chain, rounds_per_day=24)
    assert markov.of_markov < 0.02
    assert markov.of_semi_markov < 0.05
    day = np.tile(np.arange(24) < 12, 50)[:, None].repeat(4, axis=1)
    assert losses(day, rounds_per_day=24).of_semi_markov == 0.5


@pytest.mark.parametrize('law', ['semi_markov', 'nearest'])
def test_sojourns_of_a_log_come_back(law):
    regular = regular_log()
    regular[:, 0] = True
    regular[:, 1] = False
    pattern = synthetic_trace(
        as_intervals(regular), num_clients=60, tick=TICK, law=law, rounds=len(regular)
    )
    links = roll(pattern, 400)
    lengths = sojourns_of(links.mask)
    assert set(lengths[True]) == {3}
    assert set(lengths[False]) == {5, 9}
    # Never, always, and 2 x 3 of 3 + 5 + 3 + 9 rounds.
    assert {round(float(p), 6) for p in links.prob[0]} <= {0.0, 1.0, 0.3}
    still = links.mask.all(axis=0) | ~links.mask.any(axis=0)
    np.testing.assert_array_equal(links.prob[0][still], links.mask[0][still])
