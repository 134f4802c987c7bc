"""The best point of the grid of every algorithm, and whether it lies at an edge."""

from fedjax_links import checks, evaluation
from fedjax_links.plot.panels import unit
from fedjax_links.report.layouts.page import Page, edge, interval, metric_of, number_of, span
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def best(results: Results, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """One row per pattern and algorithm: its best point, and the difference to the baseline's.

    Args:
      results: what ran.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The table; a value at an edge of the grid is marked.

    Raises:
      ValueError: for an unknown metric, or one whose direction is unknown.
    """
    metric = metric_of(results, metric)
    checks.within('tail', tail, 0, 1)
    finals = {
        label: results.tail(label, results.main_model(label), metric, tail)
        for label in results.curves
    }
    rows = []
    for place, pattern in enumerate(results.patterns):
        winners = results.best_series(metric, tail, [place])
        for algorithm, label in winners.items():
            ends = finals[label][place]
            own = evaluation.seed_interval(ends)
            row = [results.name(pattern), results.names.get(algorithm, algorithm)]
            row += [
                _point(results, label),
                interval(metric, float(own.mean), float(own.half_width)),
            ]
            against = winners.get(results.baseline)
            if against is None or against == label:
                row.append('')
            else:
                paired = evaluation.paired_interval(ends, finals[against][place])
                mean, half = float(paired.mean), float(paired.half_width)
                row.append(interval(metric, mean, half, signed=True))
            rows.append(row)
    baseline = results.names.get(results.baseline, results.baseline)
    header = ['pattern', 'algorithm', 'best point', 'ours', f"ours, minus {baseline}'s best"]
    caption = (
        f'{unit(metric)}: {span(results, tail)}; ± is the 95 % interval over seeds (Student t), '
        'which does not know that the best was picked. An arrow marks a value at the upper (↑) or '
        'lower (↓) edge of the grid.'
    )
    return Page('Best points of the grid', [Table(header, rows, caption)])


def _point(results: Results, label: str) -> str:
    algorithm, point = results.members[label]
    others = [at for owner, at in results.members.values() if owner == algorithm]
    return ', '.join(
        f'{name} = {number_of(value)}{edge(value, [at[name] for at in others])}'
        for name, value in point.items()
    )
