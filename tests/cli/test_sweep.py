"""The comparing command as a user meets it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedjax_links import comparison
from fedjax_links.cli import comparing, memory
from tests.test_comparison import values

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, '-m', 'fedjax_links.cli.sweep']


def run(*arguments, config='configs/comparison.py'):
    return subprocess.run(
        [*COMMAND, f'--config={config}', *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_dry_run_counts_the_work_and_the_memory():
    done = run('--dry_run')
    assert done.returncode == 0, done.stderr
    # Softmax regression of 64 features has 650 parameters; MIFA adds 50 updates and their sum.
    line = r'^ +(\w+) +([\d.]+) KiB per lane, [\d.]+ KiB for 1 at a time$'
    found = {label: float(kib) for label, kib in re.findall(line, done.stdout, re.MULTILINE)}
    assert len(found) == 18
    assert 650 * 4 / 2**10 < found['fedavg'] < 2 * 650 * 4 / 2**10
    assert found['mifa'] - found['fedavg'] == pytest.approx(51 * 650 * 4 / 2**10, abs=0.2)
    assert re.search(r'18 algorithms x 6 patterns x 5 seeds x 1,000 rounds', done.stdout)
    assert '18 programs' in done.stdout


def test_a_comparison_that_cannot_fit_is_refused_before_it_starts(tmp_path, monkeypatch):
    plan = comparison.build(values(algorithms={'fedavg': {}, 'mifa': {}}))
    monkeypatch.setattr(memory, 'available_bytes', lambda: None)
    comparing.refuse_if_too_large(plan, tmp_path)
    needed = comparison.memory(plan, 'mifa').total
    monkeypatch.setattr(memory, 'available_bytes', lambda: needed)
    comparing.refuse_if_too_large(plan, tmp_path)
    monkeypatch.setattr(memory, 'available_bytes', lambda: needed - 1)
    with pytest.raises(ValueError, match='must fit into memory: mifa needs '):
        comparing.refuse_if_too_large(plan, tmp_path)
    (tmp_path / 'mifa.npz').touch()
    comparing.refuse_if_too_large(plan, tmp_path)


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'reports': {'a': {'name': 'levels', 'metric': 'eval_acuracy'}}},
            "`metric` has no 'eval_acuracy'; did you mean 'eval_accuracy'?",
        ),
        (
            {'reports': {'a': {'name': 'curves', 'metrics': ('train_los',)}}},
            "`metric` has no 'train_los'; did you mean 'train_loss'?",
        ),
        (
            {'reports': {'a': {'name': 'first_rounds', 'targets': (0.5,), 'every': 3}}},
            '`every` must be a multiple of eval_every = 4, got 3.',
        ),
        (
            {'reports': {'links': {'name': 'levels'}}},
            '`config.reports` must leave the name of the links free, got links.',
        ),
        (
            {'algorithms': {'fedavg': {}, 'links': {'name': 'mifa'}}},
            '`config.algorithms` must leave the name of the links free, got links.',
        ),
    ],
)
def test_a_mistake_in_a_report_shows_before_anything_runs(changes, message):
    plan = comparison.build(values(**changes))
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        comparing.check(plan)
    assert str(caught.value) == message


def test_all_reports_of_a_comparison_can_be_checked():
    names = ('levels', 'first_rounds', 'rates', 'bars', 'curves')
    reports = {name: {'name': name} for name in names}
    reports['first_rounds']['shares'] = (0.5,)
    comparing.check(comparison.build(values(reports=reports)))


def test_a_mistake_costs_one_line():
    done = run('--config.patterns.markov.probs.sgma=1')
    assert done.returncode == 2
    assert done.stderr.count('\n') == 1
    assert "did you mean 'patterns.markov.probs.sigma'?" in done.stderr
    assert run().stderr.startswith('error: `workdir` must name a folder')


def test_interrupted_after_some_algorithms_it_goes_on(tmp_path):
    """Algorithms with an outcome are read; the others run; the tables hold all."""
    small = (
        '--config.num_rounds=10',
        '--config.eval_every=5',
        '--config.num_seeds=2',
        '--config.tuning.num_rounds=5',
        '--config.tuning.num_seeds=1',
        '--config.tuning.learning_rates=(0.1,)',
        f'--workdir={tmp_path}',
    )
    config = tmp_path / 'few.py'
    config.write_text(
        'from configs.comparison import get_config as everything\n'
        'def get_config():\n'
        '    config = everything()\n'
        '    for label in list(config.algorithms):\n'
        "        if label not in ('fedavg', 'mifa'):\n"
        '            del config.algorithms[label]\n'
        '    for label in list(config.patterns):\n'
        "        if label not in ('bernoulli_sine', 'cyclic'):\n"
        '            del config.patterns[label]\n'
        '    return config\n'
    )
    first = run(*small, config=config)
    assert first.returncode == 0, first.stderr
    report = (tmp_path / 'report.md').read_text()
    assert report.count('| mifa | server |') == 2
    (tmp_path / 'mifa.npz').unlink()
    untouched = (tmp_path / 'fedavg.npz').stat().st_mtime_ns
    assert run(*small, config=config).returncode == 0
    assert (tmp_path / 'fedavg.npz').stat().st_mtime_ns == untouched
    assert (tmp_path / 'report.md').read_text() == report

    other = run(*small, '--config.num_rounds=15', config=config)
    assert other.returncode == 2
    assert other.stderr.count('\n') == 1
    assert 'where config.num_rounds is 10 and not 15' in other.stderr
    assert (tmp_path / 'report.md').read_text() == report

    shown = run(*small, '--config.title=Another title', config=config)
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / 'fedavg.npz').stat().st_mtime_ns == untouched
    was, now = report.splitlines(), (tmp_path / 'report.md').read_text().splitlines()
    assert now == ['# Another title', *was[1:]]
    assert '"title": "Another title"' in (tmp_path / 'config.json').read_text()
