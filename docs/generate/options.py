"""Options of what a config names: name, kind, default and meaning, from signature and docstring."""

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from flax import linen

from fedjax_links.core import checks
from generate import text

REQUIRED = 'required'
_SECTIONS = 'Args', 'Attributes', 'Fields'
_OF_FLAX = 'parent', 'name'


class Option(NamedTuple):
    """An option.

    Attributes:
      name: as it stands in a config.
      kind: what its value is.
      default: as Python writes it; `REQUIRED` where there is none.
      meaning: reStructuredText.
    """

    name: str
    kind: str
    default: str
    meaning: str


def of(factory: Callable[..., Any], given: Collection[str] = ()) -> list[Option]:
    """The options of a factory.

    Args:
      factory: a function, a class, or either with some of its arguments bound.
      given: parameters that it is given besides the options of a section.
    """
    bound: dict[str, Any] = {}
    while isinstance(factory, functools.partial):
        bound = {**factory.keywords, **bound}
        factory = factory.func
    left_out = {*given, *(_OF_FLAX if _is_module(factory) else ())}
    is_ours = not factory.__module__.startswith('optax')
    meanings, known = (
        documented(factory) if is_ours else {},
        checks.annotations(factory),
    )
    options = []
    for name, parameter in inspect.signature(factory).parameters.items():
        if name in left_out or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        is_rest = parameter.kind is parameter.VAR_KEYWORD
        default = bound.get(name, parameter.default)
        options.append(
            Option(
                f'**{name}' if is_rest else name,
                '' if is_rest else words(known.get(name, Any)),
                '' if is_rest else in_python(default),
                meanings.get(name, ''),
            )
        )
    return options


def words(kind: Any) -> str:
    """What a value of a kind is called; nothing where that is not known."""
    found = checks.words(kind).replace('a list of values', 'a list')
    return (
        ''
        if found in ('of another kind', 'a Any')
        else found.replace(' or None', ', or None')
    )


def in_python(default: Any) -> str:
    """A default in the words of a table."""
    if default is inspect.Parameter.empty:
        return REQUIRED
    if callable(default):
        return f'``{getattr(default, "__name__", default)}``'
    return f'``{default!r}``'


def documented(thing: Any) -> dict[str, str]:
    """What the docstring of a thing says of its arguments, attributes or fields, by name."""
    found: dict[str, str] = {}
    section = r'^(?:{}):\n((?:(?:  .*)?\n)*)'.format('|'.join(_SECTIONS))
    for body in re.findall(section, f'{inspect.getdoc(thing) or ""}\n', flags=re.M):
        for names, said in re.findall(
            r'^  (\*{0,2}\w+(?:, \w+)*)(?: \([^)]*\))?: (.+(?:\n    .+)*)',
            body,
            flags=re.M,
        ):
            for name in names.split(', '):
                found[name.lstrip('*')] = in_a_cell(said)
    return found


def in_a_cell(said: str) -> str:
    """A sentence on one line that begins no list."""
    line = ' '.join(said.split())
    if re.match(r'([a-z]{2,}|a)[ ,;.]', line):
        line = f'{line[0].upper()}{line[1:]}'
    return re.sub(r'^([A-Za-z]\.(\s|$))', r'\\\1', line)


def before_arguments(thing: Any) -> str:
    """A docstring up to its first section."""
    said = inspect.getdoc(thing) or ''
    first = r'^(?:Args|Attributes|Fields|Returns|Raises|Example):'
    return re.split(first, said, flags=re.M)[0].strip() + '\n'


def table(options: list[Option], title: str = 'option') -> str:
    """Options as a table that a phone stacks; nothing for none."""
    if not options:
        return ''
    rows = [(f'``{o.name}``', o.meaning, o.kind, o.default) for o in options]
    return text.table((title, 'meaning', 'is', 'default'), rows, kind='options')


def _is_module(factory: Any) -> bool:
    return isinstance(factory, type) and issubclass(factory, linen.Module)
