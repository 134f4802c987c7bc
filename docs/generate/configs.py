"""Write a page for each shipped config: what it runs, how long it takes, and its fields."""

import ast
import re
from pathlib import Path

import fedjax_links.__main__ as front
from fedjax_links.config import shipped
from generate import text

_INTRODUCTION = """\
Run any of these by name, in any folder: ``--config=quickstart``. Words of a config go behind a
colon, as in ``--config=map:space``. The text of each names its command, the duration and machine,
what a paper reports, and each deviation from it.
"""


def write(folder: Path) -> None:
    """Write an index, and a page for each shipped config."""
    files = shipped.configs()
    parts = [text.heading('Shipped configs'), _INTRODUCTION]
    for command, names in front.configs().items():
        rows = [(f':doc:`{name}`', line) for name, line in sorted(names.items())]
        parts += [
            text.heading(command, '-'),
            text.table(('config', 'what it runs'), rows),
        ]
    for name, path in files.items():
        text.write(
            folder / f'{name}.rst', text.heading(name), *page(path.read_text('utf-8'))
        )
    text.write(folder / 'index.rst', *parts, text.hidden_contents(sorted(files)))


def page(source: str) -> list[str]:
    """Split a config into the paragraphs of its text and the rest of its file."""
    module = ast.parse(source)
    docstring = ast.get_docstring(module) or ''
    parts = []
    for paragraph in re.split(r'\n\n', docstring):
        is_code = paragraph.startswith('  ') or paragraph.startswith('python -m')
        parts.append(
            text.code(_dedented(paragraph), 'bash') if is_code else _prose(paragraph)
        )
    body = source.split('"""', 2)[2].strip()
    return [*parts, text.heading('The file', '-'), text.code(body)]


def _dedented(paragraph: str) -> str:
    return '\n'.join(line.strip() for line in paragraph.splitlines())


def _prose(paragraph: str) -> str:
    """Escape markup in a comment, except between backticks, and link the pages that it names."""
    prose = ''
    for part in re.split(
        r'(`+[^`]+`+|\b(?:docs|studies)/[\w/]+\.md|--\w+(?:=[\w/]+)?)', paragraph
    ):
        if part.startswith(('`', '--')):
            prose += f'``{part.strip("`")}``'
        elif part.endswith('.md') and '/' in part:
            page = part.removesuffix('.md').replace('studies/', 'generated/studies/')
            prose += f':doc:`/{page.removeprefix("docs/")}`'
        else:
            prose += re.sub(r'([*|_\\])', r'\\\1', part)
    return f'{prose}\n'
