"""Maps who is ahead where: differences to the baseline over two columns of the grid."""

import functools
import itertools
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.plot import heat, panels
from fedjax_links.plot.panels import Axes, Figure
from fedjax_links.report import cells
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.layouts.map_comparison import (
    ComparedMap,
    means,
    short_name,
    words,
)
from fedjax_links.report.layouts.page import (
    Page,
    models_text,
    other_models,
    with_panels,
)
from fedjax_links.report.run_view import RunView

# Sizes in inches.
_NARROWEST_PANEL = 1.7
_WIDEST_PANEL = 5.5
_PANEL_GAP = 0.25
_MARGIN = 1.6
"""What the scale of colours and the words of the axes take."""
_PAGE_WIDTH = 11.0
"""Width of a picture whose numbers can be read on a page."""
_CELL_WIDTH = 0.46
_CELL_HEIGHT = 0.3
_TITLE_LINE = 0.17
_TITLE_LETTERS_PER_INCH = 16


@np.errstate(invalid='ignore')  # where all diverged
def heat_map(
    view: RunView,
    *,
    x: str,
    y: str,
    best_over: Sequence[str] = (),
    metric: str | None = None,
    tail: float | None = None,
    margin: float | None = None,
) -> Page:
    """Maps paired differences to the baseline, and who is best; one panel per algorithm.

    Each algorithm is shown at the model that papers evaluate. Patterns and values of a third column
    of the grid have panels beside each other. If there are more such panels than algorithms, they
    stand below each other.

    Args:
      view: what ran, over a grid.
      x: the column along the horizontal axis, or ``'round'`` for rounds: the evaluation at the last
        round, at half of that round, at a quarter, and so on.
      y: the column along the vertical axis, or ``'round'``.
      best_over: columns, such as rates. At each cell, each algorithm takes the value with the best
        mean over seeds. If two algorithms take from different numbers of values, the interval of
        their difference is infinite.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over, a
        tenth by default; not with rounds as an axis.
      margin: differences up to this number are equivalent, in the unit of the metric. By default
        the margin of the rule by which seeds were added until decided, else none.

    Returns:
      The picture and three tables: the best at each cell, the differences, and a row per algorithm.

    Raises:
      ValueError: for an unknown column or metric, or a grid of more than one column beside all
        these. Also for a metric for which it is unknown which way is better.
    """
    map_cells = cells.map_cells(
        view, x=x, y=y, best_over=best_over, metric=metric, tail=tail
    )
    compared_map = ComparedMap(view, map_cells, margin)
    num_panels = len(map_cells.panels)
    num_columns = len(map_cells.x[1])
    panel_width = min(max(_CELL_WIDTH * num_columns, _NARROWEST_PANEL), _WIDEST_PANEL)
    map_panels, columns = _arrange(
        num_panels, [None, *compared_map.compared], panel_width
    )
    letters = int(_TITLE_LETTERS_PER_INCH * panel_width)
    titles = [
        textwrap.wrap(compared_map.title(*panel), letters) for panel in map_panels
    ]
    cell_heights = _CELL_HEIGHT * len(map_cells.y[1])
    panel_height = cell_heights + _TITLE_LINE * max(map(len, titles)) + 0.2
    caption = _caption(view, map_cells, best_over, tail)
    draw = functools.partial(
        _draw_panel,
        compared_map=compared_map,
        cell_width=panel_width / num_columns,
        letters=letters,
    )
    shown_tables = compared_map.tables(caption + models_text(view))
    page = Page('Who is ahead where', shown_tables, caption=caption)
    return with_panels(
        page,
        map_panels,
        draw,
        columns=columns,
        panel=(panel_width + _PANEL_GAP, panel_height),
        around=(_MARGIN, 1.3),
        finish=functools.partial(_explain, compared_map=compared_map),
        sharex=True,
        sharey=True,
    )


class _MapPanel(NamedTuple):
    """Identifies a panel of the picture.

    Attributes:
      number: the panel of `Cells`: a pattern and a value of the third column.
      algorithm: the algorithm whose differences are shown; None for who is best.
    """

    number: int
    algorithm: str | None


def _arrange(
    num_panels: int, algorithms: Sequence[str | None], width: float
) -> tuple[list[_MapPanel], int]:
    """Arranges the panels of a map.

    Args:
      num_panels: number of panels of each algorithm.
      algorithms: None for the picture of the best, then the algorithms with differences.
      width: width of a panel, inches.

    Returns:
      The panels in order, and how many stand side by side.
    """
    if 1 < num_panels <= len(algorithms):
        pairs = itertools.product(algorithms, range(num_panels))
        return [_MapPanel(number, algorithm) for algorithm, number in pairs], num_panels
    pairs_by_number = itertools.product(range(num_panels), algorithms)
    map_panels = list(itertools.starmap(_MapPanel, pairs_by_number))
    if num_panels > 1:
        return map_panels, len(algorithms)
    # As many stand side by side as a page is wide.
    columns = int((_PAGE_WIDTH - _MARGIN) // (width + _PANEL_GAP))
    return map_panels, max(1, columns)


def _caption(
    view: RunView, map_cells: Cells, best_over: Sequence[str], tail: float | None
) -> str:
    """Says what the numbers of a map are."""
    has_axis_of_rounds = ROUND in (map_cells.x[0], map_cells.y[0])
    span = f'mean over {view.seeds}' if has_axis_of_rounds else view.span(tail)
    caption = f'{map_cells.metric.title}: {span}'
    if best_over:
        names = ' and '.join(map(short_name, best_over))
        caption += f'. Every algorithm has the {names} that is best at the cell, by the same seeds'
    if map_cells.num_at_boundary is not None:
        num_cells = sum(np.count_nonzero(n > 1) for n in map_cells.num_values.values())
        caption += (
            f'; in {map_cells.num_at_boundary} of {num_cells} cells that is an edge of what was '
            'tried'
        )
    return f'{caption}.'


@np.errstate(invalid='ignore')
def _draw_panel(
    axes: Axes,
    map_panel: _MapPanel,
    *,
    compared_map: ComparedMap,
    cell_width: float,
    letters: int,
) -> None:
    """Draws who is best, or an algorithm's differences, on one scale for all.

    Args:
      axes: where to draw.
      map_panel: what to draw.
      compared_map: the map.
      cell_width: width of a cell, inches.
      letters: the largest number of letters in a line of the title.
    """
    panel, algorithm = map_panel
    scale = compared_map.metric.scale
    look: dict[str, Any] = {
        'x': compared_map.x,
        'y': ('', compared_map.y[1]),
        'colorbar': False,
    }
    if algorithm is None:
        form = '.1f' if compared_map.metric.is_fraction else '.4g'
        values = scale * compared_map.leader_mean[panel]
        verdicts = compared_map.leads[panel]
        faces = compared_map.faces[compared_map.leader[panel]]
        look['colours'] = np.where(compared_map.is_clear[panel][..., None], faces, 1.0)
    else:
        form = '+.1f' if compared_map.metric.is_fraction else '+.2g'
        all_means = [
            scale * means(differences) for differences in compared_map.compared.values()
        ]
        values = scale * means(compared_map.compared[algorithm][panel])
        verdicts = words(compared_map.compared[algorithm][panel])
        look['most'] = np.nanmax(np.abs([0.0, *np.ravel(all_means)]))
        look['reverse'] = compared_map.metric.sign < 0
    plot.heat_map(
        values,
        texts=heat.texts_of(values, form, cell_width),
        unclear=verdicts == evaluation.UNDECIDED,
        equivalent=verdicts == evaluation.EQUIVALENT,
        **look,
        ax=axes,
    )
    title = textwrap.fill(compared_map.title(panel, algorithm), letters)
    axes.set_title(panels.literal(title), fontsize='small')


def _explain(figure: Figure, *, compared_map: ComparedMap) -> None:
    """Draws what belongs to all panels: the scale of differences, and the legend."""
    figure.supylabel(compared_map.y[0], fontsize='small')
    images = [axes.images[0] for axes in figure.axes if axes.images]
    if compared_map.compared:
        specs = [(axes, axes.get_subplotspec()) for axes in figure.axes]
        last_column = [axes for axes, spec in specs if spec and spec.is_last_col()]
        label = compared_map.metric.difference_title(
            f'difference, {compared_map.metric.words}'
        )
        figure.colorbar(images[-1], ax=last_column, label=label, fraction=0.06)
    patches = _legend_patches(compared_map)
    width = panels.legend_width(figure)
    figure.legend(
        patches.values(),
        map(panels.literal, panels.wrap_names(list(patches), width)),
        fontsize='small',
        title_fontsize='small',
        frameon=False,
        ncols=panels.legend_columns(list(patches), width),
        loc='outside lower center',
        title=panels.literal(panels.wrap(_legend_title(compared_map), figure)),
    )


def _legend_patches(compared_map: ComparedMap) -> dict[str, Any]:
    """Returns the colours of algorithms that are best somewhere, and the hatchings."""
    from matplotlib.patches import Patch

    line: dict[str, Any] = {'edgecolor': 'black', 'linewidth': 0.5}
    patches = {
        compared_map.names[leader]: Patch(facecolor=compared_map.faces[leader], **line)
        for leader in np.unique(compared_map.leader[compared_map.is_clear]).tolist()
    }
    line |= {'edgecolor': '#00000060', 'facecolor': 'white'}
    patches['not decided'] = Patch(hatch=heat.UNDECIDED_HATCH, **line)
    if compared_map.has_equivalent:
        patches['equivalent'] = Patch(hatch=heat.EQUIVALENT_HATCH, **line)
    return patches


def _legend_title(compared_map: ComparedMap) -> str:
    """Says what colours and hatchings mean, and which models are shown if not the servers'."""
    parts = []
    if compared_map.is_clear.any():
        parts.append('best: coloured by algorithm')
    hatched = f'hatched where {compared_map.undecided.format("an interval")}'
    if compared_map.has_equivalent:
        margin_text = compared_map.metric.margin_text(compared_map.margin)
        hatched += f', dotted where it lies within {margin_text}'
    return '; '.join([*parts, hatched, *other_models(compared_map.view)])
