"""The links that the first seed met, one map per pattern."""

from typing import Any

from fedjax_links import analysis, plot
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def link_maps(results: Results) -> Page:
    """Client x round maps and what they amounted to.

    Args:
      results: what ran, with the links that were kept.

    Returns:
      Maps of the first rounds, and a table over all rounds.
    """
    order = [pattern for pattern in results.patterns if pattern in results.links]
    columns = min(3, len(order))
    rows = -(-len(order) // columns)

    def draw(figure: Any) -> None:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, pattern in zip(grid.flat, order, strict=False):
            plot.link_map(results.links[pattern].mask, ax=axes)
            axes.set_title(results.name(pattern), fontsize=10)
        for axes in list(grid.flat)[len(order) :]:
            axes.set_visible(False)

    lines = []
    for pattern in order:
        mask = results.links[pattern].mask
        realised = analysis.participation_report(mask)
        lines.append(
            [
                results.name(pattern),
                f'{mask.sum(axis=1).mean():.1f} of {mask.shape[1]}',
                f'{100 * (mask.sum(axis=1) == 0).mean():.1f} %',
                f'{100 * (mask.sum(axis=0) == 0).mean():.1f} %',
                f'{realised.distance_to_uniform:.2f}',
            ]
        )
    table = Table(
        ['pattern', 'active per round', 'empty rounds', 'clients never heard', 'distance'],
        lines,
        "First seed, all rounds; distance of FedAvg's realised weights from equal ones (L1).",
    )
    return Page('Realised links', [table], draw, (3.6 * columns + 0.4, 2.6 * rows + 0.4))
