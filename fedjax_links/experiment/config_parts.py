"""Makers of the parts of a config: its sections, with the values of columns at their paths."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config import choices, sections, trees
from fedjax_links.config.sections import Section
from fedjax_links.core import checks, errors, grids
from fedjax_links.experiment.plan import makers, redraws
from fedjax_links.experiment.plan.makers import REQUIRED, Maker
from fedjax_links.problems import PROBLEMS

RATE, SERVER_LR = 'client.learning_rate', 'server_lr'
LINKS = 'links'
"""Label of the pattern of a config with a single section ``links``."""

Path = Sequence[str | int]
_QUALITY = redraws.COLUMNS['links_quality']
_SEEDS = {'data_seed': ('data_seed', 'seed'), 'partition_seed': ('partition_seed',)}
"""Options of a problem by column; one without ``data_seed`` has all its data from ``seed``."""


def pattern_sections(config: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Path and section of every pattern of a config, by label."""
    if 'links' in config:
        return {LINKS: ('links', config['links'])}
    sections = config.get('patterns', {})
    return {label: (f'patterns.{label}', section) for label, section in sections.items()}


def problem_sections(config: Mapping[str, Any]) -> dict[str, Section]:
    """The section of the problem of every pattern, by label; patterns without their own share it.

    Raises:
      ValueError: for a problem of a pattern that is not there.
    """
    labels, own = list(pattern_sections(config)), config.get('problems', {})
    for label, section in own.items():
        checks.choice('config.problems', label, labels)
        _check_section(f'config.problems.{label}', section)
    shared = config['problem']
    return {label: {**shared, **own[label]} if label in own else shared for label in labels}


def parts(
    config: Mapping[str, Any], columns: grids.Columns, ways: Mapping[str, str] | str
) -> tuple[dict[str, Maker[Problem]], dict[str, Maker[Participation]]]:
    """Makers of the problems and patterns of a config, by label; nothing is made yet.

    Args:
      config: nested dictionaries.
      columns: of the grid.
      ways: what `redraw` finds.
    """
    with errors.inside('config'):
        seeds = [config.get('first_seed', 0)]
        draws = redraws.Draws(ways, seeds, columns.get(redraws.GRID, ())).columns()
    own, shared = problem_sections(config), problem_maker(config['problem'], columns, draws)
    problems = {
        label: shared if section is config['problem'] else problem_maker(section, columns, draws)
        for label, section in own.items()
    }
    patterns = {
        label: pattern_maker(path, section, problems[label], columns, draws)
        for label, (path, section) in pattern_sections(config).items()
    }
    return problems, patterns


def redraw(config: Mapping[str, Any]) -> Mapping[str, str] | str:
    """What a config says of its draws; where it does not, what is not given a seed is by seed.

    A seed is given by a section, or by a column of the grid. A column ``redraw`` says it all.
    """
    if 'redraw' in config:
        given: Mapping[str, str] | str = config['redraw']
        return given
    columns = grids.flatten(config.get('grid') or {}, 'config.grid')
    point = {name: values[0] for name, values in columns.items()}
    if redraws.GRID in point:
        return {}
    by_seed = set(redraws.COLUMNS)
    for section in problem_sections(config).values():
        first = at_point(section, point, 'problem')
        options = _seed_options(first)
        free = [c for c, option in options.items() if not first.keys() & {option, 'seed'}]
        by_seed &= {stream for stream, column in redraws.COLUMNS.items() if column in free}
    sections = pattern_sections(config).values()
    links = [at_point(section, point, path) for path, section in sections]
    paths = _seed_paths(links)
    if paths and all(trees.value_at(links, path, REQUIRED) is REQUIRED for path in paths):
        by_seed.add('links_quality')
    return dict.fromkeys(sorted(by_seed), redraws.BY_SEED)


def problem_maker(
    section: Section, columns: grids.Columns, draws: Mapping[str, int]
) -> Maker[Problem]:
    """A problem, which patterns that look at it and the experiment share.

    Args:
      section: of the problem.
      columns: of the grid.
      draws: columns of streams that are drawn by seed, with the value of the first seed.
    """
    axes, options = _axes(columns, 'problem'), _seed_options(section)
    drawn = [name for name in options if name in draws]
    for option in {'seed', *options.values()} & section.keys() if drawn else ():
        if section[option] is not None:
            checks.seed(f'config.problem.{option}', section[option])

    def make(**values: Any) -> Problem:
        changed = _replaced('config.problem', section, axes, values)
        for column, option in _seed_options(changed).items():
            if column in drawn:
                changed = trees.with_value(changed, [option], values[column])
        problem: Problem = sections.bind_problem(changed).build()
        return problem

    return Maker(makers.remember(make), dict.fromkeys((*axes, *drawn), REQUIRED))


def pattern_maker(
    prefix: str,
    section: Any,
    problem: Maker[Problem],
    columns: grids.Columns,
    draws: Mapping[str, int],
) -> Maker[Participation]:
    """A pattern; it takes its problem's columns too, as it is made for that problem's clients.

    Draws of the problem are no concern of a pattern that looks at nothing but how many there are.

    Args:
      prefix: the section's path in the config.
      section: of the pattern.
      problem: of whose clients.
      columns: of the grid.
      draws: as in `problem_maker`.
    """
    axes, where = _axes(columns, prefix), f'config.{prefix}'
    drawn = [name for name in problem.columns if name in draws and _is_drawn(section)]
    paths = _seed_paths(section) if _QUALITY in draws else []
    for path in paths:
        checks.seed('.'.join(map(str, (where, *path))), trees.value_at(section, path, 0))
    if paths:
        drawn.append(_QUALITY)

    def bind(**values: Any) -> sections.Bound:
        known = {**draws, **values}
        changed = _replaced(where, section, axes, values)
        for path in _seed_paths(changed) if _QUALITY in drawn else ():
            changed = trees.with_value(changed, path, values[_QUALITY])
        data = problem.make(**{name: known[name] for name in problem.columns})
        return sections.bind_links(changed, data, where)

    named = [name for name in problem.columns if name not in draws]
    return makers.bound(bind, dict.fromkeys((*axes, *named, *drawn), REQUIRED))


def algorithm_maker(
    config: Mapping[str, Any], label: str, columns: grids.Columns
) -> Maker[Algorithm]:
    """An algorithm; it takes its client rate and what the grids say of it and of clients.

    Args:
      config: nested dictionaries.
      label: of the algorithm.
      columns: of the grid and of tuning.
    """
    where, prefix = f'config.algorithms.{label}', f'algorithms.{label}.'
    section = config['algorithms'][label]
    _check_section(where, section)
    own = section.get('client', {})
    _check_section(f'{where}.client', own)
    tree = {'client': config.get('client', {}), 'algorithms': {label: section}}
    paths: dict[str, Path] = {}
    for name in columns:
        path = name.split('.')
        if path[0] == 'client' and path[1:] and path[1] not in own:
            paths[name] = path
        elif name.startswith(prefix):
            paths[name] = ['algorithms', label, *name.removeprefix(prefix).split('.')]
        elif name == SERVER_LR and _may_tune_server_lr(where, {'name': label, **section}):
            paths[name] = ['algorithms', label, name]
    own_rate = 'learning_rate' in own
    paths[RATE] = [*(['algorithms', label] if own_rate else []), *RATE.split('.')]
    taken = {name: trees.value_at(tree, path, REQUIRED) for name, path in paths.items()}
    if taken[RATE] is not REQUIRED:
        taken[RATE] = _as_rate(f'{where}.client.learning_rate', taken[RATE])
    if own_rate and RATE in columns:
        requirement = 'be left out, as `config.grid` or `config.tuning` has rates for all'
        given = errors.text_of(own['learning_rate'])
        raise errors.invalid(f'{where}.client.learning_rate', requirement, given)
    axes = {name: paths[name] for name in (RATE, *paths)}  # a grid's own column counts

    def bind(**values: Any) -> sections.Bound:
        changed: Any = _replaced('config', tree, axes, values)
        return sections.bind_algorithm(label, changed['algorithms'][label], changed['client'])

    return makers.bound(bind, taken, holes=True)


def _as_rate(where: str, rate: Any) -> float:
    """A number that no program is built around, whichever way it is written."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number):
        raise errors.invalid(where, 'be a number', errors.text_of(rate))
    checks.positive(where, rate)
    return float(rate)


def _may_tune_server_lr(where: str, section: Section) -> bool:
    """Whether an algorithm has a server rate that is not configured."""
    factory, options = sections.lookup(where, section, ALGORITHMS)
    return SERVER_LR in sections.parameters(factory) and SERVER_LR not in options


def _check_section(where: str, section: Any) -> None:
    """Raises unless a value is a section with fields."""
    if not isinstance(section, Mapping):
        raise errors.invalid(where, 'be a section', errors.text_of(section))


# Values at paths.


def at_point(section: Any, point: grids.Point, prefix: str) -> Any:
    """A section at a point of the grid, as far as columns are named by its path."""
    return _replaced(f'config.{prefix}', section, _axes(point, prefix), point)


def _axes(columns: Iterable[str], prefix: str) -> dict[str, Path]:
    """The columns whose names begin with the path of a section, with the rest of the path."""
    start = f'{prefix}.'
    return {n: n.removeprefix(start).split('.') for n in columns if n.startswith(start)}


def _replaced(where: str, section: Any, axes: Mapping[str, Path], values: Section) -> Any:
    for name, path in axes.items():
        section = trees.with_value(section, path, values[name], where)
    return section


# Seeds of draws.


def _seed_options(section: Section) -> dict[str, str]:
    """The options of a problem that are seeds, by the column that gives them a value."""
    known = sections.parameters(sections.lookup('config.problem', section, PROBLEMS)[0])
    found = {column: [name for name in names if name in known] for column, names in _SEEDS.items()}
    return {column: names[0] for column, names in found.items() if names}


def _seed_paths(section: Any) -> list[Path]:
    """Where parts of links have a seed of their own."""
    return [(*path, 'seed') for path, _, is_seeded in _parts(section) if is_seeded]


def _is_drawn(section: Any) -> bool:
    """Whether links depend on a draw: their probabilities have a seed, or see the data."""
    return any(is_seeded or is_own for _, is_own, is_seeded in _parts(section))


def _parts(section: Any, path: Path = ()) -> list[tuple[Path, bool, bool]]:
    """What links are drawn from, nested patterns' too: where, whether a user's, whether by seed."""
    if isinstance(section, list | tuple):
        return [found for k, part in enumerate(section) for found in _parts(part, (*path, k))]
    parts: list[tuple[Path, bool, bool]] = []
    for name, value in section.items() if isinstance(section, Mapping) else ():
        inner, table = (*path, name), choices.DRAWN.get(name)
        if table is None or not isinstance(value, Mapping | str):
            parts += _parts(value, inner)
            continue
        factory, _ = sections.lookup(f'config.links.{name}', value, table)
        is_own = factory not in table.values()
        parts.append((inner, is_own, 'seed' in sections.parameters(factory)))
    return parts
