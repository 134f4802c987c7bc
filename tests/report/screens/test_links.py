"""Pictures of links on paper and on a terminal."""

import numpy as np
import pytest

from fedjax_links.participation import replay
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import links, recording, terminal
from tests.report import plans
from tests.tiers import cases


@pytest.mark.parametrize(
    'name', cases(plans.ALL, ['bernoulli', 'cyclic', 'duplex', 'markov', 'separation'])
)
def test_the_terminal_page_fits(name):
    plan = plans.plan(plans.ALL[name])
    record = plans.record(plan, 400)
    text = terminal.picture('title', record, plan.law)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 30


def test_the_map_shows_who_and_when():
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1]], bool)
    record = recording.record_links(replay(mask), num_rounds=4, seed=0)
    lines = terminal.picture('title', record, LinkLaw('by hand')).splitlines()
    assert lines[:2] == ['title', 'links: by hand']
    assert lines[3:6] == ['         1 |████', '         2 |█ █', '         3 |   █']
    assert lines[6] == 'rate per client, best first, 0 to 1, over 4 rounds'
    assert lines[7] == '  realised |█▄▂'
    assert lines[8].startswith('participants of the first 4 rounds, 0 to 2; mean 1.75, 0.0%')
    assert lines[11].split()[-1] == '0.750'  # three gaps of one round, one of two
    assert lines[12].split()[-1] == '0.250'


def test_many_clients_become_bands_of_mean_shade():
    mask = np.zeros((3, 40), bool)
    mask[0, :4], mask[1, :2], mask[2, 0] = True, True, True
    record = recording.record_links(replay(mask), num_rounds=3, seed=0)
    lines = terminal.picture('t', record, LinkLaw('')).splitlines()
    assert '       1-4 |█▒░' in lines


def test_participants_by_phase_leave_out_what_is_left_over():
    mask = np.zeros((7, 4), bool)
    for row, count in enumerate([1, 2, 3, 3, 4, 3, 4]):
        mask[row, :count] = True
    record = recording.record_links(replay(mask), num_rounds=7, seed=0)
    lines = terminal.picture('t', record, LinkLaw('', period=3)).splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith('participants'))
    assert lines[place].startswith('participants by round modulo 3, 0 to 3;')
    assert lines[place + 1] == f'{"":>10} |▆██'  # 2, 3 and 3 of 3


def test_directions_are_told_apart():
    plan = plans.plan(plans.KNOWN['duplex'])
    record = plans.record(plan, 400)
    assert record.duplex
    np.testing.assert_array_equal(
        record.participates, record.delivers & record.hears & record.computes
    )
    assert not np.array_equal(record.participates, record.delivers)
    text = terminal.picture('t', record, plan.law)
    assert f'delivers {record.delivers.mean():.3f}, hears {record.hears.mean():.3f}' in text


@pytest.mark.parametrize(
    'name', cases(['markov', 'duplex', 'always', 'sine', 'separation'], ['markov', 'duplex'])
)
def test_the_picture_is_written(name, tmp_path):
    plan = plans.plan(plans.ALL[name])
    record = plans.record(plan, 300)
    links.picture(tmp_path / 'a.png', 'title', record, plan.law)
    assert (tmp_path / 'a.png').read_bytes()[:4] == b'\x89PNG'


def test_a_record_too_large_is_refused():
    with pytest.raises(ValueError, match=r'`rounds` must be at most 178956970 for 3 clients'):
        recording.record_links(replay(np.ones((1, 3), bool)), num_rounds=10**9, seed=0)
