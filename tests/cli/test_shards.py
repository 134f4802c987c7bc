"""A task of a job array runs a shard of the lanes if that is asked for, and else all of them."""

import pytest

from fedjax_links import runs
from tests.cli.command import run
from tests.experiment.configs import quadratic_values

ARRAY = {
    'SLURM_ARRAY_TASK_ID': '1',
    'SLURM_ARRAY_TASK_MIN': '0',
    'SLURM_ARRAY_TASK_MAX': '1',
}


@pytest.fixture
def config(tmp_path):
    """A file of a config with two lanes."""
    path = tmp_path / 'config.py'
    path.write_text(f'def get_config():\n    return {quadratic_values()!r}\n')
    return path


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_task_of_an_array_runs_all_lanes_and_names_the_flag(
    tmp_path, config, monkeypatch
):
    for name, value in {**ARRAY, 'SLURM_ARRAY_TASK_COUNT': '2'}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / 'whole'
    done = run('simulate', f'--config={config}', f'--workdir={folder}')
    assert done.returncode == 0, done.stderr
    text = (
        'note: SLURM_ARRAY_TASK_ID is set, and all lanes run; --shard=auto runs a shard'
    )
    assert text in done.stdout.splitlines()
    assert len(runs.lanes(folder)) == 2


@pytest.mark.usefixtures('uncompiled')
def test_auto_is_the_shard_of_the_task(tmp_path, config, monkeypatch):
    for name, value in {**ARRAY, 'SLURM_ARRAY_TASK_COUNT': '2'}.items():
        monkeypatch.setenv(name, value)
    command = [
        'simulate',
        f'--config={config}',
        f'--workdir={tmp_path}/run',
        '--shard=auto',
    ]
    done = run(*command, '--dry_run')
    assert done.returncode == 0, done.stderr
    assert 'shard 1 of 2, as SLURM_ARRAY_TASK_ID says' in done.stdout.splitlines()
    assert 'shard    1 of 2: 1 of 2 lanes (fedavg)' in done.stdout.splitlines()
    for name in (*ARRAY, 'SLURM_ARRAY_TASK_COUNT'):
        monkeypatch.delenv(name)
    refused = run(*command)
    assert refused.returncode == 2
    assert '`shard` must read I/N where no variable of a job array' in refused.stderr


@pytest.mark.parametrize('flag', ['--debug_round=0', '--debug_round=3', '--start_over'])
def test_flags_of_all_lanes_are_left_out_with_a_shard(flag, tmp_path):
    refused = run(
        'simulate', '--config=quickstart', f'--workdir={tmp_path}', '--shard=1/2', flag
    )
    assert refused.returncode == 2
    assert 'must be left out with --shard, got ' in refused.stderr
