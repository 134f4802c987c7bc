"""Heat maps: cells with values, colours that everybody tells apart, hatching; mixing matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import analysis
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels

_AROUND_ZERO, _REVERSED, _LEVELS = (
    'RdBu',
    'RdBu_r',
    'cividis',
)  # told apart by the colour-blind
_MISSING = '#dddddd'
_LETTER = 0.062  # inches at the size of the text in cells
_TEXT = 7
_MOST_LABELS = 12
UNDECIDED_HATCH, ALIKE_HATCH = '////', '..'

Axis = tuple[str, Sequence[Any]]
Texts = Sequence[Sequence[str]]


def heat_map(
    values: Any,
    *,
    x: Axis | None = None,
    y: Axis | None = None,
    label: str = '',
    around_zero: bool = True,
    most: float | None = None,
    least: float | None = None,
    texts: Texts | str | None = None,
    unclear: Any = None,
    alike: Any = None,
    reverse: bool = False,
    colours: Any = None,
    colorbar: bool = True,
    ax: Any = None,
) -> Any:
    """Values over two axes: differences from red through white at zero to blue, or levels.

    ::

      fl.plot.heat_map(differences, x=('sigma', sigmas), y=('rate', rates), texts='+.1f',
                       label='FedPBC minus FedAvg, points')

    Args:
      values: float[Y, X], the first row at the bottom; NaN for none, grey.
      x: name and X values of the horizontal axis.
      y: name and Y values of the vertical axis.
      label: of the colour bar, with the unit.
      around_zero: whether colours are those of differences; else dark is small and bright large.
      most: where colours end, on both sides of zero or above; the largest value by default.
      least: where the colours of levels begin; the smallest value by default.
      texts: [Y, X], what stands in the cells, or a format for the values; nothing by default.
      unclear: bool[Y, X], which cells are hatched where they have a value, such as differences that
        are not decided.
      alike: bool[Y, X], which cells are dotted where they have a value, such as differences that
        are decided to be small.
      reverse: red where positive, for what is better when smaller.
      colours: float[Y, X, 3], of the cells in place of those of values, such as `Look.face`.
      colorbar: whether to draw one, where colours are those of values.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``.

    Raises:
      ValueError: for values that are no matrix, or axes, texts or hatching of another shape.
    """
    from matplotlib import colormaps, colors

    values = checks.numbers('values', values).astype(np.float64)
    shape = list(values.shape)
    if values.ndim != 2 or not values.size:
        raise errors.invalid('values', 'be of shape [Y, X]', f'shape {shape}')
    up, across = (axis or ('', range(k)) for axis, k in zip((y, x), shape, strict=True))
    for name, axis, length in zip('yx', (up, across), shape, strict=True):
        if len(axis[1]) != length:
            raise errors.invalid(name, f'have {length} values', len(axis[1]))
    axes = panels.own(ax)
    patterned = [('unclear', unclear, UNDECIDED_HATCH), ('alike', alike, ALIKE_HATCH)]
    for argument, cells, hatch in patterned:
        if cells is not None:
            _hatch(axes, argument, np.asarray(cells, bool), values, hatch)
    seen = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    if most is None:
        most = float(np.abs(seen).max() if around_zero else seen.max())
    if around_zero or least is None:
        least = -most if around_zero else float(seen.min())
    most = most if least < most else least + 1.0
    name = (_REVERSED if reverse else _AROUND_ZERO) if around_zero else _LEVELS
    scale = colormaps[name].with_extremes(bad=_MISSING)
    placed: dict[str, Any] = {'origin': 'lower', 'aspect': 'auto'}
    if colours is None:
        levels = np.ma.masked_invalid(values)
        image = axes.imshow(levels, cmap=scale, vmin=least, vmax=most, **placed)
        shown = image.to_rgba(np.nan_to_num(values))[..., :3]
        if colorbar:
            axes.figure.colorbar(image, ax=axes, label=label)
    else:
        shown = np.where(np.isnan(values)[..., None], colors.to_rgb(_MISSING), colours)
        axes.imshow(shown, **placed)
    if isinstance(texts, str):
        texts = texts_of(values, texts)
    dark = shown @ np.array([0.299, 0.587, 0.114]) < 0.5  # whatever reads better on it
    look: dict[str, Any] = {'ha': 'center', 'va': 'center', 'fontsize': _TEXT}
    for (row, column), is_dark in np.ndenumerate(dark):
        if texts is not None:
            colour = 'white' if is_dark else 'black'
            axes.text(column, row, texts[row][column], color=colour, **look)
    label_axes(axes, across, up)
    return axes


def _hatch(
    axes: Any, argument: str, chosen: Any, values: np.ndarray, hatch: str
) -> None:
    """Hatches the chosen cells that have a value."""
    from matplotlib import patches

    if chosen.shape != values.shape:
        raise errors.invalid(
            argument, f'be of shape {list(values.shape)}', list(chosen.shape)
        )
    look: dict[str, Any] = {'fill': False, 'edgecolor': '#00000030', 'linewidth': 0}
    for row, column in np.argwhere(chosen & ~np.isnan(values)):
        axes.add_patch(
            patches.Rectangle((column - 0.5, row - 0.5), 1, 1, hatch=hatch, **look)
        )


def mixing_matrix(matrix: Any, *, colorbar: bool = True, ax: Any = None) -> Any:
    """The mixing matrix W of a round: what share of whose model every client goes on from.

    ::

      fl.plot.mixing_matrix(links.mask)  # of a round
      fl.plot.mixing_matrix(fl.analysis.expected_mixing_matrix(probs))

    Args:
      matrix: float[N, N]; or bool[N], who was active in a round.
      colorbar: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, row i what client i receives.

    Raises:
      ValueError: for another shape.
    """
    given = np.asarray(matrix)
    is_mask = given.dtype == bool and given.ndim == 1 and given.size
    found = (
        analysis.mixing_matrix(given) if is_mask else checks.numbers('matrix', matrix)
    )
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
        shape = f'shape {list(found.shape)}'
        raise errors.invalid('matrix', 'be float[N, N], or a mask bool[N]', shape)
    axes = panels.own(ax, (5.2, 4.4))
    panels.draw_shares(axes, found, 'share of j in what i goes on from', colorbar)
    return panels.finish(axes, 'client j', 'client i', whole='xy')


def texts_of(values: np.ndarray, form: str, width: float = np.inf) -> Texts | None:
    """Values as they stand in cells; None where they do not fit into ``width`` inches.

    What rounds to zero has no sign; nothing stands for NaN.

    Args:
      values: float[Y, X].
      form: a format.
      width: of a cell.
    """

    def text(value: float) -> str:
        shown = '' if np.isnan(value) else format(value, form)
        return (
            shown
            if any(digit in shown for digit in '123456789')
            else shown.lstrip('+-')
        )

    texts = [[text(value) for value in row] for row in values]
    longest = max(len(shown) for row in texts for shown in row)
    return texts if longest * _LETTER < width else None


def label_axes(axes: Any, x: Axis, y: Axis) -> None:
    """Names of the axes and values of their cells, some of them where there are many.

    Args:
      axes: matplotlib axes.
      x: name and values along the horizontal axis.
      y: likewise along the vertical axis.
    """
    for axis, (name, values) in ((axes.xaxis, x), (axes.yaxis, y)):
        step = -(-len(values) // _MOST_LABELS)
        places = range(0, len(values), step)
        shown = [f'{v:g}' if isinstance(v, float) else str(v) for v in values]
        axis.set_ticks(places, [shown[place] for place in places], fontsize=8)
        axis.set_label_text(name, fontsize=9)
    axes.tick_params(length=0)
