"""How far a run is, as a user reads it while others work at it."""

import json
import os
import re
import subprocess
import time

import pytest

from fedjax_links import experiment, runs
from fedjax_links.cli import status
from fedjax_links.report import live
from fedjax_links.runner import save_clock
from fedjax_links.runs import export
from fedjax_links.storage import file_locks
from tests import ROOT
from tests.cli.command import COMMAND, refused, run
from tests.experiment.configs import quadratic_values, values


def lines_of(*arguments):
    done = run('status', *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class StatusRecorder(experiment.Callback):
    """Records the status of a run at each evaluation, and stops it after some of them.

    Attributes:
      statuses: `runs.status` at each evaluation, and the lines of the command.
    """

    def __init__(self, folder, num_periods=None):
        """Takes the folder of the run, and the number of evaluations; None for all."""
        self.folder = folder
        self.num_periods = num_periods
        self.statuses = []

    def on_period(self, lane, record):
        """Records the status."""
        status_now = runs.status(self.folder)
        self.statuses.append((status_now, lines_of(f'--workdir={self.folder}')))
        if len(self.statuses) == self.num_periods:
            raise experiment.Stop


@pytest.mark.slow
def test_a_run_in_one_piece_says_its_lanes_and_the_time_left(tmp_path, monkeypatch):
    """It stops after 13 periods of 2 rounds, so in the fourth of six lanes of 8 rounds."""
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    planned = experiment.build(
        values(num_rounds=8, num_seeds=3, algorithms={'fedavg': {}, 'fedpbc': {}})
    )
    recorder = StatusRecorder(tmp_path, 13)
    with pytest.raises(experiment.Stop):
        planned.run(tmp_path, [recorder], devices=1)
    result, lines = recorder.statuses[12]
    assert result[:4] == (6, 3, 1, 0)
    assert result.holders == [file_locks.process_name()]
    text = json.loads((tmp_path / runs.LOCK).read_text())
    assert (text['lanes'], text['rounds'], text['ahead']) == (6, 0, 48)
    assert lines[0] == f'run      {file_locks.process_name()}'
    assert lines[1] == 'lanes    3 of 6 done, 1 running, 0 lost, 2 not started'
    assert re.fullmatch(r'time     about \d+ s left', lines[2])
    assert lines[3].startswith('metric   fedavg: eval accuracy ')
    assert lines[3].endswith(' % in round 8, 3 of 3 seeds')
    assert lines[4].endswith(' % in round 2, 1 of 3 seeds')
    assert lines[5:] == ['open     fedpbc']
    after = lines_of(f'--workdir={tmp_path}')
    assert (
        after[0] == 'run      no process is running; the command of the run resumes it'
    )
    assert after[1] == 'lanes    3 of 6 done, 0 running, 1 lost, 2 not started'
    planned.run(tmp_path)
    last = lines_of(f'--workdir={tmp_path}')
    assert last[:2] == [
        'run      finished; report makes tables and pictures of it',
        'lanes    6 of 6 done, 0 running, 0 lost, 0 not started',
    ]
    assert len(last) == 4


def test_lanes_that_never_save_count_as_running(tmp_path):
    """Short lanes are saved at their end alone; two of them run on two devices."""
    planned = experiment.build(quadratic_values(num_seeds=3))
    recorder = StatusRecorder(tmp_path)
    planned.run(tmp_path, [recorder], devices=2)
    assert all(result.running >= 1 for result, _ in recorder.statuses[:-1])
    first, _ = recorder.statuses[0]
    assert (first.lanes, first.done, first.running, first.lost) == (3, 0, 2, 0)
    text = json.loads((tmp_path / runs.LOCK).read_text())
    assert (text['lanes'], text['running']) == (3, 0)
    for result, _ in recorder.statuses:
        assert result.done + result.running + result.lost <= result.lanes


def test_an_archive_is_finished_and_has_no_lanes(tmp_path):
    experiment.build(quadratic_values()).run(tmp_path / 'run', devices=1)
    export.archive(tmp_path / 'run', tmp_path / 'archive')
    run_line, *metrics = lines_of(f'--workdir={tmp_path / "archive"}')
    assert run_line == 'run      finished; report makes tables and pictures of it'
    assert all(line.startswith('metric ') for line in metrics)


@pytest.mark.slow
def test_the_time_left_is_that_of_the_rounds_behind(tmp_path, monkeypatch):
    """26 of 48 rounds in 26 minutes leave 22, by the times of files; no clock is read."""
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    hours = []

    class Timing(experiment.Callback):
        def on_period(self, lane, record):
            start = (tmp_path / runs.LOCK).stat().st_mtime
            saves = runs.saves(tmp_path).values()
            rounds_done = sum(max(files) for files in saves)
            saved_at = start + 60 * rounds_done
            for files in saves:
                os.utime(files[max(files)], (saved_at, saved_at))
            hours.append((rounds_done, runs.status(tmp_path).hours_left))

    config = values(num_rounds=8, num_seeds=3, algorithms={'fedavg': {}, 'fedpbc': {}})
    experiment.build(config).run(tmp_path, [Timing()], devices=1)
    assert [rounds_done for rounds_done, _ in hours] == list(range(2, 50, 2))
    for rounds_done, hours_left in hours:
        assert 60 * hours_left == pytest.approx(48 - rounds_done)


@pytest.mark.slow
def test_shards_report_what_is_missing_and_ask_for_a_merge(tmp_path):
    planned = experiment.build(values(num_seeds=4))
    planned.shard(0, 2).run(tmp_path)
    lines = lines_of(f'--workdir={tmp_path}')
    assert lines[0].startswith('run      no process is running')
    assert 'shard    1: 0 of 2 lanes; no process runs it; --shard=1/2 would' in lines
    assert lines[-2].endswith('in round 4, 2 of 4 seeds')
    assert lines[-1] == 'open     fedavg'
    planned.shard(1, 2).run(tmp_path)
    assert (
        lines_of(f'--workdir={tmp_path}')[0]
        == 'run      finished; merge joins its shards'
    )
    (expected,) = (
        runs.merge(tmp_path).dataset['eval_accuracy'].values[0, 0, 0, :, -1:].mean(0)
    )
    merged = lines_of(f'--workdir={tmp_path}')
    assert (
        f'fedavg: eval accuracy {100 * expected:.1f} % in round 4, 4 of 4 seeds'
        in merged[-1]
    )


@pytest.mark.slow
def test_a_watched_run_has_a_page_that_ends_when_the_run_does(tmp_path, monkeypatch):
    planned = experiment.build(values(num_seeds=4))
    planned.shard(0, 2).run(tmp_path)
    pages = []

    def sleep(seconds):
        pages.append((tmp_path / live.PAGE).read_text())
        if len(pages) == 2:
            planned.shard(1, 2).run(tmp_path)

    monkeypatch.setattr(status.time, 'sleep', sleep)
    lines = lines_of(f'--workdir={tmp_path}', '--watch=30')
    assert len(pages) == 2
    assert all(
        'content="30"' in page and ', again every 30 s' in page for page in pages
    )
    assert 'no process is running' in pages[0]
    last = (tmp_path / live.PAGE).read_text()
    assert 'run      finished; merge joins its shards' in last
    assert 'refresh' not in last
    assert 'name="viewport"' in last
    assert [line.partition(' ')[0] for line in lines].count('run') == 3


@pytest.mark.slow
@pytest.mark.release('test_a_watched_run_has_a_page_that_ends_when_the_run_does')
def test_a_command_is_watched_by_another(plain, tmp_path):
    """Both begin at the same time, and the watching one ends after the other."""
    folder = f'--workdir={tmp_path / "run"}'
    many = ['--config.num_rounds=1000000', '--config.eval_every=200']
    running = subprocess.Popen(
        [*COMMAND, *plain, *many, folder], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    while not (tmp_path / 'run' / runs.EXPERIMENT).exists():
        assert running.poll() is None
        time.sleep(0.05)
    watching = [*COMMAND, 'status', folder, '--watch=0.2']
    done = subprocess.run(
        watching, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, '')
    assert running.wait() == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith('lanes')]
    assert len(lines) > 2
    assert lines[-1] == 'lanes    4 of 4 done, 0 running, 0 lost, 0 not started'
    assert all(' of 4 done' in line for line in lines[1:])
    assert 'finished' in (tmp_path / 'run' / live.PAGE).read_text()


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], '`workdir` must name the folder of a run, such as runs/map, got None.'),
        (
            ['--workdir=tests'],
            '`workdir` must hold a run (experiment.json), got tests.',
        ),
        (['--workdir=tests', '--watch=0'], '`watch` must be positive, got 0'),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    assert message in refused('status', *arguments)
