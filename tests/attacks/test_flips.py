"""Single flipped bits in the files of a run: each changes no result, or is refused in a line."""

import functools
import random
import shutil

import pytest

from fedjax_links import experiment, report, runs
from fedjax_links.core import errors
from fedjax_links.runner import save_clock
from fedjax_links.runs import export

NUM_FLIPS = 60
CONFIG = {
    'title': 'To be damaged',
    'problem': {'name': 'counterexample', 'num_clients': 6, 'dimension': 4},
    'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
    'client': {'local_steps': 2},
    'algorithms': {'fedpbc': {}},
    'tuning': {
        'learning_rates': (0.05, 0.1),
        'pattern': 'links',
        'num_rounds': 8,
        'num_seeds': 1,
    },
    'metric': 'loss',
    'num_rounds': 16,
    'eval_every': 4,
    'num_seeds': 2,
}
DERIVED = (runs.ENVIRONMENT, '.lock')
"""Files that every start writes again, without results."""


@pytest.fixture
def full_run(tmp_path):
    """The folder of an unbroken run."""
    experiment.build(CONFIG).run(tmp_path / 'full')
    return tmp_path / 'full'


def contents(folder):
    """The content of the files that must not depend on damage, by name."""
    names = (runs.METRICS, runs.CONFIG, runs.EXPERIMENT, runs.LINKS)
    paths = [
        *(folder / name for name in names),
        *sorted(folder.glob('checkpoints/*@16.npz')),
    ]
    return {path.name: path.read_bytes() for path in paths}


def damaged(folder, seed):
    """A copy of a folder with one bit of one file flipped, and the bit's position in words."""
    rng = random.Random(seed)
    copy = folder.with_name('case')
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    files = [path for path in sorted(copy.rglob('*')) if path.is_file()]
    paths = [path for path in files if path.name not in DERIVED and path.stat().st_size]
    path = rng.choice(paths)
    content = bytearray(path.read_bytes())
    index = rng.randrange(len(content))
    bit = rng.randrange(8)
    content[index] ^= 1 << bit
    path.write_bytes(bytes(content))
    return copy, f'{path.relative_to(copy)} byte {index} bit {bit}'


def unless_refused(call):
    """What a call returns, or None where it is refused in one line."""
    try:
        return call()
    except errors.InvalidError as error:
        message = str(error)
    assert '\n' not in message
    return None


class StopInSecondLane(experiment.Callback):
    """Stops in the second lane of the main part, which was saved twice."""

    def on_period(self, lane, record):
        """Stops after round 12 of seed 1."""
        if (lane.stage, lane.seed, record['round']) == ('main', 1, 12):
            raise experiment.Stop


@pytest.mark.slow
@pytest.mark.release('test_the_report_of_a_finished_run_is_the_same_or_refused')
def test_a_resumed_run_ends_like_an_unbroken_one_or_is_refused(full_run, monkeypatch):
    """A resumed run does not read the state of a finished lane, so damage to it may stay.

    An export reads it, and refuses it then.
    """
    expected = contents(full_run)
    cut = full_run.with_name('cut')
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    with pytest.raises(experiment.Stop):
        experiment.build(CONFIG).run(cut, [StopInSecondLane()])
    num_equal = 0
    for seed in range(NUM_FLIPS):
        folder, where = damaged(cut, seed)
        planned = experiment.build(CONFIG)
        if unless_refused(functools.partial(planned.run, folder)) is None:
            continue
        result = contents(folder)
        changed = [name for name in expected if result[name] != expected[name]]
        if not changed:
            num_equal += 1
            continue
        assert all('@' in name for name in changed), where
        to = folder.with_name(f'to{seed}')
        export_run = functools.partial(export.export, folder, to)
        assert unless_refused(export_run) is None, where
    assert 0 < num_equal < NUM_FLIPS


def read(folder):
    """Reads the report and the recorded links; returns the report's text."""
    text = report.write(runs.read(folder))
    runs.links(folder)
    return text


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_the_report_of_a_finished_run_is_the_same_or_refused(full_run):
    expected = report.write(runs.read(full_run)).split('Wrote')[0]
    num_equal = 0
    for seed in range(NUM_FLIPS):
        folder, where = damaged(full_run, seed)
        text = unless_refused(functools.partial(read, folder))
        if text is not None:
            assert text.split('Wrote')[0] == expected, where
            num_equal += 1
    assert 0 < num_equal < NUM_FLIPS
