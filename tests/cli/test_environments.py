"""Faults of the machine or of the user cost one line; a bug of the package keeps its traceback."""

import contextlib
import io
import os
import subprocess
import sys
import zipfile

import pytest

from fedjax_links.cli import app
from fedjax_links.core import errors
from tests import ROOT
from tests.cli.command import COMMAND, one_line, run

QUICKSTART = ['--config=quickstart']


def run_in_process(*arguments, cwd=ROOT, before='', **variables):
    """Runs a command in a process of its own.

    Args:
      *arguments: of the command.
      cwd: where it runs.
      before: statements of Python that it runs first; they import sys.
      **variables: of the environment; None removes one.
    """
    command = [*COMMAND, *arguments]
    if before:
        program = (
            f'{before}; import fedjax_links.__main__ as front; sys.exit(front.main())'
        )
        command = [sys.executable, '-c', program, *arguments]
    environment = {**os.environ, **variables, 'PYTHONPATH': str(ROOT)}
    environment = {
        name: value for name, value in environment.items() if value is not None
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding='utf-8',
        errors='replace',
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    'arguments',
    [
        ['simulate', *QUICKSTART, '--workdir=x', '--dry_run'],
        ['theory', *QUICKSTART],
        ['figure', '--config=xiang2024_figure2', '--quick'],
    ],
)
def test_a_platform_that_is_not_there_costs_one_line(arguments, tmp_path):
    done = run_in_process(*arguments, cwd=tmp_path, JAX_PLATFORMS='cuda')
    line = one_line(done)
    assert line.startswith(
        'error: `JAX_PLATFORMS` must name a platform whose devices JAX '
    )
    assert line.endswith('got cuda.\n')


@pytest.mark.slow
@pytest.mark.parametrize('encoding', ['ascii', 'cp1252'])
def test_a_terminal_writes_what_it_has_letters_for(encoding, tmp_path):
    (tmp_path / 'log.csv').write_text('client,start,end\nzoë,0,86400\n联邦,0,90000\n')
    done = run_in_process(
        'links', '--log=log.csv', cwd=tmp_path, PYTHONIOENCODING=encoding
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_file_locks_only_what_needs_them_stops(plain, tmp_path):
    before = 'import sys; sys.modules["fcntl"] = None'
    done = run_in_process(*plain, f'--workdir={tmp_path / "run"}', before=before)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith('error: ')
    assert 'bug' not in done.stderr
    done = run_in_process('theory', *QUICKSTART, '--rounds=32', before=before)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize('cwd', ['inside', 'outside'])
def test_a_config_may_have_the_name_of_a_module(cwd, tmp_path):
    (tmp_path / 'own').mkdir()
    (tmp_path / 'own' / 'html.py').write_text(
        """
def get_config():
    return {
        'title': 'html',
        'problem': {'name': 'quadratic', 'targets': [[0.0], [1.0]]},
        'links': 'always',
        'client': {'learning_rate': 0.5, 'local_steps': 1},
        'algorithms': {'fedavg': {'name': 'mine:algorithm'}},
        'num_rounds': 2,
        'eval_every': 2,
    }
"""
    )
    (tmp_path / 'own' / 'datasets.py').write_text('raise RuntimeError("shadows")\n')
    (tmp_path / 'own' / 'mine.py').write_text(
        'import helper, html, xarray\nfrom fedjax_links import ALGORITHMS\n'
        'assert html.escape and xarray.Dataset\n'
        'def algorithm(local_train):\n    return ALGORITHMS["fedavg"](local_train)\n'
    )
    (tmp_path / 'own' / 'helper.py').write_text('')
    where = tmp_path / 'own' if cwd == 'inside' else tmp_path
    config = 'html.py' if cwd == 'inside' else 'own/html.py'
    done = run_in_process('theory', f'--config={config}', '--rounds=32', cwd=where)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_module_with_the_name_of_another_one_says_so(tmp_path):
    text = (ROOT / 'configs' / 'quickstart.py').read_text()
    (tmp_path / 'mine.py').write_text(
        text.replace("'fedavg': {},", "'a': {'name': 'html:algorithm'},")
    )
    (tmp_path / 'html.py').write_text('def algorithm(local_train):\n    pass\n')
    done = run_in_process('theory', '--config=mine.py', cwd=tmp_path)
    message = '`config.algorithms.a.name` must name a module whose name no other module'
    assert message in one_line(done)


def test_the_package_is_imported_from_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / 'package.zip', 'w') as archive:
        for path in (ROOT / 'fedjax_links').rglob('*'):
            if path.suffix in ('.py', '.bib', '.csv'):
                archive.write(path, path.relative_to(ROOT))
    program = (
        'import sys; sys.path.insert(0, "package.zip"); import fedjax_links as fl; '
        'print(fl.__file__, fl.Experiment.__name__, fl.simulate.__name__)'
    )
    done = subprocess.run(
        [sys.executable, '-c', program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'package.zip' in done.stdout


@pytest.mark.slow
def test_a_home_that_cannot_be_written_stops_nothing(plain, tmp_path):
    done = run_in_process(
        *plain,
        '--config.num_seeds=1',
        cwd=tmp_path,
        HOME='/dev/null',
        XDG_CACHE_HOME=None,
        JAX_COMPILATION_CACHE_DIR=None,
        MPLCONFIGDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert 'cannot be used' not in done.stderr
    assert 'persistent' not in done.stderr
    assert (tmp_path / 'runs' / 'plain' / 'report.md').exists()


class XlaRuntimeError(RuntimeError):
    """Has the name of jaxlib's error."""


@pytest.mark.parametrize(
    'error, start',
    [
        (MemoryError(), 'error: memory ran out: MemoryError\n'),
        (
            XlaRuntimeError(
                'RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.'
            ),
            'error: memory ran out: XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while',
        ),
        (
            errors.missing_package('x needs y', 'y'),
            'error: x needs y: `pip install y`.\n',
        ),
        (
            OSError(28, 'No space left on device', 'x'),
            'error: `x` cannot be used: No space left',
        ),
    ],
)
def test_what_is_no_bug_costs_one_line(error, start):
    status, text = end_of(error)
    assert status == 2
    assert text.startswith(start)
    assert text.count('\n') == 1


@pytest.mark.parametrize(
    'error', [ValueError('x'), XlaRuntimeError('INTERNAL: x'), AssertionError()]
)
def test_a_bug_keeps_its_traceback(error):
    status, text = end_of(error)
    assert status == 1
    assert text.startswith('Traceback')
    assert 'This is a bug of fedjax_links' in text


def end_of(error):
    """Exit status and error output of a command that raises an error."""
    run('compare', '--version')  # defines absl's flags
    text = io.StringIO()
    with (
        contextlib.redirect_stderr(text),
        pytest.raises(SystemExit) as caught,
        app.exit_on_error(),
    ):
        raise_in_the_package(error)
    return caught.value.code, text.getvalue()


def raise_in_the_package(error):
    """Raises an error from code that seems to be the package's."""
    exec(compile('raise error', app.__file__, 'exec'), {'error': error})
