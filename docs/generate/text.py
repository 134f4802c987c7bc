"""Write small pieces of reStructuredText."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.core.references import Reference
from generate import formulas


def heading(title: str, line: str = '=') -> str:
    """Underline a title."""
    return f'{title}\n{line * len(title)}\n'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = '') -> str:
    """Write a list table, with a class for the style sheet."""
    lines = ['.. list-table::', *([f'   :class: {kind}'] if kind else [])]
    lines += ['   :header-rows: 1', '']
    for row in [header, *rows]:
        lines += [
            f'   {"*" if i == 0 else " "} - {cell}'.rstrip()
            for i, cell in enumerate(row)
        ]
    return '\n'.join(lines) + '\n'


def hidden_contents(names: Iterable[str]) -> str:
    """Return a table of contents that only the side bar shows."""
    return '\n'.join(
        ['.. toctree::', '   :hidden:', '', *(f'   {name}' for name in names), '']
    )


def code(source: str, language: str = 'python') -> str:
    """Write a block of code."""
    return f'.. code-block:: {language}\n\n{textwrap.indent(source.strip(), "   ")}\n'


def first_line(function: Callable[..., Any]) -> str:
    """Return the first line of a docstring, without its full stop, its formulas set."""
    line = (inspect.getdoc(function) or '').partition('\n')[0]
    return formulas.set_as_math(line.removesuffix('.'))


def inner_functions(function: Callable[..., Any], name: str) -> str:
    """Return the source of the functions of this name in the module of a factory.

    Args:
      function: the factory.
      name: such as ``'round_step'``.

    Returns:
      Those inside the factory, or all of its module where it has none of its own.
    """
    module = inspect.getmodule(function)
    assert module is not None
    source = inspect.getsource(module)
    tree = ast.parse(source)
    factory = [
        node for node in tree.body if getattr(node, 'name', '') == function.__name__
    ]
    functions = _named(factory, name) or _named([tree], name)
    return '\n\n'.join(_source(source, node) for node in functions)


def _named(nodes: Iterable[ast.AST], name: str) -> list[ast.FunctionDef]:
    walked = (inner for node in nodes for inner in ast.walk(node))
    return [
        node
        for node in walked
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]


def _source(source: str, node: ast.FunctionDef) -> str:
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    return textwrap.dedent('\n'.join(lines))


def sources(references: Sequence[Reference], example: str) -> str:
    """Write references in prose and as BibTeX."""
    if not references:
        return ''
    named = '\n'.join(f'* {in_prose(reference)}' for reference in references)
    bibtex = '\n\n'.join(reference.bibtex for reference in references)
    return '\n'.join(
        [
            heading('What to cite', '-'),
            named,
            '',
            f'``{example}`` gives',
            '',
            code(bibtex, 'bibtex'),
        ]
    )


def in_prose(reference: Reference) -> str:
    """Write authors, title, venue and year on one line."""
    authors = ', '.join(reference.authors)
    venue = reference.field('journal') or reference.field('booktitle')
    venue_text = f' *{venue}*,' if venue else ''
    eprint = reference.field('eprint')
    where = f', arXiv:{eprint}' if eprint else ''
    return f'{authors}. {reference.field("title")}.{venue_text} {reference.field("year")}{where}.'


def write(path: Path, *parts: str) -> None:
    """Write a page."""
    path.write_text('\n'.join(parts), encoding='utf-8')
