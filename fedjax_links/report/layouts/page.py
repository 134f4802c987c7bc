"""Defines the page that a layout returns, and helpers that several layouts share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedjax_links.pages.tables import Table
from fedjax_links.plot import panels
from fedjax_links.plot.panels import Axes, Figure
from fedjax_links.report.comparisons import FinalKey, FinalMetrics
from fedjax_links.report.run_view import RunView


class Page(NamedTuple):
    """One layout of one run.

    Attributes:
      heading: a few words.
      tables: to read.
      draw: draws on an empty matplotlib figure; None without a picture.
      size: inches, width and height of the picture.
      caption: says what is drawn: points, bars, bands.
      of_links: whether the picture shows links or clients, so that the caption of a run's results
        does not belong to it.
    """

    heading: str
    tables: Sequence[Table]
    draw: Callable[[Figure], None] | None = None
    size: tuple[float, float] = (10.0, 5.0)
    caption: str = ''
    of_links: bool = False


MOST_SERIES = 24
_NARROWEST = 6.4  # inches, for titles and legends


def labels(source: RunView, key: FinalKey, *, model: bool = False) -> dict[str, str]:
    """Returns the first cells of a row: pattern, series and, if asked for, candidate model."""
    pattern, label, candidate = key
    cells = {'pattern': source.name(pattern), 'algorithm': source.name(label)}
    if model:
        cells['model'] = candidate.replace('_', ' ')
    return cells


def with_panels(
    page: Page,
    shown: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    *,
    columns: int = 3,
    panel: tuple[float, float] = (3.6, 2.6),
    around: tuple[float, float] = (0.6, 0.6),
    legend: Sequence[str] = (),
    finish: Callable[[Figure], None] | None = None,
    **options: Any,
) -> Page:
    """Adds a picture with one panel for each of several things; none if there are none.

    Args:
      page: with the tables.
      shown: the things, one for each panel.
      draw: draws one of them on axes, with its title.
      columns: panels side by side, at most.
      panel: inches of a panel.
      around: inches beside and below all panels.
      legend: names of lines, for one legend below all panels.
      finish: draws on the figure what belongs to all panels.
      **options: of ``figure.subplots``; axes that are shared are named at the outer panels alone.
    """
    if not shown:
        return page
    rows = -(-len(shown) // columns)
    columns = -(-len(shown) // rows)  # rows of equal lengths
    width = max(panel[0] * columns + around[0], _NARROWEST)
    height = panel[1] * rows + around[1]
    if legend:
        height += 0.22 * -(-len(legend) // panels.legend_columns(legend, width))

    def draw_all(figure: Figure) -> None:
        grid = panels.grid(figure, len(shown), columns, **options)
        for index, (axes, thing) in enumerate(zip(grid, shown, strict=True)):
            draw(axes, thing)
            if options.get('sharex'):
                is_last_row = index + columns >= len(shown)
                axes.set_xlabel(axes.get_xlabel() if is_last_row else '')
                axes.tick_params(labelbottom=is_last_row)
            if options.get('sharey'):
                is_first_column = index % columns == 0
                axes.set_ylabel(axes.get_ylabel() if is_first_column else '')
                axes.tick_params(labelleft=is_first_column)
        if legend:
            panels.legend_below(figure, legend, width)
        if finish is not None:
            finish(figure)

    return page._replace(draw=draw_all, size=(width, height))


def limit_series(
    source: RunView,
    heading: str,
    final_metrics: FinalMetrics,
    patterns: Sequence[str] | None = None,
) -> tuple[RunView, str]:
    """Limits a picture of curves to as many series as can be told apart.

    Args:
      source: what ran.
      heading: of the page.
      final_metrics: by which points are compared, of a metric that the page draws.
      patterns: under which patterns; all by default.

    Returns:
      All series, or each algorithm's best point if there are more than 24 series (its first point
      if it is unknown which way the metric is better); the heading, which then says so.
    """
    if len(source.members) <= MOST_SERIES:
        return source, heading
    chosen = set(source.best_series(final_metrics, patterns).values())
    if chosen == source.members.keys():
        return source, heading
    which = 'first point of its grid'
    if final_metrics.metric.direction is not None:
        by = f'{final_metrics.metric.words}, {final_metrics.span}'
        which = f'best point of its grid by {by}'
    labels_of_best = [label for label in source.members if label in chosen]
    limited = dataclasses.replace(source, data=source.data.sel(series=labels_of_best))
    return limited, f'{heading}, every algorithm at the {which}'
