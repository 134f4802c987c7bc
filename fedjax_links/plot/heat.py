"""Draws heat maps, with values and hatching in their cells, and mixing matrices."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import analysis
from fedjax_links.core import checks, errors
from fedjax_links.plot import arguments, panels
from fedjax_links.plot.panels import Axes
from fedjax_links.results.metric import format_values

# Colour maps that colour-blind readers can tell apart.
_DIVERGING = 'RdBu'
_DIVERGING_REVERSED = 'RdBu_r'
_SEQUENTIAL = 'cividis'
_MISSING = '#dddddd'
_TEXT_SIZE = 7
_LETTER_WIDTH = 0.062  # inches, at the size of the text in cells
_MAX_TICK_LABELS = 12
UNDECIDED_HATCH = '////'
EQUIVALENT_HATCH = '..'

Axis = tuple[str, Sequence[Any]]
Texts = Sequence[Sequence[str]]


def heat_map(
    values: ArrayLike,
    *,
    x: Axis | None = None,
    y: Axis | None = None,
    label: str = '',
    around_zero: bool = True,
    most: float | None = None,
    least: float | None = None,
    texts: Texts | str | None = None,
    unclear: ArrayLike | None = None,
    equivalent: Any = None,
    reverse: bool = False,
    colours: Any = None,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draws values over two axes as a map of colours.

    Differences run from red through white at zero to blue; other values from dark to bright.

    ::

      fl.plot.heat_map(differences, x=('sigma', sigmas), y=('rate', rates), texts='+.1f',
                       label='FedPBC minus FedAvg, points')

    Args:
      values: float[Y, X], the first row at the bottom; NaN for none, grey.
      x: name and X values of the horizontal axis.
      y: name and Y values of the vertical axis.
      label: the label of the colour bar, with the unit.
      around_zero: whether the values are differences, whose colours are symmetric about zero.
      most: the value at which colours end, for differences on both sides of zero; the largest
        value by default.
      least: the value at which colours begin, unless values are differences; the smallest value
        by default.
      texts: [Y, X], what stands in the cells, or a format for the values; nothing by default.
      unclear: bool[Y, X], which cells to hatch if they have a value, such as undecided differences.
      equivalent: bool[Y, X], which cells to dot if they have a value, such as differences that are
        decided to be small.
      reverse: whether positive values are red, for metrics that are better when smaller.
      colours: float[Y, X, 3], RGB colours of the cells, in place of the values' colours.
      colorbar: whether to draw one; there is none with ``colours``.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``.

    Raises:
      ValueError: for values that are no matrix; axes, texts, colours or hatching of another shape;
        an invalid format; or an invalid range of colours.
    """
    values = arguments.numbers('values', values, '[Y, X]')
    arguments.titles(label=label)
    checks.flags(around_zero=around_zero, reverse=reverse, colorbar=colorbar)
    y = _checked_axis('y', y, values.shape[0])
    x = _checked_axis('x', x, values.shape[1])
    hatched = {
        hatch: arguments.cells(argument, which, values.shape) & ~np.isnan(values)
        for argument, which, hatch in (
            ('unclear', unclear, UNDECIDED_HATCH),
            ('equivalent', equivalent, EQUIVALENT_HATCH),
        )
        if which is not None
    }
    _check_range(around_zero, least, most)
    if colours is not None:
        colours = _checked_colours(colours, values)
    if texts is not None:
        texts = _checked_texts(texts, values)
    axes = panels.axes_of(ax)
    for hatch, is_hatched in hatched.items():
        _hatch(axes, is_hatched, hatch)
    if colours is None:
        least, most = _colour_range(values, around_zero, least, most)
        shown = _draw_values(
            axes, values, _colour_map(around_zero, reverse), least, most
        )
        if colorbar:
            axes.figure.colorbar(axes.images[0], ax=axes, label=label)
    else:
        shown = _draw_colours(axes, values, colours)
    if texts is not None:
        _write_texts(axes, texts, shown)
    label_axes(axes, x, y)
    return axes


def _checked_axis(argument: str, axis: Axis | None, length: int) -> Axis:
    """Returns an axis, by default without a name and with indices as values.

    Raises:
      ValueError: for another number of values than ``length``.
    """
    if axis is None:
        return '', range(length)
    is_pair = isinstance(axis, list | tuple) and len(axis) == 2
    if not is_pair or not _has_order(axis[1]):
        got = errors.text_of(axis)
        raise errors.invalid(argument, 'be a name and a list of values', got)
    name, values = axis
    arguments.titles(**{argument: name})
    values = list(values)
    if len(values) != length:
        raise errors.invalid(argument, f'have {length} values', len(values))
    return name, values


def _has_order(values: object) -> bool:
    """Returns whether values can be listed in order, each more than a letter of a text."""
    return np.iterable(values) and not isinstance(values, str | set | frozenset)


def _check_range(around_zero: bool, least: float | None, most: float | None) -> None:
    """Raises for ends of the range of colours that contradict each other."""
    for argument, value in (('least', least), ('most', most)):
        if value is not None:
            arguments.finite_number(argument, value)
    if around_zero and most is not None and most < 0:
        raise errors.invalid('most', 'be at least 0 for differences', most)
    if around_zero and least is not None and (most is None or least != -most):
        requirement = 'be left out unless `around_zero` is False'
        raise errors.invalid('least', requirement, least)
    if least is not None and most is not None and least > most:
        raise errors.invalid('least', f'be at most {most}, as `most` is', least)


def _checked_texts(texts: Texts | str, values: np.ndarray) -> Texts | None:
    """Returns what stands in the cells, [Y, X]; raises for another shape, or for no format."""
    if isinstance(texts, str):
        try:
            return texts_of(values, texts)
        except ValueError:
            requirement = "be a format such as '+.1f', or texts of the cells"
            raise errors.invalid('texts', requirement, repr(texts)) from None
    array = np.asarray(texts, object)
    if array.shape != values.shape:
        requirement = f'be a format, or texts of shape {list(values.shape)}'
        raise errors.invalid('texts', requirement, f'shape {list(array.shape)}')
    rows: Texts = array.tolist()
    return rows


def _checked_colours(colours: Any, values: np.ndarray) -> np.ndarray:
    """Returns float[Y, X, 3] in [0, 1], whatever they are where there is no value."""
    array = arguments.numbers('colours', colours, '[Y, X, 3]')
    shape = (*values.shape, 3)
    if array.shape != shape:
        got = f'shape {list(array.shape)}'
        raise errors.invalid('colours', f'be of shape {list(shape)}', got)
    is_missing = np.isnan(values)[..., None]
    arguments.shares('colours', np.where(is_missing, 0.0, array), '[Y, X, 3]')
    return array


def _colour_range(
    values: np.ndarray, around_zero: bool, least: float | None, most: float | None
) -> tuple[float, float]:
    """Returns the values at which colours begin and end."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        finite = np.zeros(1)
    # A range needs a width, also where all values are the same.
    if around_zero:
        end = float(np.abs(finite).max()) if most is None else most
        end = end or 1.0
        return -end, end
    low = float(finite.min()) if least is None else least
    high = float(finite.max()) if most is None else most
    if low < high:
        return low, high
    if least is None and most is not None:
        return high - 1.0, high
    return low, low + 1.0


def _colour_map(around_zero: bool, reverse: bool) -> Any:
    """Returns the colour map of differences or of values, grey where there is no value."""
    from matplotlib import colormaps

    name = _SEQUENTIAL
    if around_zero:
        name = _DIVERGING_REVERSED if reverse else _DIVERGING
    return colormaps[name].with_extremes(bad=_MISSING)


def _draw_values(
    axes: Axes, values: np.ndarray, colour_map: Any, least: float, most: float
) -> np.ndarray:
    """Draws values by their colours and returns float[Y, X, 3], the colours of the cells."""
    shown = np.ma.masked_invalid(values)
    image = axes.imshow(
        shown,
        cmap=colour_map,
        origin='lower',
        aspect='auto',
        vmin=least,
        vmax=most,
    )
    colours: np.ndarray = image.to_rgba(shown)[..., :3]
    return colours


def _draw_colours(axes: Axes, values: np.ndarray, colours: Any) -> np.ndarray:
    """Draws cells of these colours, grey where there is no value, and returns the colours."""
    from matplotlib import colors

    is_missing = np.isnan(values)[..., None]
    shown = np.where(is_missing, colors.to_rgb(_MISSING), colours)
    axes.imshow(shown, origin='lower', aspect='auto')
    return shown


def _write_texts(axes: Axes, texts: Texts, colours: np.ndarray) -> None:
    """Writes texts into the cells, white on dark colours and black on bright colours."""
    luminance = colours @ np.array([0.299, 0.587, 0.114])
    for (row, column), is_dark in np.ndenumerate(luminance < 0.5):
        axes.text(
            column,
            row,
            texts[row][column],
            color='white' if is_dark else 'black',
            ha='center',
            va='center',
            fontsize=_TEXT_SIZE,
        )


def _hatch(axes: Axes, cells: np.ndarray, hatch: str) -> None:
    """Hatches cells, bool[Y, X], with what matplotlib names ``hatch``."""
    from matplotlib import patches

    look: dict[str, Any] = {'fill': False, 'edgecolor': '#00000030', 'linewidth': 0}
    for row, column in np.argwhere(cells):
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(patches.Rectangle(corner, 1, 1, hatch=hatch, **look))


def mixing_matrix(
    matrix: ArrayLike, *, colorbar: bool = True, ax: Axes | None = None
) -> Axes:
    """Draws the mixing matrix W of a round: the weights with which clients average models.

    ::

      fl.plot.mixing_matrix(links.mask)  # of a round
      fl.plot.mixing_matrix(fl.analysis.expected_mixing_matrix(probs))

    Args:
      matrix: float[N, N], at least 0; or bool[N], who was active in a round.
      colorbar: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, row i is what client i receives.

    Raises:
      ValueError: for another shape, or a weight below 0.
    """
    checks.flags(colorbar=colorbar)
    sizes = checks.shape('matrix', matrix)
    if len(sizes) == 1 and sizes[0]:
        weights = analysis.mixing_matrix(arguments.truth_values('matrix', matrix))
    else:
        weights = checks.numbers('matrix', matrix)
    is_square = weights.ndim == 2 and weights.shape[0] == weights.shape[1]
    if not is_square or not weights.size:
        shape = f'shape {list(weights.shape)}'
        raise errors.invalid('matrix', 'be float[N, N], or a mask bool[N]', shape)
    weights = arguments.at_least_zero('matrix', weights, '[N, N]')
    axes = panels.axes_of(ax, (5.2, 4.4))
    panels.draw_shares(
        axes, weights, "weight of client j in client i's new model", colorbar
    )
    return panels.label_axes(axes, 'client j', 'client i', integers='xy')


def texts_of(values: np.ndarray, form: str, width: float = np.inf) -> Texts | None:
    """Returns values as the texts of their cells; None if a text does not fit.

    A value that rounds to zero has no sign; NaN is an empty text.

    Args:
      values: float[Y, X].
      form: a format.
      width: the width of a cell, in inches.
    """
    texts = [[_cell_text(value, form) for value in row] for row in values]
    longest = max(map(len, itertools.chain.from_iterable(texts)))
    return texts if longest * _LETTER_WIDTH < width else None


def _cell_text(value: float, form: str) -> str:
    """Formats a value, without a sign if it rounds to zero."""
    if np.isnan(value):
        return ''
    text = format(value, form)
    rounds_to_zero = not any(digit in text for digit in '123456789')
    return text.lstrip('+-') if np.isfinite(value) and rounds_to_zero else text


def label_axes(axes: Axes, x: Axis, y: Axis) -> None:
    """Names the axes and writes the values of their cells, only some values if there are many.

    Args:
      axes: matplotlib axes.
      x: name and values along the horizontal axis.
      y: likewise along the vertical axis.
    """
    _label_axis(axes.xaxis, *x)
    _label_axis(axes.yaxis, *y)
    axes.tick_params(length=0)


def _label_axis(axis: Any, name: str, values: Sequence[object]) -> None:
    """Names an axis and writes the values of its cells."""
    step = math.ceil(len(values) / _MAX_TICK_LABELS)
    ticks = range(0, len(values), step)
    shown = format_values(values)
    axis.set_ticks(ticks, [shown[tick] for tick in ticks], fontsize='small')
    axis.set_label_text(name, fontsize='small')
