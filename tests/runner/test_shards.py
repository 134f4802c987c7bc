"""Runs in shards leave the bytes of a run in one process."""

import shutil

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.core import errors
from fedjax_links.planning import trials
from fedjax_links.runner import lane_batch, loop, shared_stores, stages
from fedjax_links.runner.program_cache import Programs
from fedjax_links.storage import file_locks
from tests.experiment.configs import files_of, last_files_of, quadratic_values, tuned
from tests.refusals import names
from tests.runner import running

COUNT = 3


@pytest.fixture(scope='module', autouse=True)
def _saved_at_their_end_alone():
    """However slow a machine is, lanes as short as these are not saved on their way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, '_SAVE_SECONDS', 3600.0)
        yield


def run_all(folder, config=None, count=COUNT, order=None):
    """Runs the shards one after the other, in one folder; they share programs alone."""
    planned = experiment.build(tuned() if config is None else config)
    programs = Programs(planned.plan)
    for index in order or range(count):
        running.run(planned.shard(index, count), folder, programs=programs)


def tuned_quadratic():
    """Returns an experiment of FedAvg on quadratics, whose learning rate is tuned."""
    tuning = {'learning_rates': (0.001, 0.1), 'grow': 0, 'ties': 0, 'num_seeds': 1}
    config = quadratic_values(client={'local_steps': 2}, tuning=tuning, metric='loss')
    return experiment.build(config)


def lanes_by_shard(folder):
    division = runs.read_division(folder)
    return [
        [name for name, shard in division.lanes.items() if shard == index]
        for index in range(division.count)
    ]


@pytest.mark.parametrize('order', ['012', pytest.param('201', marks=pytest.mark.slow)])
def test_shards_of_one_folder_merge_to_the_bytes_of_one_process(
    tmp_path, tuned_run, order
):
    folder = tmp_path / 'run'
    run_all(folder, order=map(int, order))
    assert not (folder / runs.METRICS).exists()
    results = runs.merge(folder)
    assert files_of(folder) == files_of(tuned_run)
    np.testing.assert_array_equal(
        results.columns['round'], runs.read(tuned_run).columns['round']
    )


@pytest.mark.slow
def test_shards_with_folders_of_their_own_merge_too(tmp_path, tuned_run):
    folders = [tmp_path / str(index) for index in range(COUNT)]
    planned = experiment.build(tuned())
    programs = Programs(planned.plan)
    for index, folder in enumerate(folders):
        running.run(planned.shard(index, COUNT), folder, programs=programs)
    runs.merge(folders, tmp_path / 'run')
    assert files_of(tmp_path / 'run') == files_of(tuned_run)


def names_of_lanes(planned):
    """Returns the lanes that are known to run before any result."""
    plan = planned.plan
    return [
        lane.name for label in plan.algorithms for lane in plan.lanes_at_first(label)
    ]


def test_the_shards_have_each_lane_once():
    planned = experiment.build(tuned())
    expected = sorted(names_of_lanes(planned))
    for count in (1, 2, 5, len(expected) + 3):
        names = []
        for index in range(count):
            names += names_of_lanes(planned.shard(index, count))
        assert sorted(names) == expected


def test_shards_have_few_programs_and_near_equal_rounds():
    labels = 'fedavg', 'fedpbc', 'mifa', 'fedau'
    planned = experiment.build(
        quadratic_values(algorithms={label: {} for label in labels}, num_seeds=6)
    )
    num_rounds = sum(planned.plan.count_rounds(label) for label in labels)
    for count in (2, 4, 8):
        num_programs = 0
        for index in range(count):
            plan = planned.shard(index, count).plan
            num_programs += sum(bool(plan.lanes_at_first(label)) for label in labels)
            rounds = sum(plan.count_rounds(label) for label in labels)
            assert abs(rounds - num_rounds / count) <= planned.num_rounds
        assert num_programs <= len(labels) + count - 1


def test_by_seed_all_lanes_of_a_seed_are_in_one_shard():
    planned = experiment.build(
        quadratic_values(algorithms={'fedavg': {}, 'fedpbc': {}}, num_seeds=5)
    )
    seeds_of_shards = []
    for index in range(2):
        plan = planned.shard(index, 2, by='seed').plan
        lanes = [
            lane for label in planned.algorithms for lane in plan.lanes_at_first(label)
        ]
        seeds = {lane.seed for lane in lanes}
        assert len(lanes) == 2 * len(seeds)
        seeds_of_shards += seeds
    assert sorted(seeds_of_shards) == list(range(5))


def test_shard_n_of_n_is_shard_0():
    planned = experiment.build(quadratic_values())
    assert planned.shard(3, 3) == planned.shard(0, 3)
    assert planned.shard(1, 3) != planned.shard(0, 3)
    with names('shard', 'at most 3, got 4'):
        planned.shard(4, 3)


def test_merging_names_lanes_that_are_missing(tmp_path):
    folder = tmp_path / 'run'
    config = quadratic_values(algorithms={'fedavg': {}, 'fedpbc': {}})
    experiment.build(config).shard(0, COUNT).run(folder)
    left = [name for name in lanes_by_shard(folder)[1] if name.startswith('main-')]
    with pytest.raises(ValueError, match=f'{left[0]}.*of shards 1, 2 of 3'):
        runs.merge(folder)


def test_merging_is_refused_while_a_shard_runs(tmp_path):
    folder = tmp_path / 'run'

    messages = []

    class Merge(experiment.Callback):
        def on_period(self, lane, record):
            with pytest.raises(ValueError, match='not be in use') as error:
                runs.merge(folder)
            messages.append(str(error.value))

    experiment.build(quadratic_values()).shard(0, 2).run(folder, [Merge()])
    assert messages
    assert all('by process' in message for message in messages)


def test_another_config_is_refused(tmp_path):
    experiment.build(quadratic_values()).shard(0, 2).run(tmp_path / 'a')
    changed = quadratic_values(client={'learning_rate': 0.2, 'local_steps': 2})
    with names('workdir', 'config.client.learning_rate is 0.1 and not 0.2'):
        experiment.build(changed).shard(1, 2).run(tmp_path / 'a')
    experiment.build(changed).shard(1, 2).run(tmp_path / 'b')
    with names('folders', 'config.client.learning_rate is 0.2 and not 0.1'):
        runs.merge([tmp_path / 'a', tmp_path / 'b'], tmp_path / 'all')


def test_another_division_is_refused(tmp_path):
    planned = experiment.build(quadratic_values())
    planned.shard(0, 2).run(tmp_path)
    with names('workdir', 'into 4 shards by program', 'into 2 shards by program'):
        planned.shard(1, 4).run(tmp_path)


def test_one_shard_twice_is_refused_by_name(tmp_path):
    planned = experiment.build(quadratic_values())

    messages = []

    class RunAgain(experiment.Callback):
        def on_start(self, _):
            with pytest.raises(ValueError, match='shard') as error:
                planned.shard(0, 2).run(tmp_path)
            messages.append(str(error.value))

    planned.shard(0, 2).run(tmp_path, [RunAgain()])
    (message,) = messages
    assert f'by {file_locks.process_name()}' in message


@pytest.mark.slow
def test_a_run_in_one_piece_resumes_from_shards(tmp_path, tuned_run):
    experiment.build(tuned()).shard(0, COUNT).run(tmp_path / 'run')
    experiment.build(tuned()).run(tmp_path / 'run')
    assert (
        runs.read(tmp_path / 'run').columns.keys()
        == runs.read(tuned_run).columns.keys()
    )
    assert (tmp_path / 'run' / runs.METRICS).read_bytes() == (
        tuned_run / runs.METRICS
    ).read_bytes()


@pytest.mark.slow
def test_a_merged_run_is_extended(tmp_path):
    folder = tmp_path / 'run'
    whole = tmp_path / 'whole'
    run_all(folder, quadratic_values(), 2)
    runs.merge(folder)
    longer = quadratic_values(num_rounds=8)
    run_all(folder, longer, 2)
    runs.merge(folder)
    experiment.build(longer).run(whole)
    assert last_files_of(folder) == last_files_of(whole)


def test_a_failed_lane_stops_no_other(tmp_path, monkeypatch):
    planned = experiment.build(quadratic_values(num_seeds=4))
    bad = planned.plan.schedule.main('fedavg')[1]
    run = stages.LaneScheduler.run

    def failing(self, lanes, coming=()):
        if bad in lanes:
            raise RuntimeError('planted')
        run(self, lanes, coming)

    monkeypatch.setattr(stages.LaneScheduler, 'run', failing)
    with pytest.raises(loop.FailedLanesError, match=f'^{bad.name}: Runtime') as error:
        planned.shard(0, 1).run(tmp_path)
    assert list(error.value.lines) == [bad.name]
    saved = (tmp_path / runs.FAILURES / f'{bad.name}.txt').read_text()
    assert saved.startswith('Traceback')
    assert 'in failing' in saved
    done = [lane.name for lane in runs.lanes(tmp_path)]
    assert len(done) == 3
    assert bad.name not in done
    assert runs.status(tmp_path).failed == [bad.name]
    monkeypatch.undo()
    planned.shard(0, 1).run(tmp_path)
    assert runs.status(tmp_path).failed == []


def test_a_lane_that_is_tried_again_has_each_line_once(tmp_path, monkeypatch):
    """A device fails once, when a lane has ended a period and nothing of it is saved."""
    planned = experiment.build(quadratic_values(num_rounds=8))
    planned.run(tmp_path / 'whole')
    collect = lane_batch.LaneBatch.collect
    failed = []

    def failing(self):
        if self.done and not failed:
            failed.append(self.lanes[0].name)
            raise RuntimeError('the device is gone')
        return collect(self)

    monkeypatch.setattr(lane_batch.LaneBatch, 'collect', failing)
    monkeypatch.setattr(stages, '_MAX_GROWTH', 1)
    planned.shard(0, 1).run(tmp_path / 'run')
    assert len(failed) == 1
    runs.merge(tmp_path / 'run')
    assert files_of(tmp_path / 'run') == files_of(tmp_path / 'whole')


def test_an_error_of_a_callback_ends_the_run_and_is_no_lanes(tmp_path):
    class Broken(experiment.Callback):
        def on_period(self, lane, record):
            raise TypeError('of the callback')

    planned = experiment.build(quadratic_values(num_seeds=2))
    with pytest.raises(TypeError, match='of the callback'):
        planned.shard(0, 1).run(tmp_path, [Broken()])
    assert not (tmp_path / runs.FAILURES).exists()


def test_the_status_has_lanes_done_lost_and_running(tmp_path):
    planned = experiment.build(quadratic_values(num_seeds=4))
    seen = []

    class ReadStatus(experiment.Callback):
        def on_period(self, lane, record):
            seen.append(runs.status(tmp_path))
            if len(seen) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        planned.shard(0, 2).run(tmp_path, [ReadStatus()])
    assert seen[0].lanes == 4
    assert seen[0].running >= 1
    assert seen[0].shards[0].holder == file_locks.process_name()
    assert seen[0].shards[1].holder is None
    after = runs.status(tmp_path)
    assert after.running == 0
    assert after.shards[0].holder is None
    planned.shard(0, 2).run(tmp_path)
    done = runs.status(tmp_path)
    assert (done.done, done.lost) == (2, 0)
    assert [shard.done for shard in done.shards] == [2, 0]
    planned.shard(1, 2).run(tmp_path)
    runs.merge(tmp_path)
    assert runs.status(tmp_path)[:4] == (4, 4, 0, 0)


@pytest.mark.slow
def test_a_damaged_lane_of_a_shard_costs_what_it_had_not_saved(tmp_path, tuned_run):
    folder = tmp_path / 'run'
    run_all(folder)
    for name, files in runs.saves(folder).items():
        if name.startswith('main-'):
            files[max(files)].write_bytes(b'no archive')
    run_all(folder)
    runs.merge(folder)
    assert (folder / runs.METRICS).read_bytes() == (
        tuned_run / runs.METRICS
    ).read_bytes()


@pytest.mark.slow
def test_lanes_that_others_run_are_waited_for(tmp_path, monkeypatch):
    """A lane of tuning is another process's when this one comes to need it."""
    planned = tuned_quadratic()
    lane = planned.plan.schedule.first_trials('fedavg')[0]
    (tmp_path / runs.CLAIMS).mkdir()
    held = file_locks.acquire(runs.lane_lock(tmp_path, lane.name))
    message = []

    class Waiting(experiment.Callback):
        def on_wait(self, text):
            message.append(text)
            if len(message) == 3:
                held.release()

    monkeypatch.setattr(loop, '_POLL_SECONDS', 0.01)
    planned.shard(0, 2).run(tmp_path, [Waiting()])
    assert message == [
        f'waiting for 1 lane of fedavg, tuning: {file_locks.process_name()}',
        '',
        '',
    ]


@pytest.mark.slow
def test_a_lane_that_another_process_ran_is_not_run_again(tmp_path, monkeypatch):
    """It was free when all were looked at, and is again when this one takes it."""
    planned = tuned_quadratic()
    lane = planned.plan.schedule.first_trials('fedavg')[0]
    there = runs.checkpoint_file(tmp_path / 'run', lane.name, lane.num_rounds)
    planned.shard(0, 1).run(tmp_path / 'other')
    take = shared_stores.SharedFolder.acquire
    done = runs.checkpoint_file(tmp_path / 'other', lane.name, lane.num_rounds)
    written = []

    def taking(self, name):
        if name == lane.name and not there.exists():
            shutil.copy(done, there)
            written.append(there.stat().st_mtime_ns)
        return take(self, name)

    monkeypatch.setattr(shared_stores.SharedFolder, 'acquire', taking)
    planned.shard(0, 1).run(tmp_path / 'run')
    assert written == [there.stat().st_mtime_ns]


def test_a_division_is_read_back_as_it_was_written(tmp_path):
    division = runs.RunDivision(
        2, 'program', {'a': 0, 'b': 1}, ['b'], ['b'], True, {'cpu': 'one'}
    )
    runs.write_division(tmp_path, division)
    assert runs.read_division(tmp_path) == division
    shutil.rmtree(tmp_path)
    assert runs.read_division(tmp_path) is None


@pytest.mark.slow
def test_lanes_at_values_that_tuning_did_not_choose_are_refused(tmp_path, monkeypatch):
    """Shards without a common disk tune apart; a near tie may fall otherwise in one of them."""
    planned = tuned_quadratic()
    planned.shard(0, 2, by='seed').run(tmp_path / 'a', devices=1)
    scores = trials._scores
    monkeypatch.setattr(trials, '_scores', lambda *arguments: -scores(*arguments))
    planned.shard(1, 2, by='seed').run(tmp_path / 'b', devices=1)
    monkeypatch.setattr(trials, '_scores', scores)
    with pytest.raises(errors.InvalidError, match='main lanes at what tuning chose'):
        runs.merge([tmp_path / 'a', tmp_path / 'b'], tmp_path / 'all', allow_mixed=True)
    assert not list((tmp_path / 'all').rglob('*.npz'))


def test_what_is_recorded_of_clients_is_merged_too(tmp_path):
    experiment.build(quadratic_values()).run(tmp_path / 'run')
    recorded = b'losses and laws'
    (tmp_path / 'run' / 'clients.npz').write_bytes(recorded)
    runs.merge(tmp_path / 'run', tmp_path / 'copy')
    assert (tmp_path / 'copy' / 'clients.npz').read_bytes() == recorded
