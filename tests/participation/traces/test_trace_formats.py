"""Importers: what a file means, and the line that is named when it means nothing."""

import numpy as np
import pytest

from fedjax_links.core import errors
from fedjax_links.participation import trace
from fedjax_links.participation.traces import trace_formats
from tests.participation.sampling import refuses, roll


@pytest.fixture
def write(tmp_path):
    def write(text, name='log.csv'):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


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
    assert roll(trace(ordered), 1).mask.shape == (1, 3)


def test_csv_origin(write):
    path = write('client,start,end\n1,1000,1010\n0,1004,1006\n')
    for origin in ('first', 1000.0):
        log = trace_formats.from_csv(path, origin=origin, clients=2)
        np.testing.assert_array_equal(log.start, [0, 4])
        np.testing.assert_array_equal(log.client, [1, 0])


def test_dates_count_from_midnight_and_in_utc(write):
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
    for origin, zero in {'first': quarter - 7200, '2026-03-02T04:00+02:00': 2 * 3600}.items():
        np.testing.assert_array_equal(
            trace_formats.from_csv(path, origin=origin).start, log.start - zero
        )


DATE = 'must be a date such as 2026-03-02T07:15, as the first time is no number'


@pytest.mark.parametrize(
    'lines, options, message',
    [
        ('a,soon,5', {}, f"`start` {DATE}, got 'soon' on line 2."),
        ('a,2026-03-02,2026-13-02', {}, f"`end` {DATE}, got '2026-13-02' on line 2."),
        ('a,2026-03-02,5', {}, f"`end` {DATE}, got '5' on line 2."),
        ('a,0,5\na,2026-03-02,9', {}, "`start` must be a number, got '2026-03-02' on line 3."),
        ('a,2026-03-02,2026-03-03', {'origin': 5.0}, f'`origin` {DATE}, got 5.0.'),
        ('a,0,5', {'origin': '2026-03-02'}, "`origin` has no '2026-03-02'; valid names: first."),
    ],
)
def test_a_file_has_dates_or_numbers(write, lines, options, message):
    path = write(f'client,start,end\n{lines}\n')
    with pytest.raises(errors.InvalidError) as raised:
        trace_formats.from_csv(path, **options)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    'lines, message',
    [
        ('0,0,5\n1,0,5\n0,4,6', '`intervals` must not overlap, got client 0 on lines 2 and 4.'),
        ('0,0,5\n1,7,5', '`intervals` must end after they start, got 7 to 5 s on line 3.'),
        ('0,0,5\n7,0,5', "`client` must be a known client, got '7' on line 3."),
        ('0,0,5\n1,x,5', "`start` must be a number, got 'x' on line 3."),
        ('0,0,5\n\n1,0', '`path` must have 3 values per line, got 2 on line 4.'),
        ('0,0,inf', '`intervals` must be finite, got 0 to inf s on line 2.'),
        ('0,-3,5', '`intervals` must start at 0 or later, got -3 to 5 s on line 2.'),
    ],
)
def test_csv_errors_name_the_line(write, lines, message):
    path = write(f'client,start,end\n{lines}\n')
    refuses(lambda: trace(trace_formats.from_csv(path, clients=3)), message)


def test_csv_header_and_options(write):
    path = write('client,begin,end\n0,0,1\n')
    refuses(
        lambda: trace_formats.from_csv(path),
        "`path` must have a column 'start' on line 1, got ['client', 'begin', 'end'].",
    )
    path = write('client,start,end\n0,0,1\n')
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
        lambda: trace(trace_formats.from_csv(empty)),
        '`intervals` must have at least one interval, got none.',
    )


TRACES = {
    11: {'duration': 40, 'active': [0, 30], 'inactive': [10, 70], 'finish_time': 60, 'model': 'x'},
    5: {'duration': 20, 'active': [20, 90], 'inactive': [40, 95], 'finish_time': 50, 'model': 'y'},
}


def test_fedscale_traces_repeat_per_client():
    log = trace_formats.from_fedscale(TRACES)
    assert log.names == ('11', '5')
    mask = roll(trace(log, tick=10), 30).mask
    times = 10 * np.arange(30)
    np.testing.assert_array_equal(mask[:, 0], (times % 60 < 10) | (times % 60 >= 30))
    np.testing.assert_array_equal(mask[:, 1], (times % 50 >= 20) & (times % 50 < 40))
    chosen = trace_formats.from_fedscale(TRACES, clients=[5])
    np.testing.assert_array_equal(roll(trace(chosen, tick=10), 30).mask[:, 0], mask[:, 1])


def test_fedscale_errors():
    refuses(
        lambda: trace_formats.from_fedscale(TRACES, clients=[12]),
        "`clients` has no '12'; did you mean '11'?",
    )
    refuses(
        lambda: trace_formats.from_fedscale({1: {'active': [0], 'inactive': [1]}}),
        '`1.finish_time` must be a number, got None.',
    )
    refuses(
        lambda: trace_formats.from_fedscale(
            {1: {'active': [0, 2], 'inactive': [1], 'finish_time': 9}}
        ),
        '`traces` must have as many `active` as `inactive`, got 2 and 1 at client 1.',
    )
    overlapping = {1: {'active': [0, 3], 'inactive': [5, 8], 'finish_time': 9}}
    refuses(
        lambda: trace(trace_formats.from_fedscale(overlapping)),
        '`intervals` must not overlap, got client 1 on rows 0 and 1.',
    )


@pytest.mark.parametrize('name', [name for name in trace_formats.__all__ if name[:5] == 'from_'])
def test_a_file_that_cannot_be_read_is_named(name, tmp_path):
    read = getattr(trace_formats, name)
    for path, reason in ((tmp_path / 'none', 'No such file or directory'), (tmp_path, 'Is a dir')):
        with pytest.raises(ValueError, match='path') as caught:
            read(path)
        assert str(caught.value).startswith(
            f'`path` must name a readable file, got {path}: {reason}'
        )
