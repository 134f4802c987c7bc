"""Availability as it was measured: the true formats, and rounds that fit no log's length."""

import json

import numpy as np
import pytest

from fedjax_links.participation import availability, replay, trace
from fedjax_links.participation.traces import trace_formats
from tests.participation.sampling import refuses, roll

TIMERS = {
    'b7': {
        'isSuccess': True,
        'trace_start': 100_000.0,
        'trace_end': 190_000.0,
        'ready_time': [[100_500.0, 104_000.0], [150_000.0, 189_999.0]],
    },
    'a1': {'isSuccess': False, 'trace_start': None, 'trace_end': None, 'ready_time': []},
    'c3': {
        'isSuccess': True,
        'trace_start': 5_000.0,
        'trace_end': 12_001.0,
        'ready_time': [[6_000.0, 6_700.0]],
    },
}
BEHAVIOUR = {
    11: {
        'duration': 40_000,
        'inactive': [7_000, 61_000],
        'finish_time': 59_999,
        'active': [500, 40_000],
        'model': 'x',
    },
    5: {'duration': 9, 'inactive': [1_300], 'finish_time': 8_191, 'active': [250], 'model': 'y'},
}


def flash_ready(timer, time):
    """The rule of FLASH, for times in whole seconds, with the end taken away."""
    begin, length = timer['trace_start'], int(timer['trace_end'] - timer['trace_start'])
    now = int(time - begin) % length + begin
    return any(start <= now < end for start, end in timer['ready_time'])


def fedscale_active(fields, time):
    """The rule of FedScale, likewise."""
    now = time % fields['finish_time']
    pairs = zip(fields['active'], fields['inactive'], strict=True)
    return any(start <= now < end for start, end in pairs)


@pytest.fixture
def flash(tmp_path):
    path = tmp_path / 'cached_timers.json'
    path.write_text(json.dumps(TIMERS))
    return path


@pytest.fixture
def fedscale(tmp_path):
    path = tmp_path / 'client_behave_trace.json'
    path.write_text(json.dumps(BEHAVIOUR))
    return path


def test_flash_rounds_follow_its_rule(flash):
    log = trace_formats.from_flash(flash)
    assert log.names == ('b7', 'c3')
    np.testing.assert_array_equal(log.period, [90_000, 7_001])
    mask = availability(log, tick=613, rounds=400)
    expected = [[flash_ready(TIMERS[name], 613 * t) for name in log.names] for t in range(400)]
    np.testing.assert_array_equal(mask, expected)
    assert 0.1 < mask.mean() < 0.9
    np.testing.assert_array_equal(roll(trace(log, tick=613, rounds=400), 400).mask, mask)


def test_fedscale_rounds_follow_its_rule(fedscale):
    log = trace_formats.from_fedscale(fedscale)
    mask = availability(log, tick=97, rounds=1500)
    expected = [[fedscale_active(BEHAVIOUR[c], 97 * t) for c in (11, 5)] for t in range(1500)]
    np.testing.assert_array_equal(mask, expected)
    short = trace(log, tick=97, rounds=9)
    assert short.cycle == 9
    np.testing.assert_array_equal(roll(short, 20).mask, np.tile(mask[:9], (3, 1))[:20])


def test_rounds_of_whole_ticks_are_those_of_the_trace(fedscale):
    log = trace_formats.from_fedscale(fedscale, clients=['5'])
    whole = log._replace(period=np.array([8_200.0]))
    played = roll(trace(whole, tick=100), 200).mask
    np.testing.assert_array_equal(availability(whole, tick=100, rounds=200), played)
    np.testing.assert_array_equal(roll(replay(played), 200).mask, played)


def test_overlaps_are_refused_or_merged():
    rows = [(0, 0, 5), (0, 3, 9), (0, 4, 6), (1, 2, 3)]
    refuses(
        lambda: availability(rows, rounds=12),
        '`intervals` must not overlap, got client 0 on rows 0 and 1.',
    )
    mask = availability(rows, rounds=12, wrap=12, overlaps='merge')
    np.testing.assert_array_equal(mask[:, 0], np.arange(12) < 9)
    refuses(lambda: availability(rows, rounds=0), '`rounds` must be at least 1, got 0.')
    refuses(
        lambda: availability(rows, rounds=3, wrap=2),
        '`intervals` must start before the wrap at 2 s, got 3 to 9 s on row 1.',
    )


def test_clients_by_name_and_by_number(flash, fedscale):
    assert trace_formats.from_flash(flash, clients=['c3']).names == ('c3',)
    assert trace_formats.from_flash(flash, clients=1).names == ('b7',)
    assert trace_formats.from_flash(flash).first(1).names == ('b7',)
    assert trace_formats.from_fedscale(fedscale, clients=[5]).names == ('5',)
    refuses(
        lambda: trace_formats.from_flash(flash, clients=['c4']),
        "`clients` has no 'c4'; did you mean 'c3'?",
    )
    refuses(
        lambda: trace_formats.from_fedscale(fedscale, clients=3),
        '`clients` must be at most 2, got 3.',
    )


@pytest.mark.parametrize(
    'held, message',
    [
        ('{"a": ', '`path` must be a JSON file, got {path}: Expecting value.'),
        ('[1, 2]', '`path` must hold a description by client, got [1, 2].'),
        ('{"a": 3}', "`path` must hold a description by client, got {{'a': 3}}."),
        (
            '{"a": {"trace_start": 0, "trace_end": 9}}',
            '`a.ready_time` must be a number, got None.',
        ),
        (
            '{"a": {"trace_start": 0, "trace_end": 9, "ready_time": [1, 2]}}',
            '`a.ready_time` must be a list of pairs of numbers, got [1, 2].',
        ),
        (
            '{"a": {"trace_start": "0", "trace_end": 9, "ready_time": []}}',
            "`a.trace_start` must be a number, got '0'.",
        ),
        (
            '{"a": {"trace_start": 9, "trace_end": 9, "ready_time": []}}',
            '`path` must have logs of positive length, got client a.',
        ),
        (
            '{"a": {"trace_start": 0, "trace_end": 9, "ready_time": [[0, 10]]}}',
            '`path` must be up no longer than its log, got client a.',
        ),
    ],
)
def test_a_flash_file_of_another_kind_costs_one_line(held, message, tmp_path):
    path = tmp_path / 'timers.json'
    path.write_text(held)
    refuses(lambda: trace_formats.from_flash(path), message.format(path=path))


def test_matrices(tmp_path, rng):
    mask = rng.random((7, 3)) < 0.5
    mask[0], mask[1] = [True, False, False], True
    lines = '\n'.join(','.join(str(int(cell)) for cell in row) for row in mask)
    path = tmp_path / 'mask.csv'
    path.write_text(lines)
    log = trace_formats.from_matrix(path, seconds=60)
    assert log.names == ('0', '1', '2')
    np.testing.assert_array_equal(roll(trace(log, tick=60), 14).mask, np.tile(mask, (2, 1)))
    np.testing.assert_array_equal(availability(log, tick=20, rounds=21), np.repeat(mask, 3, axis=0))
    path.write_text('phone, laptop ,x\n' + lines + '\n\n')
    assert trace_formats.from_matrix(path).names == ('phone', 'laptop', 'x')
    path.write_text('1,0\n0,2\n')
    message = "`path` must have 2 values 0 or 1 per line, got ['0', '2'] on line 2."
    refuses(lambda: trace_formats.from_matrix(path), message)
    path.write_text('1,0\n0\n')
    message = "`path` must have 2 values 0 or 1 per line, got ['0'] on line 2."
    refuses(lambda: trace_formats.from_matrix(path), message)
    path.write_text('a,b\n')
    refuses(lambda: trace_formats.from_matrix(path), '`path` must hold lines of 0 and 1, got none.')


def test_a_pickle_is_refused_and_not_run(tmp_path):
    path, touched = tmp_path / 'client_behave_trace', tmp_path / 'touched'
    path.write_bytes(f'cos\nsystem\n(Vtouch {touched}\ntR.'.encode())
    with pytest.raises(ValueError, match=r'^`path` must be a JSON file, got .*: Expecting value'):
        trace_formats.from_fedscale(path)
    path.write_bytes(b'\x80\x04}\x94.')
    with pytest.raises(ValueError, match=r'^`path` must name a readable file, got .*utf-8'):
        trace_formats.from_fedscale(path)
    assert not touched.exists()


def test_what_a_file_holds_may_be_given_itself(fedscale):
    by_file, by_value = map(trace_formats.from_fedscale, (fedscale, BEHAVIOUR))
    assert by_file.names == by_value.names == ('11', '5')
    for a, b in zip(by_file, by_value, strict=True):
        np.testing.assert_array_equal(a, b)
