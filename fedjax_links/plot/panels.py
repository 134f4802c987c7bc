"""Makes the axes to draw on, and names and labels them."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.results import dataset

# Legends inside the axes have at most so many names, each of at most so many letters.
_MAX_INSIDE = 6
_MAX_LETTERS_INSIDE = 28
_MAX_LEGEND_ROWS = 22
_MAX_COLUMNS = 3
# Sizes in inches.
_SINGLE = (6.4, 4.2)
_PANEL = (3.6, 2.6)
_ROW = 0.2
_LETTER = 0.08
_BESIDE_NAMES = 4.5


def own(ax: Any, size: tuple[float, float] = _SINGLE) -> Any:
    """The axes to draw on: those given, or those of a new figure of pyplot.

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


def several(ax: Any, count: int, rows: int = 0, letters: int = 0) -> list[Any]:
    """Axes for ``count`` panels: those given, or a grid of a new figure.

    Args:
      ax: None, axes for a single panel, or as many axes as there are panels.
      count: of the panels.
      rows: how many lines of text a panel has at its left side; a new figure has room for them.
      letters: the longest line's; only panels at the left have such text.

    Raises:
      ValueError: for another number of axes.
    """
    height = _ROW * rows + 0.8
    if count == 1 and not isinstance(ax, list | tuple | np.ndarray):
        width = max(_SINGLE[0], _BESIDE_NAMES + _LETTER * letters)
        return [own(ax, (width, max(_SINGLE[1], height)))]
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, object)))
        if len(given) != count:
            raise errors.invalid('ax', f'be {count} axes, one per panel', len(given))
        return list(map(own, given))
    from matplotlib import pyplot

    columns = min(_MAX_COLUMNS, count)
    height = max(_PANEL[1], height) * -(-count // columns) + 0.6
    width = _PANEL[0] * columns + 0.6 + _LETTER * letters
    return grid(
        pyplot.figure(figsize=(width, height), layout='constrained'), count, columns
    )


def grid(
    figure: Any, count: int, columns: int = _MAX_COLUMNS, **options: Any
) -> list[Any]:
    """Axes of ``count`` panels in rows of ``columns``; the rest of the last row is hidden.

    Args:
      figure: an empty matplotlib figure.
      count: of the panels.
      columns: side by side, at most.
      **options: of ``figure.subplots``.
    """
    columns = min(columns, count)
    every: Any = figure.subplots(
        -(-count // columns), columns, squeeze=False, **options
    )
    for axes in every.flat[count:]:
        axes.set_visible(False)
    return list(every.flat[:count])


def as_returned(found: Sequence[Any]) -> Any:
    """A single axes, or an array of them."""
    return found[0] if len(found) == 1 else np.array(found, object)


def literal(name: str) -> str:
    """Returns a user's name as matplotlib writes it letter by letter, or as the formula that it is.

    Dollars that enclose no formula stand for themselves, and a name may begin with ``_``, which
    legends would leave out.

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
    """Names a curve in a picture: of another candidate model than the server's it says which.

    Args:
      name: of its label, such as ``FedPBC (rate 0.1)``.
      model: the candidate model.
      always: whether the server's is named too, as where several are drawn.
    """
    if model == 'server' and not always:
        return literal(name)
    before = f'{name[:-1]}, ' if name.endswith(')') else f'{name} ('
    return literal(f'{before}{model.replace("_", " ")})')


def name_panel(axes: Any, results: Any, pattern: str) -> None:
    """Titles a panel with its pattern where there are several.

    Args:
      axes: matplotlib axes.
      results: as an ``xarray.Dataset``.
      pattern: label of the panel's pattern.
    """
    if results.sizes['pattern'] > 1:
        axes.set_title(literal(dataset.names(results)[pattern]), fontsize=10)


def finish(
    axes: Any,
    x_name: str,
    y_name: str,
    *,
    whole: str = '',
    legend: str = '',
    grid: bool = False,
) -> Any:
    """Names the axes, and returns what they belong to.

    Args:
      axes: matplotlib axes.
      x_name: of the horizontal axis.
      y_name: of the vertical axis.
      whole: along which axes numbers are whole: ``'x'``, ``'y'`` or ``'xy'``.
      legend: where a small one stands, as matplotlib names places; none by default.
      grid: whether to draw lines at the ticks.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=x_name, ylabel=y_name)
    for name in whole:
        locator = MaxNLocator('auto', integer=True, steps=[1, 2, 5, 10])
        getattr(axes, f'{name}axis').set_major_locator(locator)
    if grid:
        axes.grid(alpha=0.25)
    if legend:
        axes.legend(frameon=False, fontsize=8, loc=legend)
    return axes


def draw_shares(
    axes: Any, values: Any, label: str, colorbar: bool, **options: Any
) -> None:
    """An image of shares, on a square-root scale so that small ones show.

    Args:
      axes: matplotlib axes.
      values: float[rows, columns].
      label: of the colour bar.
      colorbar: whether to draw one.
      **options: of ``axes.imshow``.
    """
    from matplotlib import colors

    norm = colors.PowerNorm(0.5, vmin=0, vmax=float(values.max()) or 1.0)
    image = axes.imshow(
        values, cmap='Blues', interpolation='nearest', norm=norm, **options
    )
    if colorbar:
        axes.figure.colorbar(image, ax=axes, label=label)


def in_per_cent(axis: Any) -> None:
    """Writes shares along an axis in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, symbol=' %'))


def logarithmic(axis: Any, *, per_cent: bool = False) -> None:
    """A logarithmic axis with plain numbers: powers of ten, then 2 and 5 too, then every tick."""

    def text(value: float, _: Any) -> str:
        low, high = sorted(axis.get_view_interval())
        if not 0 < low < high or value <= 0:
            return ''
        mantissa = round(value / 10 ** math.floor(math.log10(value) + 1e-9), 3)
        span = math.log10(high / low)
        wanted = (1,) if span > 2 else (1, 2, 5)
        if span > 0.7 and mantissa not in wanted:
            return ''
        return f'{100 * value:.6g} %' if per_cent else f'{value:.6g}'

    axis.axes.set(**{f'{axis.axis_name}scale': 'log'})
    axis.set_major_formatter(text)
    axis.set_minor_formatter(text)
    axis.set_tick_params(which='minor', labelsize=8)


def legend(axes: Any, *, outside: bool = False) -> None:
    """A legend; beside the axes where asked for or long, and the figure makes room for it."""
    names = axes.get_legend_handles_labels()[1]
    if not names:
        return
    outside = (
        outside
        or len(names) > _MAX_INSIDE
        or max(map(len, names)) > _MAX_LETTERS_INSIDE
    )
    where: Any = {}
    if outside and axes.figure.get_layout_engine() is not None:
        columns = -(-len(names) // _MAX_LEGEND_ROWS)
        where = {'loc': 'upper left', 'bbox_to_anchor': (1.02, 1), 'ncols': columns}
    axes.legend(frameon=False, fontsize=8, **where)


def legend_columns(names: Sequence[str], width: float) -> int:
    """How many entries of a legend fit side by side into a picture of ``width`` inches."""
    widths = [0.7 + 0.085 * len(name) for name in names]
    return len(names) if sum(widths) < width else max(1, int(width / max(widths)))


def legend_below(figure: Any, names: Sequence[str], width: float) -> None:
    """One legend for all panels below them, in the order of names.

    Args:
      figure: with labelled artists.
      names: of those to show.
      width: of the figure in inches.
    """
    drawn = [
        zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes
    ]
    handles = {label: handle for handle, label in reversed([*itertools.chain(*drawn)])}
    where = {'loc': 'outside lower center', 'ncols': legend_columns(names, width)}
    figure.legend([handles[name] for name in names], names, frameon=False, **where)


def note(axes: Any, text: str) -> Any:
    """Says in the middle of empty axes why they are, and returns them."""
    axes.text(0.5, 0.5, text, ha='center', transform=axes.transAxes)
    return axes
