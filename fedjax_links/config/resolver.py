"""From a section of a config to the object that it names: the only resolver.

A section is a name, or a mapping with that ``name`` and the options of what it names, one to one
with the Python call. A name stands in a registry (`ALGORITHMS`, `PARTICIPATION`, `PROBLEMS`, or a
table of `registries`), or is ``module:factory`` for anything else that can be imported; the folder
of a config file is importable while it is resolved. Options are checked against the signature of
the factory, so a new algorithm or pattern needs no edit here.
"""

import functools
import inspect
import types
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedjax_links import local_training
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config import bound as factories
from fedjax_links.config import nested, recorded_links, registries
from fedjax_links.config.bound import Bound as Bound
from fedjax_links.config.bound import Factory
from fedjax_links.config.bound import importable as importable
from fedjax_links.core import checks, errors
from fedjax_links.participation import PARTICIPATION
from fedjax_links.problems import PROBLEMS

Section = Mapping[str, Any]
Options = dict[str, Any]
_MEANT = {'period': 'cycle_length'}
"""What options of links that go by another name are called here."""


def bind(where: str, section: Any, registry: Mapping[str, Any], *args: Any) -> Bound:
    """What a section names, with the section's options.

    Args:
      where: the section's place in the config, for errors.
      section: a name, or a mapping of ``name`` and options.
      registry: factories by name; ``module:factory`` needs no entry.
      *args: positional arguments of the factory, which are no options.

    Returns:
      The factory, bound; its options are checked when it is called.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options = lookup(where, section, registry)
    return Bound(where, nested.section(section)['name'], factory, options, args)


def build_named(
    where: str, section: Any, registry: Mapping[str, Any], *args: Any
) -> Any:
    """What a section stands for: `bind`, and `Bound.build`."""
    return bind(where, section, registry, *args).build()


def lookup(
    where: str, section: Any, registry: Mapping[str, Any]
) -> tuple[Factory, Options]:
    """What a section names, and its options.

    Args:
      where: as in `build_named`.
      section: as in `build_named`.
      registry: as in `build_named`.

    Returns:
      The factory or entry, and the options without the name.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options = as_mapping(where, section)
    name = options.pop('name', None)
    if isinstance(section, Mapping):
        where = f'{where}.name'
    if factories.is_import(name):
        return factories.import_named(where, name), options
    if not registry:
        raise errors.invalid(where, 'be module:factory', name)
    if not isinstance(name, str) or name not in registry:
        raise errors.unknown_name(where, name and str(name), registry)
    return registry[name], options


def bind_problem(section: Any, where: str = 'config.problem') -> Bound:
    """The problem that a section names.

    Args:
      section: ``name`` in PROBLEMS, and options; ``model``, ``partition`` and what ``augment``
        lists is imported where it is given as ``module:factory``.
      where: as in `bind`.

    Returns:
      What makes the problem.

    Raises:
      ValueError: as `bind`.
    """
    bound = bind(where, section, PROBLEMS)
    options = dict(bound.options)
    for name in options.keys() & {'model', 'partition', 'augment'}:
        options[name] = import_object(f'{where}.{name}', options[name])
    return bound._replace(options=options, kind=Problem)


def bind_algorithm(label: str, section: Section, client: Section) -> Bound:
    """The algorithm of a labelled section.

    Args:
      label: its label, and its name in ALGORITHMS unless the section has one.
      section: its options; ``client`` overrides options of the client program.
      client: options of the client program that all algorithms share.

    Returns:
      What makes the algorithm.

    Raises:
      ValueError: as `bind`.
    """
    where = f'config.algorithms.{label}'
    bound = bind(where, {'name': label, **as_mapping(where, section)}, ALGORITHMS)
    options = dict(bound.options)
    client = {**client, **as_mapping(f'{where}.client', options.pop('client', {}))}
    program = getattr(bound.factory, 'client_program', None) or local_training.local_sgd
    if 'server_optimizer' in options:
        place = f'{where}.server_optimizer'
        options['server_optimizer'] = _bind_optimizer(
            place, options['server_optimizer']
        )
    args = (_bind_client(f'{where}.client', client, program),)
    return bound._replace(options=options, args=args, kind=Algorithm)


def _bind_optimizer(where: str, section: Any, *args: Any) -> Bound:
    """An optimizer; a section as its rate names a schedule of steps."""
    bound = bind(where, section, registries.OPTIMIZERS, *args)
    rate = bound.options.get('learning_rate')
    if isinstance(rate, Mapping):
        rate = bind(f'{where}.learning_rate', rate, {})
        return bound._replace(options={**bound.options, 'learning_rate': rate})
    return bound


def _bind_client(where: str, section: Section, program: Factory) -> Bound:
    """The client program of a section ``client``.

    Args:
      where: as in `bind`.
      section: ``learning_rate``, ``decay`` (a section of LEARNING_RATES), ``batch_size`` (0 for the
        full local data), ``optimizer`` (a section of OPTIMIZERS), and further options.
      program: the factory, unless the section has a ``name``.
    """
    options = dict(section)
    if 'name' in options:
        program, options = lookup(where, options, registries.CLIENT_PROGRAMS)
    given = {'learning_rate': options.get('learning_rate')}
    rate = Bound(where, 'learning_rate', _rate, given)
    decay = options.pop('decay', 'constant')
    options['learning_rate'] = bind(
        f'{where}.decay', decay, registries.LEARNING_RATES, rate
    )
    if type(options.get('batch_size')) is int:
        options['batch_size'] = options['batch_size'] or None
    if options.get('optimizer') is not None:
        optimizer = _bind_optimizer(f'{where}.optimizer', options['optimizer'], rate)
        options['optimizer'] = optimizer._replace(is_function=True)
    return Bound(where, 'client', program, options, kind=local_training.ClientProgram)


def _rate(learning_rate: float) -> float:
    """A client's rate."""
    checks.positive('learning_rate', learning_rate)
    return learning_rate


def bind_links(section: Any, problem: Problem, where: str = 'config.links') -> Bound:
    """The links that a section names.

    What the factory asks for by parameter name is filled in: ``num_clients``, ``schedule`` and
    ``probs`` from the sections of these names (``probs`` also from a number for everyone, or a list
    with one for each client), ``intervals`` from a ``path`` and its ``format``, whose clients are
    the problem's by name where both have names (``match``: ``'names'`` or ``'numbers'``), nested
    patterns from nested sections.

    Args:
      section: name in PARTICIPATION or `registries.LINKS`, and options.
      problem: whose clients, and whose labels if the probabilities depend on them.
      where: as in `bind`.

    Returns:
      What makes the pattern. The schedule is bound to the probabilities before it, nested patterns
      are bound likewise; everything else is what the factory gets.

    Raises:
      ValueError: as `bind`.
    """
    bound = bind(where, section, {**PARTICIPATION, **registries.LINKS})
    factory, options, wanted = (
        bound.factory,
        dict(bound.options),
        parameters(bound.factory),
    )
    parts = {'schedule': {'probs'}, 'intervals': {'path', 'format', 'match'}}
    known = {*wanted}.union(*(more for name, more in parts.items() if name in wanted))
    collects = any(p.kind is p.VAR_KEYWORD for p in wanted.values())
    required = {name for name, p in wanted.items() if p.default is p.empty}
    for option in options:
        if option not in known and not collects:
            near = _MEANT.get(option)
            near = near if near in known else None
            raise errors.unknown_name(where, option, known - {'num_clients'}, near=near)
    _add_count(where, options, factory, problem)
    if 'path' in options and 'intervals' in wanted:
        path, log_format = options.pop('path'), options.pop('format', 'csv')
        match = options.pop('match', 'names')
        reader, given = lookup(f'{where}.format', log_format, registries.TRACE_FORMATS)
        checks.options(f'{where}.format', reader, given, path)
        whose = None if 'num_clients' in wanted else problem
        log = functools.partial(reader, **given)
        with errors.inside(where):
            place = f'{where}.path'
            options['intervals'] = recorded_links.read_log(
                place, log, path, whose, match=match
            )
    elif 'intervals' in required - options.keys():
        raise errors.invalid(f'{where}.path', 'name the file of a log', None)
    is_ours = factory in PARTICIPATION.values()
    is_drawn = isinstance(options.get('probs'), Mapping | str)
    if 'schedule' in wanted:
        probs = _draw_probs(f'{where}.probs', options.pop('probs', None), problem)
        schedule = options.get('schedule', 'constant')
        options['schedule'] = bind(
            f'{where}.schedule', schedule, registries.SCHEDULES, probs
        )
    elif is_drawn or ('probs' in options and is_ours and 'patterns' not in wanted):
        options['probs'] = _draw_probs(f'{where}.probs', options['probs'], problem)
    kinds_of = checks.annotations(getattr(factory, 'factory', factory))
    for parameter in sorted(
        options, key=lambda name: name == 'prob'
    ):  # after its graph
        name, value, kind = parameter, options[parameter], kinds_of.get(parameter)
        of: Any = problem
        if parameter == 'prob' and 'graph' in options:
            num_edges = getattr(options['graph'], 'num_edges', 0)
            of = types.SimpleNamespace(num_clients=num_edges, data=None)
        elif kind is Participation or kind == Participation | None:
            name, value = 'pattern', nested.section(value)
        if not isinstance(value, Bound):
            options[parameter] = _link_part(
                f'{where}.{parameter}', name, value, of, is_ours
            )
    return bound._replace(options=options, kind=Participation)


def _draw_probs(where: str, given: Any, problem: Problem) -> np.ndarray:
    """Probabilities float64[N]: a number is everyone's, a list has one for each client."""
    if isinstance(given, np.ndarray | np.generic | jax.Array):
        given = given.tolist()
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = {'name': 'equal', 'value': given}
    elif isinstance(given, list | tuple):
        given = {'name': 'listed', 'values': given}
    elif not isinstance(given, Mapping | str):
        raise errors.invalid(where, 'be a number, a list or a section', given)
    probs = checks.numbers(where, build_named(where, given, registries.PROBS, problem))
    checks.probabilities(where, probs)
    return probs


def _link_part(
    where: str, parameter: str, value: Any, problem: Problem, is_ours: bool
) -> Any:
    """An option of a pattern, or of a part of one: a plain value, or what a section stands for.

    A user's own factory may have options of any name; those of `registries.MADE` are sections of
    ours in factories of ours alone.
    """
    made = registries.MADE.get(parameter) if is_ours else None
    if made is not None:
        value = nested.section(value)
    table = registries.DRAWN.get(parameter, made)
    sections = Mapping | str if parameter == 'patterns' else Mapping
    if isinstance(value, list | tuple) and any(
        isinstance(part, sections) for part in value
    ):
        return [
            bind_links(part, problem, f'{where}[{place}]')
            if isinstance(part, sections)
            else part
            for place, part in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    if table is None:
        return bind_links(value, problem, where)
    bound = bind(where, value, table)
    is_ours = bound.factory in table.values()
    options = {
        name: _link_part(f'{where}.{name}', name, part, problem, is_ours)
        for name, part in bound.options.items()
    }
    if table is not made:
        return bound._replace(options=options, args=(problem,)).build()
    _add_count(where, options, bound.factory, problem)
    return bound._replace(options=options).build()


def _add_count(
    where: str, options: Options, factory: Factory, problem: Problem
) -> None:
    """Fills in the problem's number of clients where a factory asks for it."""
    if 'num_clients' in parameters(factory):
        if 'num_clients' in options:
            requirement = "be left out, as it is the problem's"
            raise errors.invalid(
                f'{where}.num_clients', requirement, options['num_clients']
            )
        options['num_clients'] = problem.num_clients


def parameters(factory: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a factory or entry; none of what is built in without any."""
    try:
        return inspect.signature(getattr(factory, 'factory', factory)).parameters
    except ValueError:
        return {}


def as_mapping(where: str, section: Any) -> dict[str, Any]:
    """A section as a fresh dictionary; of a text, which is a name without options, too."""
    section = nested.section(section)
    if not isinstance(section, Mapping):
        raise errors.invalid(where, 'be a section', errors.text_of(section))
    return dict(section)


def import_object(where: str, value: Any) -> Any:
    """A value; what ``module:factory`` names, with the options of its section bound.

    Args:
      where: its place in the config, for errors.
      value: any; of a list, every entry is looked at.

    Returns:
      What is named, or the value if it names nothing.
    """
    if isinstance(value, list | tuple):
        return [import_object(where, part) for part in value]
    name = value.get('name') if isinstance(value, Mapping) else value
    if not factories.is_import(name):
        return value
    factory, options = lookup(where, value, {})
    return functools.partial(factory, **options) if options else factory
