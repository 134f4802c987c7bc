"""Defines the page that a layout returns, and helpers that several layouts share."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links.config.algorithm_sections import SERVER_LR
from fedjax_links.pages.tables import Table
from fedjax_links.planning import seeding
from fedjax_links.plot import panels
from fedjax_links.plot.links import MAP_ROUNDS
from fedjax_links.plot.panels import Axes, Figure
from fedjax_links.report.comparisons import FinalKey, FinalMetrics
from fedjax_links.report.run_view import RunView


class Page(NamedTuple):
    """Holds a page of a report: tables and a picture.

    Attributes:
      heading: a few words.
      tables: the tables.
      draw: draws the picture on an empty matplotlib figure; None without a picture.
      size: width and height of the picture, inches.
      caption: says what the picture's points, bars and bands are.
      of_links: whether the picture shows links or clients, which the caption of a run's results
        does not describe.
      resize: rearranges the panels for a width in inches, with fonts of `PAPER_FONT`; None for
        a picture that has one arrangement.
    """

    heading: str
    tables: Sequence[Table]
    draw: Callable[[Figure], None] | None = None
    size: tuple[float, float] = (10.0, 5.0)
    caption: str = ''
    of_links: bool = False
    resize: 'Callable[[float], Page] | None' = None


PAPER_FONT = 8.0
"""Size of letters in pictures for a paper, in points; in reports it is `panels.FONT`."""
PAPER_SCALE = PAPER_FONT / panels.FONT
_NARROWEST_PANEL = 0.5
"""Least width of a panel in a paper, as a fraction of its width in a report."""
MOST_SERIES = 24
"""Curves of a picture that can be told apart (chosen by eye)."""
_SECTIONS_WITHOUT_LINKS = ('algorithms', 'client', SERVER_LR)
"""Sections and fields of a config that do not change the links."""
MOST_LEGEND_ROWS = 6
"""Rows of a legend for which a picture of fixed height has room (chosen by eye)."""
_NARROWEST = 6.4
"""Inches of a picture that titles and legends need."""


def labels(view: RunView, key: FinalKey, *, model: bool = False) -> dict[str, str]:
    """Returns the first cells of a row: pattern, series and, if asked for, candidate model."""
    cells = {'pattern': view.name(key.pattern), 'algorithm': view.name(key.series)}
    if model:
        cells['model'] = key.model.replace('_', ' ')
    return cells


def other_models(view: RunView) -> list[str]:
    """Says of each algorithm at which model it is shown, if not at the server's."""
    texts: dict[str, str] = {}
    for label, (algorithm, _) in view.members.items():
        model = view.main_models[label]
        if model != 'server':
            texts[algorithm] = (
                f'{view.name(algorithm)} at its {model.replace("_", " ")}'
            )
    return list(texts.values())


def models_text(view: RunView) -> str:
    """Ends a caption with the models that are not the servers'."""
    texts = other_models(view)
    return f' {"; ".join(texts)}.' if texts else ''


def rounds_of_map(view: RunView, num_rounds: int) -> str:
    """Says which of ``num_rounds`` rounds a map of links shows, and of which lane (simulation)."""
    which = 'all' if num_rounds <= MAP_ROUNDS else f'the first {MAP_ROUNDS}'
    return f'{which} rounds of the {lane_of_links(view)}'


def lane_of_links(view: RunView) -> str:
    """Names the lane whose links pages show: first seed, and first point of a grid."""
    columns = {name for _, point in view.members.values() for name in point}
    if any(may_change_links(view, name) for name in columns):
        return 'first seed, first point of the grid'
    return 'first seed'


def may_change_links(view: RunView, column: str) -> bool:
    """Returns whether links may differ between values of a column of the grid.

    The experiment knows. A folder alone has just the name of the column. In a run of a config the
    name begins with a section. Columns of a run made in Python may all change links.
    """
    if view.experiment is not None:
        plan = view.experiment.plan
        return column in {*plan.data_and_link_columns, seeding.REDRAW_COLUMN}
    return column.split('.')[0] not in _SECTIONS_WITHOUT_LINKS


def with_panels(
    page: Page,
    items: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    *,
    columns: int = 3,
    panel: tuple[float, float] = (3.6, 2.6),
    around: tuple[float, float] = (0.6, 0.6),
    legend: Sequence[str] = (),
    finish: Callable[[Figure], None] | None = None,
    **options: Any,
) -> Page:
    """Adds a picture with one panel for each item to a page; none if there are no items.

    Args:
      page: the page with its tables.
      items: what to draw, one for each panel, such as labels of patterns.
      draw: draws an item on axes, with its title.
      columns: the largest number of panels side by side.
      panel: width and height of a panel, inches.
      around: width beside and height below all panels, inches.
      legend: names of lines, for one legend below all panels.
      finish: draws on the figure what belongs to all panels.
      **options: options of ``figure.subplots``. Shared axes have labels at the outer panels alone.
    """
    if not items:
        return page

    def arrange(
        most_columns: int, panel_size: tuple[float, float], scale: float
    ) -> Page:
        """Returns the page with at most ``most_columns`` panels side by side."""
        num_columns = _even_columns(len(items), most_columns)
        num_rows = math.ceil(len(items) / num_columns)
        width = panel_size[0] * num_columns + scale * around[0]
        if scale == 1:
            width = max(width, _NARROWEST)
        height = panel_size[1] * num_rows + scale * around[1]
        if legend:
            height += scale * panels.legend_height(legend, width / scale)

        def draw_all(figure: Figure) -> None:
            grid = panels.grid(figure, len(items), num_columns, **options)
            for index, (axes, item) in enumerate(zip(grid, items, strict=True)):
                draw(axes, item)
                is_last_row = index + num_columns >= len(items)
                is_first_column = index % num_columns == 0
                _name_outer_axes(axes, is_last_row, is_first_column, options)
            if legend:
                panels.legend_below(figure, legend)
            if finish is not None:
                finish(figure)

        return page._replace(draw=draw_all, size=(width, height))

    def resize(width: float) -> Page:
        """Returns the page with a picture ``width`` inches wide, for a paper."""
        free = width - PAPER_SCALE * around[0]
        most_columns = max(1, min(columns, int(free / (_NARROWEST_PANEL * panel[0]))))
        num_columns = _even_columns(len(items), most_columns)
        panel_size = free / num_columns, PAPER_SCALE * panel[1]
        return arrange(num_columns, panel_size, PAPER_SCALE)

    return arrange(columns, panel, scale=1)._replace(resize=resize)


def _even_columns(count: int, most_columns: int) -> int:
    """Returns how many of several panels stand side by side, so that rows have equal lengths."""
    num_rows = math.ceil(count / most_columns)
    return math.ceil(count / num_rows)


def _name_outer_axes(
    axes: Axes, is_last_row: bool, is_first_column: bool, options: Mapping[str, Any]
) -> None:
    """Leaves names of shared axes to the outer panels alone."""
    if options.get('sharex'):
        axes.set_xlabel(axes.get_xlabel() if is_last_row else '')
        axes.tick_params(labelbottom=is_last_row)
    if options.get('sharey'):
        axes.set_ylabel(axes.get_ylabel() if is_first_column else '')
        axes.tick_params(labelleft=is_first_column)


def limit_series(
    view: RunView,
    heading: str,
    final_metrics: FinalMetrics,
    patterns: Sequence[str] | None = None,
) -> tuple[RunView, str]:
    """Limits a picture of curves to as many series as can be told apart.

    Of more than 24 series only each algorithm's best point is left. If it is unknown which way the
    metric is better, the first point is left.

    Args:
      view: what ran.
      heading: the heading of the page.
      final_metrics: final metrics of the metric that says which point is best.
      patterns: the patterns over which final metrics are averaged; all by default.

    Returns:
      The view with the series that are left, and a heading that says which series are left.
    """
    if len(view.members) <= MOST_SERIES:
        return view, heading
    chosen = set(view.best_series(final_metrics, patterns).values())
    if chosen == view.members.keys():
        return view, heading
    which = 'first point of its grid'
    if final_metrics.metric.direction is not None:
        by = f'{final_metrics.metric.words}, {final_metrics.span}'
        which = f'best point of its grid by {by}'
    labels_of_best = [label for label in view.members if label in chosen]
    limited = dataclasses.replace(view, data=view.data.sel(series=labels_of_best))
    return limited, f'{heading}, every algorithm at the {which}'
