"""One line for the whole experiment, on a terminal or in a file."""

import io
import itertools
import re
import shutil

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import participation, problems
from fedjax_links.experiment import Callback, Progress, Stop, Tuning


class Terminal(io.StringIO):
    """Collects what a terminal receives."""

    def isatty(self):
        """Says that it is a terminal."""
        return True


@pytest.fixture
def slow(monkeypatch):
    """A third of a minute passes with every look at the clock."""
    seconds = itertools.count(0, 20)
    monkeypatch.setattr('tqdm.std.time', lambda: float(next(seconds)))


def planned(rate=0.1, patterns=1):
    """A tuned algorithm and another: 2 x 4 rounds of tuning, and 8 per algorithm and pattern."""

    def fedavg(learning_rate=rate):
        return fl.ALGORITHMS['fedavg'](
            fl.local_training.local_sgd(learning_rate, local_steps=2)
        )

    other = fl.local_training.local_sgd(rate, local_steps=2)
    return fl.Experiment(
        title='Progress',
        problem=problems.quadratic(np.ones((3, 2))),
        patterns={
            f'links{i}': participation.bernoulli(np.full(3, 0.5))
            for i in range(patterns)
        },
        algorithms={'fedavg': fedavg, 'fedpbc': fl.ALGORITHMS['fedpbc'](other)},
        num_rounds=8,
        eval_every=4,
        tuning=Tuning(
            grid={'learning_rate': [0.1, 0.2]}, num_rounds=4, grow=0, pattern='links0'
        ),
    )


def last_words(text):
    return re.split(r'[\r\n]+', text.strip())[-1]


def test_a_terminal_has_one_line_for_all(tmp_path):
    screen = Terminal()
    planned(patterns=2).run(tmp_path, [Progress(screen)])
    text = screen.getvalue()
    assert text.count('\n') == 1  # the line is left at the end
    for words in ('fedavg 1/2, tuning', 'fedavg 1/2', 'fedpbc 2/2'):
        assert f'\r{words} |' in text
    assert last_words(text).startswith('fedpbc 2/2, links1')
    assert ' 40/40 rounds [' in last_words(text)


@pytest.mark.usefixtures('slow')
def test_what_a_shard_helps_with_counts_too(tmp_path):
    screen = Terminal()
    # The shard tunes for both shards, then runs its own lanes.
    planned().shard(0, 2).run(tmp_path, [Progress(screen)])
    assert ' 4/12 rounds [' in screen.getvalue()
    assert ' 16/16 rounds [' in last_words(screen.getvalue())


@pytest.fixture(scope='module')
def stopped(tmp_path_factory):
    """The folder of a run that was stopped between its two algorithms."""

    class StopBeforeFedPBC(Callback):
        def on_stage(self, algorithm, stage, num_rounds):
            if algorithm == 'fedpbc':
                raise Stop

    folder = tmp_path_factory.mktemp('stopped')
    with pytest.raises(Stop):
        planned().run(folder, [StopBeforeFedPBC()])
    return folder


@pytest.fixture
def folder(stopped, tmp_path):
    """A copy of it."""
    return shutil.copytree(stopped, tmp_path / 'run')


def test_rounds_done_before_count_as_done_and_not_as_speed(folder):
    progress = Progress(Terminal())

    class Watch(Callback):
        def __init__(self):
            self.seen = []

        def on_period(self, lane, record):
            bar = progress._bar
            self.seen.append((lane.algorithm, bar.n, bar.initial))

    watch = Watch()
    planned().run(folder, [progress, watch])
    assert watch.seen[:3] == [('fedavg', 4, 4), ('fedavg', 8, 8), ('fedavg', 16, 16)]
    assert watch.seen[-1] == ('fedpbc', 24, 16)
    text = 'Resumes after 16 rounds.\n'
    assert progress._file.getvalue().count(text) == 1


@pytest.mark.usefixtures('slow')
def test_a_file_has_a_line_at_each_stage_and_once_a_minute():
    file = io.StringIO()
    planned().run(None, [Progress(file)])
    lines = file.getvalue().splitlines()
    assert lines[0] == 'fedavg 1/2, tuning: 0 of 24 rounds, 00:20, ? left'
    assert re.fullmatch(r'fedavg 1/2: 8 of 24 rounds, 0\d:\d0, 0\d:\d\d left', lines[2])
    assert [line.split(':')[0] for line in lines if line] == [
        'fedavg 1/2, tuning',
        'fedavg 1/2, tuning',
        'fedavg 1/2',
        'fedavg 1/2',
        'fedpbc 2/2',
        'fedpbc 2/2',
        'fedpbc 2/2',
    ]
    assert re.fullmatch(r'fedpbc 2/2: 24 of 24 rounds, 0\d:\d0, 00:00 left', lines[6])
    assert '\r' not in file.getvalue()


@pytest.mark.usefixtures('slow')
def test_a_file_says_where_a_run_resumes(folder):
    # The second time nothing is left to run.
    for expected in (['Resumes after 16 rounds.'], []):
        file = io.StringIO()
        planned().run(folder, [Progress(file)])
        lines = file.getvalue().splitlines()
        assert [line for line in lines if 'Resumes' in line] == expected


def test_a_diverging_lane_is_reported_once_under_a_live_line(capsys):
    screen = Terminal()
    planned(rate=1e38).run(None, [Progress(screen)])
    output = capsys.readouterr().err.splitlines()
    assert len(output) == 1
    assert re.fullmatch(
        r'fedpbc, links0, seed 0: not finite from round (\d) on \(rounds are 0 to 7\); '
        r'--debug_round=\1 looks into it',
        output[0],
    )
    assert ' 24/24 rounds [' in last_words(screen.getvalue())
