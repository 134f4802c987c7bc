"""Which properties of a CPU decide the bits of a result."""

import os
import subprocess
import sys

import pytest

from fedjax_links.machines import cpus

ON_ONE_CORE = """
import os, pathlib
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax, jax.numpy as jnp
from fedjax_links.machines import environment
jax.jit(lambda a: a @ a)(jnp.ones((64, 64))).block_until_ready()
names = [path.read_text() for path in pathlib.Path('/proc/self/task').glob('*/comm')]
print(environment.fingerprint()['threads'], sum(name.startswith('tf_XLAEigen') for name in names))
"""


@pytest.mark.skipif(
    sys.platform != 'linux', reason='the system does not name its threads'
)
@pytest.mark.parametrize('nproc, threads', [({}, 1), ({'NPROC': '2'}, 2)])
def test_threads_are_those_that_xla_starts(nproc, threads):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ('NPROC', 'JAX_NUM_CPU_DEVICES')
    }
    environment |= nproc
    command = [sys.executable, '-c', ON_ONE_CORE]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(threads)] * 2


@pytest.mark.parametrize('nproc, threads', [('3', 3), ('', 2), ('0', 2), ('many', 2)])
def test_cached_programs_are_keyed_by_threads(nproc, threads, monkeypatch):
    monkeypatch.setattr(cpus, 'num_cores', lambda: 2)
    monkeypatch.setenv('NPROC', nproc)
    assert cpus.fingerprint()['threads'] == threads
    kind = cpus.kind()
    monkeypatch.setenv('NPROC', '7')
    assert cpus.kind() != kind
