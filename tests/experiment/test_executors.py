"""Lanes as jobs of an executor: the bytes of one process, whoever runs them."""

import concurrent.futures
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import types

import pytest

from fedjax_links import experiment, runs
from fedjax_links.config import resolver
from fedjax_links.experiment import executors
from fedjax_links.runner import hooks, loop
from tests import ROOT
from tests.experiment.at_once import AtOnce
from tests.experiment.configs import last_files_of, values
from tests.experiment.several import environment
from tests.refusals import names

CONFIG = {
    'title': 'Jobs',
    'problem': {'name': 'counterexample', 'num_clients': 20, 'dimension': 50},
    'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
    'client': {'local_steps': 3},
    'algorithms': {'fedavg': {}, 'fedpbc': {}, 'mifa': {}},
    'tuning': {'learning_rates': (0.05, 0.1), 'num_rounds': 200, 'num_seeds': 2},
    'num_rounds': 2000,
    'eval_every': 20,
    'num_seeds': 4,
    'metric': 'loss',
}
SMALL = {
    **{name: value for name, value in CONFIG.items() if name != 'tuning'},
    'client': {'local_steps': 3, 'learning_rate': 0.1},
    'algorithms': {'fedavg': {}},
    'num_rounds': 40,
    'num_seeds': 2,
}


class Record(experiment.Callback):
    """Records start and end of a run, and the rounds that each lane reports."""

    def __init__(self):
        """Starts with no record."""
        self.rounds = {}
        self.events = []

    def on_start(self, experiment):
        """Records the start."""
        self.events.append('start')

    def on_period(self, lane, record):
        """Records the round of a lane."""
        self.rounds.setdefault(lane.name, []).append(record['round'])

    def on_end(self, results):
        """Records the end."""
        self.events.append('end')


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    """What a run in one process keeps."""
    folder = tmp_path_factory.mktemp('whole') / 'run'
    command = [
        sys.executable,
        '-c',
        f"""
from fedjax_links import experiment
experiment.build({CONFIG!r}).run({str(folder)!r})
""",
    ]
    subprocess.run(command, check=True, cwd=ROOT, env=environment())
    return last_files_of(folder)


def test_jobs_give_the_bytes_and_periods_of_one_process(tmp_path):
    planned = experiment.build({**SMALL, 'algorithms': {'fedavg': {}, 'fedpbc': {}}})
    planned.run(tmp_path / 'whole')
    received = Record()
    results = planned.run(tmp_path / 'run', [received], executor=AtOnce(), jobs=3)
    assert last_files_of(tmp_path / 'run') == last_files_of(tmp_path / 'whole')
    assert received.events == ['start', 'end']
    assert received.rounds == {
        lane.name: [20, 40] for lane in runs.lanes(tmp_path / 'run')
    }
    assert len(results.columns['round']) == 2 * 2 * 2


def test_a_stop_comes_after_all_saves_are_reported(tmp_path):
    class End(experiment.Callback):
        def on_period(self, lane, record):
            raise experiment.Stop

    received = Record()
    planned = experiment.build(SMALL)
    with pytest.raises(experiment.Stop):
        planned.run(tmp_path, [End(), received], executor=AtOnce(), jobs=1)
    assert received.rounds == {lane.name: [20, 40] for lane in runs.lanes(tmp_path)}
    assert len(received.rounds) == 2
    assert received.events == ['start']


def test_stages_are_reported_in_the_order_in_which_they_run(tmp_path):
    """All lanes are done when the first report looks at the folder."""
    stages = []

    class Stages(experiment.Callback):
        def on_stage(self, algorithm, stage, num_rounds):
            stages.append(stage)

    # Noise hides the difference of two rates that are nearly the same.
    problem = {'name': 'quadratic', 'targets': [[0.0], [1.0]], 'noise': 5.0}
    tuning = {'learning_rates': (0.05, 0.051), 'num_rounds': 20, 'num_seeds': 2}
    changes = {'problem': problem, 'client': {'local_steps': 3}}
    planned = experiment.build({**SMALL, **changes, 'tuning': {**tuning, 'grow': 0}})
    planned.run(tmp_path, [Stages()], executor=AtOnce(), jobs=1)
    assert stages == ['tuning', 'main', 'tie']


def test_an_experiment_of_objects_says_which_part_cannot_travel(tmp_path):
    built = experiment.build(values())
    planned = experiment.Experiment(
        title='objects',
        problem=built.problem_at('links', {}),
        patterns=built.patterns,
        algorithms={'mine': built.algorithm_at('fedavg', {})},
        num_rounds=4,
        eval_every=2,
    )
    with names('algorithms.mine', 'cannot travel'):
        planned.run(tmp_path, executor=AtOnce())
    with names('folder'):
        built.run(executor=AtOnce())
    with names('executor'):
        built.run(tmp_path, executor=3)
    with names('jobs', 'be given with an executor'):
        built.run(tmp_path, jobs=2)


def test_a_job_that_fails_stops_no_other_and_has_a_line(tmp_path):
    class Broken(AtOnce):
        count = 0

        def submit(self, function, *arguments):
            self.count += 1
            if self.count == 2:
                future = concurrent.futures.Future()
                future.set_exception(RuntimeError('the node is gone'))
                return future
            return super().submit(function, *arguments)

    planned = experiment.build({**SMALL, 'num_seeds': 3})
    with pytest.raises(
        loop.FailedLanesError, match=r'^job 1 of 3: RuntimeError: the node is'
    ):
        planned.run(tmp_path, executor=Broken(), jobs=3)
    assert len(runs.lanes(tmp_path)) == 2
    planned.run(tmp_path, executor=AtOnce(), jobs=3)
    assert len(runs.lanes(tmp_path)) == 3


def run(folder, executor, callbacks=(), jobs=4):
    """Runs the experiment by an executor."""
    experiment.build(CONFIG).run(folder, callbacks, executor=executor, jobs=jobs)


@pytest.fixture
def as_users_do(monkeypatch):
    """Processes that are started have no flags of tests."""
    monkeypatch.delenv('XLA_FLAGS', raising=False)


@pytest.mark.slow
def test_a_process_pool(tmp_path, full_run, as_users_do):
    context = multiprocessing.get_context('spawn')
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        run(tmp_path / 'run', pool)
    assert last_files_of(tmp_path / 'run') == full_run


@pytest.mark.slow
def test_submitit(tmp_path, full_run, as_users_do):
    submitit = pytest.importorskip('submitit')
    executor = submitit.LocalExecutor(tmp_path / 'logs')
    executor.update_parameters(timeout_min=10)
    run(tmp_path / 'run', executor, jobs=2)
    assert last_files_of(tmp_path / 'run') == full_run


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker(tmp_path, full_run, as_users_do):
    distributed = pytest.importorskip('distributed')

    class Killing(experiment.Callback):
        """Kills one of the workers once lanes of the main stage are under way."""

        killed = 0

        def on_period(self, lane, record):
            if not self.killed and lane.stage == 'main':
                self.killed = random.choice(list(client.run(os.getpid).values()))
                os.kill(self.killed, signal.SIGKILL)

    killing = Killing()
    options = {'n_workers': 2, 'threads_per_worker': 1, 'dashboard_address': None}
    with distributed.LocalCluster(**options) as cluster, cluster.get_client() as client:
        run(tmp_path / 'run', client, [killing])
    assert killing.killed
    assert last_files_of(tmp_path / 'run') == full_run


CONFIG_THAT_RECORDS_WRITERS = f"""
import os
from fedjax_links.storage import atomic_files

write = atomic_files.write


def write_and_record(path, *rest):
    write(path, *rest)
    if '@' in path.name:
        with open(path.parent.parent.with_name('writers'), 'a') as writers:
            writers.write(f'{{os.getpid()}} {{path.stem}}\\n')


def get_config():
    atomic_files.write = write_and_record
    return {CONFIG!r}
"""


@pytest.mark.slow
def test_of_two_processes_that_need_a_lane_one_writes_it(tmp_path):
    """Two of four shards run, and help with the tuning lanes of the two that do not."""
    config = tmp_path / 'config.py'
    folder = tmp_path / 'run'
    config.write_text(CONFIG_THAT_RECORDS_WRITERS)
    command = [sys.executable, '-m', 'fedjax_links', 'simulate', f'--config={config}']
    command.append(f'--workdir={folder}')
    options = {'cwd': ROOT, 'env': environment(), 'stdout': subprocess.DEVNULL}
    both = [subprocess.Popen([*command, f'--shard={k}/4'], **options) for k in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    writers = {}
    for line in (tmp_path / 'writers').read_text().splitlines():
        process, save = line.split()
        writers.setdefault(save, []).append(process)
    assert {process for (process,) in writers.values()} == {str(p.pid) for p in both}
    of_other_shards = {
        lane for lane, shard in runs.read_division(folder).lanes.items() if shard > 1
    }
    helped = {save.partition('@')[0] for save in writers} & of_other_shards
    needed = {lane for lane in of_other_shards if lane.startswith('tuning-')}
    assert helped
    assert helped <= needed


@pytest.mark.slow
@pytest.mark.release('test_shards_of_one_folder_merge_to_the_bytes_of_one_process')
def test_shards_that_are_killed_and_started_again(tmp_path, full_run):
    """Commands, each killed at a random moment but the last time."""
    config = tmp_path / 'config.py'
    folder = tmp_path / 'run'
    rng = random.Random(0)
    config.write_text(f'def get_config():\n    return {CONFIG!r}\n')

    def start(*arguments):
        command = [
            sys.executable,
            '-m',
            'fedjax_links',
            *arguments,
            f'--workdir={folder}',
        ]
        return subprocess.Popen(
            command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE
        )

    def shard(index):
        return start('simulate', f'--config={config}', f'--shard={index}/4')

    for _ in range(2):
        processes = [shard(index) for index in range(4)]
        for process in rng.sample(processes, 3):
            time.sleep(rng.uniform(0, 4))
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.communicate()
    assert runs.status(folder).running == 0
    last = [shard(index) for index in range(4)]
    output = [process.communicate()[1].decode() for process in last]
    assert [process.returncode for process in last] == [0] * 4, output
    merging = start('merge')
    _, output = merging.communicate()
    assert merging.returncode == 0, output.decode()
    left_out = 'report.md', '.png', 'clients.npz'
    merged = {
        name: content
        for name, content in last_files_of(folder).items()
        if not name.endswith(left_out)
    }
    assert merged == full_run


EDITED_MODULE = """
from fedjax_links import algorithms


def algorithm(local_train):
    return algorithms.fedavg(local_train, server_lr={server_lr})
"""


@pytest.mark.slow
def test_a_worker_that_lives_on_runs_the_code_of_each_run(tmp_path):
    """Its config is the same, and the file that it names has changed."""
    config = values(
        algorithms={'mine': {'name': 'edited_algorithm:algorithm'}}, num_seeds=1
    )
    module = tmp_path / 'edited_algorithm.py'
    results = []

    def ends(**options):
        with resolver.importable(tmp_path):
            return experiment.build(config).run(**options)['server/eval_loss'].tolist()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for number, server_lr in enumerate((1.0, 0.125)):
            module.write_text(EDITED_MODULE.format(server_lr=server_lr))
            results.append(
                ends(folder=tmp_path / f'run{number}', executor=pool, jobs=1)
            )
            assert results[-1] == ends()
    assert results[0] != results[1]


def test_a_save_replaced_while_it_is_read_is_passed_over(tmp_path):
    store = types.SimpleNamespace(saves={'lane': {2: tmp_path / 'lane@2.npz'}})
    reporter = executors._Reporter(store, hooks.Listeners())
    reporter._report_lane('lane')
    assert not reporter.reported
