"""Write a page for each command: what it does, and its flags."""

import importlib
import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import flags

import fedjax_links.__main__ as front
from fedjax_links.cli import app, configs
from generate import options, text
from generate.options import Option


def write(folder: Path) -> None:
    """Write a page for each command."""
    for name in front.commands():
        module = importlib.import_module(f'fedjax_links.cli.{name}')
        text.write(
            folder / f'{name}.rst',
            text.heading(name),
            in_paragraphs(inspect.getdoc(module) or ''),
            text.heading('Flags', '-'),
            options.table(defined(module), 'flag')
            or 'None. The arguments are folders.\n',
            _OVERRIDES if takes_config(module.main) else '',
        )


_OVERRIDES = """\
``--config.FIELD=VALUE`` sets a :doc:`field of the config <../config/fields>`.
"""


def takes_config(main: Callable[..., Any]) -> bool:
    """Return whether the first argument of a command is a config."""
    return 'values' in inspect.signature(main).parameters


def defined(module: types.ModuleType) -> list[Option]:
    """List the flags of a command, with two hyphens each.

    Args:
      module: of the command.
    """
    before = set(flags.FLAGS)
    if takes_config(module.main):
        configs.define_flags()
    if 'args' in inspect.signature(module.main).parameters:
        getattr(module, 'define_flags', app.define_workdir)()
    new_flags = [flags.FLAGS[name] for name in flags.FLAGS if name not in before]
    for flag in new_flags:
        delattr(flags.FLAGS, flag.name)
    return [_option(flag) for flag in new_flags]


_KINDS = {
    'bool': 'True or False',
    'float': 'a number',
    'int': 'a whole number',
    'string': 'text',
}


def _option(flag: Any) -> Option:
    """Make an option of a flag; None means that the flag is absent."""
    return Option(
        f'--{flag.name}',
        _KINDS.get(flag.flag_type(), 'a list of names'),
        '' if flag.default is None else f'``{flag.default!r}``',
        _as_literals(flag.help),
    )


def in_paragraphs(docstring: str) -> str:
    """Turn the command lines of a docstring into code."""
    parts = []
    for paragraph in re.split(r'\n\n', docstring):
        if paragraph.startswith('python -m'):
            parts.append(text.code(paragraph, 'bash'))
        else:
            parts.append(f'{_as_literals(paragraph)}\n')
    return '\n'.join(parts)


def _as_literals(help_text: str) -> str:
    """Mark the flags in a text as code, so that two hyphens stay two."""
    help_text = re.sub(r'`(?!`)([^`]+)`(?!`)', r'``\1``', help_text)
    return re.sub(
        r'(?<![`\w-])(--\w+(?:\.\w+)*(?:=[\w/]+)?)(?!`)', r'``\1``', help_text
    )
