"""Where sections of a config have the seeds of their draws, and sections with other seeds."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links import checks, choices, sections
from fedjax_links.experiment.redraws import COLUMNS
from fedjax_links.problems import PROBLEMS

_TABLES: Mapping[str, Mapping[str, Any]] = {
    'groups': choices.GROUPS,
    'probs': choices.PROBS,
    'weights': choices.WEIGHTS,
}


def problem_columns(section: Any, where: str = 'config.problem') -> dict[str, str]:
    """The options of a problem that are seeds, by the column that gives them a value.

    A problem with no ``data_seed`` has all its data from ``seed``.
    """
    factory, _ = sections.lookup(where, section, PROBLEMS)
    known = _parameters(factory)
    wanted = {'data_seed': ('data_seed', 'seed'), 'partition_seed': ('partition_seed',)}
    found = {column: [name for name in names if name in known] for column, names in wanted.items()}
    return {column: names[0] for column, names in found.items() if names}


def free_streams(section: Mapping[str, Any], where: str = 'config.problem') -> set[str]:
    """The streams that a problem draws and to which its section gives no seed."""
    options = problem_columns(section, where)
    if 'seed' in section:
        return set()
    streams = {column: stream for stream, column in COLUMNS.items()}
    return {streams[column] for column, option in options.items() if option not in section}


def problem(section: Any, draws: Mapping[str, int], where: str = 'config.problem') -> Any:
    """A problem's section with the seeds of columns that have a value."""
    named = {'name': section} if isinstance(section, str) else dict(section)
    options = problem_columns(section, where)
    given = {name: named[name] for name in (*options.values(), 'seed') if name in named}
    if draws.keys() & options.keys():
        _check_seeds(where, given)
    return {**named, **{options[name]: seed for name, seed in draws.items() if name in options}}


def are_drawn(section: Any) -> bool:
    """Whether links depend on a draw: their probabilities have a seed, or see the data."""
    return any(_depends(*part) for part in _parts(section))


def are_seeded(section: Any) -> bool:
    """Whether links have a seed of their own."""
    return any(_is_seeded(*part) for part in _parts(section))


def are_free(section: Any) -> bool:
    """Whether links have a seed of their own and no part of them gives it a value."""
    seeded = [part for field, part in _parts(section) if _is_seeded(field, part)]
    return bool(seeded) and not any(isinstance(p, Mapping) and 'seed' in p for p in seeded)


def links(section: Any, draws: Mapping[str, int], where: str = 'config.links') -> Any:
    """A pattern's section whose draws of probabilities, weights and groups have a given seed."""
    seed = draws.get(COLUMNS['links_quality'])
    return section if seed is None else _seeded(section, seed, where)


def _seeded(section: Any, seed: int, where: str) -> Any:
    if isinstance(section, list | tuple):
        return [_seeded(part, seed, f'{where}[{k}]') for k, part in enumerate(section)]
    if not isinstance(section, Mapping):
        return section
    found = {name: _seeded(value, seed, f'{where}.{name}') for name, value in section.items()}
    for name in _TABLES.keys() & section.keys():
        if isinstance(section[name], Mapping | str) and _is_seeded(name, section[name]):
            part = section[name]
            if isinstance(part, Mapping) and 'seed' in part:
                _check_seeds(f'{where}.{name}', {'seed': part['seed']})
            found[name] = {**({'name': part} if isinstance(part, str) else part), 'seed': seed}
    return found


def _parts(section: Any) -> Sequence[tuple[str, Any]]:
    """Sections that say what links depend on, nested patterns' too, with their field."""
    if isinstance(section, list | tuple):
        return [found for part in section for found in _parts(part)]
    if not isinstance(section, Mapping):
        return []
    return [
        found
        for name, value in section.items()
        for found in (
            [(name, value)]
            if name in _TABLES and isinstance(value, Mapping | str)
            else _parts(value)
        )
    ]


def _is_seeded(field: str, section: Any) -> bool:
    factory, _ = sections.lookup(f'config.links.{field}', section, _TABLES[field])
    return 'seed' in _parameters(factory)


def _depends(field: str, section: Any) -> bool:
    factory, _ = sections.lookup(f'config.links.{field}', section, _TABLES[field])
    return factory not in _TABLES[field].values() or 'seed' in _parameters(factory)


def _check_seeds(where: str, seeds: Mapping[str, Any]) -> None:
    """Raises unless what is replaced could have been a seed."""
    for name, seed in seeds.items():
        if seed is not None:
            checks.static_int(f'{where}.{name}', seed, minimum=0, maximum=2**32 - 1)


def _parameters(factory: Any) -> set[str]:
    try:
        return set(inspect.signature(getattr(factory, 'factory', factory)).parameters)
    except ValueError:  # some that are built in have none
        return set()
