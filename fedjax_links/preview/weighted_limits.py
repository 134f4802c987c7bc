"""Describes what links with memory do to weighted algorithms, see `_WEIGHTED`, on linear models."""

import contextlib
import textwrap

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis.linear_limits import NoMinimiserError
from fedjax_links.preview import exact_quadratics, predicted_lines, prediction
from fedjax_links.preview.configured_chains import NotExactError
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.preview.exact_quadratics import LinearAlgorithm

_WIDTH = 80
_MAX_WORK = 2**31
"""Largest `prediction.hessian_work` of a limit that is described: a few seconds per algorithm."""

_WEIGHTED = 'fedau', 'fedavg_all', 'fedavg_known'
"""Algorithms that divide a weighted sum of updates by N."""


def weighted_algorithms(
    links: ConfiguredLinks, budget: prediction.Budget
) -> dict[str, LinearAlgorithm]:
    """Returns the algorithms of a config whose limit is known to first order in the step.

    These are the algorithms of `_WEIGHTED`, on linear models, under two-state links with memory.

    Args:
      links: a pattern of a config.
      budget: of the predictions for the pattern.

    Returns:
      The algorithms by label.
    """
    if _rates_with_memory(links) is None:
        return {}
    predicted = prediction.for_links(links, budget)
    # Where labels are separable, neither FedAvg nor these algorithms have a limit.
    if predicted is None or not predicted.fedavg.limit:
        return {}
    by_label: dict[str, LinearAlgorithm] = {}
    for label in links.experiment.algorithms:
        with contextlib.suppress(NotExactError):
            algorithm = exact_quadratics.linear_algorithm(links, label)
            if algorithm.name in _WEIGHTED:
                by_label[label] = algorithm
    return by_label


def describe(links: ConfiguredLinks, budget: prediction.Budget) -> list[str]:
    """Describes where weighted algorithms end, with and without memory.

    Args:
      links: a pattern of a config.
      budget: as in `weighted_algorithms`.

    Returns:
      Lines of at most 80 columns; none if no limit is known.
    """
    rates = _rates_with_memory(links)
    weighted = weighted_algorithms(links, budget)
    if rates is None or not weighted:
        return []
    if prediction.hessian_work(links.problem) > _MAX_WORK:
        names = ', '.join(weighted)
        text = f'`analysis.weighted_finite_steps` says what memory does to {names}'
        return textwrap.wrap(text, _WIDTH, subsequent_indent='  ')
    predictor = prediction.make_predictor(links.problem, links.experiment.seeds[0])
    if predictor is None:
        return []
    up_rate, down_rate = rates
    probs = up_rate / (up_rate + down_rate)
    lines = ['Long run, to first order in the step, no batch noise [without memory]']
    for label, algorithm in weighted.items():
        try:
            end = _metric(predictor, algorithm, up_rate, down_rate)
            memoryless = _metric(predictor, algorithm, probs, 1 - probs)
        except NoMinimiserError:
            return []
        line = f'  {label} is expected to end at {end} [{memoryless}]'
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=' ' * 4)
    return lines


def _rates_with_memory(links: ConfiguredLinks) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the up and down rates of two-state links with memory.

    None for other links, and if a client's link never comes up.
    """
    law = links.law
    if law.memoryless or law.up_rate is None or law.down_rate is None:
        return None
    if (law.up_rate == 0).any():
        return None
    return law.up_rate, law.down_rate


def _metric(
    predictor: prediction.Predictor,
    algorithm: LinearAlgorithm,
    up_rate: np.ndarray,
    down_rate: np.ndarray,
) -> str:
    """Writes the metric of an algorithm's mean model."""
    probs = up_rate / (up_rate + down_rate)
    multipliers = np.ones_like(probs)
    if algorithm.name == 'fedavg_known':
        multipliers = 1 / probs
    if algorithm.name == 'fedau':
        cutoff = algorithm.options.get('cutoff', 50)
        multipliers = analysis.markov_interval_mean(up_rate, down_rate, cutoff)
    model = analysis.weighted_finite_steps(
        *predictor.data,
        up_rate=up_rate,
        down_rate=down_rate,
        multipliers=multipliers,
        learning_rate=algorithm.learning_rate,
        local_steps=algorithm.local_steps,
        **predictor.options,
    )
    return predicted_lines.metric_text(predictor.metrics(model))
