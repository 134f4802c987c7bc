"""Read the options of a factory from its signature and docstring."""

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from flax import linen

from fedjax_links.core import factory_options, type_hints
from generate import formulas, text

REQUIRED = 'required'
_SECTIONS = 'Args', 'Attributes', 'Fields'
_OF_FLAX = 'parent', 'name'


class Option(NamedTuple):
    """Describe an option.

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


def of(factory: Callable[..., Any], supplied: Collection[str] = ()) -> list[Option]:
    """List the options of a factory.

    Args:
      factory: a function, a class, or either with some of its arguments bound.
      supplied: parameters that the package fills in; they are no options.
    """
    bound: dict[str, Any] = {}
    while isinstance(factory, functools.partial):
        bound = {**factory.keywords, **bound}
        factory = factory.func
    left_out = {*supplied, *(_OF_FLAX if _is_module(factory) else ())}
    is_ours = not factory.__module__.startswith('optax')
    meanings, known = (
        documented(factory) if is_ours else {},
        factory_options.annotations(factory),
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
    """Name the type of a value; empty if it is not known."""
    description = type_hints.describe_annotation(kind).replace(
        'a list of values', 'a list'
    )
    return (
        ''
        if description in ('of another kind', 'anything')
        else description.replace(' or None', ', or None')
    )


def in_python(default: Any) -> str:
    """Write a default as Python code."""
    if default is inspect.Parameter.empty:
        return REQUIRED
    if callable(default):
        return f'``{getattr(default, "__name__", default)}``'
    return f'``{default!r}``'


def documented(thing: Any) -> dict[str, str]:
    """Read the arguments, attributes or fields that a docstring describes, by name."""
    meanings: dict[str, str] = {}
    section = r'^(?:{}):\n((?:(?:  .*)?\n)*)'.format('|'.join(_SECTIONS))
    for body in re.findall(section, f'{inspect.getdoc(thing) or ""}\n', flags=re.M):
        for names, meaning in re.findall(
            r'^  (\*{0,2}\w+(?:, \w+)*)(?: \([^)]*\))?: (.+(?:\n    .+)*)',
            body,
            flags=re.M,
        ):
            for name in names.split(', '):
                meanings[name.lstrip('*')] = formulas.set_as_math(in_a_cell(meaning))
    return meanings


def in_a_cell(sentence: str) -> str:
    """Join a sentence to one line that does not begin a list."""
    line = ' '.join(sentence.split())
    if re.match(r'([a-z]{2,}|a)[ ,;.]', line):
        line = f'{line[0].upper()}{line[1:]}'
    return re.sub(r'^([A-Za-z]\.(\s|$))', r'\\\1', line)


def before_arguments(thing: Any) -> str:
    """Return a docstring up to its first section, with its formulas as mathematics."""
    docstring = inspect.getdoc(thing) or ''
    first = r'^(?:Args|Attributes|Fields|Returns|Raises|Example):'
    summary = re.split(first, docstring, flags=re.M)[0].strip()
    return formulas.set_as_math(summary) + '\n'


def table(options: list[Option], title: str = 'option') -> str:
    """Write options as a table that a phone stacks; empty without options."""
    if not options:
        return ''
    rows = [(f'``{o.name}``', o.meaning, o.kind, o.default) for o in options]
    return text.table((title, 'meaning', 'is', 'default'), rows, kind='options')


def _is_module(factory: Any) -> bool:
    return isinstance(factory, type) and issubclass(factory, linen.Module)
