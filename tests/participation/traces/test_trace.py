"""Traces: the look-up against a search through the intervals, wrap-around, refusals by row."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest

from fedjax_links.core import memory
from fedjax_links.participation import (
    availability,
    intervals,
    replay,
    synthetic_trace,
    trace,
)
from tests import refusals
from tests.participation.sampling import refuses, roll, roll_together


def random_log(rng, num_clients, span):
    """Disjoint intervals of random clients, in random order; some clients have none."""
    rows = []
    for client in range(num_clients):
        cuts = (
            np.sort(rng.choice(span * 10, 2 * rng.integers(0, 6), replace=False)) / 10
        )
        rows += [(client, a, b) for a, b in cuts.reshape(-1, 2)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    return [np.array(column) for column in zip(*rows, strict=True)]


def by_search(client, start, end, num_clients, times):
    return np.array(
        [
            [any((client == i) & (start <= t) & (t < end)) for i in range(num_clients)]
            for t in times
        ]
    )


@pytest.mark.parametrize('tick', [1.0, 0.5, 3.0])
def test_look_up_is_a_search_through_the_intervals(rng, tick):
    client, start, end = random_log(rng, 12, 60)
    log = intervals(client, start, end, num_clients=12)
    links = roll(trace(log, tick=tick, wrap=60.0), 200)
    times = np.arange(200) * tick % 60
    np.testing.assert_array_equal(links.mask, by_search(client, start, end, 12, times))
    np.testing.assert_array_equal(links.prob, links.mask)


def test_a_round_is_a_second_unless_a_tick_is_given(rng):
    client, start, end = random_log(rng, 5, 60)
    log = intervals(client, start, end, num_clients=5)
    links = roll(trace(log), 80)
    length = np.ceil(end.max())
    times = np.arange(80) % length
    np.testing.assert_array_equal(links.mask, by_search(client, start, end, 5, times))


def test_default_wrap_is_the_last_end_rounded_up_to_a_tick():
    log = intervals([0, 1], [0.0, 2.0], [1.0, 4.5])
    mask = roll(trace(log, tick=1.0), 10).mask
    np.testing.assert_array_equal(np.flatnonzero(mask[:, 0]), [0, 5])
    np.testing.assert_array_equal(np.flatnonzero(mask[:, 1]), [2, 3, 4, 7, 8, 9])


def test_wrap_by_day_and_by_week():
    hour = 3600.0
    log = intervals([0, 1], [22 * hour, 0.0], [30 * hour, 24 * hour])
    day = roll(trace(log, tick=hour, wrap='day'), 48).mask
    hours = np.arange(48) % 24
    np.testing.assert_array_equal(day[:, 0], (hours >= 22) | (hours < 6))
    assert day[:, 1].all()
    week = roll(trace(log, tick=hour, wrap='week'), 400).mask
    hours = np.arange(400) % 168
    np.testing.assert_array_equal(week[:, 0], (hours >= 22) & (hours < 30))
    np.testing.assert_array_equal(week[:, 1], hours < 24)


def test_periods_per_client():
    log = intervals([0, 1], [0.0, 1.0], [1.0, 3.0])
    mask = roll(trace(log, tick=1.0, wrap=[2.0, 3.0]), 12).mask
    np.testing.assert_array_equal(mask[:, 0], np.arange(12) % 2 == 0)
    np.testing.assert_array_equal(mask[:, 1], np.arange(12) % 3 >= 1)


def test_edges_on_ticks_are_exact():
    # 0.9 / 0.3 is above 3 in floating point; the interval still ends before round 3.
    log = intervals([0, 1], [0.0, 0.9], [0.9, 1.2])
    mask = roll(trace(log, tick=0.3), 4).mask
    np.testing.assert_array_equal(mask, [[1, 0], [1, 0], [1, 0], [0, 1]])


def test_touching_intervals_merge_and_short_ones_vanish():
    log = intervals([0, 0, 0, 1], [2.0, 0.0, 1.0, 0.2], [3.0, 1.0, 2.0, 0.4])
    pattern = trace(log, tick=1.0)
    assert (pattern.cycle, pattern.num_clients) == (3, 2)
    np.testing.assert_array_equal(roll(pattern, 5).mask, [[True, False]] * 5)
    wide = roll(trace(log, tick=1.0, wrap=5.0), 10).mask
    np.testing.assert_array_equal(wide[:, 0], np.arange(10) % 5 < 3)
    assert not wide[:, 1].any()
    nothing = roll(trace(intervals([0], [0.2], [0.4]), tick=1.0, wrap=1.0), 3)
    assert not nothing.mask.any()


def test_overlaps_can_be_merged(rng):
    client = rng.integers(0, 4, 60)
    start = rng.integers(0, 90, 60).astype(float)
    end = start + rng.integers(1, 10, 60)
    log = intervals(client, start, end)
    mask = roll(trace(log, tick=1.0, wrap=100.0, overlaps='merge'), 100).mask
    np.testing.assert_array_equal(
        mask, by_search(client, start, end, 4, np.arange(100))
    )


def test_rounds_of_whole_ticks_are_those_of_the_trace():
    log = intervals([0], [250.0], [1300.0])._replace(period=np.array([8200.0]))
    played = roll(trace(log, tick=100), 200).mask
    np.testing.assert_array_equal(availability(log, tick=100, rounds=200), played)
    np.testing.assert_array_equal(roll(replay(played), 200).mask, played)


@pytest.mark.parametrize('tick', [0.1, 1.0])
def test_late_times_are_as_exact_as_early_ones(tick):
    # After 11 days of seconds; both ends lie a twentieth of a millisecond after a tick.
    first = 1_000_000
    starts = np.array([first + 4, first + 8]) * tick + 0.00005
    ends = starts + 2 * tick
    log = intervals([0, 0, 0], [0.0, *starts], [tick, *ends])
    pattern = trace(log, tick=tick, wrap=2 * first * tick)
    rounds = np.arange(first, first + 12)
    sample = jax.jit(jax.vmap(lambda t: pattern.sample((), None, t)[1].mask[0]))
    # Rounds at ticks from the start on, the end not included.
    up = np.flatnonzero(sample(jnp.asarray(rounds)))
    np.testing.assert_array_equal(up, [5, 6, 9, 10])
    mask = availability(log, tick=tick, wrap=2 * first * tick, rounds=first + 12)
    np.testing.assert_array_equal(np.flatnonzero(mask[first:, 0]), up)
    # Times that are a tick but for their rounding are that tick.
    log = intervals(
        [0, 0], [0.0, (3 * first + 7) * tick], [tick, (3 * first + 9) * tick]
    )
    pattern = trace(log, tick=tick, wrap=4 * first * tick)
    late = jax.jit(jax.vmap(lambda t: pattern.sample((), None, t)[1].mask[0]))
    up = np.flatnonzero(late(jnp.arange(3 * first, 3 * first + 12)))
    np.testing.assert_array_equal(up, [7, 8])


def test_a_trace_of_some_rounds_plays_them_again_and_again(rng):
    client, start, end = random_log(rng, 12, 60)
    log = intervals(client, start, end, num_clients=12)
    pattern = trace(log, tick=7.0, rounds=9)
    times = np.arange(9) * 7.0 % end.max()
    assert pattern.cycle == 9
    first = by_search(client, start, end, 12, times)
    np.testing.assert_array_equal(roll(pattern, 20).mask, np.tile(first, (3, 1))[:20])


def test_overlaps_are_refused_or_merged():
    rows = [(0, 0, 5), (0, 3, 9), (0, 4, 6), (1, 2, 3)]
    refuses(
        lambda: availability(rows, rounds=12),
        "`intervals` must not overlap unless `overlaps` is 'merge', got client 0 on rows 0 and 1.",
    )
    mask = availability(rows, rounds=12, wrap=12, overlaps='merge')
    np.testing.assert_array_equal(mask[:, 0], np.arange(12) < 9)
    refuses(lambda: availability(rows, rounds=0), '`rounds` must be at least 1, got 0.')
    refuses(
        lambda: availability(rows, rounds=3, wrap=2),
        '`intervals` must start before the wrap at 2 s, got 3 to 9 s on row 1.',
    )


def test_stateless_under_jit_and_vmap():
    pattern = trace(intervals([0, 1, 1], [0.0, 1.0, 5.0], [2.0, 3.0, 6.0]), tick=1.0)
    rounds = jnp.arange(20, dtype=jnp.int32)
    together = jax.jit(jax.vmap(lambda t: pattern.sample((), None, t)[1].mask))(rounds)
    np.testing.assert_array_equal(together, roll(pattern, 20).mask)


def test_errors_name_the_row():
    refuses(
        lambda: trace(intervals([0, 1, 0], [0.0, 0.0, 1.0], [2.0, 2.0, 3.0]), tick=1.0),
        "`intervals` must not overlap unless `overlaps` is 'merge', got client 0 on rows 0 and 2.",
    )
    refuses(
        lambda: trace(intervals([0, 0], [0.0, 5.0], [1.0, 4.0]), tick=1.0),
        '`intervals` must not end before they start, got 5 to 4 s on row 1.',
    )
    refuses(
        lambda: trace(intervals([0, 0], [-1.0, 5.0], [1.0, 6.0]), tick=1.0),
        '`intervals` must start at 0 or later, got -1 to 1 s on row 0.',
    )
    refuses(
        lambda: trace(intervals([0], [0.0], [np.nan]), tick=1.0),
        '`intervals` must be finite, got 0 to nan s on row 0.',
    )
    refuses(
        lambda: trace(intervals([0], [7.0], [8.0]), tick=1.0, wrap=5.0),
        '`intervals` must start before the wrap at 5 s, got 7 to 8 s on row 0.',
    )
    # What runs past the wrap comes back at the beginning and can meet another there.
    refuses(
        lambda: trace(intervals([0, 0], [4.0, 0.0], [6.0, 2.0]), tick=1.0, wrap=5.0),
        "`intervals` must not overlap unless `overlaps` is 'merge', got client 0 on rows 0 and 1.",
    )
    refuses(
        lambda: intervals([0, 3], [0.0, 0.0], [1.0, 1.0], num_clients=2),
        '`client` must lie in [0, 1], got 3 on row 1.',
    )
    refuses(
        lambda: intervals([0, -1], [0.0, 0.0], [1.0, 1.0]),
        '`client` must lie in [0, 2147483646], got -1 on row 1.',
    )
    refuses(
        lambda: intervals([], [], []),
        '`client` must hold an id, or `num_clients` be given, got [].',
    )
    refuses(
        lambda: intervals([0, 1], [0.0], [1.0]),
        '`client` must have the shape [K] of `start` and `end`, got (2,), (1,) and (1,).',
    )
    refuses(
        lambda: intervals([0.5], [0.0], [1.0]),
        '`client` must be integers, got dtype float64.',
    )
    log = intervals([0], [0.0], [10.0])
    refuses(lambda: trace(log, tick=0.0), '`tick` must be positive, got 0.0.')
    refuses(
        lambda: trace(log, tick=3.0, wrap=10.0),
        '`wrap` must be a whole number of ticks, at most 2^30 (unless `rounds` are given), '
        'got 3.33333 ticks.',
    )
    refuses(
        lambda: trace(log, tick=1.0, wrap='weak'),
        "`wrap` has no 'weak'; did you mean 'week'?",
    )
    refuses(
        lambda: trace(log, tick=1.0, wrap=[1.0, 2.0]),
        '`wrap` must be one number or a list of 1, got shape (2,).',
    )
    refuses(
        lambda: trace(log, tick=1.0, overlaps='drop'),
        "`overlaps` has no 'drop'; valid names: merge, reject.",
    )
    refuses(
        lambda: trace(intervals([], [], [], num_clients=2), tick=1.0),
        '`intervals` must have at least one interval, got none.',
    )


def test_rows_stand_for_a_recording():
    rows = [(0, 0, 3), (1, 2, 5), (0, 4, 5)]
    plain = trace(rows, tick=1.0)
    packed = trace(intervals([0, 1, 0], [0, 2, 4], [3, 5, 5]), tick=1.0)
    ours, theirs = roll_together([plain, packed], 10)
    np.testing.assert_array_equal(ours.mask, theirs.mask)


@pytest.mark.parametrize(
    'rows, message',
    [
        (
            [(0, 1), (1, 2)],
            r'`intervals` must be Intervals or rows \(client, start, end\)',
        ),
        (
            [('ann', 0, 1), ('bob', 2, 3)],
            r'rows \(client, start, end\) of numbers; `trace_formats\.from_csv` .* number names',
        ),
        ([(0, 1, 2), (1, 2)], r'rows \(client, start, end\) of numbers'),
        ([(0.5, 1, 2)], r'`intervals` must name clients by whole numbers, got 0\.5\.'),
        ([(np.inf, 1, 2)], r'`intervals` must name clients by whole numbers, got inf'),
        ([(np.nan, 1, 2)], r'`intervals` must name clients by whole numbers, got nan'),
        ([(-1, 1, 2)], r'`client` must lie in \[0, 2147483646\], got -1 on row 0'),
        ([(2**33, 1, 2)], r'`client` must lie in \[0, 2147483646\], got 8589934592 on'),
        (np.zeros((0, 3)), '`intervals` must have at least one interval, got none'),
        ([(0, 3, 2)], r'`intervals` must not end before they start'),
    ],
)
def test_rows_that_are_no_recording(rows, message):
    with pytest.raises(ValueError, match=message):
        trace(rows, tick=1.0)


def test_names_of_clients_fit_into_memory(monkeypatch):
    monkeypatch.setattr(memory, 'host_bytes', lambda: 2**30)
    message = '`client` must fit into memory, got 2147483645: .* where .* are free'
    with pytest.raises(ValueError, match=message):
        trace([(2**31 - 3, 1, 2)], tick=1.0)


@pytest.mark.parametrize('make', [trace, synthetic_trace])
@pytest.mark.parametrize('tick', [1e9, 9.5])
def test_a_round_longer_than_the_log_is_refused(make, tick):
    options = {'num_clients': 2} if make is synthetic_trace else {}
    rows = [(0, 0, 4), (1, 3, 9)]
    message = f'^`tick` must be at most the 9 s that the log lasts .*, got {tick:g} s'
    with pytest.raises(ValueError, match=message.replace('+', r'\+')):
        make(rows, tick=tick, **options)
    assert trace(rows, tick=9).cycle == 1
    assert availability(rows, tick=9.5, wrap='day', rounds=3).tolist()[0] == [
        True,
        False,
    ]


def test_a_data_frame_is_a_log_whatever_its_order():
    frame = pandas.DataFrame(
        {'start': [0, 3, 6], 'note': 'x', 'end': [4, 9, 7.5], 'client': [1, 0, 1]}
    )
    rows = frame[['client', 'start', 'end']].to_numpy()
    expected = availability(rows, tick=1, rounds=9)
    np.testing.assert_array_equal(availability(frame, tick=1, rounds=9), expected)
    assert trace(frame, tick=1).client_names == ()
    frame['client'] = ['zoe', 'ann', 'zoe']
    assert trace(frame, tick=1).client_names == ('zoe', 'ann')
    by_name = availability(frame, tick=1, rounds=9, clients=['ann', 'zoe'])
    np.testing.assert_array_equal(by_name, expected)


@pytest.mark.parametrize(
    ('frame', 'message'),
    [
        (
            {'device': [0], 'start': [0], 'end': [1]},
            r"`intervals` must have columns client, start and end, .* got \['device'",
        ),
        (
            {'client': [0], 'start': ['2026-03-01'], 'end': [1]},
            '`intervals.start` must be numbers of seconds, as `trace_formats.from_csv`',
        ),
        (
            {'client': ['a', None], 'start': [0, 0], 'end': [1, 1]},
            '`intervals.client` must name a client, got none on row 1',
        ),
        (
            {'client': [0.0, np.nan], 'start': [0, 0], 'end': [1, 1]},
            '`intervals` must name clients by whole numbers, got nan',
        ),
    ],
)
def test_a_data_frame_of_something_else_costs_one_line(frame, message):
    with pytest.raises(ValueError, match=message):
        trace(pandas.DataFrame(frame), tick=1)


def test_odd_logs_are_warned_of():
    day = 86_400
    in_milliseconds = [(0, 0, 3 * day * 1000), (1, day, 2 * day)]
    with pytest.warns(
        UserWarning, match='lasts 3,000 days; if its times are not in sec'
    ):
        trace(in_milliseconds, tick=600)
    late = [(0, 3 * day, 4 * day)]
    message = "first 3 days; the origin 'first' begins the log when one is"
    with pytest.warns(UserWarning, match=message):
        trace(late, tick=600)
    with pytest.warns(UserWarning, match='no client is up in the first 3 days'):
        synthetic_trace(late, num_clients=2, tick=600)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        trace([(0, 0, 3 * day)], tick=600)


@pytest.mark.parametrize('play', [trace, availability])
def test_a_round_is_no_longer_than_the_log(play):
    log = intervals([0, 1], [0.0, 2.0], [1.0, 40.0])
    with refusals.names('tick', '40 s', '1e+09 s'):
        play(log, tick=1e9)
    play(log, tick=40.0, rounds=3)
    play(log, tick=1e9, rounds=3, wrap=2e9)
