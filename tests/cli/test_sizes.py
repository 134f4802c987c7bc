"""--quick, and the words after the colon of --config, as a user meets them."""

import pytest

from tests.cli.command import refused, run

TABLE = '--config=configs/xiang2024_table1.py'


@pytest.mark.usefixtures('uncompiled')
def test_quick_is_the_short_version_and_single_fields_still_hold():
    done = run(
        'simulate', f'{TABLE}:cifar10', '--quick', '--config.num_seeds=5', '--dry_run'
    )
    assert done.returncode == 0, done.stderr
    assert 'CIFAR-10 over unreliable uplinks' in done.stdout
    assert '7 algorithms x 6 patterns x 5 seeds x 40 rounds' in done.stdout


def test_quick_needs_a_config_with_such_a_section():
    line = refused('simulate', '--config=quickstart', '--quick', '--dry_run')
    assert "has a section 'quick'" in line


def test_data_that_are_not_there_cost_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    message = refused('simulate', f'{TABLE}:svhn', '--dry_run')
    assert '(run `python -m fedjax_links data fetch svhn`), got no ' in message
