"""A run that goes wrong, as a user meets it."""

import pytest

from tests.cli.command import run


@pytest.mark.parametrize(
    'flags', [['--start_over'], ['--dry_run'], ['--fork_from=runs/a', '--at_round=2']]
)
def test_flags_without_effect_on_a_debugged_round_are_refused(flags, tmp_path):
    refused = run(
        'simulate',
        '--config=quickstart',
        f'--workdir={tmp_path}',
        '--debug_round=0',
        *flags,
    )
    assert refused.returncode == 2
    assert 'must be left out with --debug_round, got ' in refused.stderr


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_lane_that_diverges_is_named_once_and_looked_into(plain, tmp_path):
    small = [*plain, '--config.client.learning_rate=1e38']
    done = run(*small, f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    output = done.stderr.splitlines()
    assert len(output) == 2 * 2
    assert output[0] == (
        'fedavg, links, seed 0, learning_rate 1e+38: not finite from round 0 on '
        '(rounds are 0 to 19); '
        '--debug_round=0 looks into it'
    )
    assert 'Diverged (rounds count from 0): fedavg, links, seeds 0, 1 in round 0; ' in (
        (tmp_path / 'report.md').read_text()
    )
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*')}
    result = run(*small, f'--workdir={tmp_path}', '--debug_round=0')
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2 * 2
    assert lines[0].startswith(
        'fedavg, links, seed 0, learning_rate 1e+38, round 0: client '
    )
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob('*')} == before
    wrong = run(*small, f'--workdir={tmp_path}', '--debug_round=20')
    assert (wrong.returncode, wrong.stderr) == (
        2,
        'error: `debug_round` must be below 20, the number of rounds that the folder holds, '
        'got 20.\n',
    )
