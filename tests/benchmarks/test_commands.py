"""Commands in processes of their own: their time and memory, and the rows of a record."""

import json

import numpy as np
import pytest

from benchmarks import commands, common, memory, start, summary


def test_the_memory_is_the_command_s_own():
    """Neither that of this process nor that of an interpreter alone."""
    much_here = np.ones(2**26)  # half a gibibyte
    small = commands.run(['-c', 'pass'])
    large = commands.run(['-c', 'x = b"1" * 2**28'])
    assert much_here[-1] == 1
    assert small.gibibytes < 0.2
    np.testing.assert_allclose(large.gibibytes - small.gibibytes, 0.25, atol=0.05)


def test_seconds_are_the_command_s():
    assert commands.run(['-c', 'import time; time.sleep(0.5)']).seconds > 0.5


def test_a_command_that_fails_ends_with_its_error_output():
    with pytest.raises(RuntimeError, match='no luck'):
        commands.run(['-c', 'raise SystemExit("no luck")'])
    commands.run(['-c', 'raise SystemExit(2)'], status=2)


def test_busy_cores_are_those_that_others_use(monkeypatch):
    """A second of sleep, in which one core worked for 50 and one for 25 of 100 ticks."""
    times = iter([0.0, 1.0])
    lines = iter(
        ['cpu  100 0 10 900 5 1 1 3 0 0\ncpu0', 'cpu  150 10 20 999 9 1 1 8 7 7\ncpu0']
    )
    monkeypatch.setattr(common.pathlib.Path, 'exists', lambda path: True)
    monkeypatch.setattr(common.pathlib.Path, 'read_text', lambda path: next(lines))
    monkeypatch.setattr(common.time, 'perf_counter', lambda: next(times))
    monkeypatch.setattr(common.time, 'sleep', lambda seconds: None)
    monkeypatch.setattr(common.os, 'sysconf', lambda name: 100)
    np.testing.assert_allclose(common.busy_cores(), 0.75)


@pytest.mark.parametrize('module', [memory, start])
def test_rows_show_regressions_and_which_targets_are_met(module, monkeypatch):
    ran = []

    def run(arguments, environment=None, *, status=0):
        ran.append((*arguments, status))
        return commands.CommandCost(seconds=0.5, gibibytes=0.25)

    monkeypatch.setattr(commands, 'run', run)
    monkeypatch.setattr(start, 'compile_seconds', lambda repeats: [0.5] * repeats)
    record = json.loads(json.dumps({'benchmark': 'a', **module.measure(quick=False)}))
    rows = summary.rows(record)
    assert all(row.reference is not None and row.spread is not None for row in rows)
    assert all(row.met for row in rows if row.target is not None)
    assert all(row.measured in (0.25, 0.5) for row in rows)
    if module is start:
        of_quickstart = [
            arguments
            for arguments in ran
            if '--config=configs/quickstart.py' in arguments
        ]
        assert len(of_quickstart) == 5 + 2 * 3
        assert [arguments[-1] for arguments in ran[:10]] == [1] * 5 + [2] * 5


@pytest.mark.slow
def test_a_wrong_config_and_help_end_as_start_says(tmp_path):
    start.simulate('--help', cache=tmp_path, status=1)
    mistake = [
        start.QUICKSTART,
        '--config.num_rounds=-1',
        f'--workdir={tmp_path / "none"}',
    ]
    start.simulate(*mistake, cache=tmp_path, status=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name',
    [
        'sweep',
        pytest.param(
            'fedpbc',
            marks=pytest.mark.release('test_the_programs_of_the_memory_benchmark_run'),
        ),
    ],
)
def test_the_programs_of_the_memory_benchmark_run(name):
    assert 0.1 < commands.run(['-m', 'benchmarks.memory', name]).gibibytes < 4
