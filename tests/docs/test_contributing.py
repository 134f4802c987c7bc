"""What CONTRIBUTING.md and the page on development name exists, and its rules are kept."""

import re

import pytest

from tests import ROOT
from tests.docs.pages import DOCS
from tests.layering import MAY_SEE, layers_of

PACKAGE = ROOT / 'fedjax_links'
CONTRIBUTING = (ROOT / 'CONTRIBUTING.md').read_text()
DEVELOPMENT = (DOCS / 'development.md').read_text()
PATH = re.compile(r'`([\w.]+(?:/\w+)*(?:/|\.py|\.md|\.csv))`')


def rows(text, heading):
    """The rows of the first table below a heading, without the header."""
    section = text.split(f'\n## {heading}\n')[1].split('\n## ')[0]
    table = section.split('\n\n|')[1].split('\n\n')[0]
    _, _, *lines = table.splitlines()
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]


def is_placeholder(path):
    """Return whether a path stands for a file that a contributor will write."""
    return bool(re.search(r'mine\.py|NAME|PAPER|PACKAGE|NN_', path))


def exists(path):
    return (ROOT / path).exists() or (PACKAGE / path).exists()


@pytest.mark.parametrize('text', [CONTRIBUTING, DEVELOPMENT], ids=['short', 'long'])
def test_paths_that_the_pages_name_exist(text):
    paths = {path for path in PATH.findall(text) if not is_placeholder(path)}
    missing = {path for path in paths if not exists(path)}
    assert missing <= {'docs/generated/', 'files.csv', 'layouts/', 'traces/'}
    assert len(paths) > 5


def test_registries_that_the_table_names_exist():
    code = ''.join(path.read_text() for path in PACKAGE.rglob('*.py'))
    names = set()
    for *_, registry in rows(CONTRIBUTING, 'Where a new thing goes'):
        names |= set(re.findall(r'`([A-Z_]+)`', registry))
    assert len(names) >= 7
    for name in names:
        assert re.search(rf'^{name}\b', code, flags=re.MULTILINE), name


def test_the_table_of_layers_has_every_folder():
    listed = set()
    for names, *_ in rows(DEVELOPMENT, 'Layers'):
        listed |= {name.rstrip('/') for name in re.findall(r'`([\w/]+)`', names)}
    folders = {path.parent.name for path in PACKAGE.glob('*/__init__.py')}
    assert folders <= listed
    assert listed <= folders | set(MAY_SEE) | {'base'}


def layers_in(cell, above):
    """Return the layers that a cell of the table of layers names."""
    named = set()
    for name in re.findall(r'`([\w./]+)`', cell):
        named |= layers_of(name)
    if cell.startswith('all above'):
        return above - named
    if cell == 'the engine':
        return MAY_SEE['testing']
    return named


def test_the_table_of_layers_is_what_a_module_may_import():
    above = set()
    for names, _, may_import in rows(DEVELOPMENT, 'Layers'):
        row = layers_in(names, above)
        imported = set.union(*(MAY_SEE[layer] for layer in row)) - row
        assert layers_in(may_import, above) - row == imported, names
        above |= row


def test_contributing_is_short():
    assert len(CONTRIBUTING.split()) < 1000


def test_names_of_tests_are_short_sentences():
    too_long = []
    for path in (ROOT / 'tests').rglob('test_*.py'):
        names = re.findall(r'^def (test_\w+)', path.read_text(), flags=re.MULTILINE)
        too_long += [name for name in names if len(name) > 60]
    assert not too_long
