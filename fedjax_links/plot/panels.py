"""Makes the axes to draw on, and names and labels them."""

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedjax_links.core import errors
from fedjax_links.results import dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.figure import Figure as WholeFigure
    from matplotlib.figure import SubFigure

    Figure: TypeAlias = WholeFigure | SubFigure
else:  # Matplotlib is loaded by the first picture only.
    Axes = Axis = Figure = Any

FONT = 10.0
"""Size of letters in points, for which the sizes of pictures leave room."""
# The largest number of names, and of letters in a name, of a legend inside the axes.
_MAX_INSIDE = 6
_MAX_LETTERS_INSIDE = 28
_MAX_LEGEND_ROWS = 22
_MAX_COLUMNS = 3
# Sizes in inches.
_SINGLE = (6.4, 4.2)
_PANEL = (3.6, 2.6)
_ROW = 0.2
_LETTER = 0.085
_HANDLE = 0.42  # of an entry in a legend
_COLUMN_GAP = 0.28
_LEGEND_ROW = 0.22
_LEGEND_SHARE = 1 / 3  # of a figure's width that a legend beside the axes may take
_NAME_MARGIN = 4.5
_LABEL_HEIGHT = 0.8  # of the ticks and the name of the horizontal axis
_FIGURE_MARGIN = 0.6


def axes_of(ax: Axes | None, size: tuple[float, float] = _SINGLE) -> Axes:
    """Returns the axes to draw on: the user's axes, or the axes of a new figure of pyplot.

    Args:
      ax: matplotlib axes, or None.
      size: inches of a new figure.

    Raises:
      ValueError: for anything else.
    """
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=size, layout='constrained')[1]
    if not hasattr(ax, 'get_subplotspec'):
        raise errors.invalid('ax', 'be matplotlib axes or None', errors.text_of(ax))
    return ax


def panel_axes(ax: Any, count: int, rows: int = 0, letters: int = 0) -> list[Axes]:
    """Returns axes for ``count`` panels: the user's axes, or a grid of a new figure.

    Args:
      ax: None, axes for a single panel, or as many axes as there are panels.
      count: the number of panels.
      rows: how many lines of text stand to the left of the panels, for which a new figure has room.
      letters: how many letters the longest of these lines has.

    Raises:
      ValueError: for another number of axes.
    """
    height = _ROW * rows + _LABEL_HEIGHT
    if count == 1 and not isinstance(ax, list | tuple | np.ndarray):
        width = max(_SINGLE[0], _NAME_MARGIN + _LETTER * letters)
        return [axes_of(ax, (width, max(_SINGLE[1], height)))]
    if ax is not None:
        all_axes = list(np.ravel(np.asarray(ax, object)))
        if len(all_axes) != count:
            raise errors.invalid('ax', f'be {count} axes, one per panel', len(all_axes))
        return [axes_of(axes) for axes in all_axes]
    from matplotlib import pyplot

    columns = min(_MAX_COLUMNS, count)
    height = max(_PANEL[1], height) * math.ceil(count / columns) + _FIGURE_MARGIN
    width = _PANEL[0] * columns + _FIGURE_MARGIN + _LETTER * letters
    return grid(
        pyplot.figure(figsize=(width, height), layout='constrained'), count, columns
    )


def grid(
    figure: Figure, count: int, columns: int = _MAX_COLUMNS, **options: Any
) -> list[Axes]:
    """Returns axes of ``count`` panels in rows of ``columns``, without the rest of the last row.

    Args:
      figure: an empty matplotlib figure.
      count: the number of panels.
      columns: side by side, at most.
      **options: of ``figure.subplots``.
    """
    columns = min(columns, count)
    num_rows = math.ceil(count / columns)
    axes_grid = figure.subplots(num_rows, columns, squeeze=False, **options)
    for axes in axes_grid.flat[count:]:
        axes.set_visible(False)
    return list(axes_grid.flat[:count])


def as_returned(axes_of_panels: Sequence[Axes]) -> Axes | np.ndarray:
    """Returns single axes as they are, several as an array."""
    if len(axes_of_panels) == 1:
        return axes_of_panels[0]
    return np.array(axes_of_panels, object)


def literal(name: str) -> str:
    """Returns a user's name so that matplotlib shows it unchanged, or as a formula if it is one.

    Dollars that enclose no formula stand for themselves. A name that begins with ``_`` is shown,
    too: legends would leave it out.

    Args:
      name: a label, or a text with several.
    """
    shown = f'\u200b{name}' if name.startswith('_') else name
    return '\n'.join(map(_literal_line, shown.split('\n')))


def _literal_line(text: str) -> str:
    """Returns a line of a picture's text in which all dollars are letters, or around formulas."""
    from matplotlib import cbook, mathtext

    if not cbook.is_math_text(text):
        return text
    try:
        mathtext.MathTextParser('path').parse(text)
    except ValueError:
        return re.sub(r'(?<!\\)\$', r'\\$', text)
    return text


def name_of(name: str, model: str, *, always: bool = False) -> str:
    """Names a curve; the name includes the candidate model unless it is the server's.

    Args:
      name: the name of the curve's label, such as ``FedPBC (rate 0.1)``.
      model: the candidate model.
      always: whether the server's model is named too, as where several models are drawn.
    """
    if model == 'server' and not always:
        return literal(name)
    before = f'{name[:-1]}, ' if name.endswith(')') else f'{name} ('
    return literal(f'{before}{model.replace("_", " ")})')


def name_panel(axes: Axes, results: dataset.LabelledResults, pattern: str) -> None:
    """Titles a panel with its pattern where there are several.

    Args:
      axes: matplotlib axes.
      results: as an ``xarray.Dataset``.
      pattern: label of the panel's pattern.
    """
    if results.sizes['pattern'] > 1:
        axes.set_title(literal(dataset.names(results)[pattern]), fontsize='medium')


def label_axes(
    axes: Axes,
    x_name: str,
    y_name: str,
    *,
    integers: str = '',
    legend: str = '',
    grid: bool = False,
) -> Axes:
    """Names both axes, and returns the matplotlib axes.

    Args:
      axes: matplotlib axes.
      x_name: the name of the horizontal axis.
      y_name: the name of the vertical axis.
      integers: along which axes numbers are integers: ``'x'``, ``'y'`` or ``'xy'``.
      legend: position of a small legend, such as ``'best'`` or ``'upper right'``; none by default.
      grid: whether to draw lines at the ticks.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=x_name, ylabel=y_name)
    for name in integers:
        # By default a locator leaves the integers if only one of them is in view.
        locator = MaxNLocator('auto', integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
        getattr(axes, f'{name}axis').set_major_locator(locator)
    if grid:
        axes.grid(alpha=0.25)
    if legend:
        axes.legend(frameon=False, fontsize='small', loc=legend)  # type: ignore[call-overload]
    return axes


def draw_shares(
    axes: Axes, values: np.ndarray, label: str, colorbar: bool, **options: Any
) -> None:
    """Draws an image of fractions, on a square-root scale so that small fractions show.

    Args:
      axes: matplotlib axes.
      values: float[rows, columns].
      label: the label of the colour bar.
      colorbar: whether to draw one.
      **options: of ``axes.imshow``.
    """
    from matplotlib import colors

    largest = float(values.max())
    norm = colors.PowerNorm(0.5, vmin=0, vmax=largest if largest else 1.0)
    image = axes.imshow(
        values, cmap='Blues', interpolation='nearest', norm=norm, **options
    )
    if colorbar:
        axes.figure.colorbar(image, ax=axes, label=label)


def in_per_cent(axis: Axis) -> None:
    """Writes fractions along an axis in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, symbol=' %'))


def logarithmic(axis: Axis, *, per_cent: bool = False) -> None:
    """Makes an axis logarithmic, with plain numbers at as many ticks as fit."""

    def text(value: float, _: object) -> str:
        low, high = sorted(axis.get_view_interval())
        if not 0 < low < high or value <= 0:
            return ''
        # log10(1000) may round below 3.
        mantissa = round(value / 10 ** math.floor(math.log10(value) + 1e-9), 3)
        span = math.log10(high / low)
        shown = (1,) if span > 2 else (1, 2, 5)
        if span > 0.7 and mantissa not in shown:
            return ''
        return f'{100 * value:.6g} %' if per_cent else f'{value:.6g}'

    axis.axes.set(**{f'{axis.axis_name}scale': 'log'})  # type: ignore[attr-defined]
    axis.set_major_formatter(text)
    axis.set_minor_formatter(text)
    axis.set_tick_params(which='minor', labelsize='small')


def legend(
    axes: Axes,
    *,
    outside: bool = False,
    panels: Sequence[Axes] | None = None,
    widens: bool = False,
) -> None:
    """Draws a legend; beside the axes if it is long, or if asked for.

    The legend stays inside the axes if the figure has no layout engine to make room beside them.

    Args:
      axes: where to draw it.
      outside: whether to draw a short legend beside the axes, too.
      panels: axes with the artists to name; a name in several panels is shown once. By default
        ``axes`` alone.
      widens: whether the figure grows where a legend beside the axes would leave the axes little
        room.
    """
    handles: list[Any] = []
    names: list[str] = []
    for panel in [axes] if panels is None else panels:
        names_before = set(names)
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            if name not in names_before:
                handles.append(handle)
                names.append(name)
    if not names:
        return
    is_long = len(names) > _MAX_INSIDE or max(map(len, names)) > _MAX_LETTERS_INSIDE
    where: dict[str, Any] = {}
    if (outside or is_long) and axes.figure.get_layout_engine() is not None:
        columns = math.ceil(len(names) / _MAX_LEGEND_ROWS)
        where = {'loc': 'upper left', 'bbox_to_anchor': (1.02, 1), 'ncols': columns}
    shown = axes.legend(handles, names, frameon=False, fontsize='small', **where)
    if widens and where:
        _make_room(axes.figure, shown)


def _make_room(figure: Any, legend: Any) -> None:
    """Enlarges a figure by what a legend beside its axes needs beyond a share of the width."""
    width, height = figure.get_size_inches()
    box = legend.get_window_extent()
    missing_width = max(0.0, box.width / figure.dpi - _LEGEND_SHARE * width)
    needed_height = box.height / figure.dpi + _LEGEND_ROW
    figure.set_size_inches(width + missing_width, max(height, needed_height))


def legend_width(figure: Figure) -> float:
    """Returns how wide a figure is for its legend: in inches, if letters had the size `FONT`."""
    from matplotlib import rcParams

    width = figure.figure.get_figwidth()
    return width * FONT / float(rcParams['font.size'])


def wrap(text: str, figure: Figure) -> str:
    """Wraps a text to lines that are no wider than a figure."""
    return textwrap.fill(text, int(legend_width(figure) / _LETTER))


def wrap_names(names: Sequence[str], width: float) -> list[str]:
    """Wraps names of a legend in `FONT` to lines that fit into ``width`` inches."""
    letters = max(1, int((width - _HANDLE) / _LETTER))
    wrapped = []
    for name in names:
        lines = [textwrap.fill(line, letters) for line in name.split('\n')]
        wrapped.append('\n'.join(lines))
    return wrapped


def legend_columns(names: Sequence[str], width: float) -> int:
    """Returns how many columns of a legend in `FONT` fit into ``width`` inches."""
    letters = [max(map(len, name.split('\n'))) for name in wrap_names(names, width)]
    entry_widths = _HANDLE + _LETTER * np.array(letters)
    for num_columns in range(len(names), 1, -1):
        columns = np.array_split(entry_widths, num_columns)
        gaps = _COLUMN_GAP * (num_columns - 1)
        if sum(column.max() for column in columns) + gaps < width:
            return num_columns
    return 1


def legend_height(
    names: Sequence[str], width: float, *, has_room_for: int = 0
) -> float:
    """Returns how many inches a picture needs for the legend below it, in `FONT`.

    Args:
      names: the names in the legend.
      width: the width of the picture, inches.
      has_room_for: the number of rows that the picture has room for already.
    """
    num_rows = math.ceil(len(names) / legend_columns(names, width))
    # Of a name on several lines; the tallest ones may stand in different rows.
    heights = sorted(name.count('\n') + 1 for name in wrap_names(names, width))
    num_lines = sum(heights[-num_rows:])
    return _LEGEND_ROW * max(0, num_lines - has_room_for)


def legend_below(figure: Figure, names: Sequence[str]) -> None:
    """Draws one legend below all panels, in the order of names.

    Args:
      figure: with labelled artists.
      names: the names of the artists to show.
    """
    handle_of: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handle_of.setdefault(label, handle)
    handles = [handle_of[name] for name in names]
    width = legend_width(figure)
    figure.legend(
        handles,
        wrap_names(names, width),
        frameon=False,
        loc='outside lower center',
        ncols=legend_columns(names, width),
    )


def note(axes: Axes, text: str) -> Axes:
    """Writes in the middle of axes why they are empty, and returns the axes."""
    axes.text(0.5, 0.5, text, ha='center', transform=axes.transAxes)
    return axes
