"""Pages from the notebooks and scripts in ``examples/``, as they were saved; there may be none."""

import base64
import json
from pathlib import Path
from typing import Any


def write(source: Path, folder: Path) -> None:
    """Writes a page for every notebook and script, and an index of them.

    Args:
      source: the folder of examples; it need not exist.
      folder: where pages go.
    """
    folder.mkdir(parents=True)
    for path in sorted(source.glob('*.ipynb')):
        (folder / f'{path.stem}.md').write_text(_notebook(path, folder), encoding='utf-8')
    for path in sorted(source.glob('*.py')):
        page = f'# {path.name}\n\n```python\n{path.read_text(encoding="utf-8")}```\n'
        (folder / f'{path.stem}.md').write_text(page, encoding='utf-8')
    names = sorted(page.stem for page in folder.glob('*.md'))
    listed = '\n'.join(['```{toctree}', *names, '```']) if names else 'There are none so far.'
    (folder / 'index.md').write_text(
        f'# Examples\n\nWhat is shown was printed when the example was saved.\n\n{listed}\n',
        encoding='utf-8',
    )


def _notebook(path: Path, folder: Path) -> str:
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    parts = []
    for number, cell in enumerate(cells):
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'markdown':
            parts.append(source)
        elif cell['cell_type'] == 'code' and source.strip():
            parts.append(f'```python\n{source}\n```')
            for place, output in enumerate(cell.get('outputs', [])):
                parts.append(_output(output, folder, f'{path.stem}_{number}_{place}.png'))
    if not parts or not parts[0].startswith('# '):
        parts.insert(0, f'# {path.stem}')
    return '\n\n'.join(filter(None, parts)) + '\n'


def _output(output: dict[str, Any], folder: Path, name: str) -> str:
    data = output.get('data', {})
    if 'image/png' in data:
        (folder / name).write_bytes(base64.b64decode(''.join(data['image/png'])))
        return f'![output]({name})'
    printed = ''.join(data.get('text/plain', output.get('text', []))).rstrip()
    return f'```text\n{printed}\n```' if printed else ''
