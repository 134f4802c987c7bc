"""Imports point one way, and libraries stay where they belong."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

import fedjax_links
from tests.layering import MAY_SEE, violations

FOLDER = pathlib.Path(fedjax_links.__file__).parent


def modules():
    """Every module of the package: dotted name, file, whether it is a package."""
    for path in sorted(FOLDER.rglob('*.py')):
        parts = [FOLDER.name, *path.relative_to(FOLDER).with_suffix('').parts]
        is_package = parts[-1] == '__init__'
        yield '.'.join(parts[:-1] if is_package else parts), path, is_package


def test_every_module_keeps_to_its_layer():
    offences = [
        offence
        for module, path, is_package in modules()
        for offence in violations(module, path.read_text(), is_package=is_package)
    ]
    assert not offences, '\n'.join(offences)


def test_the_layers_have_no_cycle():
    """Each part can be placed after all the parts that it may see."""
    placed: set[str] = set()
    while len(placed) < len(MAY_SEE):
        ready = {
            part for part in MAY_SEE if part not in placed and MAY_SEE[part] <= placed
        }
        assert ready, f'cycle among {sorted(set(MAY_SEE) - placed)}'
        placed |= ready


def test_no_module_imports_one_that_imports_it():
    """Imports of all modules, those within functions left out, can be done in some order."""
    known = {name: path for name, path, _ in modules()}
    waiting = {
        name: {
            found if found in known else found.rpartition('.')[0]
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom) and node.module
            for found in (f'{node.module}.{alias.name}' for alias in node.names)
            if found.startswith(f'{FOLDER.name}.')
        }
        - {FOLDER.name, name}
        for name, path in known.items()
    }
    while ready := {
        name for name, needed in waiting.items() if not needed & waiting.keys()
    }:
        waiting = {
            name: needed for name, needed in waiting.items() if name not in ready
        }
    assert not waiting, sorted(waiting)


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
        ('runs', 'import pickle', 'pickles'),
        ('core.tree', 'from jax._src import core', 'jax._src'),
        ('sweeps', 'import jax\njax.pmap(f)', 'pmap'),
        ('sweeps', 'import fedjax_links', 'name the module'),
        ('federator', '', 'has no place in the layering'),
    ],
)
def test_a_wrong_import_is_found(module, source, message):
    found = violations(f'fedjax_links.{module}', source)
    assert any(message in offence for offence in found), found


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


@pytest.mark.parametrize(
    'statement',
    [
        'import fedjax_links',
        'from fedjax_links import __version__',
        'from fedjax_links.papers.xiang2024 import presets',
    ],
)
def test_the_bare_package_and_presets_start_without_jax(statement):
    heavy = ['jax', 'numpy', 'flax', 'optax', 'matplotlib']
    program = (
        f'import sys; {statement}; print([m for m in {heavy} if m in sys.modules])'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == '[]'


def test_names_are_loaded_on_first_use():
    program = (
        'import sys, fedjax_links; fedjax_links.simulate; print("jax" in sys.modules)'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == 'True'
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
    for name, place in imported.items():
        found = getattr(fedjax_links, name)
        module, _, inside = place.partition(':')
        here = importlib.import_module(module)
        assert getattr(here, inside) is found
