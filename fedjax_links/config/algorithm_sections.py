"""Binds the algorithm that a section names, with its client program and values of a grid.

A section is a mapping of a name and options. A client program says how clients train. A column of
the grid is an option with several values, each of which runs.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_links import local_training
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm
from fedjax_links.config import nested, registries, resolver
from fedjax_links.config.bound import BoundFactory, Factory
from fedjax_links.config.resolver import Options, as_mapping, parameters
from fedjax_links.core import checks, errors, grids
from fedjax_links.core.fields import REQUIRED
from fedjax_links.core.records import Section

RATE = 'client.learning_rate'
"""The column of the clients' learning rate; ``tuning`` calls its values ``learning_rates``."""
SERVER_LR = 'server_lr'
"""The column of the server's learning rate; ``tuning`` calls its values ``server_lrs``."""


def read(
    label: str, section: Section, client: Section, columns: grids.GridColumns
) -> tuple[Callable[..., BoundFactory], dict[str, Any]]:
    """Reads the section of an algorithm, and finds the columns of the grid that it takes.

    Args:
      label: of the algorithm.
      section: its options; ``client`` overrides options of the client program.
      client: options of the client program that all algorithms share.
      columns: of the grid and of tuning.

    Returns:
      ``columns as keywords -> bound algorithm``, and the default of each column that the algorithm
      takes: the learning rate of its clients, options of the algorithm and options of its clients.
      A column without a default has `REQUIRED`.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    where = f'config.algorithms.{label}'
    section = as_mapping(where, section)
    own_client = as_mapping(f'{where}.client', section.get('client', {}))
    factory, options = resolver.lookup(where, {'name': label, **section}, ALGORITHMS)
    takes_server_lr = SERVER_LR in parameters(factory)
    has_server_lr = bool({SERVER_LR, 'server_optimizer'} & options.keys())
    rate = _client_rate(label, own_client, client, columns)
    defaults: dict[str, Any] = {}
    for name in (*columns, RATE):
        path = _path_in_section(label, name)
        if name == RATE:
            defaults[name] = rate
        elif name.startswith('client.') and path[1] not in own_client:
            defaults[name] = nested.value_at(client, path[1:], REQUIRED)
        elif name.startswith(f'algorithms.{label}.'):
            defaults[name] = nested.value_at(section, path, REQUIRED)
        elif name == SERVER_LR and takes_server_lr and not has_server_lr:
            defaults[name] = REQUIRED
    # The algorithm's own rate is the default of `RATE`, which `bind` puts into `client`.
    own_client.pop('learning_rate', None)
    section['client'] = own_client
    return functools.partial(bind, label, section, client), defaults


def _path_in_section(label: str, column: str) -> list[str]:
    """Returns where the value of a column stands in the section of an algorithm."""
    return column.removeprefix(f'algorithms.{label}.').split('.')


def _client_rate(
    label: str, own_client: Section, client: Section, columns: grids.GridColumns
) -> Any:
    """Returns the learning rate of an algorithm's clients if no grid has a column of rates.

    Args:
      label: of the algorithm.
      own_client: the section ``client`` of the algorithm.
      client: the section ``client`` that all algorithms share.
      columns: of the grid and of tuning.

    Raises:
      ValueError: if no field sets the rate, or two fields do.
    """
    options = {**client, **own_client}
    if 'learning_rate' not in options:
        if RATE not in columns:
            requirement = (
                f'be given, or several as `config.tuning.learning_rates`, for {label}'
            )
            raise errors.invalid(f'config.{RATE}', requirement, None)
        return REQUIRED
    path = f'config.algorithms.{label}.{RATE}'
    rate = as_rate(path, options['learning_rate'])
    if RATE in columns and 'learning_rate' in own_client:
        requirement = (
            'be left out, as `config.grid` or `config.tuning` has rates for all'
        )
        raise errors.invalid(path, requirement, errors.text_of(rate))
    return rate


def as_rate(path: str, rate: Any) -> float:
    """Returns a rate as a float, which programs take as an argument."""
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise errors.invalid(path, 'be a number', errors.text_of(rate))
    checks.positive(path, rate)
    return float(rate)


def bind(
    label: str, section: Section, client: Section, /, **columns: Any
) -> BoundFactory:
    """Binds the algorithm of a labelled section.

    Args:
      label: the section's label, which is also the name in ALGORITHMS unless the section has a
        ``name``.
      section: its options; ``client`` overrides options of the client program.
      client: options of the client program that all algorithms share.
      **columns: values of columns of the grid, put into both sections.

    Returns:
      The factory of the algorithm, bound.

    Raises:
      ValueError: as `resolver.bind`.
    """
    path = f'config.algorithms.{label}'
    for name, value in columns.items():
        column_path = _path_in_section(label, name)
        if name.startswith('client.'):
            client = nested.put(client, column_path[1:], value, 'config.client')
        else:
            section = nested.put(section, column_path, value, path)
    bound = resolver.bind(path, {'name': label, **section}, ALGORITHMS)
    options = dict(bound.options)
    own_client = as_mapping(f'{path}.client', options.pop('client', {}))
    program = getattr(bound.factory, 'client_program', None) or local_training.local_sgd
    _check_not_of_client(path, options, bound.factory, program)
    if 'server_optimizer' in options:
        options['server_optimizer'] = _bind_optimizer(
            f'{path}.server_optimizer', options['server_optimizer']
        )
    client_options = {**client, **own_client}
    client_program = _bind_client(f'{path}.client', client_options, program)
    return bound._replace(options=options, args=(client_program,), kind=Algorithm)


def _check_not_of_client(
    path: str, options: Options, factory: Factory, program: Factory
) -> None:
    """Raises for an option of an algorithm that belongs in its section ``client``."""
    accepted = parameters(factory)
    # `decay` is an option of a section `client` that no client program has, see `_bind_client`.
    client_options = {*parameters(program), 'decay'}
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return
    for option in options:
        if option not in accepted and option in client_options:
            near = f'client.{option}'
            raise errors.unknown_name(path, option, [*accepted, 'client'], near=near)


def _bind_optimizer(path: str, section: Section | str, *args: object) -> BoundFactory:
    """Binds an optimizer; its learning rate may be a section that names a schedule over steps."""
    bound = resolver.bind(path, section, registries.OPTIMIZERS, *args)
    rate = bound.options.get('learning_rate')
    if isinstance(rate, Mapping):
        schedule = resolver.bind(f'{path}.learning_rate', rate, {})
        return bound._replace(options={**bound.options, 'learning_rate': schedule})
    return bound


def _bind_client(path: str, section: Section, program: Factory) -> BoundFactory:
    """Binds the client program of a section ``client``.

    Args:
      path: as in `resolver.bind`.
      section: ``learning_rate``, ``decay`` (a section of LEARNING_RATES), ``batch_size`` (0 for the
        full local data), ``optimizer`` (a section of OPTIMIZERS), and further options.
      program: the factory, unless the section has a ``name``.
    """
    options = dict(section)
    if 'name' in options:
        program, options = resolver.lookup(path, options, registries.CLIENT_PROGRAMS)
    rate_options = {'learning_rate': options.get('learning_rate')}
    rate = BoundFactory(path, 'learning_rate', _rate, rate_options)
    decay = options.pop('decay', 'constant')
    schedule = resolver.bind(f'{path}.decay', decay, registries.LEARNING_RATES, rate)
    # It must be a function of the round: a number would be one rate for all rounds.
    options['learning_rate'] = schedule._replace(kind='function')
    batch_size = options.get('batch_size')
    # 0 stands for the full local data. False equals 0, but is no valid batch size.
    if type(batch_size) is int and batch_size == 0:
        options['batch_size'] = None
    if options.get('optimizer') is not None:
        # The rate only checks the optimizer; training calls the factory with the decayed rate.
        optimizer = _bind_optimizer(f'{path}.optimizer', options['optimizer'], rate)
        options['optimizer'] = optimizer._replace(is_function=True)
    return BoundFactory(
        path, 'client', program, options, kind=local_training.ClientProgram
    )


def _rate(learning_rate: float) -> float:
    """Returns a client's rate after a check whose error names it as the config does."""
    checks.positive('learning_rate', learning_rate)
    return learning_rate
