"""A config of a million clients runs to its end, in little memory."""

import sys

import pytest

from fedjax_links import runs
from tests import peak_memory

PROGRAM = """
import runpy, sys
sys.argv = ['fedjax_links', *sys.argv[1:]]
try:
    runpy.run_module('fedjax_links', run_name='__main__')
except SystemExit as end:
    assert end.code in (None, 0), end.code
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='asks the kernel of Linux')
def test_a_million_clients_fit_into_two_gibibytes(tmp_path, monkeypatch):
    monkeypatch.delenv('XLA_FLAGS', raising=False)  # memory is that of users
    arguments = ['simulate', '--config=configs/million.py', f'--workdir={tmp_path}']
    output, gibibytes = peak_memory.run(PROGRAM, *arguments)
    assert gibibytes <= 2
    assert 'of 4,000 rounds' in output
    results = runs.read(tmp_path)
    assert sorted(set(results['pattern'].tolist())) == ['uniform', 'waiting']
    assert (results['rounds/num_active'] == 100 * 100).all()
    assert (tmp_path / 'report.md').exists()
    assert len(list((tmp_path / 'checkpoints').glob('*@500.npz'))) == 8
