"""Makers of the problems and patterns of a config."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links import checks, errors, grids, sections
from fedjax_links.base import Participation, Problem
from fedjax_links.experiment import redrawn_sections, redraws
from fedjax_links.experiment.makers import REQUIRED, Maker
from fedjax_links.sections import Section

LINKS = 'links'
"""Label of the pattern of a config with a single section ``links``."""


def pattern_sections(config: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Path and section of every pattern of a config, by label."""
    if 'links' in config:
        return {LINKS: ('links', config['links'])}
    sections = config.get('patterns', {})
    return {label: (f'patterns.{label}', section) for label, section in sections.items()}


def first_draws(config: Mapping[str, Any]) -> dict[str, int]:
    """The columns of streams that are drawn by seed, with the value of the first seed."""
    alone = config.get('grid', {}).get(redraws.GRID, ())
    with errors.inside('config'):
        draws = redraws.Draws(redraw(config), [config.get('first_seed', 0)], alone)
    return draws.columns()


def redraw(config: Mapping[str, Any]) -> Mapping[str, str] | str:
    """What a config says of its draws; where it does not, what is not given a seed is by seed.

    A seed is given by a section, or by a column of the grid. A column ``redraw`` says it all.
    """
    if 'redraw' in config:
        given: Mapping[str, str] | str = config['redraw']
        return given
    if redraws.GRID in (config.get('grid') or {}):
        return {}
    columns = grids.flatten(config.get('grid') or {}, 'config.grid')
    own = [{}, *config.get('problems', {}).values()]
    every = [at_first({**config['problem'], **fields}, columns, 'problem') for fields in own]
    free = [redrawn_sections.free_streams(section) for section in every]
    by_seed = set.intersection(*free)
    patterns = pattern_sections(config).values()
    links = [at_first(section, columns, path) for path, section in patterns]
    if redrawn_sections.are_free(links):
        by_seed.add('links_quality')
    return dict.fromkeys(sorted(by_seed), redraws.BY_SEED)


def at_first(section: Any, columns: grids.Columns, prefix: str) -> Any:
    """A section at the first point of the columns whose names begin with its path."""
    own = {name: v[0] for name, v in columns.items() if name.startswith(f'{prefix}.')}
    return replaced(section, own, prefix)


def problem_makers(
    config: Mapping[str, Any],
    labels: Sequence[str],
    columns: grids.Columns,
    draws: Mapping[str, int],
) -> dict[str, Maker[Problem]]:
    """One maker by pattern; patterns share it unless their problem differs.

    Args:
      config: nested dictionaries.
      labels: of the patterns.
      columns: of the grid.
      draws: columns of streams that are drawn by seed, with the value of the first seed.
    """
    own = config.get('problems', {})
    for label in own:
        checks.choice('config.problems', label, labels)
    names = [name for name in columns if name.startswith('problem.')]

    def maker(section: Section) -> Maker[Problem]:
        made: dict[str, Any] = {}  # patterns look at the same data
        drawn = [name for name in redrawn_sections.problem_columns(section) if name in draws]

        def make(**values: Any) -> Any:
            if repr(values) not in made:
                own = {name: values[name] for name in names}
                seeds = {name: values[name] for name in drawn}
                changed = redrawn_sections.problem(replaced(section, own, 'problem'), seeds)
                made[repr(values)] = sections.problem(changed)
            return made[repr(values)]

        return Maker(make, dict.fromkeys((*names, *drawn), REQUIRED))

    shared = maker(config['problem'])
    return {
        label: maker({**config['problem'], **own[label]}) if label in own else shared
        for label in labels
    }


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
      draws: as in `problem_makers`.
    """
    own = [name for name in columns if name.startswith(f'{prefix}.')]
    named = [name for name in problem.columns if name not in draws]
    drawn: list[str] = []
    if redrawn_sections.are_drawn(section):
        drawn = [name for name in problem.columns if name in draws]
    quality = redraws.COLUMNS['links_quality']
    if quality in draws and redrawn_sections.are_seeded(section):
        drawn.append(quality)

    def make(**values: Any) -> Any:
        seeds = {**draws, **{name: values[name] for name in drawn}}
        known = {**seeds, **values}
        data = problem.make(**{name: known[name] for name in problem.columns})
        changed = replaced(section, {name: values[name] for name in own}, prefix)
        changed = redrawn_sections.links(changed, seeds, f'config.{prefix}')
        return sections.links(changed, data, f'config.{prefix}')[0]

    return Maker(make, dict.fromkeys((*own, *named, *drawn), REQUIRED))


def replaced(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """A section with values at dotted paths that begin with its own."""
    changed = section
    for path, value in values.items():
        changed = with_value(changed, path.removeprefix(f'{prefix}.').split('.'), value)
    return changed


def with_value(section: Any, path: Sequence[str], value: Any) -> Any:
    """A section with a value at a path, which may lead into sections that are not there."""
    if not path:
        return value
    inner = {'name': section} if isinstance(section, str) else section or {}
    first, *rest = path
    if not isinstance(inner, Mapping):
        raise errors.invalid('config', f'have a section around {first!r}, which varies', inner)
    return {**inner, first: with_value(inner.get(first), rest, value)}
