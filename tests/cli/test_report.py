"""The report command as a user meets it, on finished and unfinished folders."""

import shutil

import pytest

from fedjax_links import report as reports
from fedjax_links import runs
from tests.cli.command import run

COMPARISON = """
from configs.comparison import get_config as everything

def get_config():
    config = everything()
    for label in list(config.algorithms):
        if label not in ('fedavg', 'fedpbc'):
            del config.algorithms[label]
    for label in list(config.patterns):
        if label not in ('bernoulli', 'cyclic'):
            del config.patterns[label]
    config.problem.num_clients = 10
    config.client.learning_rate = 0.1
    config.num_rounds, config.eval_every, config.num_seeds = 10, 5, 2
    with config.unlocked():
        del config.tuning
        config.names = (('cyclic', 'Cyclic'), ('fedpbc', 'FedPBC'))
        config.quick = {'reports': {'z': {'name': 'comparison'}, 'b': {'name': 'bars'}}}
    return config
"""


def report(folder):
    """What the command does, in this process; returns the text of the report."""
    reports.write(runs.read(folder))
    return (folder / 'report.md').read_text()


def remove_last_save(folder, lane):
    """Removes the last save of the last lane whose name contains ``lane``."""
    saves_of_lanes = [
        saves for name, saves in runs.saves(folder).items() if lane in name
    ]
    saves = saves_of_lanes[-1]
    last_round = max(saves)
    saves[last_round].unlink()


@pytest.fixture(scope='module')
def compared(tmp_path_factory):
    """The folder of a finished comparison, which tests do not change, and what it printed."""
    folder = tmp_path_factory.mktemp('compared')
    (folder / 'few.py').write_text(COMPARISON)
    done = run(
        'simulate',
        f'--config={folder / "few.py"}',
        '--quick',
        f'--workdir={folder / "run"}',
    )
    assert done.returncode == 0, done.stderr
    return folder / 'run', done.stdout


@pytest.mark.slow
def test_a_finished_comparison_gets_the_report_that_it_wrote(compared, tmp_path):
    folder, printed = compared
    again = tmp_path / 'again'
    shutil.copytree(folder, again)
    for name in ('report.md', 'b.png', 'links.png'):
        (again / name).unlink()
    done = run('report', f'--workdir={again}')
    assert done.returncode == 0, done.stderr
    for name in ('report.md', 'b.png', 'links.png'):
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    tables = done.stdout.split('Wrote')[0].strip()
    assert len(tables.splitlines()) > 10
    assert tables in printed
    text = (folder / 'report.md').read_text()
    assert text.index('| Cyclic | FedPBC | client mean |') < text.index(
        '| bernoulli | FedPBC |'
    )


@pytest.mark.slow
def test_an_unfinished_comparison_says_so(compared, tmp_path):
    folder = tmp_path / 'unfinished'
    shutil.copytree(compared[0], folder)
    assert 'Not finished yet' not in report(folder)
    remove_last_save(folder, '-fedavg-')
    text = report(folder)
    assert 'Not finished yet: fedavg.\n' in text
    assert '| Cyclic | FedPBC | client mean |' in text
    assert '| fedavg |' not in text


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_simulated_run_has_a_report(plain, tmp_path):
    done = run(*plain, '--config.links.probs.value=0.4', f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    done = run('report', f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    written = 'report.md, overview.png, comparison.png, links.png, participation.png'
    assert f'Wrote {written} to {tmp_path}' in done.stdout
    text = (tmp_path / 'report.md').read_text()
    for label in ('fedavg', 'fedpbc'):
        assert f'| links | {label} | server |' in text
    assert '\nChanged from the config: links.probs.value = 0.4 (0.5).\n' in text
    assert '\n## What ran\n' in text
    remove_last_save(tmp_path, '-fedpbc-')
    assert 'Not finished yet: ' in report(tmp_path)


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            [],
            'error: `workdir` must name the folder of a run, such as runs/first, got None.\n',
        ),
        (
            ['--workdir=docs'],
            'error: `workdir` must hold a run (experiment.json), got docs.\n',
        ),
        (
            ['--workdir=docs', '--form=pdf', '--cost={}'],
            'error: `cost` must be left out with `table` or `form`, which write no report, '
            'got {}.\n',
        ),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    done = run('report', *arguments)
    assert (done.returncode, done.stderr) == (2, message)
