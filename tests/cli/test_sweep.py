"""The comparing command as a user meets it."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_dry_run_counts_the_work():
    done = run('--dry_run')
    assert done.returncode == 0, done.stderr
    assert re.search(r'18 algorithms x 6 patterns x 5 seeds x 1,000 rounds', done.stdout)
    assert '18 programs' in done.stdout


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
        '    return config\n'
    )
    first = run(*small, config=config)
    assert first.returncode == 0, first.stderr
    report = (tmp_path / 'report.md').read_text()
    assert report.count('| mifa | server |') == 6
    (tmp_path / 'mifa.npz').unlink()
    untouched = (tmp_path / 'fedavg.npz').stat().st_mtime_ns
    assert run(*small, config=config).returncode == 0
    assert (tmp_path / 'fedavg.npz').stat().st_mtime_ns == untouched
    assert (tmp_path / 'report.md').read_text() == report
