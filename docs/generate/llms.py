"""Write ``llms.txt``, an index of the site for language models."""

import re
import textwrap
from pathlib import Path
from typing import Any

_HEAD = """\
# fedjax_links

> Simulates federated learning in JAX when clients come and go: unreliable uplinks, availability,
> recorded traces.

The source of each page below is under _sources/, with .txt behind its name.
"""
_SECTIONS = {
    '': 'Guide',
    'howto': 'How to',
    'generated/algorithms': 'Algorithms',
    'generated/patterns': 'Participation patterns',
    'generated/commands': 'Commands',
    'generated/config': 'Config fields and names',
    'generated/config/shipped': 'Shipped configs',
    'generated/api': 'API',
    'generated/examples': 'Examples',
    'generated/studies': 'Studies',
    'generated/studies/records': 'Records',
}


def write(env: Any, path: Path) -> None:
    """Write the index.

    Args:
      env: Sphinx's environment after the build.
      path: the file to write.
    """
    lines = [_HEAD]
    for prefix, title in _SECTIONS.items():
        names = sorted(name for name in env.found_docs if _section(name) == prefix)
        if names:
            lines += [f'\n## {title}\n', *(_line(env, name) for name in names)]
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def _section(name: str) -> str:
    return max((p for p in _SECTIONS if name.startswith(f'{p}/')), key=len, default='')


def _line(env: Any, name: str) -> str:
    sentence = first_sentence(env.get_doctree(name))
    about = textwrap.shorten(sentence, 180, placeholder=' ...')
    return f'- [{env.titles[name].astext()}]({name}.html): {about}'


def first_sentence(page: Any) -> str:
    """Return the first sentence in a page's prose; empty without prose.

    Tables, pictures and lines in italics, such as the date of a study, are skipped.

    Args:
      page: a document of docutils.
    """
    from docutils import nodes

    for paragraph in page.findall(nodes.paragraph):
        is_cell = isinstance(paragraph.parent, nodes.entry)
        is_prose = any(
            not isinstance(child, nodes.image | nodes.emphasis)
            for child in paragraph.children
        )
        if is_prose and not is_cell:
            words = ' '.join(paragraph.astext().split())
            return re.split(r'(?<!et al)\. ', words)[0]
    return ''
