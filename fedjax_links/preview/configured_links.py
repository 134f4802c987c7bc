"""Finds the links of an experiment that a config describes, with what they belong to."""

from typing import NamedTuple

import jax
import numpy as np

from fedjax_links.base import MaskLinks, Participation, Problem
from fedjax_links.config import resolver
from fedjax_links.config.resolver import Bound
from fedjax_links.core import checks
from fedjax_links.core.records import Section
from fedjax_links.experiment import Experiment
from fedjax_links.participation import PARTICIPATION, link_laws
from fedjax_links.planning import parametrized, validation
from fedjax_links.preview.links import record_links
from fedjax_links.results.dataset import describe_point

_MOST_ROUNDS = 10**7  # of which the sum of rates is computed
_PLAIN_OPTIONS = {
    'learning_rate',
    'decay',
    'local_steps',
    'batch_size',
    'resample',
}


class ConfiguredLinks(NamedTuple):
    """A pattern at the first point of an experiment, as the first seed draws it.

    Attributes:
      experiment: the experiment.
      label: of the pattern.
      name: of the pattern in its section.
      problem: the problem that the pattern is combined with.
      participation: the pattern.
      law: its exact law, as far as that is known.
      time: the sum of the local rates over all local steps of a client, which is how far FedAvg
        and FedPBC move along the gradient flow; None unless they run plain local SGD.
      where: the point of the grid in words; empty if the grid changes neither links nor problem.
    """

    experiment: Experiment
    label: str
    name: str
    problem: Problem
    participation: Participation
    law: link_laws.LinkLaw
    time: float | None = None
    where: str = ''

    def record(self, num_rounds: int) -> MaskLinks:
        """Draws the links of the first seed in so many rounds, see `record_links`."""
        seed = self.experiment.seeds[0]
        return record_links(self.participation, num_rounds=num_rounds, seed=seed)


def of_experiment(experiment: Experiment, label: str | None = None) -> ConfiguredLinks:
    """Returns a pattern of an experiment that was made from a config.

    Args:
      experiment: the experiment.
      label: which pattern; the first by default.

    Returns:
      The links.

    Raises:
      ValueError: for an unknown label.
    """
    label = next(iter(experiment.patterns)) if label is None else label
    checks.choice('pattern', label, list(experiment.patterns))
    bound = links_at(experiment, label)
    assert bound is not None
    point = experiment.plan.points[0]
    return ConfiguredLinks(
        experiment=experiment,
        label=label,
        name=bound.name,
        problem=experiment.problem_at(label, point),
        participation=experiment.pattern_at(label, point),
        law=link_law(bound),
        time=_time(experiment),
        where=first_point(experiment, experiment.plan.patterns[label]),
    )


def links_at(
    experiment: Experiment, label: str, seed: int | None = None
) -> Bound | None:
    """Returns a pattern's section at the first point, bound; None for one made in Python."""
    plan = experiment.plan
    seed_columns = plan.draws.columns(seed, plan.points[0])
    return plan.patterns[label].bound_at({**plan.points[0], **seed_columns})


def first_point(experiment: Experiment, maker: parametrized.Maker) -> str:
    """Describes the first point of a part: ``cohort_size 2, the first of 3 points of the grid``."""
    columns = {
        name: values
        for name, values in experiment.plan.columns.items()
        if name in maker.columns
    }
    count = validation.num_points(columns, experiment.grid_mode)
    first = describe_point({name: values[0] for name, values in columns.items()})
    return f'{first}, the first of {count} points of the grid' if count > 1 else first


def _time(experiment: Experiment) -> float | None:
    """Returns the time of `ConfiguredLinks`."""
    config = experiment.config or {}
    client = config.get('client', {})
    rate = client.get('learning_rate')
    steps = client.get('local_steps')
    if not isinstance(rate, int | float) or not isinstance(steps, int):
        return None
    num_rounds = experiment.num_rounds
    if not _is_plain_sgd(experiment, config) or num_rounds > _MOST_ROUNDS:
        return None
    program = resolver.bind_algorithm('fedavg', {}, client).args[0]
    schedule = program.options['learning_rate'].build()
    rates = jax.vmap(schedule)(np.arange(num_rounds, dtype=np.int32))
    return steps * float(np.asarray(rates, np.float64).sum())


def _is_plain_sgd(experiment: Experiment, config: Section) -> bool:
    """Tells whether FedAvg and FedPBC run plain local SGD, the same at all points."""
    algorithms = config['algorithms']
    if any(algorithms.get(label) for label in ('fedavg', 'fedpbc')):
        return False
    swept = {field.partition('.')[0] for field in experiment.plan.columns}
    if swept & {'client', 'algorithms', 'problem'} or experiment.tuning is not None:
        return False
    return not config['client'].keys() - _PLAIN_OPTIONS


def link_law(links: Bound) -> link_laws.LinkLaw:
    """Returns the exact law of the clients that receive, train and deliver.

    Args:
      links: a pattern's section of a config, bound.

    Returns:
      The law, without numbers for patterns that are only simulated.
    """
    entry = PARTICIPATION.get(links.name)
    if entry is None or entry.law is None:
        return link_laws.UNKNOWN
    options = dict(links.options)
    schedule = options.get('schedule')
    if schedule is None:
        probs = options.get('probs')
        kind = 'constant'
    else:
        probs = schedule.args[0]
        kind = schedule.name
        options['schedule'] = schedule.build()
    parts = {
        name: link_law(part)
        for name, part in options.items()
        if isinstance(part, Bound)
    }
    return entry.law(
        link_laws.LawInputs(options, np.asarray(probs, np.float64), kind, parts)
    )
