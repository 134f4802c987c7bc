"""A page for every command: what it does, and its flags."""

import importlib
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedjax_links.__main__ as front
from fedjax_links.cli import configs
from generate import options, text
from generate.options import Option


def write(folder: Path) -> None:
    """Writes a page for every command."""
    for name in front.commands():
        module = importlib.import_module(f'fedjax_links.cli.{name}')
        text.write(
            folder / f'{name}.rst',
            text.heading(name),
            in_paragraphs(inspect.getdoc(module) or ''),
            text.heading('Flags', '-'),
            options.table(flags(module.main), 'flag') or 'None: its arguments are folders.\n',
            _OVERRIDES if takes_config(module.main) else '',
        )


_OVERRIDES = """\
``--config.FIELD=VALUE`` gives a :doc:`field of the config <../config/fields>` a value.
"""


def takes_config(main: Callable[..., Any]) -> bool:
    """Whether a command's first argument is a config."""
    return 'values' in inspect.signature(main).parameters


def flags(main: Callable[..., Any]) -> list[Option]:
    """The flags of a command, with two hyphens each.

    Args:
      main: of its module.
    """
    kinds = [configs.Flags] if takes_config(main) else []
    hints = typing.get_type_hints(main)
    kinds += [hint for hint in hints.values() if hasattr(hint, '_fields')]
    return [_flag(option) for kind in kinds for option in options.of(kind)]


def _flag(option: Option) -> Option:
    """An option as a flag, whose None is that it is not given."""
    return Option(
        f'--{option.name}',
        option.kind.removesuffix(', or None'),
        '' if option.default == '``None``' else option.default,
        _as_literals(option.meaning),
    )


def in_paragraphs(said: str) -> str:
    """A command's text, whose command lines become code."""
    parts = []
    for paragraph in re.split(r'\n\n', said):
        if paragraph.startswith('python -m'):
            parts.append(text.code(paragraph, 'bash'))
        else:
            parts.append(f'{_as_literals(paragraph)}\n')
    return '\n'.join(parts)


def _as_literals(said: str) -> str:
    """Flags in words as code, so that two hyphens stay two."""
    said = re.sub(r'`(?!`)([^`]+)`(?!`)', r'``\1``', said)
    return re.sub(r'(?<![`\w-])(--\w+(?:\.\w+)*(?:=[\w/]+)?)(?!`)', r'``\1``', said)
