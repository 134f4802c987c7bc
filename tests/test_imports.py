"""Imports point one way, libraries stay where they belong, and files stay short."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

import fedjax_links
from tests.layering import MAY_SEE, circles, imports_of, violations

FOLDER = pathlib.Path(fedjax_links.__file__).parent


def modules():
    """Every module of the package: dotted name, file, whether it is a package."""
    for path in sorted(FOLDER.rglob('*.py')):
        parts = [FOLDER.name, *path.relative_to(FOLDER).with_suffix('').parts]
        is_package = parts[-1] == '__init__'
        yield '.'.join(parts[:-1] if is_package else parts), path, is_package


def test_files_have_at_most_400_lines():
    for _, path, _ in modules():
        assert len(path.read_text().splitlines()) <= 400, path


def test_every_module_keeps_to_its_layer():
    offences = [
        offence
        for module, path, is_package in modules()
        for offence in violations(module, path.read_text(), is_package=is_package)
    ]
    assert not offences, '\n'.join(offences)


def test_the_layers_have_no_cycle():
    """Each layer can be sorted after all the layers that it may see."""
    ordered: set[str] = set()
    while len(ordered) < len(MAY_SEE):
        remaining = MAY_SEE.keys() - ordered
        ready = {layer for layer in remaining if MAY_SEE[layer] <= ordered}
        assert ready, f'cycle among {sorted(remaining)}'
        ordered |= ready


def test_no_modules_import_each_other():
    """Not even for types, or within functions."""
    known = {name: (path, is_package) for name, path, is_package in modules()}
    imports = {}
    for name, (path, is_package) in known.items():
        names = imports_of(name, path.read_text(), is_package=is_package)
        imported = {
            result if result in known else result.rpartition('.')[0] for result in names
        }
        imports[name] = imported - {FOLDER.name, name}
    assert len(imports['fedjax_links.runner.loop']) > 5
    assert circles(imports) == []


def test_a_circle_of_modules_is_found():
    imports = {'a': {'b'}, 'b': {'c'}, 'c': {'b', 'd'}, 'd': set()}
    assert circles(imports) == [{'b', 'c'}]
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from fedjax_links.runner import loop
def f():
    from .plan import Plan
"""
    assert imports_of('fedjax_links.planning.schedule', source) == {
        'fedjax_links.runner.loop',
        'fedjax_links.planning.plan.Plan',
    }


@pytest.mark.parametrize(
    'module, source, message',
    [
        ('base', 'import fedjax_links.mixing', '`core` must not see `mixing`'),
        (
            'core.errors',
            'from fedjax_links.core import checks',
            '`errors` must not see `core`',
        ),
        (
            'algorithms.fedavg',
            'def f():\n    from fedjax_links import sweeps',
            'must not see',
        ),
        (
            'evaluation',
            'from .problems import arrays',
            '`evaluation` must not see `problems`',
        ),
        ('algorithms.fedavg', 'from .mifa import mifa', 'each other'),
        (
            'cli.figure',
            'from fedjax_links.papers import printed',
            '`cli` must not see `papers`',
        ),
        (
            'simulation',
            'import matplotlib.pyplot as plt',
            '`matplotlib` stops at the front end',
        ),
        ('analysis.markov', 'import jax', '`jax` is not used in `analysis`'),
        (
            'planning.plan',
            'def f():\n    from fedjax_links.runner import loop',
            '`planning` must not see `runner`',
        ),
        (
            'runner.loop',
            'if TYPE_CHECKING:\n    from fedjax_links.experiment import Experiment',
            '`runner` must not see `experiment`',
        ),
        (
            'experiment.definition',
            'from fedjax_links.certify import certificates',
            '`experiment` must not see `certify`',
        ),
        (
            'preview.theory',
            'from fedjax_links.report import run_view',
            '`preview` must not see `report`',
        ),
        ('runs', 'import pickle', 'pickles'),
        ('core.tree', 'from jax._src import core', 'jax._src'),
        ('sweeps', 'import jax\njax.pmap(f)', 'pmap'),
        ('sweeps', 'import fedjax_links', 'name the module'),
        ('federator', '', 'is not in the layering'),
    ],
)
def test_a_wrong_import_is_found(module, source, message):
    result = violations(f'fedjax_links.{module}', source)
    assert any(message in offence for offence in result), result


@pytest.mark.parametrize(
    'module, source',
    [
        ('algorithms.fedavg', 'from fedjax_links.algorithms import common'),
        (
            'papers.xiang2024.released',
            'from fedjax_links.algorithms.f3ast import f3ast',
        ),
        ('papers.common', 'from fedjax_links.pages.figure import FigureResult'),
        ('simulation', 'from fedjax_links.core import checks, errors, prng, tree'),
        ('sweeps', 'from .simulation import simulate'),
        ('cli.main', 'from absl import app\nfrom fedjax_links import experiment'),
    ],
)
def test_a_right_import_passes(module, source):
    assert violations(f'fedjax_links.{module}', source) == []


def test_the_bare_package_and_presets_start_without_jax():
    heavy = ['jax', 'numpy', 'flax', 'optax', 'matplotlib']
    program = (
        'import sys; from fedjax_links import __version__; '
        'from fedjax_links.papers.xiang2024 import presets; '
        f'print([m for m in {heavy} if m in sys.modules])'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == '[]'


@pytest.mark.slow
def test_theory_is_printed_without_what_few_functions_need():
    heavy = ['scipy.stats', 'scipy.signal', 'matplotlib', 'pandas', 'xarray']
    program = (
        'import sys; from fedjax_links.cli import simulate; '
        'from fedjax_links.preview import theory; '
        f'print([m for m in {heavy} if m in sys.modules])'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == '[]'


def test_a_name_that_the_package_does_not_have_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        fedjax_links.__getattr__('simulat')


def test_the_package_shows_its_public_names_alone():
    program = 'import fedjax_links as fl; print(*dir(fl))'
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    public = {name for name in run.stdout.split() if not name.startswith('_')}
    assert public == set(fedjax_links.__all__)
    assert all(hasattr(fedjax_links, name) for name in public)
    assert {'__all__', '__doc__', '__version__'} == set(run.stdout.split()) - public


def test_what_is_loaded_on_first_use_has_its_type_in_the_source():
    """Type checkers and editors read the imports that never run."""
    tree = ast.parse((FOLDER / '__init__.py').read_text())
    imported = {
        alias.asname: f'{node.module}:{alias.name}'
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert imported.keys() == set(fedjax_links.__all__)
    for name, source in imported.items():
        module_name, _, name_there = source.partition(':')
        module = importlib.import_module(module_name)
        assert getattr(fedjax_links, name) is getattr(module, name_there)
