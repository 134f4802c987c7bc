"""Previews of links and of logs against numbers computed by hand."""

import numpy as np
import pytest

from fedjax_links import analysis, base
from fedjax_links.participation import intervals, replay, synthetic_trace
from fedjax_links.participation.link_laws import LinkLaw
from fedjax_links.participation.traces import trace
from fedjax_links.preview import links
from tests.report import plans
from tests.tiers import cases

HOUR = 3600.0


@pytest.mark.parametrize(
    'name', cases(plans.ALL, ['bernoulli', 'cyclic', 'duplex', 'markov', 'separation'])
)
def test_the_text_fits(name):
    record = plans.named_record(name, 400)
    text = links.text('title', record, plans.named_plan(name).law)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 30


def test_the_text_counts_who_took_part():
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
    record = links.record_links(replay(mask), num_rounds=4, seed=0)
    lines = links.text('title', record, LinkLaw('by hand')).splitlines()
    assert lines[:2] == ['title', 'links: by hand']
    assert lines[6] == 'clients 3, rounds 4, empty rounds 1, clients never active 1'
    counts = next(line for line in lines if line.startswith('participations'))
    assert counts.split()[1:] == ['0', '1', '2', '2.5', '3']


def test_the_map_shows_who_and_when():
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1]], bool)
    record = links.record_links(replay(mask), num_rounds=4, seed=0)
    lines = links.text('title', record, LinkLaw('by hand')).splitlines()
    assert lines[2] == 'clients, best first (3 bands), by round 0 to 3'
    assert lines[3:6] == ['         1 |████', '         2 |█ █', '         3 |   █']


def test_many_clients_become_bands_of_mean_shade():
    mask = np.zeros((3, 40), bool)
    mask[0, :4] = True
    mask[1, :2] = True
    mask[2, 0] = True
    record = links.record_links(replay(mask), num_rounds=3, seed=0)
    assert '       1-4 |█▒░' in links.text('t', record, LinkLaw('')).splitlines()


def test_bands_of_many_clients_fit_into_a_line():
    mask = np.ones((80, 20_000), bool)
    record = base.LinkSample(mask, np.ones(mask.shape, np.float32))
    lines = links.text('t', record, LinkLaw('')).splitlines()
    assert max(map(len, lines)) == 80
    assert '18001-20000 |' + 67 * '█' in lines


def test_deliveries_and_receipts_are_counted_apart():
    record = plans.named_record('duplex', 400)
    active = base.participants(record)
    delivers = base.delivers(record)
    np.testing.assert_array_equal(active, delivers & record.downlink & record.compute)
    assert not np.array_equal(active, delivers)
    text = links.text('t', record, plans.named_plan('duplex').law)
    assert (
        f'delivers {delivers.mean():.3f}, receives {record.downlink.mean():.3f}' in text
    )


@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize(
    'name',
    cases(['markov', 'duplex', 'always', 'sine', 'separation'], ['markov', 'duplex']),
)
def test_the_picture_is_written(name, tmp_path):
    record = plans.named_record(name, 300)
    law = plans.named_plan(name).law
    links.picture(tmp_path / 'a.png', 'title', record, law)
    assert (tmp_path / 'a.png').read_bytes()[:4] == b'\x89PNG'


def test_a_record_too_large_is_refused():
    with pytest.raises(
        ValueError, match=r'`rounds` must be at most 178956970 for 3 clients'
    ):
        links.record_links(replay(np.ones((1, 3), bool)), num_rounds=10**9, seed=0)


def test_day_absences_and_bias_by_hand():
    """Client 0 is up from 8 to 20 h, client 1 from 12 to 13 h, client 2 never; over ten days."""
    days = 86_400.0 * np.arange(10)
    log = intervals(
        np.repeat([0, 1], 10),
        np.r_[days + 8 * HOUR, days + 12 * HOUR],
        np.r_[days + 20 * HOUR, days + 13 * HOUR],
        num_clients=3,
    )._replace(period=np.full(3, 864_000.0))
    record, law = links.sample_log(log, tick=HOUR)
    mask = record.mask
    assert mask.shape == (240, 3)
    gaps = analysis.gap_counts(mask)
    assert {k: n for k, n in enumerate(gaps) if n and k > 1} == {13: 9, 24: 9}
    # Of the twelve hours with somebody, one is shared.
    weights = np.array([11.5, 0.5, 0]) / 12
    bias, error = links.bias(mask)
    np.testing.assert_allclose(bias, np.abs(weights - 1 / 3).sum())
    lines = links.text('a log', record, law).splitlines()
    text = f"links: a log, 240 rounds of 3600 s (10 days); FedAvg's weights 1.2500 ± {error:.4f}"
    # Absences last 12 or 23 hours. After 11 hours none is over, but of geometric ones with these
    # means a part is.
    down = 1 - ((11 / 12) ** 11 + (22 / 23) ** 11) / 2
    # From 0 to 2 of the three clients are up in an hour of the day: half of 2/3 is 0.33.
    missed = f'times up and down by {down:.2f} (markov), the day by 0.33 (semi_markov)'
    expected = f'{text} from equal (L1); synthetic_trace would miss {missed}'
    assert ' '.join(lines[1:4]) == expected
    assert lines[4] == 'clients, best first (3 bands), by round 0 to 67'
    assert lines[8] == 'clients 3, rounds 240, empty rounds 120, clients never active 1'
    assert law.period == 24


@pytest.mark.parametrize(
    'start, rounds, message',
    [
        (10 * HOUR, 4, 'no client is available, so FedAvg has no weights'),
        (0.0, 1, "a single round is too short for FedAvg's weights"),
    ],
)
def test_a_log_without_weights_says_so(start, rounds, message):
    log = intervals([0], [start], [start + HOUR])
    _, law = links.sample_log(log, tick=HOUR, rounds=rounds)
    assert f'; {message}' in law.description
    assert 'nan' not in law.description


def test_the_error_of_the_bias_is_its_spread_over_records():
    """Compares the mean stated variance with the variance over many records."""
    rng = np.random.default_rng(0)
    probs = np.array([0.2, 0.4, 0.6, 0.8])
    result = np.array([links.bias(rng.random((960, 4)) < probs) for _ in range(300)])
    spread = np.var(result[:, 0], ddof=1)
    stated = np.mean(result[:, 1] ** 2)
    assert abs(spread / stated - 1) < 4 * np.sqrt(2 / 299)


def biases_of(log, tick):
    """Returns bias and its error, of a log and of a synthetic trace of as many clients."""
    mask = trace.availability(log, tick=tick)
    pattern = synthetic_trace(
        log, num_clients=mask.shape[1], tick=tick, rounds=len(mask)
    )
    copy = links.record_links(pattern, num_rounds=len(mask), seed=0)
    return links.bias(mask), links.bias(copy.mask)


def test_a_synthetic_trace_misses_days_and_hours_of_clients():
    """Its bias is too large where days are regular, too small where clients have own hours."""
    days = 86_400.0 * np.arange(28)
    # Thirty clients are up for the first nine hours of every day: no bias at all.
    steady = intervals(
        np.repeat(np.arange(30), 28), np.tile(days, 30), np.tile(days, 30) + 9 * HOUR
    )
    steady = steady._replace(period=np.full(30, 28 * 86_400.0))
    (bias, _), (copied_bias, copied_error) = biases_of(steady, HOUR)
    assert bias < 1e-12
    assert copied_bias > 5 * copied_error

    # Five clients come about 8 h, the other 55 about 16 h: few are up together in the morning.
    rng = np.random.default_rng(0)
    hour = np.repeat([8, 16], [5, 55])[:, None] + rng.uniform(-2, 2, (60, 28))
    start = (days + hour * HOUR).ravel()
    end = start + rng.uniform(3, 7, start.size) * HOUR
    shifts = intervals(np.repeat(np.arange(60), 28), start, end)
    shifts = shifts._replace(period=np.full(60, 28 * 86_400.0))
    (bias, error), (copied_bias, copied_error) = biases_of(shifts, 1800)
    assert copied_bias < bias - 5 * np.hypot(error, copied_error)


def test_logs_without_activity_days_or_many_rounds():
    assert np.isnan(links.bias(np.zeros((6, 2), bool))).all()
    log = intervals([0, 1], [0, 1000], [50_000, 90_000])
    # A day is a whole number of rounds of 7,200 seconds, not of 7,000.
    assert links.sample_log(log, tick=7000.0)[1].period is None
    assert links.sample_log(log, tick=7200.0)[1].period == 12
    one, law = links.sample_log(log, tick=1e5)
    assert len(links.text('a round', one, law).splitlines()) < 20
