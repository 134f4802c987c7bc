"""The picture of links, and its numbers."""

import numpy as np
import pytest

from fedjax_links.participation import replay
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import links, recording
from tests.report import plans
from tests.tiers import cases


@pytest.mark.parametrize(
    'name', cases(plans.ALL, ['bernoulli', 'cyclic', 'duplex', 'markov', 'separation'])
)
def test_the_text_fits(name):
    plan = plans.plan(plans.ALL[name])
    record = plans.record(plan, 400)
    text = links.text('title', record, plan.law)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 30


def test_the_text_counts_who_took_part():
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
    record = recording.record_links(replay(mask), num_rounds=4, seed=0)
    lines = links.text('title', record, LinkLaw('by hand')).splitlines()
    assert lines[:2] == ['title', 'links: by hand']
    assert lines[6] == 'clients 3, rounds 4, empty rounds 1, clients never active 1'
    counts = next(line for line in lines if line.startswith('participations'))
    assert counts.split()[1:] == ['0', '1', '2', '2.5', '3']


def test_the_map_shows_who_and_when():
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1]], bool)
    record = recording.record_links(replay(mask), num_rounds=4, seed=0)
    lines = links.text('title', record, LinkLaw('by hand')).splitlines()
    assert lines[2] == 'clients, best first (3 bands), by round 0 to 3'
    assert lines[3:6] == ['         1 |████', '         2 |█ █', '         3 |   █']


def test_many_clients_become_bands_of_mean_shade():
    mask = np.zeros((3, 40), bool)
    mask[0, :4], mask[1, :2], mask[2, 0] = True, True, True
    record = recording.record_links(replay(mask), num_rounds=3, seed=0)
    assert '       1-4 |█▒░' in links.text('t', record, LinkLaw('')).splitlines()


def test_directions_are_told_apart():
    plan = plans.plan(plans.KNOWN['duplex'])
    record = plans.record(plan, 400)
    assert record.duplex
    np.testing.assert_array_equal(
        record.participates, record.delivers & record.hears & record.computes
    )
    assert not np.array_equal(record.participates, record.delivers)
    text = links.text('t', record, plan.law)
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
