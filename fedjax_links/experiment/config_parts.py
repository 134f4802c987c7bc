"""Makes makers of problems and patterns from sections of a config.

A maker makes its part at values of the grid's columns (`parametrized.Maker`). A stream is one kind
of random draws (`seeding`).
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fedjax_links.base import Params, Participation, Problem
from fedjax_links.config import link_sections, nested, recorded_links, resolver
from fedjax_links.config.bound import BoundFactory
from fedjax_links.config.schema import ExperimentConfig
from fedjax_links.core import checks, errors, grids
from fedjax_links.core.fields import REQUIRED
from fedjax_links.core.records import Section
from fedjax_links.experiment import section_seeds
from fedjax_links.experiment.section_seeds import FieldPath, Seeds
from fedjax_links.planning import parametrized, problem_families, seeding
from fedjax_links.planning.parametrized import Maker
from fedjax_links.planning.seeding import StreamModes
from fedjax_links.problems import with_initial_params

_Named = Callable[[], AbstractContextManager[None]]


def pattern_sections(
    links: Any, patterns: Section | None
) -> dict[str, tuple[str, Any]]:
    """Returns path and section of every pattern of a config, by label.

    Args:
      links: the field ``links`` of a config with one pattern; else None.
      patterns: the field ``patterns``: sections by label.
    """
    if links is not None:
        return {'links': ('links', links)}
    return {
        label: (f'patterns.{label}', section)
        for label, section in (patterns or {}).items()
    }


def problem_sections(
    problem: Section, problems: Section, labels: Iterable[str]
) -> dict[str, Section]:
    """Returns the section of the problem of every pattern, by the pattern's label.

    Args:
      problem: the field ``problem``, the problem of patterns that ``problems`` does not name.
      problems: the field ``problems``: by label of a pattern, what differs from ``problem``.
      labels: of the patterns.

    Raises:
      ValueError: for a label that no pattern has.
    """
    sections = dict.fromkeys(labels, problem)
    for label, changes in problems.items():
        checks.choice('config.problems', label, list(sections))
        changed = resolver.as_mapping(f'config.problems.{label}', changes)
        sections[label] = {**problem, **changed}
    return sections


@contextlib.contextmanager
def _named_as_changed(label: str, changes: Section) -> Iterator[None]:
    """Names a mistake in a field of a problem by ``config.problems``, if that has the field."""
    try:
        yield
    except errors.InvalidError as error:
        parts = error.path.split('.')
        # The error for an unknown field has the field as its value.
        field = parts[2] if len(parts) > 2 else str(error.value)
        if parts[:2] != ['config', 'problem'] or field not in changes:
            raise
        path = '.'.join(['config', 'problems', label, *parts[2:]])
        raise error.at(path) from error


def make_parts(
    settings: ExperimentConfig, columns: grids.GridColumns
) -> tuple[dict[str, Maker[Problem]], dict[str, Maker[Participation]], StreamModes]:
    """Returns makers of the problems and patterns of a config; nothing is made yet.

    Args:
      settings: the config.
      columns: of the grid.

    Returns:
      Makers of problems by label of the pattern, makers of patterns by label, and whether each
      stream follows the seed.
    """
    links = pattern_sections(settings.links, settings.patterns)
    sections = problem_sections(settings.problem, settings.problems, links)
    named: dict[str, _Named] = {}
    for label in sections:
        changes = nested.section(settings.problems.get(label, {}))
        named[label] = functools.partial(_named_as_changed, label, changes)
    redraw = settings.redraw
    if redraw is None:
        redraw = _default_redraw(columns, sections, links, named)
    with errors.context('config'):
        first_seeds = [settings.first_seed]
        by_grid = columns.get(seeding.REDRAW_COLUMN, ())
        draws = seeding.Draws(redraw, first_seeds, by_grid).columns()
    start: Params | None = None
    if settings.initial_params is not None:
        start = recorded_links.read_params(
            'config.initial_params', settings.initial_params
        )
    shared = {  # patterns with the same section share a maker
        id(section): problem_maker(section, columns, draws, start, named[label])
        for label, section in sections.items()
    }
    problems = {label: shared[id(section)] for label, section in sections.items()}
    patterns = {
        label: pattern_maker(path, section, problems[label], columns, draws)
        for label, (path, section) in links.items()
    }
    return problems, patterns, redraw


def _default_redraw(
    columns: grids.GridColumns,
    problems: Mapping[str, Section],
    links: Mapping[str, tuple[str, Any]],
    named: Mapping[str, _Named],
) -> dict[str, str]:
    """Lets a stream follow the seed if neither a section nor the grid gives it a seed.

    If the grid has a column ``redraw``, that column decides, and nothing is returned.

    Args:
      columns: of the grid.
      problems: sections of problems, by label of the pattern.
      links: paths and sections of patterns, by label.
      named: by label, contexts that name fields of the problem, see `_named_as_changed`.
    """
    if seeding.REDRAW_COLUMN in columns:
        return {}
    first = {name: values[0] for name, values in columns.items()}
    free = {*seeding.COLUMNS.values()}
    for label, section in problems.items():
        with named[label]():
            at_first = section_seeds.at_point(section, first, 'problem')
            free &= _unset_problem_seeds(at_first)
    patterns = [
        section_seeds.at_point(section, first, path) for path, section in links.values()
    ]
    for column, paths in section_seeds.seed_paths('links', patterns).items():
        if _are_absent(patterns, paths):
            free.add(column)
    streams = sorted(
        stream for stream, column in seeding.COLUMNS.items() if column in free
    )
    return dict.fromkeys(streams, seeding.BY_SEED)


def _are_absent(sections: Any, paths: Iterable[FieldPath]) -> bool:
    """Returns whether sections have a value at none of the paths."""
    values = [nested.value_at(sections, path, REQUIRED) for path in paths]
    return all(value is REQUIRED for value in values)


def _unset_problem_seeds(section: Section) -> set[str]:
    """Returns the columns of streams for which a problem's section has no seed."""
    if 'seed' in section:
        return set()
    paths_by_column = section_seeds.seed_paths('problem', section)
    unset = {
        column
        for column, paths in paths_by_column.items()
        if _are_absent(section, paths)
    }
    # The seed of a data loader's section fixes the data. `data_seed` would replace that seed.
    if not _are_absent(section, [('data', 'seed')]):
        unset.discard(seeding.COLUMNS['data'])
    return unset


def problem_maker(
    section: Section,
    columns: grids.GridColumns,
    draws: Seeds,
    start: Params | None,
    named: _Named,
) -> Maker[Problem]:
    """Returns the maker of a problem. The experiment and the pattern makers share it.

    Args:
      section: of the problem.
      columns: of the grid.
      draws: for streams by seed, the column and its value at the first seed.
      start: the parameters to begin with; None for the problem's own.
      named: a context that names fields of the problem in errors.
    """

    def make(**values: Any) -> Problem:
        with named():
            changed = section_seeds.at_point(section, values, 'problem')
            problem: Problem = resolver.bind_problem(changed).build()
        if start is None:
            return problem
        try:
            return with_initial_params(problem, start)
        except errors.InvalidError as error:
            raise error.at('config.initial_params') from None

    with named():
        seed_columns = section_seeds.seed_columns('problem', section, draws)
    names = [*section_seeds.columns_of('problem', columns), *seed_columns]
    return Maker(problem_families.ProblemCache(make), dict.fromkeys(names, REQUIRED))


def pattern_maker(
    prefix: str,
    section: Section | str,
    problem: Maker[Problem],
    columns: grids.GridColumns,
    draws: Seeds,
) -> Maker[Participation]:
    """Returns the maker of a pattern.

    A pattern is made for a problem's clients, so the maker takes the columns of the problem too. If
    the pattern depends only on the number of clients, the maker does not take the problem's seeds.
    The clients of a log are found by name. So a seed that changes the names makes another pattern.

    Args:
      prefix: the section's path in the config.
      section: of the pattern.
      problem: makes the problem that has the pattern's clients.
      columns: of the grid.
      draws: as in `problem_maker`.
    """

    def bind(**values: Any) -> BoundFactory:
        clients = problem.make_at({**draws, **values})
        changed = section_seeds.at_point(section, values, prefix)
        return link_sections.bind_links(changed, clients, f'config.{prefix}')

    swept = section_seeds.columns_of(prefix, columns)
    is_random = section_seeds.is_random(prefix, section)
    has_log = section_seeds.has_log(section) or any(
        name.endswith('.path') for name in swept
    )
    problem_columns = list(problem.columns)
    if not (is_random or has_log):
        problem_columns = [name for name in problem_columns if name not in draws]
    names = [
        *swept,
        *problem_columns,
        *section_seeds.seed_columns(prefix, section, draws),
    ]
    maker = parametrized.config_maker(bind, dict.fromkeys(names, REQUIRED))
    if is_random or not has_log:
        return maker
    return _shared_by_client_names(maker, problem, draws)


def _shared_by_client_names(
    maker: Maker[Participation], problem: Maker[Problem], draws: Seeds
) -> Maker[Participation]:
    """Lets problems with the same client names share a pattern that is read from a log."""
    by_names: dict[str, Participation] = {}

    def make(**values: Any) -> Participation:
        fixed = {name: value for name, value in values.items() if name not in draws}
        clients = problem.make_at({**draws, **values}).client_names
        key = repr((fixed, clients))
        if key not in by_names:
            by_names[key] = maker.make(**values)
        return by_names[key]

    return maker._replace(make=make)
