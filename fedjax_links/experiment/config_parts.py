"""Makers of the parts of a config: its sections, with the values of columns at their paths."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Params, Participation, Problem
from fedjax_links.config import nested, recorded_links, registries
from fedjax_links.config import resolver as sections
from fedjax_links.config.resolver import Section
from fedjax_links.core import checks, errors, grids
from fedjax_links.planning import parametrized, seeding
from fedjax_links.planning.parametrized import REQUIRED, Maker
from fedjax_links.problems import PROBLEMS, with_initial_params

RATE, SERVER_LR = 'client.learning_rate', 'server_lr'
INITIAL_PARAMS = 'initial_params'

FieldPath = Sequence[str | int]
Seeds = Mapping[str, int]


def pattern_sections(config: Section) -> dict[str, tuple[str, Any]]:
    """Path and section of every pattern of a config, by label."""
    if 'links' in config:
        return {'links': ('links', config['links'])}
    sections = config.get('patterns', {})
    return {
        label: (f'patterns.{label}', section) for label, section in sections.items()
    }


def problem_sections(config: Section) -> dict[str, Section]:
    """The section of the problem of every pattern, by label; patterns without their own share it.

    Raises:
      ValueError: for a problem of a pattern that is not there.
    """
    shared: Section = config['problem']
    found = dict.fromkeys(pattern_sections(config), shared)
    for label, section in config.get('problems', {}).items():
        checks.choice('config.problems', label, list(found))
        found[label] = {
            **shared,
            **sections.as_mapping(f'config.problems.{label}', section),
        }
    return found


def parts(
    config: Section, columns: grids.GridColumns, tried: grids.GridColumns
) -> dict[str, Any]:
    """Makers of problems, patterns and algorithms of a config, by label; nothing is made yet.

    Args:
      config: nested dictionaries.
      columns: of the grid.
      tried: of tuning.

    Returns:
      ``problem``, ``patterns``, ``algorithms`` and ``redraw`` of an `Experiment`.
    """
    ways = _ways(config, columns)
    with errors.inside('config'):
        seeds = [config.get('first_seed', 0)]
        draws = seeding.Draws(ways, seeds, columns.get(seeding.GRID, ())).columns()
    own = problem_sections(config)
    start: Params | None = None
    if INITIAL_PARAMS in config:
        start = recorded_links.read_params(
            f'config.{INITIAL_PARAMS}', config[INITIAL_PARAMS]
        )
    made = {
        id(section): problem_maker(section, columns, draws, start)
        for section in own.values()
    }
    problems = {label: made[id(section)] for label, section in own.items()}
    patterns = {
        label: pattern_maker(path, section, problems[label], columns, draws)
        for label, (path, section) in pattern_sections(config).items()
    }
    every = {**columns, **tried}
    algorithms = {
        label: algorithm_maker(config, label, every) for label in config['algorithms']
    }
    return {
        'problem': problems,
        'patterns': patterns,
        'algorithms': algorithms,
        'redraw': ways,
    }


def _ways(config: Section, columns: grids.GridColumns) -> seeding.Ways:
    """What a config says of its draws; where it does not, what is not given a seed is by seed.

    A seed is given by a section, or by a column of the grid. A column ``redraw`` says it all.
    """
    if 'redraw' in config:
        given: seeding.Ways = config['redraw']
        return given
    point = {name: values[0] for name, values in columns.items()}
    if seeding.GRID in point:
        return {}
    free = {*seeding.COLUMNS.values()}
    for section in problem_sections(config).values():
        first = at_point(section, point, 'problem')
        seeds = _seeds('problem', first)
        free &= {
            column
            for column, (path,) in seeds.items()
            if not {*path, 'seed'} & first.keys()
        }
    links = [
        at_point(part, point, path) for path, part in pattern_sections(config).values()
    ]
    for column, paths in _seeds('links', links).items():
        if all(nested.value_at(links, path, REQUIRED) is REQUIRED for path in paths):
            free.add(column)
    by_seed = sorted(
        stream for stream, column in seeding.COLUMNS.items() if column in free
    )
    return dict.fromkeys(by_seed, seeding.BY_SEED)


def problem_maker(
    section: Section,
    columns: grids.GridColumns,
    draws: Seeds,
    start: Params | None = None,
) -> Maker[Problem]:
    """A problem, which patterns that look at it and the experiment share.

    Args:
      section: of the problem.
      columns: of the grid.
      draws: columns of streams that are drawn by seed, with the value of the first seed.
      start: the parameters to begin with; None for the problem's own.
    """

    def make(**values: Any) -> Problem:
        problem: Problem = sections.bind_problem(
            at_point(section, values, 'problem')
        ).build()
        if start is None:
            return problem
        try:
            return with_initial_params(problem, start)
        except errors.InvalidError as error:
            raise error.at(f'config.{INITIAL_PARAMS}') from None

    own = (*_columns_of('problem', columns), *_drawn('problem', section, draws))
    return Maker(parametrized.Problems(make), dict.fromkeys(own, REQUIRED))


def pattern_maker(
    prefix: str,
    section: Any,
    problem: Maker[Problem],
    columns: grids.GridColumns,
    draws: Seeds,
) -> Maker[Participation]:
    """A pattern; it takes its problem's columns too, as it is made for that problem's clients.

    Draws of the problem are no concern of a pattern that looks at nothing but how many there are.
    A log's clients are found by their names: it is another pattern where a draw changes these.

    Args:
      prefix: the section's path in the config.
      section: of the pattern.
      problem: of whose clients.
      columns: of the grid.
      draws: as in `problem_maker`.
    """

    def bind(**values: Any) -> sections.Bound:
        data = problem.make_at({**draws, **values})
        return sections.bind_links(
            at_point(section, values, prefix), data, f'config.{prefix}'
        )

    is_drawn = any(is_own or is_seeded for _, is_own, is_seeded in _parts(section))
    paths = (name for name in columns if name.startswith(f'{prefix}.'))
    has_log = _has_log(section) or any(name.endswith('.path') for name in paths)
    theirs = [
        name for name in problem.columns if is_drawn or has_log or name not in draws
    ]
    own = (*_columns_of(prefix, columns), *theirs, *_drawn(prefix, section, draws))
    maker = parametrized.bound(bind, dict.fromkeys(own, REQUIRED))
    if is_drawn or not has_log:
        return maker
    by_names: dict[str, Participation] = {}

    def make(**values: Any) -> Participation:
        fixed = {name: value for name, value in values.items() if name not in draws}
        key = repr((fixed, problem.make_at({**draws, **values}).client_names))
        if key not in by_names:
            by_names[key] = maker.make(**values)
        return by_names[key]

    return maker._replace(make=make)


def algorithm_maker(
    config: Section, label: str, columns: grids.GridColumns
) -> Maker[Algorithm]:
    """An algorithm; it takes its client rate and what the grids say of it and of clients.

    Args:
      config: nested dictionaries.
      label: of the algorithm.
      columns: of the grid and of tuning.
    """
    where, home = f'config.algorithms.{label}', ['algorithms', label]
    section = sections.as_mapping(where, config['algorithms'][label])
    own = sections.as_mapping(f'{where}.client', section.get('client', {}))
    factory, options = sections.lookup(where, {'name': label, **section}, ALGORITHMS)
    has_rate = SERVER_LR in sections.parameters(factory)
    has_rate &= not {SERVER_LR, 'server_optimizer'} & options.keys()
    paths: dict[str, FieldPath] = {}
    for name in columns:
        path = name.split('.')
        if path[0] == 'client' and path[1:] and path[1] not in own:
            paths[name] = path
        elif name.startswith(f'algorithms.{label}.'):
            paths[name] = [*home, *name.removeprefix(f'algorithms.{label}.').split('.')]
        elif name == SERVER_LR and has_rate:
            paths[name] = [*home, name]
    paths[RATE] = [*(home if 'learning_rate' in own else ()), *RATE.split('.')]
    tree = {'client': config.get('client', {}), 'algorithms': {label: section}}
    taken = {
        name: nested.value_at(tree, path, REQUIRED) for name, path in paths.items()
    }
    if taken[RATE] is not REQUIRED:
        taken[RATE] = as_rate(f'{where}.client.learning_rate', taken[RATE])
    elif RATE not in columns:
        requirement = (
            f'be given, or several as `config.tuning.learning_rates`, for {label}'
        )
        raise errors.invalid(f'config.{RATE}', requirement, None)
    if 'learning_rate' in own and RATE in columns:
        requirement = (
            'be left out, as `config.grid` or `config.tuning` has rates for all'
        )
        given = errors.text_of(own['learning_rate'])
        raise errors.invalid(f'{where}.client.learning_rate', requirement, given)

    def bind(**values: Any) -> sections.Bound:
        changed: Any = tree
        for name in dict.fromkeys((RATE, *paths)):  # a grid's own column counts
            changed = nested.with_value(changed, paths[name], values[name])
        return sections.bind_algorithm(
            label, changed['algorithms'][label], changed['client']
        )

    return parametrized.bound(bind, taken, holes=True)


def as_rate(where: str, rate: Any) -> float:
    """A number that no program is built around, whichever way it is written."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number):
        raise errors.invalid(where, 'be a number', errors.text_of(rate))
    checks.positive(where, rate)
    return float(rate)


# Values at paths, and seeds of draws.


def at_point(section: Any, point: grids.Point, prefix: str) -> Any:
    """A section with the values that a point gives: at paths in it, and for its seeds."""
    for name in _columns_of(prefix, point):
        path = name.removeprefix(f'{prefix}.').split('.')
        section = nested.with_value(section, path, point[name], f'config.{prefix}')
    for name, paths in _seeds(prefix, section).items():
        for seed in paths if name in point else ():
            section = nested.with_value(section, seed, point[name])
    return section


def _columns_of(prefix: str, columns: Iterable[str]) -> list[str]:
    """The columns whose names begin with the path of a section."""
    return [name for name in columns if name.startswith(f'{prefix}.')]


def _drawn(prefix: str, section: Any, draws: Seeds) -> list[str]:
    """The columns of draws that give a section its seeds; those that it has must be some."""
    seeds = {
        name: paths for name, paths in _seeds(prefix, section).items() if name in draws
    }
    for path in [('seed',), *itertools.chain(*seeds.values())] if seeds else ():
        given = nested.value_at(section, path, 0)
        if given is not None or prefix != 'problem':  # whose seeds may be left open
            checks.seed('.'.join(map(str, ('config', prefix, *path))), given)
    return list(seeds)


def _seeds(prefix: str, section: Any) -> dict[str, list[tuple[str | int, ...]]]:
    """Where a section has seeds of its own, by the column that gives them a value."""
    if prefix != 'problem':
        paths = [(*path, 'seed') for path, _, is_seeded in _parts(section) if is_seeded]
        return {seeding.COLUMNS['links_quality']: paths} if paths else {}
    known = sections.parameters(sections.lookup('config.problem', section, PROBLEMS)[0])
    data = 'data_seed' if 'data_seed' in known else 'seed'  # then that of all its data
    options = {'data_seed': data, 'partition_seed': 'partition_seed'}
    return {
        column: [(option,)] for column, option in options.items() if option in known
    }


def _has_log(section: Any) -> bool:
    """Tells whether links, or a part of them, are read from a log."""
    if isinstance(section, list | tuple):
        return any(map(_has_log, section))
    if not isinstance(section, Mapping):
        return False
    return 'path' in section or any(map(_has_log, section.values()))


def _parts(section: Any, path: FieldPath = ()) -> list[tuple[FieldPath, bool, bool]]:
    """What links are drawn from, nested patterns' too: where, whether a user's, whether by seed."""
    if isinstance(section, list | tuple):
        return [
            found
            for k, part in enumerate(section)
            for found in _parts(part, (*path, k))
        ]
    parts: list[tuple[FieldPath, bool, bool]] = []
    for name, value in section.items() if isinstance(section, Mapping) else ():
        inner, table = (*path, name), registries.DRAWN.get(name)
        if table is None or not isinstance(value, Mapping | str):
            parts += _parts(value, inner)
            continue
        factory, _ = sections.lookup(f'config.links.{name}', value, table)
        is_own = factory not in table.values()
        parts.append((inner, is_own, 'seed' in sections.parameters(factory)))
    return parts
