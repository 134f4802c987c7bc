"""Every metric of every candidate model at the end of training."""

from fedjax_links import checks, evaluation
from fedjax_links.report.layouts.page import Page, span
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table, format_interval


def metrics(results: Results, *, tail: float = 0.1) -> Page:
    """One row per pattern, algorithm and model, one column per metric.

    Args:
      results: what ran.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The table.

    Raises:
      ValueError: for a share that is none.
    """
    checks.within('tail', tail, 0, 1)
    several = len(results.patterns) > 1
    rows = []
    for place, pattern in enumerate(results.patterns):
        for label, models in results.curves.items():
            for model in models:
                cells = [results.name(pattern)] if several else []
                cells += [results.name(label), model.replace('_', ' ')]
                for metric in results.metrics:
                    ends = results.tail(label, model, metric, tail)[place]
                    own = evaluation.seed_interval(ends)
                    cells.append(format_interval(float(own.mean), float(own.half_width)))
                rows.append(cells)
    header = [*(['pattern'] if several else []), 'algorithm', 'model', *results.metrics]
    words = span(results, tail)
    caption = f'{words[0].upper()}{words[1:]}; ± is the 95 % interval over seeds (Student t).'
    return Page('All metrics', [Table(header, rows, caption)])
