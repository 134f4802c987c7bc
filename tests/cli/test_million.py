"""A config of a million clients runs whole, in little memory."""

import subprocess
import sys

import pytest

from fedjax_links import runs
from tests import ROOT

MOST_GIBIBYTES = 2.0
MEASURED = """
import pathlib, runpy, sys
sys.argv = ['fedjax_links', *sys.argv[1:]]
try:
    runpy.run_module('fedjax_links', run_name='__main__')
except SystemExit as end:
    assert end.code in (None, 0), end.code
status = pathlib.Path('/proc/self/status').read_text()
print('peak', status.split('VmHWM:')[1].split()[0])
"""
"""The kernel's own figure, in KiB: what `getrusage` says includes the process that forked."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='asks the kernel of Linux')
def test_a_million_clients_fit_into_two_gibibytes(tmp_path, monkeypatch):
    monkeypatch.delenv('XLA_FLAGS', raising=False)  # memory is that of users
    arguments = ['simulate', '--config=configs/million.py', f'--workdir={tmp_path}']
    done = subprocess.run(
        [sys.executable, '-c', MEASURED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert 'of 4,000 rounds' in done.stdout + done.stderr
    results = runs.read(tmp_path)
    assert sorted(set(results['pattern'].tolist())) == ['uniform', 'waiting']
    assert (results['rounds/num_active'] == 100 * 100).all()
    assert (tmp_path / 'report.md').exists()
    assert len(list((tmp_path / 'checkpoints').glob('*@500.npz'))) == 8
    assert int(done.stdout.rsplit('peak ', 1)[1]) <= MOST_GIBIBYTES * 2**20
