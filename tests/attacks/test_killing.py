"""Commands that are killed while they run: whose error is reported, and that none is left."""

import subprocess
import sys

import pytest

from tests.attacks import killing


def command(code):
    return [sys.executable, '-c', code]


def test_the_error_is_that_of_the_command_that_failed():
    fails = command('import sys, time; time.sleep(0.2); sys.exit("the reason")')
    writes = command(
        'import sys, time\n'
        'while True:\n'
        '    sys.stderr.write("noise " * 1000)\n'
        '    time.sleep(0.01)\n'
    )
    error, num_kills = killing.run_with_kills([fails, writes], lambda _: lambda: False)
    assert error == 'status 1: the reason\n'
    assert num_kills == 0


def test_no_command_runs_on_after_an_exception(monkeypatch):
    started = []
    popen = subprocess.Popen

    def record(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, 'Popen', record)

    def moment():
        raise KeyError('moment')

    with pytest.raises(KeyError, match='moment'):
        killing.run_with_kills(
            [command('import time; time.sleep(60)')] * 2, lambda _: moment
        )
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)
