"""How far the stationary selection law is from uniform, for every minimum separation."""

from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.config import sections
from fedjax_links.papers.sun2025.weights import selection_weights
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.tables import Table

_LISTED_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)


def separation_distance(
    *,
    weights: sections.Section,
    num_clients: int = 500,
    cohort_size: int = 1,
) -> FigureResult:
    """``||pi_R - 1/N||_1`` against R, exact for every feasible R.

    Args:
      weights: by label, sections of `selection_weights`.
      num_clients: N.
      cohort_size: B.

    Returns:
      Columns ``weights``, ``separation`` and ``distance``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Sun et al., ICLR 2025, Figure 1.
    """
    curves = {}
    for label, section in weights.items():
        law = selection_weights(f'config.figure.weights.{label}', section, num_clients)
        laws = analysis.minimum_separation_curve(law, cohort_size)
        curves[label] = np.abs(laws - 1 / num_clients).sum(axis=1)
    num_separations = num_clients // cohort_size
    separations = np.arange(num_separations)
    listed = sorted({int(share * num_separations) for share in _LISTED_SHARES})
    listed += [num_separations - 2, num_separations - 1]
    rows = [
        [label, *(f'{curve[place]:.4f}' for place in listed)] for label, curve in curves.items()
    ]
    caption = f'||pi_R - 1/N||_1, N = {num_clients}, B = {cohort_size}; exact.'

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for index, (label, curve) in enumerate(curves.items()):
            axes.plot(separations, curve, color=plot.COLOURS[index], label=label)
        axes.set_xlabel('minimum separation R')
        axes.set_ylabel(r'$\|\pi_R - 1/N\|_1$')
        axes.set_ylim(0, None)
        axes.set_xlim(0, num_separations - 1)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, title='selection weights')

    return FigureResult(
        columns=stack(
            [
                {'weights': label, 'separation': separations, 'distance': curve}
                for label, curve in curves.items()
            ]
        ),
        table=Table(['weights', *(f'R = {place}' for place in listed)], rows, caption),
        draw=draw,
    )
