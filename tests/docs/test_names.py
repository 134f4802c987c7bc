"""Names in docstrings: those in single backticks exist, in public and private modules."""

import ast
import re
import sys

import pytest

from tests import ROOT
from tests.docs.pages import DOCS

sys.path.append(str(DOCS))
from generate import names


def docstrings(node, definition):
    """Yields each docstring below a node, after the full name of what has it or its value."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield definition, text
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield from docstrings(child, f'{definition}.{name}')
            case _:
                yield from docstrings(child, definition)


def missing(definition, text):
    """Lists what a docstring has in single backticks and the site would not find."""
    without_literals = re.sub(r'``.+?``', '', text, flags=re.DOTALL)
    targets = re.findall(r'(?<!:)`([^`]+)`(?!_)', without_literals)
    places = names.scopes(definition)
    return [target for target in targets if not names.full_names(target, *places)]


def test_names_in_docstrings_exist():
    """The site checks public docstrings alone. Parameters and literals take two backticks."""
    found = []
    for path in sorted((ROOT / 'fedjax_links').rglob('*.py')):
        module = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
        tree = ast.parse(path.read_text())
        for definition, text in docstrings(tree, module.removesuffix('.__init__')):
            found += [(definition, target) for target in missing(definition, text)]
    assert found == []


@pytest.mark.parametrize(
    'definition, target, present',
    [
        # Another module's name, without and with the module.
        ('core.prng.client_key', 'RoundContext', 'base.RoundContext'),
        ('problems.convolution', 'vmap', 'jax.vmap'),
        (
            'runner.shared_stores.SharedFolder.save',
            'InMemoryStore.save',
            'in_memory.InMemoryStore.save',
        ),
        # A module of the same folder, and a name of the same class.
        ('analysis.link_chains.moments', 'layout.LinkLayout', 'layouts.LinkLayout'),
        ('runner.stores.RunFolder.save', 'save_all', 'save'),
        # A parameter, a field without a default, a file, a command, a flag.
        ('analysis._checks.checked', 'array', 'checked'),
        ('runs.divisions.check_division', 'RunDivision.by', 'RunDivision'),
        ('runner.realised_links', 'links.npz', 'record_links'),
        ('cli.data', "pip install 'fedjax_links[data]'", 'main'),
        ('storage.run_access', '--start_over', 'runs.merge'),
    ],
)
def test_a_name_of_nothing_is_found(definition, target, present):
    text = f'Is `{target}` as ``literal`` and `{present}` are.'
    assert missing(f'fedjax_links.{definition}', text) == [target]


@pytest.mark.parametrize(
    'target, places, known_as',
    [
        (
            'simulation.simulate',
            ['fedjax_links.sweeps'],
            'fedjax_links.simulation.simulate',
        ),
        ('simulate', ['fedjax_links.sweeps'], 'fedjax_links.simulation.simulate'),
        (
            'losses.LOSSES',
            ['fedjax_links.problems'],
            'fedjax_links.problems.losses.LOSSES',
        ),
        ('ALGORITHMS', [], 'fedjax_links.ALGORITHMS'),
        ('simulation.simulation', ['fedjax_links.sweeps'], None),
        ('probs', ['fedjax_links.analysis'], None),
        ('numpy.dtype', ['fedjax_links.base'], 'numpy.dtype'),
        ('numpy.kind', ['fedjax_links.base'], None),
    ],
)
def test_a_name_in_a_docstring_is_one_of_the_package(target, places, known_as):
    result = names.full_names(target, *places)
    assert known_as in result if known_as else not result
