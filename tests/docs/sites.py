"""Builds the site in docs/_build/html, and reads its pages, links and names."""

import functools
import html.parser
import importlib.util
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests import ROOT
from tests.docs.pages import DOCS

BUILT = DOCS / '_build' / 'html'


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        """Reads the page."""
        super().__init__()
        self.path = path
        self.links = []
        self.anchors = set()
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attributes):
        """Collects links and anchors."""
        values = dict(attributes)
        self.anchors |= {values[name] for name in ('id', 'name') if values.get(name)}
        if tag in ('a', 'link', 'img', 'script'):
            self.links += [values[name] for name in ('href', 'src') if values.get(name)]


def newest_source():
    """Returns the time of the last change of a source of the site."""
    folders = [
        DOCS,
        ROOT / 'fedjax_links',
        ROOT / 'studies',
        ROOT / 'examples',
        ROOT / 'configs',
    ]
    files = [*ROOT.glob('*.md')]
    for folder in folders:
        files += [path for path in folder.rglob('*') if path.is_file()]
    built = {'_build', 'generated', '__pycache__'}
    return max(path.stat().st_mtime for path in files if built.isdisjoint(path.parts))


def build():
    """Returns the folder of the site, built with warnings as errors if a source is newer."""
    index = BUILT / 'objects.inv'
    if index.exists() and index.stat().st_mtime > newest_source():
        return BUILT
    if importlib.util.find_spec('furo') is None:
        pytest.skip("the site is not built, and needs `pip install -e '.[docs]'`")
    options = ['-m', 'sphinx', '-W', '--keep-going', '-q', '-b', 'html']
    command = [sys.executable, *options, str(DOCS), str(BUILT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return BUILT


def pages(folder):
    """Returns all pages, by path from the folder."""
    return {
        path.relative_to(folder).as_posix(): Page(path)
        for path in sorted(folder.rglob('*.html'))
    }


def objects(folder):
    """Returns the names on the site as ``role:name``, from the inventory of Sphinx."""
    content = (folder / 'objects.inv').read_bytes()
    head = re.match(rb'(?:#.*\n){4}', content)
    lines = zlib.decompress(content[head.end() :]).decode().splitlines()
    return {
        f'{kind}:{name}'
        for name, kind in (line.split()[:2] for line in lines if ' ' in line)
    }


@functools.cache
def inside(link, page):
    """Returns a link's file and anchor; None if it leaves the site."""
    if re.match(r'[a-z]+:', link) or link.startswith('//'):
        return None
    path, _, anchor = link.partition('#')
    path = path.partition('?')[0]
    target = Path(page).parent / path if path else Path(page)
    parts = []
    for part in target.parts:
        if part == '..':
            parts.pop()
        elif part != '.':
            parts.append(part)
    return '/'.join(parts), anchor
