"""Computes exact curves of metrics on quadratics, which reports draw beside simulated curves."""

from collections.abc import Mapping

import numpy as np

from fedjax_links.core.records import RunFacts
from fedjax_links.experiment import Experiment
from fedjax_links.preview import configured_links, exact_quadratics
from fedjax_links.preview.configured_chains import NotExactError
from fedjax_links.results import recorded

ExactCurves = Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]
"""By algorithm, model and metric, float64[3, E]: the mean, and the ends of the band."""

# Work is counted in moments: the entries of the mean and the covariance of the models.
_ROUND_OVERHEAD = 350
"""Computing so many moments takes as long as all else in a round, as measured."""
_MOST_WORK = 3_000_000
"""Computing so many moments, over all rounds and patterns, takes some seconds."""


def for_pattern(experiment: Experiment, pattern: str, facts: RunFacts) -> ExactCurves:
    """Computes the exact curves of a run's algorithms under one pattern.

    Args:
      experiment: what ran.
      pattern: its label.
      facts: of the run, with its rounds.

    Returns:
      The curves of those algorithms whose curves are known and take at most some seconds. Nothing
      is computed for a grid, a fork or an experiment without a config. The same holds if seeds
      change problem or links.
    """
    is_swept = len(experiment.plan.points) > 1
    if experiment.config is None or is_swept or 'forked_from' in facts:
        return {}
    if configured_links.is_redrawn(experiment, pattern):
        return {}
    links = configured_links.from_experiment(experiment, pattern)
    try:
        run = exact_quadratics.quadratic_run(links)
    except NotExactError:
        return {}
    if run is None:
        return {}
    rounds = recorded.rounds_of(facts)
    work_left = _MOST_WORK / len(experiment.patterns)
    by_algorithm = {}
    for label in experiment.algorithms:
        try:
            algorithm = exact_quadratics.linear_algorithm(links, label)
            work = rounds.max() * (_ROUND_OVERHEAD + run.work(algorithm))
            if work > work_left:
                continue
            by_algorithm[label] = exact_quadratics.curves(run, algorithm, rounds)
        except NotExactError:
            continue
        work_left -= work
    return by_algorithm
