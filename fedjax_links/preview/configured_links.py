"""The links of an experiment that a config describes, with what they belong to."""

from typing import NamedTuple

import jax
import numpy as np

from fedjax_links.base import MaskLinks, Participation, Problem
from fedjax_links.config import resolver
from fedjax_links.config.resolver import Bound
from fedjax_links.core import checks
from fedjax_links.experiment import Experiment
from fedjax_links.participation import PARTICIPATION, link_laws
from fedjax_links.planning import parametrized, validation
from fedjax_links.preview.links import record_links
from fedjax_links.results.dataset import describe_point

_MOST_ROUNDS = 10**7  # whose rates are added up
_PLAIN = {'learning_rate', 'decay', 'local_steps', 'batch_size'}


class ConfiguredLinks(NamedTuple):
    """One pattern of an experiment, at the first point of its grid and as the first seed draws it.

    Attributes:
      experiment: whose pattern it is.
      label: of the pattern.
      name: of the pattern in its section.
      problem: whose clients they are.
      participation: the pattern.
      law: what is known of it exactly.
      time: how far its FedAvg and FedPBC go, with plain local SGD and server rates of 1: the sum of
        the local rates over all local steps; None where that is no matter of rates and steps alone.
      where: the point of the grid at which these are, in words; empty where the grid has no column
        of links or problem.
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
        """Those that the first seed meets in so many rounds, see `record_links`."""
        seed = self.experiment.seeds[0]
        return record_links(self.participation, num_rounds=num_rounds, seed=seed)


def of_experiment(experiment: Experiment, label: str | None = None) -> ConfiguredLinks:
    """A pattern of an experiment that was made from a config.

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
    bound, point = links_at(experiment, label), experiment.plan.points[0]
    assert bound is not None
    problem, pattern = (
        experiment.problem_at(label, point),
        experiment.pattern_at(label, point),
    )
    where, time = (
        first_point(experiment, experiment.plan.patterns[label]),
        _time(experiment),
    )
    own = experiment, label, bound.name
    return ConfiguredLinks(*own, problem, pattern, link_law(bound), time, where)


def links_at(
    experiment: Experiment, label: str, seed: int | None = None
) -> Bound | None:
    """What a config says of a pattern at the first point; None for one made in Python."""
    plan = experiment.plan
    drawn = plan.draws.columns(seed, plan.points[0])
    return plan.patterns[label].bound_at({**plan.points[0], **drawn})


def first_point(experiment: Experiment, maker: parametrized.Maker) -> str:
    """Where a part is: ``cohort_size 2, the first of 3 points of the grid``, or nothing."""
    columns = experiment.plan.columns
    own = {name: values for name, values in columns.items() if name in maker.columns}
    count = validation.num_points(own, experiment.grid_mode)
    first = describe_point({name: values[0] for name, values in own.items()})
    return f'{first}, the first of {count} points of the grid' if count > 1 else first


def _time(experiment: Experiment) -> float | None:
    """That of all algorithms that share the section ``client``."""
    config, rounds = experiment.config or {}, experiment.num_rounds
    client = config.get('client', {})
    rate, steps = client.get('learning_rate'), client.get('local_steps')
    swept = {field.partition('.')[0] for field in experiment.plan.columns}
    own = [config['algorithms'].get(label) for label in ('fedavg', 'fedpbc')]
    varies = (
        any(own)
        or swept & {'client', 'algorithms', 'problem'}
        or client.keys() - _PLAIN
    )
    if varies or experiment.tuning is not None or rounds > _MOST_ROUNDS:
        return None
    if not isinstance(rate, int | float) or not isinstance(steps, int):
        return None
    program = resolver.bind_algorithm('fedavg', {}, client).args[0]
    by_round = jax.vmap(program.options['learning_rate'].build())(
        np.arange(rounds, dtype=np.int32)
    )
    return steps * float(np.asarray(by_round, np.float64).sum())


def link_law(links: Bound) -> link_laws.LinkLaw:
    """The exact law of the clients that hear the server, train and deliver.

    Args:
      links: what a section of a config names, with its options.

    Returns:
      What is known; a law without numbers for patterns that are only simulated.
    """
    entry = PARTICIPATION.get(links.name)
    if entry is None or entry.law is None:
        return link_laws.UNKNOWN
    options, schedule = dict(links.options), links.options.get('schedule')
    probs, kind = options.get('probs'), 'constant'
    if schedule is not None:
        options['schedule'], probs, kind = (
            schedule.build(),
            schedule.args[0],
            schedule.name,
        )
    parts = {
        name: link_law(part)
        for name, part in options.items()
        if isinstance(part, Bound)
    }
    return entry.law(
        link_laws.LawInputs(options, np.asarray(probs, np.float64), kind, parts)
    )
