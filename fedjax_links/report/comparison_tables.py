"""Tables of a comparison: levels, and differences to a baseline that met the same links."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report.tables import Table, format_interval

Outcomes = Mapping[str, Mapping[str, np.ndarray]]


def level_table(finals: Outcomes, patterns: Sequence[str], rates: Mapping[str, float]) -> Table:
    """Mean and interval of every algorithm and model on every pattern.

    Args:
      finals: float[P, S] by algorithm and model, each seed's final value.
      patterns: names of the P patterns.
      rates: the client learning rate of each algorithm.

    Returns:
      One row per algorithm and model.
    """
    rows = [
        [label, model, f'{rates[label]:g}', *_cells(evaluation.seed_interval(values, axis=1))]
        for label, models in finals.items()
        for model, values in models.items()
    ]
    return Table(['algorithm', 'model', 'client lr', *patterns], rows, 'Mean ± 95 % over seeds.')


def difference_table(finals: Outcomes, patterns: Sequence[str], baseline: str) -> Table:
    """Mean and interval of the paired difference to the baseline's server model.

    Args:
      finals: float[P, S] by algorithm and model.
      patterns: names of the P patterns.
      baseline: label of the baseline.

    Returns:
      One row per algorithm and model; a star marks intervals that exclude zero.
    """
    reference = finals[baseline]['server']
    rows = []
    for label, models in finals.items():
        for model, values in models.items():
            if (label, model) == (baseline, 'server'):
                continue
            interval = evaluation.paired_interval(values.T, reference.T)
            cells = [
                f'{cell} *' if abs(mean) > half else cell
                for cell, mean, half in zip(
                    _cells(interval), interval.mean, interval.half_width, strict=True
                )
            ]
            rows.append([label, model, *cells])
    caption = (
        f'Difference to {baseline} (server model) with the same links and batches, mean ± 95 % '
        'over seeds; * where zero is outside.'
    )
    return Table(['algorithm', 'model', *patterns], rows, caption)


def orderings(finals: Outcomes, patterns: Sequence[str]) -> dict[str, list[str]]:
    """Algorithms from best to worst mean on each pattern, each with its best model."""
    means = {
        label: np.max([values.mean(axis=1) for values in models.values()], axis=0)
        for label, models in finals.items()
    }
    ranked = {}
    for place, pattern in enumerate(patterns):
        scores = {label: float(np.nan_to_num(values[place])) for label, values in means.items()}
        ranked[pattern] = sorted(scores, key=scores.__getitem__, reverse=True)
    return ranked


def _cells(interval: evaluation.Interval) -> list[str]:
    return [
        format_interval(float(mean), float(half))
        for mean, half in zip(interval.mean, interval.half_width, strict=True)
    ]
