"""Conformance suites and certificates of algorithms on a newer Python with its newest jax."""

import ensurepip
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from fedjax_links.algorithms import ALGORITHMS
from tests import ROOT
from tests.experiment.several import environment

SUITES = (
    'tests/conformance/test_registries.py',
    'tests/algorithms/test_client_steps.py',
    '-k',
    'participation or fedpbc or scaffold or client_steps',
)
"""All patterns and three algorithms; certificates run every algorithm."""
MINORS = (13, 12)
CERTIFY = """
from fedjax_links.certify import certificates

verdicts = list(certificates.certify('algorithms'))
print(*(verdict.program for verdict in verdicts), sep='\\n')
print([verdict for verdict in verdicts if not verdict.holds])
"""
HIDDEN = shutil.ignore_patterns('.*', '*.egg-info')


def not_copied(folder, names):
    """Names what is no source: also `runs` in the root, but not the packages of that name."""
    ignored = HIDDEN(folder, names)
    if pathlib.Path(folder) == ROOT:
        ignored |= {'build', 'runs'}
    return ignored


def starts(python, minor):
    """Whether this is the Python that its name says, and no mere stand-in for it."""
    command = [
        python,
        '-c',
        'import sys, venv, ensurepip; print(sys.version_info.minor)',
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode == 0 and result.stdout.strip() == str(minor)


def newer_python():
    """The newest Python on the path or of pyenv that is newer than this one, or None."""
    versions = (
        pathlib.Path(os.environ.get('PYENV_ROOT', '~/.pyenv')).expanduser() / 'versions'
    )
    for minor in MINORS:
        name = f'python3.{minor}'
        for python in (shutil.which(name), *versions.glob(f'3.{minor}*/bin/{name}')):
            if python and (3, minor) > sys.version_info[:2] and starts(python, minor):
                return python
    return None


def give_up(reason):
    """Skips the test on a machine that lacks something, but fails in `.ci/run`."""
    if os.environ.get('NEWER_PYTHON') == 'required':
        pytest.fail(reason)
    pytest.skip(reason)


def pip(python, *words, **options):
    """A call of pip and what it did."""
    command = [python, '-m', 'pip', *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


def install(python, *words, folder, **options):
    """Installs, or fails the test; it gives up where pip itself cannot be fetched either."""
    done = pip(python, 'install', '-q', *words, **options)
    if done.returncode:
        fetched = pip(
            python, 'download', '-q', '--no-cache-dir', '--no-deps', '-d', folder, 'pip'
        )
        reason = f'cannot install: {done.stderr[-2000:]}'
        if fetched.returncode:
            give_up(reason)
        pytest.fail(reason)


@pytest.mark.slow
def test_an_impossible_requirement_fails_but_no_network_skips(tmp_path, monkeypatch):
    def end_of(*words):
        with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
            install(sys.executable, '--dry-run', *words, folder=tmp_path)
        return raised.type

    # The wheel of pip that Python has stands for an index that can be reached.
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv(
        'PIP_FIND_LINKS', f'{pathlib.Path(ensurepip.__file__).parent / "_bundled"}'
    )
    monkeypatch.delenv('NEWER_PYTHON', raising=False)
    assert end_of('pip>=9999') is pytest.fail.Exception
    monkeypatch.setenv('PIP_FIND_LINKS', str(tmp_path / 'nowhere'))
    assert end_of('pip>=9999') is pytest.skip.Exception
    monkeypatch.setenv('NEWER_PYTHON', 'required')
    assert end_of('pip>=9999') is pytest.fail.Exception


@pytest.mark.slow
def test_a_newer_python_with_its_newest_jax(tmp_path):
    """The suites pass there, and every algorithm is certified as users compile."""
    if sys.version_info[:2] >= (3, MINORS[0]):
        pytest.skip('this is the newest Python')
    python = newer_python()
    if python is None:
        give_up('no newer Python on the path or of pyenv that starts')
    source = tmp_path / 'source'
    venv_python = tmp_path / 'venv' / 'bin' / 'python'
    shutil.copytree(ROOT, source, ignore=not_copied)
    subprocess.run([python, '-m', 'venv', tmp_path / 'venv'], check=True)
    install(venv_python, '.[test]', folder=tmp_path, cwd=source)

    def output_of(*arguments, **variables):
        """Runs the newer Python without the XLA flags of this process."""
        done = subprocess.run(
            [venv_python, *arguments],
            cwd=source,
            env=environment(variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout

    output_of('-m', 'pytest', '-q', '-o', f'cache_dir={tmp_path / "cache"}', *SUITES)
    certified = output_of('-c', CERTIFY, XDG_CACHE_HOME=str(tmp_path / 'home'))
    *verdicts, failed = certified.splitlines()
    assert failed == '[]', failed
    assert {verdict.partition(',')[0] for verdict in verdicts} >= {*ALGORITHMS}
