"""Put the values of a point into sections of a config, and find the seeds that sections take."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links.config import nested, registries, resolver
from fedjax_links.core import checks, grids
from fedjax_links.planning import seeding
from fedjax_links.problems import PROBLEMS

FieldPath = Sequence[str | int]
Seeds = Mapping[str, int]
"""By column of a stream that follows the seed, its value at the first seed."""


class DrawnPart(NamedTuple):
    """Describe a part of links that is drawn from the problem.

    Attributes:
      path: where it stands in the section of the links.
      is_users: whether a factory of the user's own draws it.
      has_seed: whether it takes a seed.
    """

    path: FieldPath
    is_users: bool
    has_seed: bool


def at_point(section: Any, point: grids.Point, prefix: str) -> Any:
    """Returns a section with the values that a point gives: at paths in it, and for its seeds."""
    for name in columns_of(prefix, point):
        path = name.removeprefix(f'{prefix}.').split('.')
        section = nested.with_value(section, path, point[name], f'config.{prefix}')
    for name, paths in seed_paths(prefix, section).items():
        if name not in point:
            continue
        for seed_path in paths:
            section = nested.with_value(section, seed_path, point[name])
    return section


def columns_of(prefix: str, columns: Iterable[str]) -> list[str]:
    """Returns the columns whose names begin with the path of a section."""
    return [name for name in columns if name.startswith(f'{prefix}.')]


def columns_of_draws(prefix: str, section: Any, draws: Seeds) -> list[str]:
    """Returns the columns of draws that give a section its seeds, and checks those it has."""
    seeds = {
        name: paths
        for name, paths in seed_paths(prefix, section).items()
        if name in draws
    }
    if not seeds:
        return []
    for path in [('seed',), *itertools.chain(*seeds.values())]:
        seed = nested.value_at(section, path, 0)
        if seed is not None or prefix != 'problem':  # whose seeds may be left open
            checks.seed('.'.join(map(str, ('config', prefix, *path))), seed)
    return list(seeds)


def seed_paths(prefix: str, section: Any) -> dict[str, list[FieldPath]]:
    """Returns where a section has seeds of its own, by the column that gives them a value."""
    if prefix != 'problem':
        paths = [
            [*part.path, 'seed'] for part in _drawn_parts(section) if part.has_seed
        ]
        return {seeding.COLUMNS['links_quality']: list(paths)} if paths else {}
    factory, _ = resolver.lookup('config.problem', section, PROBLEMS)
    known = resolver.parameters(factory)
    data = 'data_seed' if 'data_seed' in known else 'seed'  # then that of all its data
    options = {'data_seed': data, 'partition_seed': 'partition_seed'}
    return {column: [[option]] for column, option in options.items() if option in known}


def is_drawn(section: Any) -> bool:
    """Tells whether a part of links is drawn by a seed, or by a user's own factory."""
    return any(part.is_users or part.has_seed for part in _drawn_parts(section))


def has_log(section: Any) -> bool:
    """Tells whether links, or a part of them, are read from a log."""
    if isinstance(section, list | tuple):
        return any(map(has_log, section))
    if not isinstance(section, Mapping):
        return False
    return 'path' in section or any(map(has_log, section.values()))


def _drawn_parts(section: Any, path: FieldPath = ()) -> list[DrawnPart]:
    """Returns what links, and the patterns in them, are drawn from."""
    if isinstance(section, list | tuple):
        entries: Iterable[tuple[Any, Any]] = enumerate(section)
    elif isinstance(section, Mapping):
        entries = section.items()
    else:
        return []
    parts: list[DrawnPart] = []
    for name, value in entries:
        inner = [*path, name]
        table = registries.PROBLEM_TABLES.get(name)
        if table is None or not isinstance(value, Mapping | str):
            parts += _drawn_parts(value, inner)
            continue
        factory, _ = resolver.lookup(f'config.links.{name}', value, table)
        is_users = factory not in table.values()
        has_seed = 'seed' in resolver.parameters(factory)
        parts.append(DrawnPart(inner, is_users, has_seed))
    return parts
