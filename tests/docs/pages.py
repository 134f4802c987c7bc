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


class Block(NamedTuple):
    """Python of a page, and the output shown below it; None where none is."""

    source: str
    shown: str | None


def blocks(page):
    """The Python of a page, in order."""
    result = re.findall(
        r'```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?',
        page.read_text(),
        flags=re.DOTALL,
    )
    return [Block(source, shown or None) for source, shown in result]


def commands(page):
    """The lines of a page that run the package."""
    shown = ''.join(re.findall(r'```bash\n(.*?)```', page.read_text(), flags=re.DOTALL))
    return [
        line for line in shown.splitlines() if line.startswith('python -m fedjax_links')
    ]


def name(page):
    return str(page.relative_to(DOCS))


def printed(source, namespace):
    """What a block prints; names go on to the next block."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        exec(compile(source, 'page', 'exec'), namespace)
    return screen.getvalue()
