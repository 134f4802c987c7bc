"""From a config to the objects of a run: the last place that knows both.

Every section of a config has a ``name`` and the options of what it names; options are checked
against the signature of the factory, so a new algorithm or pattern needs no edit here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np

from fedjax_links import checks, errors, sections
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.sections import Section

Config = TypeVar('Config')


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """A validated config.

    Attributes:
      title: one line for tables and pictures.
      problem: ``name`` in PROBLEMS, and its options.
      links: ``name`` in PARTICIPATION, and its options; ``probs`` and ``schedule`` are sections for
        the patterns that take probabilities.
      client: options of the client program: ``learning_rate``, ``decay`` (a name in
        LEARNING_RATES, or a section with that ``name`` and its options), ``local_steps``,
        ``batch_size`` (0 for the full local data).
      algorithms: options by label; ``name`` in ALGORITHMS if it is not the label, and ``client``
        for options of the client program that differ.
      num_rounds: T.
      eval_every: rounds between evaluations.
      num_seeds: S.
      first_seed: seeds are ``first_seed`` to ``first_seed + num_seeds - 1``.
    """

    title: str
    problem: Section
    links: Section
    client: Section
    algorithms: Mapping[str, Section]
    num_rounds: int
    eval_every: int
    num_seeds: int
    first_seed: int = 0

    @property
    def seeds(self) -> range:
        """The run's seeds."""
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What a config stands for.

    Attributes:
      config: the config.
      problem: data and loss.
      participation: the links.
      probs: float64[N], the probabilities before any schedule; None for patterns without.
      algorithms: by label; a ConfigDict sorts its labels.
    """

    config: ExperimentConfig
    problem: Problem
    participation: Participation
    probs: np.ndarray | None
    algorithms: Mapping[str, Algorithm]


def parse(values: Mapping[str, Any]) -> ExperimentConfig:
    """Checks names and types of the top level.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The config.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    return parse_as(ExperimentConfig, values)


def parse_as(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """`parse` for any dataclass of whole numbers, texts, lists and sections."""
    fields = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    for name, value in values.items():
        if name not in fields:
            raise errors.unknown_name('config', name, fields)
        if fields[name].type is int:
            checks.static_int(f'config.{name}', value, minimum=0 if name == 'first_seed' else 1)
        elif fields[name].type is str and not isinstance(value, str):
            raise errors.invalid(f'config.{name}', 'be text', repr(value))
        elif fields[name].type is tuple and not isinstance(value, list | tuple):
            raise errors.invalid(f'config.{name}', 'be a list', repr(value))
        elif fields[name].type not in (int, str, tuple) and not isinstance(value, Mapping):
            raise errors.invalid(f'config.{name}', 'be a section', repr(value))
    missing = [
        name
        for name, field in fields.items()
        if name not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise errors.invalid('config', f'have {missing[0]!r}', f'only {sorted(values)}')
    return kind(**values)


def build(config: ExperimentConfig) -> Experiment:
    """Builds everything a config names.

    Args:
      config: the config.

    Returns:
      Problem, links and algorithms.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    if config.num_rounds % config.eval_every:
        raise errors.invalid(
            'config.eval_every', f'divide num_rounds = {config.num_rounds}', config.eval_every
        )
    problem = sections.problem(config.problem)
    participation, probs = sections.links(config.links, problem)
    algorithms = {
        label: sections.algorithm(label, section, config.client)
        for label, section in config.algorithms.items()
    }
    return Experiment(config, problem, participation, probs, algorithms)
