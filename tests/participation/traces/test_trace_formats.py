"""Readers: what a file means, and the line that is named when it means nothing."""

import numpy as np
import pytest

from fedjax_links.participation import trace
from fedjax_links.participation.traces import trace_formats
from tests import refusals
from tests.participation.sampling import refuses, roll


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and returns its path."""

    def write_file(text, name='log.csv'):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def test_csv_with_units_names_and_further_columns(write):
    path = write(
        'model,client,start,end\nx,phone b,60,120\n\ny, phone a ,0,30\nx,phone b,120,180\n'
    )
    log = trace_formats.from_csv(path, unit='min')
    assert log.names == ('phone b', 'phone a')
    np.testing.assert_array_equal(log.start, [3600, 0, 7200])
    np.testing.assert_array_equal(log.end, [7200, 1800, 10800])
    np.testing.assert_array_equal(log.source, [2, 4, 5])
    mask = roll(trace(log, tick=1800), 6).mask
    np.testing.assert_array_equal(mask[:, 0], [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(mask[:, 1], [1, 0, 0, 0, 0, 0])
    ordered = trace_formats.from_csv(path, clients=['phone a', 'phone b', 'phone c'])
    np.testing.assert_array_equal(ordered.client, [1, 0, 1])
    assert roll(trace(ordered, tick=1.0), 1).mask.shape == (1, 3)


def test_csv_origin(write):
    path = write('client,start,end\n1,1000,1010\n0,1004,1006\n')
    for origin in ('first', 1000.0):
        log = trace_formats.from_csv(path, origin=origin, clients=2)
        np.testing.assert_array_equal(log.start, [0, 4])
        np.testing.assert_array_equal(log.client, [1, 0])


@pytest.mark.parametrize(
    'lines, message',
    [
        (
            '0,0,5\n1,0,5\n0,4,6',
            "`intervals` must not overlap unless `overlaps` is 'merge', got client 0 on "
            'lines 2 and 4.',
        ),
        (
            '0,0,5\n1,7,5',
            '`intervals` must not end before they start, got 7 to 5 s on line 3.',
        ),
        ('0,0,5\n7,0,5', "`client` must be a known client, got '7' on line 3."),
        (
            '0,0,5\n1,x,5',
            '`start` must be a number or a date of ISO 8601, such as 2026-03-02T07:15:34+01:00, '
            "got 'x' on line 3.",
        ),
        (
            '0,1580515200,1580518800',
            '`intervals` must begin within a year of time 0, as with the '
            "origin 'first' of readers, got 1580515200 s as the earliest start.",
        ),
        (
            '0,2026-03-02T07:15:34,2026-03-02T08:00\n1,0,5',
            '`start` must be of one kind, numbers or dates, got both, on line 3.',
        ),
        ('0,0,5\n\n1,0', '`path` must have 3 values per line, got 2 on line 4.'),
        ('0,0,5\n1,0,1,000', '`path` must have 3 values per line, got 4 on line 3.'),
        ('0,0,inf', "`end` must be finite, got 'inf' on line 2."),
        ('0,-3,5', '`intervals` must start at 0 or later, got -3 to 5 s on line 2.'),
    ],
)
def test_csv_errors_name_the_line(write, lines, message):
    path = write(f'client,start,end\n{lines}\n')
    refuses(lambda: trace(trace_formats.from_csv(path, clients=3), tick=1.0), message)


def test_a_client_without_a_name_is_refused(write):
    path = write('client,start,end\n0,0,5\n ,0,5\n')
    refuses(
        lambda: trace_formats.from_csv(path),
        "`client` must be a known client, got '' on line 3.",
    )


def test_csv_header_and_options(write):
    path = write('client,begin,end\n0,0,1\n')
    refuses(
        lambda: trace_formats.from_csv(path),
        "`path` must have a column 'start' on line 1, got ['client', 'begin', 'end'].",
    )
    path = write('client,start,end,start\n0,0,1,2\n')
    refuses(
        lambda: trace_formats.from_csv(path),
        "`path` must have one column 'start' on line 1, got "
        "['client', 'start', 'end', 'start'].",
    )
    path = write('client,start,end\n0,0,1,\n')
    assert trace_formats.from_csv(path).names == (
        '0',
    )  # A comma at the end is no value.
    refuses(
        lambda: trace_formats.from_csv(path, unit='hour'),
        "`unit` has no 'hour'; valid names: d, h, min, ms, s.",
    )
    refuses(
        lambda: trace_formats.from_csv(path, origin='frist'),
        "`origin` has no 'frist'; did you mean 'first'?",
    )
    empty = write('client,start,end\n')
    refuses(
        lambda: trace(trace_formats.from_csv(empty), tick=1.0),
        '`intervals` must have at least one interval, got none.',
    )


DATES = """client,start,end
ann,2026-03-02T07:00:00+01:00,2026-03-02T09:00:00+01:00
bob,2026-03-02T06:30:00Z,2026-03-02T07:00:00Z
ann,2026-03-29T00:00:00+01:00,2026-03-29T04:00:00+02:00
"""


def test_dates_begin_at_the_midnight_of_the_clients(write):
    """By hand: ann comes at seven on her own clock; a change of clock makes a night shorter."""
    log = trace_formats.from_csv(write(DATES))
    hour = 3600
    days = 27 * 24
    np.testing.assert_array_equal(log.start, [7 * hour, 7.5 * hour, days * hour])
    np.testing.assert_array_equal(log.end, [9 * hour, 8 * hour, (days + 3) * hour])
    for options, first_start in (
        ({'utc_offset': 0}, 6 * hour),
        ({'utc_offset': -7.5}, (24 - 1.5) * hour),
        ({'origin': 'first'}, 0),
        ({'origin': '2026-03-02T05:00:00+01:00'}, 2 * hour),
    ):
        log = trace_formats.from_csv(write(DATES), **options)
        assert log.start[0] == first_start
    plain = 'client,start,end\nann,2026-03-02 07:00,2026-03-02 08:00\n'
    for offset in (None, 5):
        log = trace_formats.from_csv(write(plain), utc_offset=offset)
        assert log.start[0] == 7 * hour


@pytest.mark.parametrize(
    ('options', 'start'),
    [
        ({'origin': 'midnight', 'utc_offset': 8}, 7),
        ({'origin': '2026-03-02', 'utc_offset': 8}, 7),
        ({'origin': '2026-03-01T00:00:00+08:00'}, 31),
        ({'origin': '2026-03-01T00:00:00+08:00', 'utc_offset': -3}, 31),
        ({'origin': '2026-03-01T12:00:00Z', 'utc_offset': 8}, 11),
        ({'origin': 'midnight'}, 23),
        ({'origin': 'first', 'utc_offset': 8}, 0),
        ({'origin': 492334, 'utc_offset': 8}, 1),
    ],
)
@pytest.mark.parametrize('read', [trace_formats.from_csv, trace_formats.from_events])
def test_unix_times_follow_the_clock_of_the_clients(write, read, options, start):
    """By hand: 07:00 at UTC+8 on 2 March 2026, 23:00 in UTC, is 1,772,406,000 s or 492,335 h."""
    hours = 492335
    text = f'client,start,end\nann,{hours},{hours + 1}\n'
    if read is trace_formats.from_events:
        text = f'client,time,state\nann,{hours},up\nann,{hours + 1},down\n'
    log = read(write(text), unit='h', **options)
    np.testing.assert_array_equal(log.start, [3600 * start])
    np.testing.assert_array_equal(log.end, [3600 * (start + 1)])


EVENTS = """client,time,state
ann,100,connect
bob,160,DISCONNECT
ann,130,disconnect
ann,130,disconnect
eve,110,connect
ann,150,on
eve,120,on
bob,170,up
bob,190,off
ann,200,disconnect
"""


def intervals_by_name(log):
    """Returns the sorted (start, end) of each client."""
    results = {}
    for client, name in enumerate(log.names):
        rows = log.client == client
        results[name] = sorted(zip(log.start[rows], log.end[rows], strict=True))
    return results


def test_events_are_intervals(write):
    """By hand. The first event of bob is that he goes, and eve never goes."""
    path = write(EVENTS)
    log = trace_formats.from_events(path)
    expected = {
        'ann': [(0, 30), (50, 100)],
        'bob': [(0, 60), (70, 90)],
        'eve': [(10, 100)],
    }
    assert intervals_by_name(log) == expected
    assert log.has_names
    assert log.notes == (
        "1 of 3 clients go down first: taken as up from the log's first time on",
        '1 of 3 clients never go down at the end: '
        "taken as up until the log's last time (option 'last')",
    )
    for last, of_eve in (('drop', []), (15, [(10, 25)])):
        log = trace_formats.from_events(path, last=last)
        assert intervals_by_name(log)['eve'] == of_eve
        assert log.last_end == 100
    header, *lines = path.read_text().splitlines()
    backwards = write('\n'.join([header, *reversed(lines)]), 'backwards.csv')
    log = trace_formats.from_events(backwards, clients=['ann', 'bob', 'eve'])
    assert intervals_by_name(log) == expected
    with pytest.raises(
        ValueError, match=r"`state` must be one of .*, got 'on' on line 7\."
    ):
        trace_formats.from_events(path, up=['connect', 'up'])
    with pytest.raises(ValueError, match="`last` has no 'lst'"):
        trace_formats.from_events(path, last='lst')


def test_dates_count_from_midnight_and_default_to_utc(write):
    path = write(
        'client,start,end\n'
        'a,2026-03-02T07:15:30,2026-03-03 00:00:00\n'
        'b,2026-03-02T07:15:30+02:00,2026-03-02T07:00:00Z\n'
        'b,2026-03-03,2026-03-03T00:00:00.250\n'
    )
    log = trace_formats.from_csv(path)
    quarter = 7 * 3600 + 15 * 60 + 30
    np.testing.assert_array_equal(log.start, [quarter, quarter - 7200, 86_400])
    np.testing.assert_array_equal(log.end, [86_400, 7 * 3600, 86_400.25])


@pytest.mark.parametrize('read', [trace_formats.from_csv, trace_formats.from_flash])
def test_a_file_that_cannot_be_read_is_named(read, tmp_path):
    for path, reason in (
        (tmp_path / 'none', 'No such file or directory'),
        (tmp_path, 'Is a dir'),
    ):
        with pytest.raises(ValueError, match='path') as caught:
            read(path)
        assert str(caught.value).startswith(
            f'`path` must name a readable file, got {path}: {reason}'
        )


def test_dates_of_several_offsets_say_whose_days_are_counted(write):
    first = '2026-03-01T00:30:00+01:00'
    text = f'client,start,end\na,{first},2026-03-01T05:00:00+01:00\n'
    text += 'b,2026-03-29T04:00:00+02:00,2026-03-29T05:00:00+02:00\n'
    log = trace_formats.from_csv(write(text))
    assert log.start.tolist() == [1800, 28 * 86_400 + 3 * 3600]
    (note,) = log.notes
    assert note.startswith('dates have the offsets +1 h, +2 h: days begin at +1 h')
    with pytest.warns(UserWarning, match="that of the first .'utc_offset'."):
        trace(log, tick=600)
    assert not trace_formats.from_csv(write(text), utc_offset=1).notes
    assert not trace_formats.from_csv(write(text.replace('+02', '+01'))).notes


@pytest.mark.parametrize('origin', [0.0, 'first', 'midnight'])
def test_a_time_that_is_no_number_is_named_whatever_the_origin(write, origin):
    path = write('client,start,end\nann,0,1\nbob,nan,3\n')
    with refusals.names('start', "'nan' on line 3"):
        trace_formats.from_csv(path, origin=origin)
    path = write('client,time,state\nann,0,up\nann,3,down\nbob,nan,up\nbob,4,down\n')
    with refusals.names('time', "'nan' on line 4"):
        trace_formats.from_events(path, origin=origin)


def test_dates_without_an_offset_have_that_of_the_clients(write):
    text = 'client,start,end\na,2026-03-01T00:30:00+01:00,2026-03-01T05:00:00\n'
    log = trace_formats.from_csv(write(text))
    assert [log.start[0], log.end[0]] == [1800, 5 * 3600]
    assert not log.notes


def test_a_client_named_twice_is_refused(write):
    path = write('client,start,end\na,0,5\n')
    with refusals.names('clients', 'once', "'a', 'a'"):
        trace_formats.from_csv(path, clients=['a', 'a'])


@pytest.mark.parametrize(
    ('options', 'field'),
    [
        ({'clients': 'ab'}, 'clients'),
        ({'clients': 1.5}, 'clients'),
        ({'origin': [0.0, 1.0]}, 'origin'),
        ({'origin': np.nan}, 'origin'),
        ({'origin': -np.inf}, 'origin'),
        ({'up': 1}, 'up'),
        ({'down': None}, 'down'),
        ({'down': 'Connect'}, 'up'),  # up by default
        ({'up': 'off', 'down': ['on', 'off']}, 'up'),
    ],
)
def test_options_that_cannot_be_read_are_named(write, options, field):
    path = write('client,time,state\na,0,up\na,5,down\n')
    with refusals.names(field):
        trace_formats.from_events(path, **options)


def test_playing_a_log_warns_of_what_its_reader_guessed(write):
    path = write('client,time,state\na,0,here\na,10,gone\nb,5,here\n')
    log = trace_formats.from_events(path, up='here', down='gone')
    assert log.end.tolist() == [10, 10]
    with pytest.warns(UserWarning, match='1 of 2 clients never go down at the end'):
        trace(log, tick=1)
