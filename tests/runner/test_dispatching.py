"""The numbers of periods and of parallel lanes in a dispatch change no result."""

import jax
import numpy as np
import pytest

from fedjax_links import experiment, participation
from fedjax_links.core import memory
from fedjax_links.runner import stages
from fedjax_links.runner.lane_batch import LaneBatch
from fedjax_links.runner.program_cache import Programs
from tests.runner import running
from tests.runner.made_in_python import in_python

MIXED = {
    'some': participation.bernoulli(np.linspace(0.2, 0.9, 6)),
    'bursts': participation.markov(np.linspace(0.2, 0.9, 6)),
}


def interleaved(planned, label):
    """Returns an algorithm's lanes at the first point, of both patterns alternately."""
    lanes = planned.plan.schedule.main(label)
    lanes = [lane for lane in lanes if lane.point == lanes[0].point]
    return sorted(lanes, key=lambda lane: (lane.seed, lane.pattern))


@pytest.mark.slow
@pytest.mark.parametrize('side_by_side', [False, True])
@pytest.mark.parametrize('eval_every', [1, 4])
@pytest.mark.parametrize('label', ['fedavg', 'fedpbc'])
def test_the_number_of_periods_in_a_dispatch_changes_no_bit(
    label, eval_every, side_by_side
):
    planned = in_python(eval_every=eval_every, patterns=MIXED)
    programs = Programs(planned.plan, side_by_side=side_by_side)
    lanes = interleaved(planned, label)
    lanes = lanes if side_by_side else lanes[:1]
    one_by_one = LaneBatch(programs, lanes)
    at_once = LaneBatch(programs, lanes)
    for batch in (one_by_one, at_once):
        batch.start()
    records = [one_by_one.advance_period() for _ in range(7)]
    at_once.dispatch(4)
    at_once.dispatch(3)  # before the first four are collected
    again = at_once.collect() + at_once.collect()
    assert again == records
    assert [len(lanes)] * 7 == [len(period) for period in records]
    assert one_by_one.round == at_once.round == 7 * eval_every
    states = [jax.tree.map(np.array, batch.states()) for batch in (one_by_one, at_once)]
    jax.tree.map(np.testing.assert_array_equal, *states)


def test_lanes_of_several_patterns_have_the_links_of_their_own():
    """Two patterns share a structure and differ in arrays; the third has another structure."""
    others = participation.bernoulli(np.linspace(0.9, 0.2, 6))
    planned = in_python(patterns={**MIXED, 'others': others})
    lanes = interleaved(planned, 'fedavg')
    together = LaneBatch(Programs(planned.plan, side_by_side=True), lanes)
    alone = Programs(planned.plan, side_by_side=False)
    together.start()
    together.dispatch(3)
    result = together.states()
    for lane, state in zip(lanes, result, strict=True):
        batch = LaneBatch(alone, [lane])
        batch.start()
        batch.dispatch(3)
        (expected,) = batch.states()
        for part in ('links', 'counters', 'participation', 'round'):
            pair = getattr(state, part), getattr(expected, part)
            jax.tree.map(np.testing.assert_array_equal, *pair)


@pytest.mark.parametrize('side_by_side', [False, True])
def test_a_dispatch_transfers_only_its_results(side_by_side):
    planned = in_python(patterns=MIXED)
    lanes = interleaved(planned, 'fedpbc')
    batch = LaneBatch(
        Programs(planned.plan, side_by_side=side_by_side),
        lanes if side_by_side else lanes[:1],
    )
    batch.start()
    batch.advance_period()  # compiles, which brings its constants
    with jax.transfer_guard('disallow'):
        batch.dispatch(2)
        assert len(batch.collect()) == 2
    with pytest.raises(Exception, match='Disallowed'), jax.transfer_guard('disallow'):
        jax.numpy.sin(np.float32(1.0))  # the guard guards


@pytest.fixture
def dispatches(monkeypatch):
    """The numbers of periods that were started."""
    started = []
    dispatch = LaneBatch.dispatch

    def note(batch, periods=1):
        started.append(periods)
        dispatch(batch, periods)

    monkeypatch.setattr(LaneBatch, 'dispatch', note)
    return started


ONE_LANE = {'seeds': (0,), 'grid': {}, 'num_rounds': 80}


@pytest.mark.slow
@pytest.mark.parametrize('seconds, expected', [(0.0, [1] * 20), (1e9, [1, 8, 8, 3])])
def test_periods_that_take_a_moment_are_started_together(
    tmp_path, monkeypatch, dispatches, seconds, expected
):
    """Callbacks get each period; one that stops the run still gets those under way."""
    monkeypatch.setattr(stages, '_DISPATCH_SECONDS', seconds)
    algorithms = {'fedavg': in_python().algorithms['fedavg']}
    planned = in_python(algorithms=algorithms, **ONE_LANE)
    received = []

    class Receive(experiment.Callback):
        def on_period(self, lane, record):
            received.append((record['round'], float(record['server/loss'])))

    results = planned.run(tmp_path / 'whole', [Receive()])
    assert dispatches == expected
    columns = results['round'].tolist(), results['server/loss'].tolist()
    assert received == list(zip(*columns, strict=True))
    assert [round for round, _ in received] == [*range(4, 84, 4)]

    class End(Receive):
        def on_period(self, lane, record):
            super().on_period(lane, record)
            if record['round'] == 8:
                raise experiment.Stop

    received.clear()
    with pytest.raises(experiment.Stop):
        planned.run(tmp_path / 'ended', [End()])
    # Dispatches of several periods end at rounds 4, 36, 68 and 80. The one to 68 is under way when
    # round 8 is collected.
    last = 68 if seconds else 8
    assert [round for round, _ in received] == [*range(4, last + 4, 4)]
    (lane,) = planned.plan.schedule.main('fedavg')
    assert (tmp_path / 'ended' / 'checkpoints' / f'{lane.name}@{last}.npz').exists()
    planned.run(tmp_path / 'ended')
    lines = [
        (tmp_path / name / 'metrics.jsonl').read_bytes() for name in ('whole', 'ended')
    ]
    assert lines[0] == lines[1]


def test_batches_of_lanes_share_one_program(monkeypatch, caplog, capsys):
    """Four of five lanes fit: batches of three and two share a width, with an empty slot."""
    algorithms = {'fedavg': in_python().algorithms['fedavg']}
    planned = in_python(algorithms=algorithms, grid={}, seeds=range(5))
    full = running.run(planned)
    monkeypatch.setattr(
        memory, 'lanes_that_fit', lambda size, expected: min(expected, 4)
    )
    with jax.log_compiles():
        cut = running.run(planned, side_by_side=True)
    compiled = [record.getMessage() for record in caplog.records]
    trained = [text for text in compiled if 'jit(train)' in text]
    assert sum(text.startswith('Compiling') for text in trained) == 1
    text = 'fedavg: 3 at a time, as more lanes do not fit into memory'
    assert text in capsys.readouterr().err.splitlines()
    assert cut['seed'].tolist() == np.repeat(range(5), 10).tolist()
    for name in ('round', 'rounds/num_active'):
        np.testing.assert_array_equal(cut[name], full[name])
    np.testing.assert_allclose(cut['server/loss'], full['server/loss'], rtol=2e-5)
