"""Tables of a run: mean and interval over seeds, per algorithm and candidate model."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from fedjax_links import evaluation
from fedjax_links.report import history
from fedjax_links.report.history import History


class Table(NamedTuple):
    """A small table.

    Attributes:
      header: column names.
      rows: one text per column.
      caption: what the numbers are.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def text(self) -> str:
        """For a terminal: aligned columns under a rule, the caption below."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            first, *rest = (
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            return '  '.join([first, *rest]).rstrip()

        rule = '-' * (sum(widths) + 2 * (len(widths) - 1))
        caption = textwrap.fill(self.caption, max(80, len(rule)))
        return '\n'.join([line(self.header), rule, *map(line, self.rows), rule, caption])

    def markdown(self) -> str:
        """For a document."""
        header = [f'| {" | ".join(self.header)} |', f'|{" --- |" * len(self.header)}']
        return '\n'.join([*header, *(f'| {" | ".join(row)} |' for row in self.rows)]) + (
            f'\n\n{self.caption}\n'
        )


def final_table(runs: History, *, tail: float = 0.1, level: float = 0.95) -> Table:
    """Each metric at the end of training.

    Args:
      runs: the metrics.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over.
      level: coverage of the intervals over seeds.

    Returns:
      One row per algorithm and candidate model, one column per metric.
    """
    metrics = list(
        dict.fromkeys(m for models in runs.values() for named in models.values() for m in named)
    )
    rows, num_seeds = [], 0
    for label, models in runs.items():
        for model, named in models.items():
            cells = []
            for metric in metrics:
                if metric not in named:
                    cells.append('')
                    continue
                interval = evaluation.seed_interval(
                    history.tail_means(named[metric], tail), level=level
                )
                num_seeds = interval.num_seeds
                cells.append(format_interval(float(interval.mean), float(interval.half_width)))
            rows.append([label, model, *cells])
    caption = (
        f'Mean over {num_seeds} seeds and the last {tail:.0%} of the evaluations; '
        f'± is the {level:.0%} interval over seeds (Student t).'
    )
    return Table(['algorithm', 'model', *metrics], rows, caption)


def format_interval(mean: float, half_width: float) -> str:
    """``0.932 ± 0.004``; without an interval the mean alone, and ``diverged`` without a mean."""
    if mean != mean:
        return 'diverged'
    return f'{mean:.3f}' if half_width != half_width else f'{mean:.3f} ± {half_width:.3f}'
