"""Every metric of every candidate model at the end of training."""

from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source


def metrics(source: Source, *, tail: float = 0.1) -> Page:
    """One row per pattern, algorithm and model, one column per metric.

    Args:
      source: what ran.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The table.

    Raises:
      ValueError: for a share that is none.
    """
    every = [source.ends(name, tail) for name in source.metrics]
    span = every[0].span
    table = tables.fill(
        source.rows(every_model=True),
        {
            'pattern': (lambda key: source.name(key[0])) if len(source.patterns) > 1 else None,
            'algorithm': lambda key: source.name(key[1]),
            'model': lambda key: key[2].replace('_', ' '),
            **{ends.metric.title: ends.level for ends in every},
        },
        f'{span[0].upper()}{span[1:]}; ± is the 95 % interval over seeds (Student t).',
    )
    return Page('All metrics', [table])
