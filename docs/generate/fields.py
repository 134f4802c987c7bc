"""Write the page of config fields: type, default, meaning, and an example that a test builds."""

import pprint
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links import local_training
from fedjax_links.config import schema
from fedjax_links.core import fields
from fedjax_links.core.fields import Declaration
from fedjax_links.pages.figure import FigureConfig
from fedjax_links.planning import seeding
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.planning.tuning import Tuning
from generate import options, text
from generate.options import Option

_BASE = (
    'title',
    'problem',
    'links',
    'client',
    'algorithms',
    'num_rounds',
    'eval_every',
)
BASE: dict[str, Any] = {name: schema.EXPERIMENT[name].example for name in _BASE}
"""A config; examples are fields that are added to it."""

EXAMPLES: dict[str, Any] = {
    name: declaration.example for name, declaration in schema.EXPERIMENT.items()
}

PROGRAM: dict[str, Any] = {
    'learning_rate': 0.05,
    'local_steps': 10,
    'local_epochs': 1,
    'batch_size': 0,
    'chunk_size': 4,
    'client_steps': [1, 2, 3, 4, 5, 5, 5, 5, 5, 5],
    'min_steps': 1,
    'resample': 'round',
}
"""Examples of options of the Python function `local_sgd`."""

_INTRODUCTION = """\
Look up a field of a config. The file that ``--config`` names has a function ``get_config`` that
returns these fields as numbers, texts, lists and sections (:doc:`write a config
</howto/config>`). A section is a ``name`` and the options of the Python call that it names
(:doc:`all names <names/index>`). A flag sets any field, whether the file has it or not:
``--config.num_rounds=100`` or ``--config.client.learning_rate=0.05``. The tests build each
example.
"""
_NESTED = {
    'client': 'The client program. ``client`` in the section of an algorithm overrides it.',
    'tuning': 'Rates or a ``grid`` to try: :doc:`/howto/tuning`.',
    'seeds': 'Seeds until decided, in place of ``num_seeds``: :doc:`/howto/tuning`.',
}
_REDRAW = """\
``'by_seed'`` or ``'fixed'`` for each stream of draws, or one of the two for all. ``data``,
``partition`` and ``links_quality`` are by seed unless a section or the grid has a seed for them.
The others are by seed. With a ``grid`` over ``redraw``, one stream at a time follows the seed.
The layout ``spread`` then shows how much each stream changes the results. Streams: {streams}.
"""
_QUICK = """\
``quick`` is a section of fields that replace those of the config with ``--quick``. Without the flag
it has no effect.
"""
_FIGURE = """\
The config of a figure (``python -m fedjax_links figure``) has other fields.
"""


class Row(NamedTuple):
    """Hold a row of the page.

    Attributes:
      option: the field or option.
      example: a value as a config writes it.
    """

    option: Option
    example: Any


def rows(declarations: Mapping[str, Declaration]) -> list[Row]:
    """Make the rows of declared fields, those that are required first."""
    declared = [
        Row(_as_option(field), field.example) for field in declarations.values()
    ]
    return sorted(declared, key=lambda row: row.option.default != options.REQUIRED)


def top() -> list[Option]:
    """List all fields of a config, as `schema.EXPERIMENT` declares them."""
    return [row.option for row in rows(schema.EXPERIMENT)]


def nested() -> dict[str, tuple[list[Option], dict[str, Any]]]:
    """List options and examples of the sections whose options are no named thing's."""
    program = [
        Row(option, PROGRAM[option.name])
        for option in options.of(local_training.local_sgd)
        if option.name not in schema.CLIENT
    ]
    sections = {
        'client': [*rows(schema.CLIENT), *program],
        'tuning': rows(schema.TUNING | fields.declared(Tuning)),
        'seeds': rows(schema.SEEDS | fields.declared(UntilDecided)),
    }
    return {
        name: (
            [row.option for row in section],
            {row.option.name: row.example for row in section},
        )
        for name, section in sections.items()
    }


def _as_option(field: Declaration) -> Option:
    """Turn a declaration into a row of a table."""
    default = options.in_python(field.default)
    if field.default is fields.REQUIRED:
        default = options.REQUIRED
    elif field.default in (None, '', {}):
        default = ''
    kind = options.words(field.kind)
    return Option(field.name, kind, default, field.meaning)


def write(folder: Path) -> None:
    """Write the page."""
    parts = [
        text.heading('Config fields'),
        _INTRODUCTION,
        _table(top(), EXAMPLES),
        text.heading('A whole config', '-'),
        text.code(in_python(BASE)),
    ]
    for field, (section, examples) in nested().items():
        parts += [
            text.heading(field, '-'),
            f'{_NESTED[field]}\n',
            _table(section, examples),
        ]
    streams = ', '.join(f'``{stream}``' for stream in seeding.STREAMS)
    figure = rows(fields.declared(FigureConfig))
    parts += [
        text.heading('redraw', '-'),
        _REDRAW.format(streams=streams),
        text.heading('quick', '-'),
        _QUICK,
        text.heading('Figures', '-'),
        _FIGURE,
        _table(
            [row.option for row in figure],
            {row.option.name: row.example for row in figure},
        ),
    ]
    text.write(folder / 'fields.rst', *parts)


def in_python(value: Any) -> str:
    """Write a value as it stands in a config."""
    return pprint.pformat(value, width=88, sort_dicts=False)


def _table(listed: list[Option], examples: Mapping[str, Any]) -> str:
    """Write options with their examples as a table."""
    cells = [
        (f'``{o.name}``', o.meaning, o.kind, o.default, f'``{examples[o.name]!r}``')
        for o in listed
    ]
    return text.table(
        ('field', 'meaning', 'is', 'default', 'example'), cells, kind='options'
    )
