"""--quick, and the words after the colon of --config, as a user meets them."""

import pytest

from fedjax_links.runner import dry_runs, preflight
from tests.cli.command import refused, run

TABLE = '--config=configs/xiang2024_table1.py'


def test_quick_is_the_short_version_and_single_fields_still_hold(monkeypatch):
    # Neither trace nor compile the 42 programs.
    monkeypatch.setattr(preflight, 'check', lambda *arguments: None)
    monkeypatch.setattr(dry_runs, 'dry_run', lambda *arguments: [])
    done = run(
        'simulate', f'{TABLE}:cifar10', '--quick', '--config.num_seeds=5', '--dry_run'
    )
    assert done.returncode == 0, done.stderr
    assert 'CIFAR-10 over unreliable uplinks' in done.stdout
    assert '7 algorithms x 6 patterns x 5 seeds x 40 rounds' in done.stdout


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([f'{TABLE}:svnh'], "error: `config` has no 'svnh'; did you mean 'svhn'?"),
        ([f'{TABLE}:svhn', '--config.num_ronds=3'], "did you mean 'num_rounds'?"),
        (['--config=configs/xiang2024_tabel1.py:svhn'], 'xiang2024_table1.py?'),
        (['--config=configs/quickstart.py', '--quick'], "has a section 'quick'"),
        ([f'{TABLE}:svhn', '--quik'], 'quick'),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    assert message in refused('simulate', *arguments, '--dry_run')


def test_data_that_are_not_there_cost_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    message = refused('simulate', f'{TABLE}:svhn', '--dry_run')
    assert '(run `python -m fedjax_links data fetch svhn`), got no ' in message
