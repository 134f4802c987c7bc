"""Traces of FLASH, those of FedScale made into them, and what the page on logs prints."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest

from fedjax_links.participation import availability, trace
from fedjax_links.participation.traces import trace_formats
from tests.docs import pages
from tests.participation.sampling import refuses, roll

TIMERS = {
    'b7': {
        'isSuccess': True,
        'trace_start': 100_000.0,
        'trace_end': 190_000.0,
        'ready_time': [[100_500.0, 104_000.0], [150_000.0, 189_999.0]],
    },
    'a1': {
        'isSuccess': False,
        'trace_start': None,
        'trace_end': None,
        'ready_time': [],
    },
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
    5: {
        'duration': 9,
        'inactive': [1_300],
        'finish_time': 8_191,
        'active': [250],
        'model': 'y',
    },
}


def flash_ready(timer, time):
    """The rule of FLASH, for times in whole seconds, with the end taken away."""
    begin = timer['trace_start']
    length = int(timer['trace_end'] - timer['trace_start'])
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


def test_flash_rounds_follow_its_rule(flash):
    log = trace_formats.from_flash(flash)
    assert log.names == ('b7', 'c3')
    np.testing.assert_array_equal(log.period, [90_000, 7_001])
    mask = availability(log, tick=613, rounds=400)
    expected = [
        [flash_ready(TIMERS[name], 613 * t) for name in log.names] for t in range(400)
    ]
    np.testing.assert_array_equal(mask, expected)
    assert 0.1 < mask.mean() < 0.9
    np.testing.assert_array_equal(
        roll(trace(log, tick=613, rounds=400), 400).mask, mask
    )


PAGE = (pages.DOCS / 'availability.md').read_text()


def run_block(words):
    """Runs the block of the page on availability that has these words; returns its output."""
    (source,) = [source for source in pages.code(PAGE, 'python') if words in source]
    return pages.printed(source, {'pandas': pandas})


def test_the_page_shows_what_its_block_about_names_prints():
    shown = pages.code(PAGE, 'text')[0]
    assert run_block('client_names=columns.names') == shown


def test_what_the_page_makes_of_fedscales_file_follows_its_rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('client_behave_trace').write_bytes(pickle.dumps(BEHAVIOUR))
    run_block('client_behave_trace')
    log = trace_formats.from_flash('traces.json')
    mask = availability(log, tick=97, rounds=1500)
    expected = [
        [fedscale_active(BEHAVIOUR[c], 97 * t) for c in (11, 5)] for t in range(1500)
    ]
    np.testing.assert_array_equal(mask, expected)


def test_clients_by_name_and_by_number(flash):
    assert trace_formats.from_flash(flash, clients=['c3']).names == ('c3',)
    assert trace_formats.from_flash(flash, clients=1).names == ('b7',)
    assert trace_formats.from_flash(flash).first(1).names == ('b7',)
    refuses(
        lambda: trace_formats.from_flash(flash, clients=['c4']),
        "`clients` has no 'c4'; did you mean 'c3'?",
    )
    refuses(
        lambda: trace_formats.from_flash(flash, clients=3),
        '`clients` must be at most 2, got 3.',
    )


@pytest.mark.parametrize(
    'content, message',
    [
        ('{"a": ', '`path` must be a JSON file, got {path}: Expecting value.'),
        ('[1, 2]', '`path` must hold a description by client, got [1, 2].'),
        ('{"a": 3}', "`path` must hold a description by client, got {{'a': 3}}."),
        (
            '{"681": {"guid": "681", "messages": "2020-02-14 07:00:00 battery_charged_on"}}',
            '`path` must be the cached_timers.json that FLASH writes from its state_traces.json, '
            'got one of the fields guid, messages.',
        ),
        (
            '{"a": {"trace_start": 0, "trace_end": 9}}',
            '`a.ready_time` must be a list of pairs of numbers, got None.',
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
def test_a_flash_file_of_another_kind_costs_one_line(content, message, tmp_path):
    path = tmp_path / 'timers.json'
    path.write_text(content)
    refuses(lambda: trace_formats.from_flash(path), message.format(path=path))


def test_a_pickle_is_refused_and_not_run(tmp_path):
    path = tmp_path / 'client_behave_trace'
    touched = tmp_path / 'touched'
    path.write_bytes(f'cos\nsystem\n(Vtouch {touched}\ntR.'.encode())
    with pytest.raises(
        ValueError, match=r'^`path` must be a JSON file, got .*: Expecting value'
    ):
        trace_formats.from_flash(path)
    path.write_bytes(b'\x80\x04}\x94.')
    with pytest.raises(
        ValueError, match=r'^`path` must name a readable file, got .*utf-8'
    ):
        trace_formats.from_flash(path)
    assert not touched.exists()
