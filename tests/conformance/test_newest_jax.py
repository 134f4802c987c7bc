"""The conformance suites on a newer Python with its newest jax, in an environment of their own."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SUITES = (
    'tests/conformance/test_registries.py',
    'tests/conformance/test_suites_can_fail.py',
    'tests/algorithms/test_client_steps.py',
)
MINORS = (13, 12)
NOT_COPIED = shutil.ignore_patterns('.*', 'build', 'runs', '*.egg-info')


def starts(python, minor):
    """Whether this is the Python that its name says, and no mere stand-in for it."""
    command = [python, '-c', 'import sys, venv, ensurepip; print(sys.version_info.minor)']
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode == 0 and result.stdout.strip() == str(minor)


def newer_python():
    """The newest Python on the path or of pyenv that is newer than this one, or None."""
    versions = pathlib.Path(os.environ.get('PYENV_ROOT', '~/.pyenv')).expanduser() / 'versions'
    for minor in MINORS:
        name = f'python3.{minor}'
        for python in (shutil.which(name), *versions.glob(f'3.{minor}*/bin/{name}')):
            if python and (3, minor) > sys.version_info[:2] and starts(python, minor):
                return python
    return None


@pytest.mark.slow
def test_the_suites_pass_on_a_newer_python_with_its_newest_jax(tmp_path):
    python = newer_python()
    if python is None:
        pytest.skip('no newer Python on the path or of pyenv that starts')
    source, own = tmp_path / 'source', tmp_path / 'venv' / 'bin' / 'python'
    shutil.copytree(ROOT, source, ignore=NOT_COPIED)
    subprocess.run([python, '-m', 'venv', tmp_path / 'venv'], check=True)
    install = [own, '-m', 'pip', 'install', '-q', '.[test]']
    installed = subprocess.run(install, cwd=source, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f'cannot install: {installed.stderr.strip().splitlines()[-1]}')
    command = [own, '-m', 'pytest', '-q', '-o', f'cache_dir={tmp_path / "cache"}', *SUITES]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
