"""Puts values of grid points and seeds into sections of a config.

A column of the grid is named by its dotted path in the config. `seeding` says what streams of
random draws are, and which columns set their seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links.config import nested, registries, resolver
from fedjax_links.core import checks, grids
from fedjax_links.planning import seeding
from fedjax_links.problems import PROBLEMS

FieldPath = Sequence[str | int]
Seeds = Mapping[str, int]
"""The seeds that problems and patterns take in the first lane, by column (`seeding.COLUMNS`)."""


class RandomPart(NamedTuple):
    """Describes a part of a section of links that is made from the problem, perhaps at random.

    Attributes:
      path: of the part in the section.
      is_users: whether the part names a user's own factory.
      has_seed: whether the part's factory takes a seed.
    """

    path: FieldPath
    is_users: bool
    has_seed: bool


def at_point(section: Any, point: grids.Point, prefix: str) -> Any:
    """Puts the values of a point into a section: values of fields, and seeds of streams."""
    for name in columns_of(prefix, point):
        path = name.removeprefix(f'{prefix}.').split('.')
        section = nested.put(section, path, point[name], f'config.{prefix}')
    for column, paths in seed_paths(prefix, section).items():
        if column in point:
            for seed_path in paths:
                section = nested.put(section, seed_path, point[column])
    return section


def columns_of(prefix: str, columns: Iterable[str]) -> list[str]:
    """Returns the columns whose names begin with the path of a section."""
    return [name for name in columns if name.startswith(f'{prefix}.')]


def seed_columns(prefix: str, section: Any, draws: Seeds) -> list[str]:
    """Returns the columns among ``draws`` that set seeds of a section.

    Seeds that the section already has are checked.
    """
    columns: list[str] = []
    paths: list[FieldPath] = [('seed',)]
    for column, paths_of_column in seed_paths(prefix, section).items():
        if column in draws:
            columns.append(column)
            paths += paths_of_column
    if not columns:
        return []
    may_be_none = prefix == 'problem'
    for path in paths:
        seed = nested.value_at(section, path, 0)
        if seed is not None or not may_be_none:
            checks.seed(_text_of_path(prefix, path), seed)
    return columns


def seed_paths(prefix: str, section: Any) -> dict[str, list[FieldPath]]:
    """Returns the paths of the seeds in a section, by the column that sets them."""
    if prefix != 'problem':
        paths: list[FieldPath] = [
            [*part.path, 'seed']
            for part in _random_parts(prefix, section)
            if part.has_seed
        ]
        return {seeding.COLUMNS['links_quality']: paths} if paths else {}
    factory, _ = resolver.lookup('config.problem', section, PROBLEMS)
    parameters = resolver.parameters(factory)
    # A factory without `data_seed` draws all of its data by `seed`.
    data_option = 'data_seed' if 'data_seed' in parameters else 'seed'
    options = {'data_seed': data_option, 'partition_seed': 'partition_seed'}
    return {
        column: [[option]] for column, option in options.items() if option in parameters
    }


def is_random(prefix: str, section: object) -> bool:
    """Returns whether a part of links takes a seed, or comes from a user's own factory."""
    parts = _random_parts(prefix, section)
    return any(part.is_users or part.has_seed for part in parts)


def has_log(section: object) -> bool:
    """Returns whether links, or a part of them, are read from a log."""
    if isinstance(section, list | tuple):
        return any(map(has_log, section))
    if not isinstance(section, Mapping):
        return False
    return 'path' in section or any(map(has_log, section.values()))


def _random_parts(
    prefix: str, section: object, path: FieldPath = ()
) -> list[RandomPart]:
    """Returns the parts of links, and of patterns in them, that are made from the problem.

    Args:
      prefix: the path of the links in the config, for errors.
      section: the links, or a part of them.
      path: of the part in the links.
    """
    if isinstance(section, list | tuple):
        entries: Iterable[tuple[Any, Any]] = enumerate(section)
    elif isinstance(section, Mapping):
        entries = section.items()
    else:
        return []
    parts: list[RandomPart] = []
    for name, value in entries:
        inner_path = [*path, name]
        table = registries.PROBLEM_TABLES.get(name)
        if table is None or not isinstance(value, Mapping | str):
            parts += _random_parts(prefix, value, inner_path)
            continue
        where = _text_of_path(prefix, inner_path)
        factory, _ = resolver.lookup(where, value, table)
        is_users = factory not in table.values()
        has_seed = 'seed' in resolver.parameters(factory)
        parts.append(RandomPart(inner_path, is_users, has_seed))
    return parts


def _text_of_path(prefix: str, path: FieldPath) -> str:
    """Writes a path in a section as errors have it: ``config.links.patterns[0].probs``."""
    text = f'config.{prefix}'
    for part in path:
        text += f'[{part}]' if isinstance(part, int) else f'.{part}'
    return text
