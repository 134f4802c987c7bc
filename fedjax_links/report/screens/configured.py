"""The links of a config, with what they belong to: no algorithm is looked at."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Participation, Problem
from fedjax_links.config import choices, sections
from fedjax_links.config.sections import Bound
from fedjax_links.core import checks, errors, grids
from fedjax_links.experiment import Experiment, config_parts
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.experiment.plan import limits
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens.laws import link_law
from fedjax_links.results.dataset import described

_MOST_ROUNDS = 10**7  # whose rates are added up
_PLAIN = {'learning_rate', 'decay', 'local_steps', 'batch_size'}


class Horizon(NamedTuple):
    """How far a config's FedAvg and FedPBC go, with plain local SGD and server rates of 1.

    Attributes:
      rounds: T.
      time: the sum of the local rates over all local steps.
    """

    rounds: int
    time: float


class ConfiguredLinks(NamedTuple):
    """One pattern of a config, at the first point of its grid and as the first seed draws it.

    Attributes:
      title: of the config.
      problem_name: name of the problem.
      name: of the pattern in its section.
      problem: whose clients they are.
      participation: the pattern.
      law: what is known of it exactly.
      seed: the first of the config.
      horizon: how far its runs go; None where that is not a matter of rates and steps alone.
      where: the point of the grid at which these are, in words; empty where the grid has no column
        of links or problem.
    """

    title: str
    problem_name: str
    name: str
    problem: Problem
    participation: Participation
    law: LinkLaw
    seed: int
    horizon: Horizon | None = None
    where: str = ''


def of_config(config: Mapping[str, Any], label: str | None = None) -> ConfiguredLinks:
    """A pattern of a config, of which nothing else is built.

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
    parts = config_parts.parts(config)
    problem, pattern = parts.problems[label], parts.patterns[label]
    bound = pattern.resolve(**pattern.at(parts.first))
    return _of(config, label, problem.make(**problem.at(parts.first)), bound)


def of_experiment(experiment: Experiment, label: str) -> ConfiguredLinks:
    """A pattern of an experiment that was made from a config: its own problem and links."""
    problem = experiment.problem_at(label, experiment.grid_points[0])
    return _of(experiment.config, label, problem, links_at(experiment, label))


def _of(config: Any, label: str, problem: Problem, bound: Any) -> ConfiguredLinks:
    return ConfiguredLinks(
        title=str(config.get('title', '')),
        problem_name=str(config['problem'].get('name')),
        name=bound.name,
        problem=problem,
        participation=bound.build(),
        law=link_law(bound),
        seed=int(config.get('first_seed', 0)),
        horizon=_horizon(config),
        where=first_point(config, 'problem', pattern_sections(config)[label][0]),
    )


def links_at(experiment: Experiment, label: str, seed: int | None = None) -> Bound | None:
    """What a config says of a pattern at the first point; None for one made in Python."""
    maker = experiment.pattern_makers[label]
    point = experiment.grid_points[0]
    values = maker.at({**point, **experiment.draws.columns(seed, point)})
    return None if maker.bind is None else maker.bind(**values)


def first_point(config: Mapping[str, Any], *paths: str) -> str:
    """Where sections are: ``cohort_size 2, the first of 3 points of the grid``, or nothing."""
    columns = grids.flatten(config.get('grid') or {}, 'config.grid')
    starts = tuple(f'{path}.' for path in paths)
    own = {name: values for name, values in columns.items() if name.startswith(starts)}
    count = limits.num_points(own, config.get('grid_mode', 'cross'))
    first = described({name: values[0] for name, values in own.items()})
    return f'{first}, the first of {count} points of the grid' if count > 1 else first


def _horizon(config: Mapping[str, Any]) -> Horizon | None:
    """The horizon of all algorithms that share the section ``client``."""
    client, rounds = config.get('client'), config.get('num_rounds')
    if not isinstance(client, Mapping) or not isinstance(rounds, int) or 'tuning' in config:
        return None
    swept = {field.split('.')[0] for field in grids.flatten(config.get('grid') or {})}
    rate, steps = client.get('learning_rate'), client.get('local_steps')
    if not isinstance(rate, int | float) or not isinstance(steps, int) or rounds > _MOST_ROUNDS:
        return None
    if client.keys() - _PLAIN or swept & {'client', 'algorithms', 'problem'}:
        return None
    for label in ('fedavg', 'fedpbc'):
        if config.get('algorithms', {}).get(label):  # options of its own
            return None
    decay = client.get('decay', 'constant')
    rates = sections.named('config.client.decay', decay, choices.LEARNING_RATES, rate)
    by_round = jax.vmap(rates)(jnp.arange(rounds))
    return Horizon(rounds, steps * float(np.asarray(by_round, np.float64).sum()))
