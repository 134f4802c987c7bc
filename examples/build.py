"""Builds notebooks from scripts: ``python -m examples.build [names]``, from the repository.

A script ``NN_name.py`` in jupytext's percent format is the source; the notebook beside it is that
script, executed in a new kernel and stored with what it printed and drew.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
MOST_BYTES = 300_000
"""Largest size of a stored notebook."""


def scripts() -> list[Path]:
    """Returns the scripts that have notebooks, in order."""
    return sorted(FOLDER.glob('[0-9][0-9]_*.py'))


def notebook(script: Path) -> Any:
    """Returns the notebook of a script, without outputs; equal scripts give equal bytes."""
    import jupytext

    book = jupytext.read(script)
    for number, cell in enumerate(book.cells):
        cell.id = f'cell-{number}'
    kernel = {'display_name': 'Python 3', 'language': 'python', 'name': 'python3'}
    book.metadata = type(book.metadata)(
        kernelspec=kernel, language_info={'name': 'python'}
    )
    return book


def execute(book: Any) -> Any:
    """Runs a notebook in a new kernel, in the folder of the examples.

    Args:
      book: the notebook; its outputs are replaced.

    Returns:
      The same notebook, with what it printed and drew: what its script prints and draws, without
      the values of last lines.

    Raises:
      RuntimeError: for a cell that raises, with its traceback, or writes warnings.
    """
    import nbclient

    client = nbclient.NotebookClient(
        book,
        timeout=600,
        record_timing=False,
        coalesce_streams=True,
        resources={'metadata': {'path': str(FOLDER)}},
    )
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        raise RuntimeError(str(error)) from None
    for cell in book.cells:
        outputs = cell.get('outputs', [])
        outputs[:] = [
            output for output in outputs if output.output_type != 'execute_result'
        ]
        for output in outputs:
            if output.get('name') == 'stderr':
                raise RuntimeError(f'a cell wrote to stderr: {output["text"]}')
    return book


def store(book: Any, path: Path) -> int:
    """Writes a notebook.

    Args:
      book: the notebook.
      path: where.

    Returns:
      Its size in bytes.

    Raises:
      RuntimeError: if it is too large to keep in the repository.
    """
    import nbformat

    text = nbformat.writes(book, version=4, indent=1) + '\n'
    content = text.encode()
    if len(content) > MOST_BYTES:
        raise RuntimeError(
            f'{path.name} has {len(content)} bytes, more than {MOST_BYTES}.'
        )
    path.write_bytes(content)
    return len(content)


def main() -> int:
    """Builds the notebooks of all scripts, or of those named."""
    parser = argparse.ArgumentParser(
        prog='python -m examples.build', description=main.__doc__
    )
    parser.add_argument('names', nargs='*', help='such as 01_quick_look, or 01')
    names = parser.parse_args().names
    chosen = [s for s in scripts() if not names or s.stem.startswith(tuple(names))]
    if not chosen:
        parser.error(f'no script is named {" or ".join(names)}')
    for script in chosen:
        path = script.with_suffix('.ipynb')
        size = store(execute(notebook(script)), path)
        print(f'{path.name}: {size / 1000:.0f} kB', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
