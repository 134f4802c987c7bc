"""Binds the participation pattern that a section ``links`` names, with all its parts.

A section is a mapping of a name and options. Parts are options that are sections themselves, such
as probabilities, a schedule or another pattern.
"""

import functools
import inspect
import types
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from fedjax_links.base import Participation, Problem
from fedjax_links.config import nested, recorded_links, registries, resolver
from fedjax_links.config.bound import BoundFactory, Factory
from fedjax_links.config.resolver import Options, parameters
from fedjax_links.core import checks, errors, factory_options
from fedjax_links.core.records import Section
from fedjax_links.participation import PARTICIPATION

_SUGGESTIONS = {'period': 'cycle_length'}
"""Options that users know by another name, and the name here."""

_FILLED_IN = {'schedule': {'probs'}, 'intervals': {'path', 'format', 'match'}}
"""By parameter of a pattern, the options of the section from which the value is made."""


def bind_links(
    section: Section | str, problem: Problem, path: str = 'config.links'
) -> BoundFactory:
    """Binds the pattern that a section of links names.

    Parameters of the factory with these names are filled in:

    * ``num_clients`` is the problem's.
    * ``probs`` come from a section, from one number for all clients, or from a list with one for
      each client. ``schedule`` comes from a section.
    * ``intervals`` are read from the log at ``path``, which has a ``format``. The log's clients are
      the problem's by name where both have names, or by number with ``match='numbers'``.
    * Nested patterns come from nested sections.

    Args:
      section: name in PARTICIPATION or `registries.LINKS`, and options.
      problem: the problem whose clients take part, and on whose labels probabilities may depend.
      path: of the section in the config, for errors.

    Returns:
      The bound factory of the pattern. Schedules and nested patterns among its options are bound
      too. All other options are as the factory gets them.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    bound = resolver.bind(path, section, {**PARTICIPATION, **registries.LINKS})
    options = dict(bound.options)
    accepted = parameters(bound.factory)
    _check_names(path, options, accepted)
    _fill_in_count(path, options, bound.factory, problem)
    _fill_in_intervals(path, options, bound.factory, problem)
    _fill_in_probs(path, options, bound.factory, problem)
    _bind_parts(path, options, bound.factory, problem)
    return bound._replace(options=options, kind=Participation)


def _check_names(
    path: str, options: Options, accepted: Mapping[str, inspect.Parameter]
) -> None:
    """Raises for an option that neither the factory takes nor a parameter filled in for it."""
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return
    known = {*accepted}
    for parameter, makers in _FILLED_IN.items():
        if parameter in accepted:
            known |= makers
    for option in options:
        if option not in known:
            near = _SUGGESTIONS.get(option)
            # An empty text suggests nothing.
            if near is not None and near not in known:
                near = ''
            raise errors.unknown_name(path, option, known - {'num_clients'}, near=near)


def _fill_in_count(
    path: str, options: Options, factory: Factory, problem: Problem
) -> None:
    """Fills in the problem's number of clients where a factory asks for it."""
    if 'num_clients' not in parameters(factory):
        return
    if 'num_clients' in options:
        requirement = "be left out, as it is the problem's"
        raise errors.invalid(f'{path}.num_clients', requirement, options['num_clients'])
    options['num_clients'] = problem.num_clients


def _fill_in_intervals(
    path: str, options: Options, factory: Factory, problem: Problem
) -> None:
    """Reads the log of a pattern that plays back a log."""
    accepted = parameters(factory)
    if 'intervals' not in accepted:
        return
    if _is_registered(factory) and 'tick' not in options:
        # In Python `trace` has a default of one second. Most logs are in seconds, and links
        # hardly change from one second to the next.
        raise errors.invalid(f'{path}.tick', 'be given', None)
    if 'path' not in options:
        is_needed = accepted['intervals'].default is inspect.Parameter.empty
        if is_needed and 'intervals' not in options:
            raise errors.invalid(f'{path}.path', 'name the file of a log', None)
        return
    file = options.pop('path')
    log_format = options.pop('format', 'csv')
    match = options.pop('match', 'names')
    reader, reading = resolver.lookup(
        f'{path}.format', log_format, registries.TRACE_FORMATS
    )
    factory_options.check(f'{path}.format', reader, reading, file)
    # A pattern that takes N may have other clients than the log.
    clients = None if 'num_clients' in accepted else problem
    with errors.context(path):
        options['intervals'] = recorded_links.read_log(
            f'{path}.path',
            functools.partial(reader, **reading),
            file,
            clients,
            match=match,
        )


def _fill_in_probs(
    path: str, options: Options, factory: Factory, problem: Problem
) -> None:
    """Makes probabilities and their schedule from the sections ``probs`` and ``schedule``."""
    accepted = parameters(factory)
    if 'schedule' in accepted:
        probs = _make_probs(f'{path}.probs', options.pop('probs', None), problem)
        schedule = options.get('schedule', 'constant')
        options['schedule'] = resolver.bind(
            f'{path}.schedule', schedule, registries.SCHEDULES, probs
        )
        return
    if 'probs' not in options:
        return
    # A list has a number for each client, except in a user's factory or for several ``patterns``.
    is_section = isinstance(options['probs'], Mapping | str)
    if is_section or (_is_registered(factory) and 'patterns' not in accepted):
        options['probs'] = _make_probs(f'{path}.probs', options['probs'], problem)


def _make_probs(path: str, value: Any, problem: Problem) -> np.ndarray:
    """Makes probabilities float64[N]: from a number for all, or a list with one for each."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = value.tolist()
    if isinstance(value, int | float) and not isinstance(value, bool):
        section: Section | str = {'name': 'equal', 'value': value}
    elif isinstance(value, list | tuple):
        section = {'name': 'listed', 'values': value}
    elif isinstance(value, Mapping | str):
        section = value
    else:
        raise errors.invalid(path, 'be a number, a list or a section', value)
    named = resolver.build_named(path, section, registries.PROBS, problem)
    probs = checks.numbers(path, named)
    checks.probabilities(path, probs)
    return probs


def _is_registered(factory: Factory) -> bool:
    """Returns whether a pattern is one of this package."""
    return factory in PARTICIPATION.values()


def _bind_parts(
    path: str, options: Options, factory: Factory, problem: Problem
) -> None:
    """Replaces the sections among the options by the objects that they name."""
    is_registered = _is_registered(factory)
    kinds = factory_options.annotations(getattr(factory, 'factory', factory))
    # `prob` may hold a value for each edge of the graph, so the graph is made first.
    for name in sorted(options, key=lambda name: name == 'prob'):
        value = options[name]
        if isinstance(value, BoundFactory):
            continue
        clients = problem
        parameter = name
        if name == 'prob' and 'graph' in options:
            clients = _edges(options['graph'])
        elif kinds.get(name) in (Participation, Participation | None):
            parameter = 'pattern'
            value = nested.section(value)
        options[name] = _link_part(
            f'{path}.{name}', parameter, value, clients, is_registered
        )


def _edges(graph: Any) -> Any:
    """Stands in for the problem where probabilities belong to edges of a graph."""
    num_edges = getattr(graph, 'num_edges', 0)
    return types.SimpleNamespace(num_clients=num_edges, data=None)


def _link_part(
    path: str, parameter: str, value: Any, problem: Problem, is_registered: bool
) -> Any:
    """Makes an option of a pattern, or of a part of a pattern.

    A user's own factory may have options of any name, so `registries.CLIENT_COUNT_TABLES` apply to
    factories of this package only.

    Args:
      path: of the option in the config.
      parameter: the option's name in the factory.
      value: a plain value, or a section.
      problem: whose clients.
      is_registered: whether the factory is one of this package.
    """
    table = registries.CLIENT_COUNT_TABLES.get(parameter) if is_registered else None
    if table is not None:
        value = nested.section(value)
    if isinstance(value, list | tuple):
        sections = Mapping | str if parameter == 'patterns' else Mapping
        return _bind_patterns(path, value, sections, problem)
    if not isinstance(value, Mapping):
        return value
    if parameter in registries.PROBLEM_TABLES:
        bound = _bind_part(path, value, registries.PROBLEM_TABLES[parameter], problem)
        return bound._replace(args=(problem,)).build()
    if table is None:
        return bind_links(value, problem, path)
    bound = _bind_part(path, value, table, problem)
    options = dict(bound.options)
    _fill_in_count(path, options, bound.factory, problem)
    return bound._replace(options=options).build()


def _bind_part(
    path: str, section: Any, table: registries.Factories, problem: Problem
) -> BoundFactory:
    """Binds a part of a pattern, after the parts of this part are made."""
    bound = resolver.bind(path, section, table)
    is_registered = bound.factory in table.values()
    options = {
        name: _link_part(f'{path}.{name}', name, value, problem, is_registered)
        for name, value in bound.options.items()
    }
    return bound._replace(options=options)


def _bind_patterns(
    path: str, values: Collection[Any], sections: Any, problem: Problem
) -> Any:
    """Binds the patterns in a list; a list without patterns is returned unchanged.

    Args:
      path: of the list in the config.
      values: the list.
      sections: the types that name a pattern.
      problem: whose clients.
    """
    if not any(isinstance(value, sections) for value in values):
        return values
    bound = []
    for index, value in enumerate(values):
        is_pattern = isinstance(value, sections)
        bound.append(
            bind_links(value, problem, f'{path}[{index}]') if is_pattern else value
        )
    return bound
