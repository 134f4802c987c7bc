"""Notebooks and scripts in examples/: the same content, and they run from a clean start."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from examples import build
from tests import ROOT
from tests.conftest import COMPILE_FAST, as_flags

SCRIPTS = build.scripts()
HAS_KERNELS = all(
    importlib.util.find_spec(n) for n in ('jupytext', 'nbclient', 'ipykernel')
)


def cells(script):
    """Yields (kind, source) of the cells of a percent script, read without jupytext."""
    _, *parts = re.split(r'^# %%(.*)\n', script.read_text(), flags=re.MULTILINE)
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        if 'markdown' in mark:
            body = re.sub(r'^# ?', '', body, flags=re.MULTILINE)
        yield ('markdown' if 'markdown' in mark else 'code'), body.strip('\n')


def stored(script):
    return json.loads(script.with_suffix('.ipynb').read_text())['cells']


def environment():
    paths = [str(ROOT), os.environ.get('PYTHONPATH', '')]
    return {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, paths))}


def imported_modules(script):
    """Returns the names of the packages and modules that a script imports."""
    names = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition('.')[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition('.')[0])
    return names


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda script: script.stem)
def test_imports_of_an_example_are_dependencies_or_extras(script):
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    lines = project['dependencies'] + project['optional-dependencies']['examples']
    required = {re.match(r'[\w-]+', line)[0] for line in lines}
    modules = {path.stem for path in build.FOLDER.glob('*.py')}
    known = sys.stdlib_module_names | modules | {'fedjax_links'}
    distributions = importlib.metadata.packages_distributions()
    for name in imported_modules(script) - known:
        assert required & set(distributions[name]), name
    if '.to_pandas(' in script.read_text():
        assert 'pandas' in required


def test_there_are_examples_and_each_notebook_has_its_script():
    assert SCRIPTS
    assert [s.stem for s in SCRIPTS] == sorted(
        p.stem for p in build.FOLDER.glob('*.ipynb')
    )


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda script: script.stem)
def test_a_stored_notebook_is_its_script_and_ran_without_errors(script):
    """``python -m examples.build`` makes it so."""
    result = stored(script)
    assert [(c['cell_type'], ''.join(c['source'])) for c in result] == list(
        cells(script)
    )
    code = [cell for cell in result if cell['cell_type'] == 'code']
    assert [cell['execution_count'] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell['outputs']]
    assert all(
        o['output_type'] != 'error' and o.get('name') != 'stderr' for o in outputs
    )
    assert any('image/png' in output.get('data', {}) for output in outputs)
    assert script.with_suffix('.ipynb').stat().st_size < build.MOST_BYTES


def test_the_size_of_a_notebook_is_counted_in_bytes(tmp_path, monkeypatch):
    nbformat = pytest.importorskip('nbformat')
    path = tmp_path / 'book.ipynb'
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell('±' * 500)])
    size = build.store(book, path)
    assert size == path.stat().st_size
    path.unlink()
    monkeypatch.setattr(build, 'MOST_BYTES', size - 1)
    with pytest.raises(RuntimeError, match=f'has {size} bytes'):
        build.store(book, path)
    assert not path.exists()


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda script: script.stem)
def test_an_example_opens_with_its_title_and_states_bounds(script):
    (kind, text), *_ = cells(script)
    assert kind == 'markdown'
    assert re.match(r'# .+\n\n[\w`]', text)
    assert re.search(r'^assert ', script.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda script: script.stem)
def test_the_list_of_examples_has_a_line_for_each(script):
    assert f'({script.stem}.ipynb)' in (build.FOLDER / 'README.md').read_text()


@pytest.mark.slow
@pytest.mark.parametrize('script', SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs_from_a_clean_start(script, monkeypatch):
    """Its asserts compare the key numbers with their bounds, however it is compiled."""
    monkeypatch.setenv('XLA_FLAGS', as_flags(COMPILE_FAST))
    if HAS_KERNELS:  # as a notebook, in a new kernel
        monkeypatch.setenv('PYTHONPATH', environment()['PYTHONPATH'])
        build.execute(build.notebook(script))
        return
    command = [sys.executable, '-W', 'error::UserWarning', str(script)]
    settings = {**environment(), 'MPLBACKEND': 'Agg'}
    done = subprocess.run(
        command, env=settings, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
