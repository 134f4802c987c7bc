"""The built site: every name has a page, every page is linked, and no link is dead."""

import importlib
import inspect
import re
import sys
import typing
import urllib.parse

import pytest

import fedjax_links
from tests.docs import sites
from tests.docs.pages import DOCS

sys.path.append(str(DOCS))
from generate import api, registries

pytestmark = pytest.mark.slow
WITHOUT_CONTENTS = re.compile(r'genindex.*|search|py-modindex|_modules/.*')
"""Pages that Sphinx adds."""


@pytest.fixture(scope='module')
def folder():
    return sites.build()


@pytest.fixture(scope='module')
def pages(folder):
    return sites.pages(folder)


@pytest.fixture(scope='module')
def objects(folder):
    return sites.objects(folder)


def offered(module):
    """Returns ``__all__``, or the names that a module defines without an underscore."""
    names = getattr(module, '__all__', None) or [
        name
        for name, value in vars(module).items()
        if name[0] != '_' and getattr(value, '__module__', None) == module.__name__
    ]
    return [
        name for name in names if not isinstance(getattr(module, name), typing.TypeVar)
    ]


def full_names(module, name):
    """Returns the names that the site may have for it; a module below may offer it, too."""
    value = getattr(module, name)
    position = getattr(value, '__module__', None), getattr(value, '__qualname__', None)
    names = {f'{module.__name__}.{name}', '.'.join(position) if all(position) else ''}
    for other in map(api._module, api.public_modules()):
        is_below = other.__name__.startswith(f'{module.__name__}.')
        if is_below and name in getattr(other, '__all__', ()):
            names.add(f'{other.__name__}.{name}')
    return names


@pytest.mark.parametrize('name', api.public_modules())
def test_every_public_name_is_on_the_site(name, objects):
    module = importlib.import_module(api._module(name).__name__)
    known = {
        entry.partition(':')[2].split(':')[-1]
        for entry in objects
        if entry[:3] == 'py:'
    }
    for offer in offered(module):
        if not inspect.ismodule(getattr(module, offer)):
            assert full_names(module, offer) & known, offer


@pytest.mark.parametrize('title', registries.tables())
def test_every_name_of_a_config_has_a_page_or_an_anchor(title, pages):
    where = registries.ELSEWHERE.get(title)
    for name in registries.tables()[title]:
        if where is None:
            page = pages[f'generated/config/names/{registries.slug(title)}.html']
            assert registries.anchor(title, name) in page.anchors
        else:
            assert f'generated/{title}/{name}.html' in pages


def test_no_link_inside_is_dead(folder, pages):
    for name, page in pages.items():
        for link in page.links:
            target = sites.inside(link, name)
            if target is None:
                continue
            path, anchor = (urllib.parse.unquote(part) for part in target)
            assert (folder / path).exists(), f'{name}: {link}'
            # Sources name a definition, where a page may have the name under which it is offered.
            if anchor and path in pages and not name.startswith('_modules/'):
                assert anchor in pages[path].anchors, f'{name}: {link}'


def side_bar(folder):
    """Returns the tree of contents beside the start page."""
    text = (folder / 'index.html').read_text(encoding='utf-8')
    return re.search(r'<div class="sidebar-tree">(.*?)</div>', text, flags=re.DOTALL)[1]


def test_the_side_bar_leads_to_every_page(folder, pages):
    listed = set(re.findall(r'href="([^"#]+)', side_bar(folder)))
    expected = {
        name for name in pages if not WITHOUT_CONTENTS.fullmatch(name[: -len('.html')])
    }
    assert expected - listed == {'index.html'}


def test_the_side_bar_has_at_most_twelve_entries(folder):
    assert 8 <= side_bar(folder).count('toctree-l1') <= 12


def test_the_foot_of_a_page_has_the_version(folder):
    text = (folder / 'start.html').read_text(encoding='utf-8')
    assert f'<div class="versions">fedjax_links {fedjax_links.__version__}, ' in text


def test_no_word_of_a_docstring_was_taken_for_a_list(folder, pages):
    """As ``num_clients: N.`` would be, a list that begins with the letter N."""
    for name in pages:
        if not name.startswith('_modules/'):
            text = (folder / name).read_text(encoding='utf-8')
            assert not re.search(r'<ol class="(lower|upper)(alpha|roman)', text), name
