"""--quick, and what stands behind the colon of --config, as a user meets them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TABLE = '--config=configs/xiang2024_table1.py'


def run(*arguments, command='simulate', environment=None):
    return subprocess.run(
        [sys.executable, '-m', f'fedjax_links.cli.{command}', '--dry_run', *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_quick_is_the_short_version_and_single_fields_still_hold():
    done = run(f'{TABLE}:cifar10', '--quick', '--config.num_seeds=5')
    assert done.returncode == 0, done.stderr
    assert 'CIFAR-10 over unreliable uplinks' in done.stdout
    assert '7 algorithms x 6 patterns x 5 seeds x 40 rounds' in done.stdout


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        ('simulate', [f'{TABLE}:svnh'], "error: `config` has no 'svnh'; did you mean 'svhn'?"),
        ('simulate', [f'{TABLE}:svhn', '--config.num_ronds=3'], "did you mean 'num_rounds'?"),
        ('simulate', ['--config=configs/xiang2024_tabel1.py:svhn'], 'xiang2024_table1.py?'),
        ('simulate', ['--config=configs/quickstart.py', '--quick'], "has a section 'quick'"),
        ('simulate', [f'{TABLE}:svhn', '--quik'], 'quick'),
    ],
)
def test_a_mistake_costs_one_line(command, arguments, message):
    done = run(*arguments, command=command)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count('\n') == 1


def test_data_that_were_not_prepared_cost_one_line_with_the_command(tmp_path):
    done = run(f'{TABLE}:svhn', environment={'TFDS_DATA_DIR': str(tmp_path)})
    assert done.returncode == 2
    assert (
        f'tfds build svhn_cropped --file_format=array_record --data_dir={tmp_path}' in done.stderr
    )
    assert done.stderr.count('\n') == 1
