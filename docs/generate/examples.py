"""Write pages of the notebooks and scripts in ``examples/``, with their saved outputs."""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

_BUILDER = 'build'
_LINKS = (  # as they are in the repository, and as they are among the pages
    (re.compile(r'\]\((\w+)\.(?:ipynb|py)\)'), r'](\1.md)'),
    (re.compile(r'\]\(\.\./docs/'), r'](../../'),
    (re.compile(r'\]\(\.\./configs/(\w+)\.py\)'), r'](../config/shipped/\1.rst)'),
)


def write(source: Path, folder: Path) -> None:
    """Write a page for each notebook and script, and an index.

    Args:
      source: the folder of examples; it need not exist.
      folder: where pages go.
    """
    folder.mkdir(parents=True)
    for path in sorted(source.glob('*.ipynb')):
        (folder / f'{path.stem}.md').write_text(
            _notebook(path, folder), encoding='utf-8'
        )
    for path in sorted(source.glob('*.py')):
        if path.with_suffix('.ipynb').exists() or path.stem == _BUILDER:
            continue
        page = f'# {path.name}\n\n```python\n{path.read_text(encoding="utf-8")}```\n'
        (folder / f'{path.stem}.md').write_text(page, encoding='utf-8')
    names = sorted(page.stem for page in folder.glob('*.md'))
    listed = (
        '\n'.join(['```{toctree}', *names, '```'])
        if names
        else 'There are none so far.'
    )
    readme = source / 'README.md'
    text = (
        _linked(readme.read_text(encoding='utf-8'))
        if readme.exists()
        else '# Examples\n\nOutputs are those of the last time that the example was saved.\n'
    )
    if names and readme.exists():
        listed = listed.replace('}\n', '}\n:hidden:\n\n', 1)
    (folder / 'index.md').write_text(f'{text}\n{listed}\n', encoding='utf-8')


def _linked(text: str) -> str:
    for pattern, instead in _LINKS:
        text = pattern.sub(instead, text)
    return text


def _notebook(path: Path, folder: Path) -> str:
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    parts = []
    for number, cell in enumerate(cells):
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'markdown':
            parts.append(_linked(source))
        elif cell['cell_type'] == 'code' and source.strip():
            parts.append(f'```python\n{source}\n```')
            for index, output in enumerate(cell.get('outputs', [])):
                parts.append(
                    _output(output, folder, f'{path.stem}_{number}_{index}.png')
                )
    if not parts or not parts[0].startswith('# '):
        parts.insert(0, f'# {path.stem}')
    if path.with_suffix('.py').exists():
        relative_path = os.path.relpath(path, folder)
        notebook, script = (
            f'{{download}}`{kind} <{Path(relative_path).with_suffix(suffix).as_posix()}>`'
            for kind, suffix in (('notebook', '.ipynb'), ('script', '.py'))
        )
        parts.append(f'Download: {notebook}, or {script}.')
    return '\n\n'.join(filter(None, parts)) + '\n'


def _output(output: dict[str, Any], folder: Path, name: str) -> str:
    data = output.get('data', {})
    if 'image/png' in data:
        (folder / name).write_bytes(base64.b64decode(''.join(data['image/png'])))
        return f'![output]({name})'
    printed = ''.join(data.get('text/plain', output.get('text', []))).rstrip()
    return f'```text\n{printed}\n```' if printed else ''
