"""Which properties of a CPU decide the bits of a result."""

import os
import subprocess
import sys

import jax
import pytest

from fedjax_links.machines import cpus, environment

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
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ('NPROC', 'JAX_NUM_CPU_DEVICES')
    }
    variables |= nproc
    command = [sys.executable, '-c', ON_ONE_CORE]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True
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


X86 = """\
processor\t: 0
model name\t: AMD EPYC 7B13
flags\t\t: fpu avx avx2 fma

processor\t: 1
model name\t: another core
"""
ARM = """\
processor\t: 0
model name\t: ARMv8 Processor rev 1 (v8l)
Features\t: fp asimd asimdhp
CPU implementer\t: 0x41
CPU part\t: 0xd0c

Model\t\t: a board
"""
POWER = """\
processor\t: 0
cpu\t\t: POWER9, altivec supported

platform\t: pSeries
"""


@pytest.mark.parametrize(
    'info, model, instructions',
    [
        (X86, 'AMD EPYC 7B13', 'avx avx2 fma'),
        (ARM, '0x41 0xd0c', 'asimd asimdhp'),
        (POWER, 'POWER9, altivec supported', ''),
    ],
    ids=['x86', 'arm', 'power'],
)
def test_the_model_is_that_of_the_first_core(
    info, model, instructions, tmp_path, monkeypatch
):
    path = tmp_path / 'cpuinfo'
    path.write_text(info)
    monkeypatch.setattr(cpus, '_INFO', path)
    monkeypatch.delenv('XLA_FLAGS', raising=False)
    fingerprint = cpus.fingerprint()
    assert fingerprint['cpu'] == model
    assert fingerprint['instructions'] == instructions


def test_cores_of_two_designs_are_two_kinds(tmp_path, monkeypatch):
    path = tmp_path / 'cpuinfo'
    monkeypatch.setattr(cpus, '_INFO', path)
    monkeypatch.delenv('XLA_FLAGS', raising=False)
    path.write_text(ARM)
    kind = cpus.kind()
    path.write_text(ARM.replace('0xd0c', '0xd0b'))
    assert cpus.kind() != kind


ISA = '--xla_cpu_max_isa'


@pytest.fixture
def portable(monkeypatch):
    for name, value in cpus.portable_variables().items():
        monkeypatch.setenv(name, value)
    return os.environ['XLA_FLAGS']


def test_a_flag_after_those_of_portable_runs_counts(portable, monkeypatch):
    assert cpus.is_portable()
    assert cpus.fingerprint()['cpu'] == 'portable'
    monkeypatch.setenv('XLA_FLAGS', f'{portable} {ISA}=SSE4_2')
    assert not cpus.is_portable()
    assert cpus.portable_variables()['XLA_FLAGS'].split() == portable.split()
    monkeypatch.setenv('XLA_FLAGS', f'{ISA}=SSE4_2 {portable}')
    assert cpus.is_portable()


def test_machines_differ_by_the_last_flag_of_a_name(monkeypatch):
    jax.devices()  # XLA reads its flags now, so those below reach no other test.
    flags = []
    for values in (['SSE4_2', 'AVX2'], ['AVX2', 'SSE4_2'], ['SSE4_2']):
        monkeypatch.setenv('XLA_FLAGS', ' '.join(f'{ISA}={value}' for value in values))
        flags.append(environment.fingerprint()['xla_flags'])
    assert flags == [[f'{ISA}=AVX2'], [f'{ISA}=SSE4_2'], [f'{ISA}=SSE4_2']]


COMPILE = """
import jax
jax.jit(lambda a: a + 1).lower(1.0).compile()
"""
WIDTH = 'xla_cpu_prefer_vector_width'


@pytest.mark.parametrize('last, other', [(128, 512), (512, 128)])
def test_the_compiler_takes_the_last_flag_of_a_name(last, other, tmp_path):
    flags = f'--{WIDTH}={other} --{WIDTH}={last} --xla_dump_to={tmp_path}'
    variables = {**os.environ, 'XLA_FLAGS': flags, 'JAX_ENABLE_COMPILATION_CACHE': '0'}
    subprocess.run([sys.executable, '-c', COMPILE], env=variables, check=True)
    options = next(tmp_path.glob('*.debug_options')).read_text()
    assert f'{WIDTH}: {last}' in options
