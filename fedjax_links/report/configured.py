"""The links of a config, with what they belong to: no algorithm is looked at."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedjax_links import checks, errors, sections
from fedjax_links.base import Participation, Problem
from fedjax_links.experiment import redrawn_sections
from fedjax_links.experiment.config_parts import first_draws, pattern_sections
from fedjax_links.report.laws import LinkLaw, link_law


class ConfiguredLinks(NamedTuple):
    """One pattern of a config.

    Attributes:
      title: of the config.
      problem_name: name of the problem.
      label: of the pattern.
      section: what the config says of the links.
      problem: whose clients they are.
      participation: the pattern.
      law: what is known of it exactly.
      seed: the first of the config.
    """

    title: str
    problem_name: str
    label: str
    section: Mapping[str, Any]
    problem: Problem
    participation: Participation
    law: LinkLaw
    seed: int

    @property
    def name(self) -> str:
        """The pattern's name in its section."""
        return str(self.section['name'])


def configured_links(config: Mapping[str, Any], label: str | None = None) -> ConfiguredLinks:
    """A pattern of a config.

    Args:
      config: nested dictionaries.
      label: which pattern; the first by default.

    Returns:
      The links, built.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    if not isinstance(config.get('problem'), Mapping) or not ({'links', 'patterns'} & {*config}):
        raise errors.invalid('config', "have sections 'problem' and 'links'", sorted(config))
    found = pattern_sections(config)
    if label is None:
        label = next(iter(found))
    checks.choice('pattern', label, list(found))
    path, section = found[label]
    section = {'name': section} if isinstance(section, str) else section
    own = config.get('problems', {}).get(label, {})
    draws = first_draws(config)
    problem = sections.problem(redrawn_sections.problem({**config['problem'], **own}, draws))
    section = redrawn_sections.links(section, draws)
    return ConfiguredLinks(
        title=str(config.get('title', '')),
        problem_name=str(config['problem'].get('name')),
        label=label,
        section=section,
        problem=problem,
        participation=sections.links(section, problem, f'config.{path}')[0],
        law=link_law(section, problem),
        seed=int(config.get('first_seed', 0)),
    )
