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
    from docutils import nodes

    paragraphs = env.get_doctree(name).findall(nodes.paragraph)
    texts = (p.astext() for p in paragraphs if not isinstance(p[0], nodes.image))
    sentence = re.split(r'(?<!et al)[.:] ', ' '.join(next(texts, '').split()))[0]
    about = textwrap.shorten(sentence, 180, placeholder=' ...')
    return f'- [{env.titles[name].astext()}]({name}.html): {about}'
