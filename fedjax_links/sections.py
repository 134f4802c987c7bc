"""From a section of a config to the object that it names: the only resolver.

A section is a name, or a mapping with that ``name`` and the options of what it names, one to one
with the Python call. A name stands in a registry (`ALGORITHMS`, `PARTICIPATION`, `PROBLEMS`, or a
table of `choices`), or is ``module:factory`` for anything else that can be imported; the folder of
a config file is importable while it is resolved. Options are checked against the signature of the
factory, so a new algorithm or pattern needs no edit here.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, choices, errors, kinds, local_training, recordings
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.named_imports import import_named, importable
from fedjax_links.participation import PARTICIPATION
from fedjax_links.problems import PROBLEMS

__all__ = [
    'Kind',
    'Section',
    'algorithm',
    'call',
    'check_fields',
    'client_program',
    'importable',
    'link_options',
    'links',
    'lookup',
    'named',
    'problem',
]

Section = Mapping[str, Any]
Kind = Any
"""A type, or a tuple of types, as ``isinstance`` takes it."""

_KINDS = {
    str: 'text',
    Mapping: 'a section',
    int: 'a whole number',
    list: 'a list',
    bool: 'True or False',
}


def check_fields(
    config: Section, required: Mapping[str, Kind], optional: Mapping[str, Kind]
) -> None:
    """Checks names and types of the top level of a config.

    Args:
      config: nested dictionaries.
      required: the types of fields that it must have.
      optional: the types of fields that it may have.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    known = {**required, **optional}
    for name, value in config.items():
        if name not in known:
            raise errors.unknown_name('config', name, known)
        allowed = known[name] if isinstance(known[name], tuple) else (known[name],)
        if not isinstance(value, allowed) or isinstance(value, bool) > (bool in allowed):
            shown = errors.shown(value)
            raise errors.invalid(f'config.{name}', f'be {_KINDS[allowed[0]]}', shown)
    for name in required:
        if name not in config:
            raise errors.invalid('config', f'have {name!r}', f'only {sorted(config)}')


def named(where: str, section: Any, registry: Mapping[str, Any], *args: Any) -> Any:
    """Calls what a section names with the section's options.

    Args:
      where: the section's place in the config, for errors.
      section: a name, or a mapping of ``name`` and options.
      registry: factories by name; ``module:factory`` needs no entry.
      *args: positional arguments of the factory, which are no options.

    Returns:
      What the factory returns.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options = lookup(where, section, registry)
    return call(where, factory, options, *args)


def lookup(
    where: str, section: Any, registry: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What a section names, and its options.

    Args:
      where: as in `named`.
      section: as in `named`.
      registry: as in `named`.

    Returns:
      The factory or entry, and the options without the name.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options = _as_mapping(where, section)
    name = options.pop('name', None)
    if isinstance(section, Mapping):
        where = f'{where}.name'
    if isinstance(name, str) and ':' in name:
        return import_named(where, name), options
    if not registry:
        raise errors.invalid(where, 'be module:factory', name)
    if name is None:
        raise errors.missing_name(where, registry)
    if not isinstance(name, str) or name not in registry:
        raise errors.unknown_name(where, str(name), registry)
    return registry[name], options


def call(where: str, factory: Callable[..., Any], options: Section, *args: Any) -> Any:
    """Calls a factory after checking its options; errors as in `named`.

    What the options make another's factory raise, which can check nothing, is a mistake in them.
    """
    checks.options(where, factory, options, *args)
    try:
        with errors.inside(where):
            return factory(*args, **options)
    except errors.InvalidError:
        raise
    except Exception as error:
        if _is_ours(factory) or errors.users_place(error) is not None:
            raise
        requirement = f'suit {_name_of(factory)}'
        raise errors.invalid(where, requirement, errors.described(error)) from error


def _is_ours(factory: Any) -> bool:
    factory = getattr(factory, 'factory', getattr(factory, 'func', factory))
    return str(getattr(factory, '__module__', None)).startswith(f'{__package__}.')


def _call_for(kind: type[Any], where: str, factory: Any, options: Section, *args: Any) -> Any:
    """`call` for a factory that has to return an object of some kind."""
    built = call(where, factory, options, *args)
    if not isinstance(built, kind):
        requirement = f'name what returns a {kind.__name__}'
        raise errors.invalid(where, requirement, f'{_name_of(factory)}, {errors.shown(built)}')
    return built


def _name_of(factory: Any) -> str:
    factory = getattr(factory, 'factory', getattr(factory, 'func', factory))
    return str(getattr(factory, '__name__', factory))


def problem(section: Any, where: str = 'config.problem') -> Problem:
    """The problem that a section names.

    Args:
      section: ``name`` in PROBLEMS, and options; ``model``, ``partition`` and what ``augment``
        lists is imported where it is given as ``module:factory``.
      where: the section's place in the config, for errors.

    Returns:
      The problem.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options = lookup(where, section, PROBLEMS)
    for option in ('model', 'partition'):
        if option in options:
            options[option] = _imported(f'{where}.{option}', options[option])
    if isinstance(options.get('augment'), list | tuple):
        options['augment'] = imported_names(f'{where}.augment', options['augment'])
    return _call_for(Problem, where, factory, options)


def algorithm(label: str, section: Section, client: Section) -> Algorithm:
    """The algorithm of a labelled section.

    Args:
      label: its label, and its name in ALGORITHMS unless the section has one.
      section: its options; ``client`` overrides options of the client program.
      client: options of the client program that all algorithms share.

    Returns:
      The algorithm.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    where = f'config.algorithms.{label}'
    section = {'name': label, **_as_mapping(where, section)}
    client = {**client, **_as_mapping(f'{where}.client', section.pop('client', {}))}
    factory, options = lookup(where, section, ALGORITHMS)
    program = getattr(factory, 'client_program', None) or local_training.local_sgd
    if 'server_optimizer' in options:
        place = f'{where}.server_optimizer'
        server_optimizer = lookup(place, options['server_optimizer'], choices.OPTIMIZERS)
        options['server_optimizer'] = _optimizer(place, *server_optimizer)
    local_train = client_program(f'{where}.client', client, program)
    return _call_for(Algorithm, where, factory, options, local_train)


def _optimizer(where: str, factory: Any, options: Section, *args: Any) -> Any:
    """An optimizer whose options are in range; a section as its rate names a schedule of steps."""
    rate = options.get('learning_rate')
    if isinstance(rate, Mapping):
        schedule = named(f'{where}.learning_rate', rate, {})
        options = {**options, 'learning_rate': schedule}
    for option, (low, high) in choices.OPTIMIZER_RANGES.items():
        if callable(options.get(option)):
            continue
        if options.get(option) is not None and factory in choices.OPTIMIZERS.values():
            checks.within(f'{where}.{option}', options[option], low, high)
    return call(where, factory, options, *args)


def client_program(
    where: str, section: Section, program: Callable[..., local_training.ClientProgram]
) -> local_training.ClientProgram:
    """The client program of a section ``client``.

    Args:
      where: the section's place in the config, for errors.
      section: ``learning_rate``, ``decay`` (a section of LEARNING_RATES), ``batch_size`` (0 for the
        full local data), ``optimizer`` (a section of OPTIMIZERS), and further options.
      program: the factory, unless the section has a ``name``.

    Returns:
      The client program.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options = dict(section)
    if 'name' in options:
        program, options = lookup(where, options, choices.CLIENT_PROGRAMS)
    if 'learning_rate' not in options:
        raise errors.invalid(where, "have 'learning_rate'", sorted(options))
    eta = options['learning_rate']
    checks.positive(f'{where}.learning_rate', eta)
    if np.ndim(eta):
        raise errors.invalid(f'{where}.learning_rate', 'be a number', errors.shown(eta))
    decay = options.pop('decay', 'constant')
    options['learning_rate'] = named(f'{where}.decay', decay, choices.LEARNING_RATES, eta)
    if type(options.get('batch_size')) is int:
        options['batch_size'] = options['batch_size'] or None
    if options.get('optimizer') is not None:
        factory, given = lookup(f'{where}.optimizer', options['optimizer'], choices.OPTIMIZERS)
        _optimizer(f'{where}.optimizer', factory, given, eta)
        options['optimizer'] = functools.partial(factory, **given)
    built: local_training.ClientProgram = _call_for(
        local_training.ClientProgram, where, program, options
    )
    return built


def links(
    section: Any, problem: Problem, where: str = 'config.links'
) -> tuple[Participation, np.ndarray | None]:
    """The links that a section names.

    What the factory asks for by parameter name is filled in: ``num_clients``, ``schedule`` and
    ``probs`` from the sections of these names (``probs`` also from a number for everyone, or a list
    with one for each client), ``intervals`` from a ``path`` and its ``format``,
    nested patterns from nested sections.

    Args:
      section: name in PARTICIPATION or `choices.LINKS`, and options.
      problem: whose clients, and whose labels if the probabilities depend on them.
      where: the section's place in the config, for errors.

    Returns:
      The pattern, and the probabilities before any schedule; None for patterns without.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options, probs = link_options(section, problem, where)
    pattern: Participation = _call_for(Participation, where, factory, options)
    return pattern, probs


def link_options(
    section: Any, problem: Problem, where: str = 'config.links'
) -> tuple[Callable[..., Participation], dict[str, Any], np.ndarray | None]:
    """What the factory of a pattern gets: `links` up to its last step.

    Args:
      section: as in `links`.
      problem: as in `links`.
      where: as in `links`.

    Returns:
      The factory or entry, its options, sections replaced by what they stand for, and the
      probabilities before any schedule.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    factory, options = lookup(where, section, {**PARTICIPATION, **choices.LINKS})
    target = getattr(factory, 'factory', factory)
    try:
        wanted: Mapping[str, inspect.Parameter] = inspect.signature(target).parameters
    except ValueError:  # some that are built in have none
        wanted = {}
    own = {name for name in wanted if name not in ('num_clients', 'schedule')}
    if 'schedule' in wanted:
        own |= {'probs', 'schedule'}
    if 'intervals' in wanted:
        own |= {'path', 'format'}
    collects = any(p.kind is p.VAR_KEYWORD for p in wanted.values())
    if 'num_clients' in options and 'num_clients' in wanted:
        asked = "be left out, as it is the problem's"
        raise errors.invalid(f'{where}.num_clients', asked, options['num_clients'])
    for option in options:
        if option not in own and not collects:
            raise errors.unknown_name(where, option, own)
    asks = 'intervals' in wanted and wanted['intervals'].default is inspect.Parameter.empty
    if asks and not options.keys() & {'intervals', 'path'}:
        raise errors.invalid(f'{where}.path', 'name the file of a log', None)
    probs_section = options.pop('probs', None)
    schedule_section = options.pop('schedule', 'constant')
    probs = None
    registered = factory in PARTICIPATION.values()
    if 'schedule' in wanted or (registered and 'probs' in wanted and 'patterns' not in wanted):
        probs_section = _probs_section(probs_section)
    if wanted.keys() & {'schedule', 'probs'} and isinstance(probs_section, Mapping | str):
        place = f'{where}.probs'
        probs = checks.numbers(place, named(place, probs_section, choices.PROBS, problem))
        checks.probabilities(f'{where}.probs', probs)
    if probs is None and 'schedule' in wanted:
        raise errors.invalid(f'{where}.probs', 'be a number, a list or a section', probs_section)
    if 'schedule' in wanted:
        options['schedule'] = named(f'{where}.schedule', schedule_section, choices.SCHEDULES, probs)
    elif probs_section is not None:
        options['probs'] = probs_section if probs is None else probs
    if 'num_clients' in wanted:
        options['num_clients'] = problem.num_clients
    if 'intervals' in wanted and 'path' in options:
        path, log_format = options.pop('path'), options.pop('format', 'csv')
        reader, given = lookup(f'{where}.format', log_format, choices.TRACE_FORMATS)
        checks.options(f'{where}.format', reader, given, path)
        bound = functools.partial(reader, **given)
        options['intervals'] = recordings.read_log(
            f'{where}.path', bound, path, None if 'num_clients' in wanted else problem.num_clients
        )
    patterns = {name for name, kind in kinds.annotations(target).items() if _is_pattern(kind)}
    for parameter, value in options.items():
        if parameter in patterns and isinstance(value, str):
            value = {'name': value}
        options[parameter] = _link_part(f'{where}.{parameter}', parameter, value, problem)
    return factory, options, probs


def _probs_section(given: Any) -> Any:
    """A number is everyone's, a list has one for each client."""
    if isinstance(given, np.ndarray | np.generic):
        given = given.tolist()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return {'name': 'equal', 'value': given}
    if isinstance(given, list | tuple):
        return {'name': 'listed', 'values': given}
    return given


def _is_pattern(kind: Any) -> bool:
    """Whether a parameter takes a pattern, or None."""
    return kind is Participation or kind == Participation | None


def _link_part(where: str, parameter: str, value: Any, problem: Problem) -> Any:
    """An option of a pattern: a plain value, or a section that names what it stands for."""
    sections = Mapping | str if parameter == 'patterns' else Mapping
    if isinstance(value, list | tuple) and any(isinstance(part, sections) for part in value):
        return [
            links(part, problem, f'{where}[{place}]')[0] if isinstance(part, sections) else part
            for place, part in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    if parameter == 'weights':
        return named(where, value, choices.WEIGHTS, problem)
    if parameter == 'groups':
        return named(where, value, choices.GROUPS, problem)
    return links(value, problem, where)[0]


def _as_mapping(where: str, section: Any) -> dict[str, Any]:
    """A fresh dictionary; a text is a name without options."""
    if isinstance(section, str):
        return {'name': section}
    if not isinstance(section, Mapping):
        raise errors.invalid(where, 'be a section', errors.shown(section))
    return dict(section)


def imported_names(where: str, listed: Sequence[Any]) -> list[Any]:
    """A list's values, with what ``module:factory`` names in place of such names."""
    return [_imported(where, value) for value in listed]


def _imported(where: str, value: Any) -> Any:
    """What ``module:factory`` names, with the options of its section bound; else the value."""
    name = value.get('name') if isinstance(value, Mapping) else value
    if not isinstance(name, str) or ':' not in name:
        return value
    factory, options = lookup(where, value, {})
    return functools.partial(factory, **options) if options else factory
