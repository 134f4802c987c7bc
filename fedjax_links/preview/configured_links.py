"""Pairs the links that a config describes with their problem, exact law and experiment.

A law (`link_laws.LinkLaw`) is what is known exactly about who takes part.
"""

from typing import NamedTuple

import jax
import numpy as np

from fedjax_links.base import MaskLinks, Participation, Problem
from fedjax_links.config import algorithm_sections
from fedjax_links.config.bound import BoundFactory
from fedjax_links.core import checks
from fedjax_links.core.records import Section
from fedjax_links.experiment import Experiment
from fedjax_links.participation import PARTICIPATION, link_laws, schedules
from fedjax_links.planning import parametrized, seeding, validation
from fedjax_links.preview.links import record_links
from fedjax_links.results.dataset import describe_point

_MAX_ROUNDS = 10**7
"""The longest run, in rounds, whose local learning rates are summed."""
PLAIN_SGD_OPTIONS = {
    'learning_rate',
    'decay',
    'local_steps',
    'batch_size',
    'chunk_size',
    'resample',
}
"""Options of ``config.client`` under which all clients take equally many plain SGD steps."""


class ConfiguredLinks(NamedTuple):
    """Holds a pattern at the first grid point of an experiment.

    Attributes:
      experiment: the experiment.
      label: the pattern's label in the experiment.
      name: the pattern's name in the registry, such as ``bernoulli``.
      problem: the problem that the pattern is combined with.
      participation: the pattern.
      law: the pattern's exact law, as far as that is known.
      flow_time: the sum of the local learning rates over all local steps of a client: the time of
        the gradient flow that small steps follow. None unless FedAvg and FedPBC run plain local
        SGD, or for more than ten million rounds.
      grid_point: the grid point in words; empty if the grid does not change the links.
    """

    experiment: Experiment
    label: str
    name: str
    problem: Problem
    participation: Participation
    law: link_laws.LinkLaw
    flow_time: float | None = None
    grid_point: str = ''

    @property
    def differs_by_seed(self) -> bool:
        """Returns whether the experiment has seeds with another problem or another link quality."""
        has_other_seeds = len(self.experiment.seeds) > 1
        return has_other_seeds and is_redrawn(self.experiment, self.label)

    @property
    def of_several(self) -> str:
        """Says which of several patterns this is: ``rare, one of 2 patterns``; empty for one."""
        num_patterns = len(self.experiment.patterns)
        return (
            f'{self.label}, one of {num_patterns} patterns' if num_patterns > 1 else ''
        )

    def record(self, num_rounds: int) -> MaskLinks:
        """Samples the links of the first seed, see `record_links`."""
        seed = self.experiment.seeds[0]
        return record_links(self.participation, num_rounds=num_rounds, seed=seed)


def from_experiment(
    experiment: Experiment, label: str | None = None
) -> ConfiguredLinks:
    """Returns a pattern of an experiment that was made from a config.

    Args:
      experiment: the experiment.
      label: the pattern's label; by default the label of the first pattern.

    Raises:
      ValueError: for an unknown label.
    """
    if label is None:
        label = next(iter(experiment.patterns))
    checks.choice('pattern', label, list(experiment.patterns))
    bound = bound_links(experiment, label)
    assert bound is not None
    point = experiment.plan.points[0]
    return ConfiguredLinks(
        experiment=experiment,
        label=label,
        name=bound.name,
        problem=experiment.problem_at(label, point),
        participation=experiment.pattern_at(label, point),
        law=link_law(bound),
        flow_time=_flow_time(experiment),
        grid_point=describe_first_point(experiment, experiment.plan.patterns[label]),
    )


def bound_links(
    experiment: Experiment, label: str, seed: int | None = None
) -> BoundFactory | None:
    """Returns the factory and options of a pattern at the first grid point.

    Args:
      experiment: the experiment.
      label: the pattern's label.
      seed: the seed that draws the quality of the links; the first seed by default.

    Returns:
      The pattern's section of the config, bound; None for a pattern made in Python.
    """
    plan = experiment.plan
    first_point = plan.points[0]
    seed_columns = plan.draws.columns(seed, first_point)
    return plan.patterns[label].bound_at({**first_point, **seed_columns})


def describe_first_point(experiment: Experiment, maker: parametrized.Maker) -> str:
    """Writes a part's first grid point: ``cohort_size 2, the first of 3 points of the grid``.

    Args:
      experiment: the experiment.
      maker: what makes the part, such as a pattern. Columns of the grid that the maker does not
        take are left out.
    """
    columns = {
        name: values
        for name, values in experiment.plan.columns.items()
        if name in maker.columns
    }
    first_point = {name: values[0] for name, values in columns.items()}
    text = describe_point(first_point)
    count = validation.num_points(columns, experiment.grid_mode)
    if count > 1:
        text += f', the first of {count} points of the grid'
    return text


def _flow_time(experiment: Experiment) -> float | None:
    """Sums the local rates over all local steps, see `ConfiguredLinks.flow_time`."""
    config = experiment.config or {}
    client = config.get('client', {})
    rate = client.get('learning_rate')
    steps = client.get('local_steps')
    if not isinstance(rate, int | float) or not isinstance(steps, int):
        return None
    num_rounds = experiment.num_rounds
    if not _is_plain_sgd(experiment, config) or num_rounds > _MAX_ROUNDS:
        return None
    program = algorithm_sections.bind('fedavg', {}, client).args[0]
    schedule = program.options['learning_rate'].build()
    rates = jax.vmap(schedule)(np.arange(num_rounds, dtype=np.int32))
    return steps * float(np.asarray(rates, np.float64).sum())


def _is_plain_sgd(experiment: Experiment, config: Section) -> bool:
    """Returns whether FedAvg and FedPBC run plain local SGD, the same at all points."""
    algorithms = config['algorithms']
    has_options = any(algorithms.get(label) for label in ('fedavg', 'fedpbc'))
    if has_options or experiment.tuning is not None:
        return False
    swept_sections = {field.partition('.')[0] for field in experiment.plan.columns}
    if swept_sections & {'client', 'algorithms', 'problem'}:
        return False
    return not config['client'].keys() - PLAIN_SGD_OPTIONS


def is_redrawn(experiment: Experiment, label: str) -> bool:
    """Returns whether each seed redraws a pattern's problem or the quality of its links.

    The answer holds for the first point of the grid.
    """
    plan = experiment.plan
    modes = plan.draws.modes(plan.points[0])
    columns = plan.problems[label].columns.keys() | plan.patterns[label].columns.keys()
    return any(
        column in columns and modes[stream] == seeding.BY_SEED
        for stream, column in seeding.COLUMNS.items()
    )


def link_law(links: BoundFactory) -> link_laws.LinkLaw:
    """Returns the exact law of taking part: of receiving, training and delivering in a round.

    Args:
      links: a pattern's section of a config, bound.

    Returns:
      The law, without numbers for patterns that are only simulated.
    """
    entry = PARTICIPATION.get(links.name)
    if entry is None or entry.law is None:
        return link_laws.UNKNOWN
    inputs = law_inputs(links)
    laws_of_parts = {
        name: link_law(part)
        for name, part in inputs.options.items()
        if isinstance(part, BoundFactory)
    }
    return entry.law(inputs._replace(parts=laws_of_parts))


def law_inputs(links: BoundFactory) -> link_laws.LawInputs:
    """Returns the inputs of a law of links, without the laws of the pattern's parts.

    Args:
      links: a pattern's section of a config, bound.
    """
    options = dict(links.options)
    schedule = options.get('schedule')
    if schedule is None:
        probs = options.get('probs')
        schedule_name = 'constant'
    else:
        probs = schedule.args[0]
        schedule_name = schedule.name
        options['schedule'] = schedules.as_schedule(schedule.build())
    return link_laws.LawInputs(
        options=options,
        probs=np.asarray(probs, np.float64),
        schedule_name=schedule_name,
        parts={},
    )
