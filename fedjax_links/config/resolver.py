"""Resolves sections of a config to the objects that they name.

A section is a name, or a mapping of ``name`` and options, which are the keywords of the Python
call. A name is an entry of a registry (`ALGORITHMS`, `PARTICIPATION`, `PROBLEMS`, or a table of
`registries`), or ``module:factory`` for anything else that can be imported. The folder of a config
file is importable while the config is resolved. Options are checked against the signature of the
factory, so a new algorithm or pattern needs no edit here. `link_sections` resolves links, and
`algorithm_sections` resolves algorithms.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from fedjax_links.base import Problem
from fedjax_links.config import bound as bound_factories
from fedjax_links.config import nested, recorded_links
from fedjax_links.config.bound import BoundFactory, Factory
from fedjax_links.config.bound import importable as importable
from fedjax_links.core import errors
from fedjax_links.core.records import Section as Section
from fedjax_links.core.registry import current_name, entry_known_as
from fedjax_links.problems import PROBLEMS

Options = dict[str, Any]
Entries = Mapping[str, Any]
"""Factories, or entries of a registry that hold one, by name."""


def bind(
    path: str, section: Section | str, registry: Entries, *args: object
) -> BoundFactory:
    """Binds the factory that a section names to the section's options.

    Args:
      path: of the section in the config, for errors.
      section: a name, or a mapping of ``name`` and options.
      registry: factories by name; ``module:factory`` needs no entry.
      *args: positional arguments of the factory, which a section cannot set.

    Returns:
      The factory, bound; its options are checked when it is called.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options = lookup(path, section, registry)
    name = current_name(nested.section(section)['name'])
    return BoundFactory(path, name, factory, options, args)


def build_named(
    path: str, section: Section | str, registry: Entries, *args: object
) -> Any:
    """Builds the object that a section names: `bind`, then `BoundFactory.build`."""
    return bind(path, section, registry, *args).build()


def lookup(path: str, section: object, registry: Entries) -> tuple[Factory, Options]:
    """Looks up what a section names, and its options.

    Args:
      path: as in `bind`.
      section: as in `bind`.
      registry: as in `bind`.

    Returns:
      The factory or entry, and the options without the name.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options = as_mapping(path, section)
    name = current_name(options.pop('name', None))
    if isinstance(section, Mapping):
        path = f'{path}.name'
    if bound_factories.is_import(name):
        return bound_factories.import_named(path, name), options
    if not registry:
        raise errors.invalid(path, 'be module:factory', name)
    if not isinstance(name, str) or name not in registry:
        # None stays None, so that the error asks for a name.
        unknown = str(name) if name else name
        near = entry_known_as(unknown, registry)
        raise errors.unknown_name(path, unknown, registry, near=near)
    return registry[name], options


def bind_problem(section: Section | str) -> BoundFactory:
    """Binds the problem that a section names.

    Args:
      section: ``name`` in PROBLEMS, and options. ``model``, ``partition`` and the entries of
        ``augment`` may be ``module:factory``, which is imported.

    Returns:
      The factory of the problem, bound.

    Raises:
      ValueError: as `bind`.
    """
    path = 'config.problem'
    bound = bind(path, section, PROBLEMS)
    options = dict(bound.options)
    for name in options.keys() & {'model', 'partition', 'augment'}:
        options[name] = import_object(f'{path}.{name}', options[name])
    if isinstance(options.get('data'), Mapping):
        options['data'] = _locate_files(f'{path}.data', options['data'])
    return bound._replace(options=options, kind=Problem)


def _locate_files(path: str, data: Section) -> Options:
    """Returns the options of a data set, with paths that may lie beside the config file."""
    located = dict(data)
    for option in data.keys() & {'path', 'test', 'data_dir'}:
        if isinstance(data[option], str):
            file = recorded_links.locate(f'{path}.{option}', data[option])
            located[option] = str(file)
    return located


def parameters(factory: Factory) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a factory or of an entry's factory."""
    try:
        return inspect.signature(getattr(factory, 'factory', factory)).parameters
    except ValueError:  # a builtin without a signature
        return {}


def as_mapping(path: str, section: object) -> Options:
    """Returns a section as a new dictionary; a text is a name without options."""
    section = nested.section(section)
    if not isinstance(section, Mapping):
        raise errors.invalid(path, 'be a section', errors.text_of(section))
    return dict(section)


def import_object(path: str, value: Any) -> Any:
    """Imports what ``module:factory`` names, with the options of its section bound.

    Args:
      path: of the value in the config, for errors.
      value: a name, a section, or a list of them; anything else is returned as it is.

    Returns:
      The imported object, or the value if it does not name one.
    """
    if isinstance(value, list | tuple):
        return [import_object(path, part) for part in value]
    name = value.get('name') if isinstance(value, Mapping) else value
    if not bound_factories.is_import(name):
        return value
    factory, options = lookup(path, value, {})
    return functools.partial(factory, **options) if options else factory
