"""Heat maps: cells with values, colours that everybody tells apart, hatching; mixing matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import analysis
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels
from fedjax_links.simulation import SimulationResult

_AROUND_ZERO, _REVERSED, _LEVELS = 'RdBu', 'RdBu_r', 'cividis'  # told apart by the colour-blind
_MISSING = '#dddddd'
_LETTER = 0.062  # inches at the size of the text in cells
_TEXT = 7

Axis = tuple[str, Sequence[Any]]


def heat_map(
    values: Any,
    *,
    x: Axis | None = None,
    y: Axis | None = None,
    label: str = '',
    around_zero: bool = True,
    most: float | None = None,
    least: float | None = None,
    texts: Sequence[Sequence[str]] | str | None = None,
    unclear: Any = None,
    reverse: bool = False,
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
      unclear: bool[Y, X], which cells are hatched where they have a value, such as intervals that
        include zero.
      reverse: red where positive, for what is better when smaller.
      colorbar: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``.

    Raises:
      ValueError: for values that are no matrix, or axes, texts or hatching of another shape.
    """
    from matplotlib import colormaps

    values = checks.numbers('values', values).astype(np.float64)
    if values.ndim != 2 or not values.size:
        raise errors.invalid('values', 'be of shape [Y, X]', f'shape {list(values.shape)}')
    for name, axis, length in (('x', x, values.shape[1]), ('y', y, values.shape[0])):
        if axis is not None and len(axis[1]) != length:
            raise errors.invalid(name, f'have {length} values', len(axis[1]))
    if unclear is not None and np.shape(unclear) != values.shape:
        shape = list(values.shape)
        raise errors.invalid('unclear', f'be of shape {shape}', list(np.shape(unclear)))
    axes = panels.own(ax)
    seen = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    if around_zero:
        most = float(np.abs(seen).max()) if most is None else most
        least = -most
    else:
        least = float(seen.min()) if least is None else least
        most = float(seen.max()) if most is None else most
    least, most = (least, most) if least < most else (least, least + 1.0)
    name = (_REVERSED if reverse else _AROUND_ZERO) if around_zero else _LEVELS
    image = axes.imshow(
        np.ma.masked_invalid(values),
        origin='lower',
        aspect='auto',
        cmap=colormaps[name].with_extremes(bad=_MISSING),
        vmin=least,
        vmax=most,
    )
    if isinstance(texts, str):
        texts = [[formatted(v, texts) for v in row] for row in values]
    if texts is not None:
        colours = image.cmap(image.norm(np.nan_to_num(values)))[..., :3]
        write_cells(axes, texts, text_colours(colours))
    if unclear is not None:
        hatch(axes, np.asarray(unclear, bool) & ~np.isnan(values))
    label_axes(
        axes,
        x or ('', [str(k) for k in range(values.shape[1])]),
        y or ('', [str(k) for k in range(values.shape[0])]),
    )
    if colorbar:
        axes.figure.colorbar(image, ax=axes, label=label)
    return axes


def mixing_matrix(matrix: Any, *, colorbar: bool = True, ax: Any = None) -> Any:
    """The mixing matrix W of a round: what share of whose model every client goes on from.

    ::

      fl.plot.mixing_matrix(result)  # of the last round
      fl.plot.mixing_matrix(fl.analysis.expected_mixing_matrix(probs))

    Args:
      matrix: float[N, N]; or bool[N], who was active in a round; or bool[T, N], whose matrices are
        averaged over rounds; or a `simulation.SimulationResult` of one lane, whose last
        round is drawn.
      colorbar: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, row i what client i receives.

    Raises:
      ValueError: for another shape.
    """
    if isinstance(matrix, SimulationResult):
        matrix = matrix.state.links.mask
    given = np.asarray(matrix)
    if given.dtype == bool and given.ndim == 1 and given.size:
        found = analysis.mixing_matrix(given)
    elif given.dtype == bool and given.ndim == 2 and given.size:
        found = np.mean([analysis.mixing_matrix(row) for row in given], axis=0)
    else:
        found = checks.numbers('matrix', matrix).astype(np.float64)
        if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
            requirement = 'be float[N, N], or masks bool[N] or bool[T, N]'
            raise errors.invalid('matrix', requirement, f'shape {list(found.shape)}')
    from matplotlib import colors

    axes = panels.own(ax, (5.2, 4.4))
    most = max(float(found.max()), 1e-12)
    norm = colors.PowerNorm(0.5, vmin=0, vmax=most)
    image = axes.imshow(found, cmap='Blues', interpolation='nearest', norm=norm)
    for axis in (axes.xaxis, axes.yaxis):
        panels.in_integers(axis)
    axes.set_xlabel('client j')
    axes.set_ylabel('client i')
    if colorbar:
        axes.figure.colorbar(image, ax=axes, label='share of j in what i goes on from')
    return axes


def winners(
    colours: np.ndarray,
    *,
    texts: Sequence[Sequence[str]] | None = None,
    unclear: Any = None,
    ax: Any = None,
) -> Any:
    """A map whose cells have the colours of those who are best there.

    Args:
      colours: float[Y, X, 3], the first row at the bottom, such as `looks.Look.face`; NaN for none,
        grey.
      texts: [Y, X], what stands in the cells; nothing by default.
      unclear: bool[Y, X], where nobody is ahead for certain: white and hatched.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.
    """
    from matplotlib import colors

    axes, missing = panels.own(ax), np.isnan(colours)
    unclear = np.zeros(missing.shape[:2], bool) if unclear is None else np.asarray(unclear, bool)
    colours = np.where(unclear[..., None], 1.0, colours)
    colours = np.where(missing, colors.to_rgb(_MISSING), colours)
    axes.imshow(colours, origin='lower', aspect='auto')
    if texts is not None:
        write_cells(axes, texts, text_colours(colours))
    hatch(axes, unclear & ~missing.any(axis=-1))
    return axes


def formatted(value: float, form: str) -> str:
    """A value as it stands in a cell: what rounds to zero has no sign; '' for NaN."""
    if np.isnan(value):
        return ''
    text = format(value, form)
    return text if any(digit in text for digit in '123456789') else text.lstrip('+-')


def text_colours(colours: np.ndarray) -> np.ndarray:
    """str[Y, X]: black or white, whichever reads better on float[Y, X, 3]."""
    luminance = np.asarray(colours) @ np.array([0.299, 0.587, 0.114])
    return np.where(luminance < 0.5, 'white', 'black')


def write_cells(axes: Any, texts: Sequence[Sequence[str]], colours: np.ndarray) -> None:
    """Texts in the cells of an image.

    Args:
      axes: matplotlib axes.
      texts: [Y, X].
      colours: of the texts, [Y, X].
    """
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            colour = str(colours[row, column])
            axes.text(column, row, text, ha='center', va='center', fontsize=_TEXT, color=colour)


def hatch(axes: Any, cells: np.ndarray) -> None:
    """Hatches cells of an image.

    Args:
      axes: matplotlib axes.
      cells: bool[Y, X], which.
    """
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(cells):
        corner = column - 0.5, row - 0.5
        axes.add_patch(
            Rectangle(corner, 1, 1, fill=False, hatch='////', edgecolor='#00000030', linewidth=0)
        )


def label_axes(axes: Any, x: Axis, y: Axis, most_labels: int = 12) -> None:
    """Names of the axes and values of their cells, some of them where there are many.

    Args:
      axes: matplotlib axes.
      x: name and values along the horizontal axis.
      y: likewise along the vertical axis.
      most_labels: how many values are written at most.
    """
    for axis, (name, values) in ((axes.xaxis, x), (axes.yaxis, y)):
        step = -(-len(values) // most_labels)
        places = range(0, len(values), step)
        shown = [f'{v:g}' if isinstance(v, float) else str(v) for v in values]
        axis.set_ticks(places, [shown[place] for place in places], fontsize=8)
        axis.set_label_text(name, fontsize=9)
    axes.tick_params(length=0)


def fits(texts: Sequence[Sequence[str]], width: float) -> bool:
    """Whether texts fit into cells of ``width`` inches."""
    return max((len(text) for line in texts for text in line), default=0) * _LETTER < width
