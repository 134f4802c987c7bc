"""A built site: the one that stands in docs/_build/html, or one that is built once."""

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
    """Where a page leads, and where it can be entered."""

    def __init__(self, path):
        """Reads it."""
        super().__init__()
        self.path = path
        self.links = []
        self.anchors = set()
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attributes):
        """Keeps links and anchors."""
        values = dict(attributes)
        self.anchors |= {values[name] for name in ('id', 'name') if values.get(name)}
        if tag in ('a', 'link', 'img', 'script'):
            self.links += [values[name] for name in ('href', 'src') if values.get(name)]


def newest_source():
    """When what a site is made of last changed."""
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
    built = ('_build', 'generated', '__pycache__')
    return max(path.stat().st_mtime for path in files if not {*path.parts} & {*built})


def build():
    """The folder of the site, with warnings as errors, built anew where a source is newer."""
    index = BUILT / 'objects.inv'
    if index.exists() and index.stat().st_mtime > newest_source():
        return BUILT
    if importlib.util.find_spec('furo') is None:
        pytest.skip("the site is not built, and needs `pip install -e '.[docs]'`")
    words = [
        '-m',
        'sphinx',
        '-W',
        '--keep-going',
        '-q',
        '-b',
        'html',
        str(DOCS),
        str(BUILT),
    ]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return BUILT


def pages(folder):
    """All pages, by path from the folder."""
    return {
        path.relative_to(folder).as_posix(): Page(path)
        for path in sorted(folder.rglob('*.html'))
    }


def objects(folder):
    """Names that have a place on the site: ``role:name``, from what Sphinx leaves for others."""
    content = (folder / 'objects.inv').read_bytes()
    head = re.match(rb'(?:#.*\n){4}', content)
    lines = zlib.decompress(content[head.end() :]).decode().splitlines()
    return {
        f'{kind}:{name}'
        for name, kind in (line.split()[:2] for line in lines if ' ' in line)
    }


@functools.cache
def inside(link, page):
    """A link's file and anchor; None for one that leads elsewhere."""
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
