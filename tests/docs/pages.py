"""Pages of the site as text: their code, what it prints, and the commands they show."""

import contextlib
import io
import re
from typing import NamedTuple

from tests import ROOT

DOCS = ROOT / 'docs'
STUDIES = ROOT / 'studies'
_BEGIN = 'index', 'start', 'concepts', 'theory', 'beside'
PAPER = DOCS / 'howto' / 'paper.md'
"""What it shows needs a run, which `tests/docs/test_paper.py` makes."""
PAGES = sorted(
    {*(DOCS / f'{name}.md' for name in _BEGIN), *DOCS.glob('howto/*.md')} - {PAPER}
)
WRITTEN = sorted(
    {
        *ROOT.glob('*.md'),
        *DOCS.glob('*.md'),
        *DOCS.glob('howto/*.md'),
        *STUDIES.glob('*.md'),
        *(ROOT / name / 'README.md' for name in ('configs', 'examples')),
    }
)
"""All pages that people write."""


class Block(NamedTuple):
    """Python of a page, and the output shown below it; None if none is shown."""

    source: str
    shown: str | None


def code(text, language):
    """Returns the blocks of code of a page in a language, in order."""
    return re.findall(rf'```{language}\n(.*?)```', text, flags=re.DOTALL)


def blocks(page):
    """Returns the Python of a page, in order, each with the output that is shown."""
    result = re.findall(
        r'```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?',
        page.read_text(),
        flags=re.DOTALL,
    )
    return [Block(source, shown or None) for source, shown in result]


def commands(page):
    """Returns the lines of a page that run the package."""
    lines = ''.join(code(page.read_text(), 'bash')).splitlines()
    return [line for line in lines if line.startswith('python -m fedjax_links')]


def name(page):
    """Returns the path of a page from the folder of the site."""
    return str(page.relative_to(DOCS))


def path(page):
    """Returns the path of a page from the root of the project, without its ending."""
    return str(page.relative_to(ROOT).with_suffix(''))


def printed(source, namespace):
    """Runs a block and returns what it prints; the namespace serves the next block, too."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        exec(compile(source, 'page', 'exec'), namespace)
    return screen.getvalue()
