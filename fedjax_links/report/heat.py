"""Heat maps: cells with values, colours around zero that everybody tells apart, hatching."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_COLOURS, _REVERSED = 'RdBu', 'RdBu_r'  # ColorBrewer's, told apart by the colour-blind
_MISSING = '#dddddd'
_LETTER = 0.062  # inches at the size of the text in cells
_TEXT = 7


def draw_differences(
    axes: Any,
    values: np.ndarray,
    most: float,
    *,
    texts: Sequence[Sequence[str]] | None = None,
    unclear: np.ndarray | None = None,
    reverse: bool = False,
) -> Any:
    """Differences from red through white at zero to blue.

    Args:
      axes: matplotlib axes.
      values: float[Y, X], the first row at the bottom; NaN for none, grey.
      most: where colours end, on both sides.
      texts: [Y, X], what stands in the cells; nothing by default.
      unclear: bool[Y, X], which cells are hatched.
      reverse: red where positive, for what is better when smaller.

    Returns:
      The image, for a colour bar.
    """
    from matplotlib import colormaps

    colours = colormaps[_REVERSED if reverse else _COLOURS].with_extremes(bad=_MISSING)
    most = most if most > 0 else 1.0
    image = axes.imshow(
        np.ma.masked_invalid(values),
        origin='lower',
        aspect='auto',
        cmap=colours,
        vmin=-most,
        vmax=most,
    )
    if texts is not None:
        dark = np.abs(values) > 0.6 * most
        write_cells(axes, texts, np.where(dark, 'white', 'black'))
    if unclear is not None:
        hatch(axes, unclear)
    return image


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


def label_axes(
    axes: Any, x: tuple[str, Sequence[str]], y: tuple[str, Sequence[str]], most_labels: int = 12
) -> None:
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
        axis.set_ticks(places, [values[place] for place in places], fontsize=8)
        axis.set_label_text(name, fontsize=9)
    axes.tick_params(length=0)


def fits(texts: Sequence[Sequence[str]], width: float) -> bool:
    """Whether texts fit into cells of ``width`` inches."""
    return max((len(text) for line in texts for text in line), default=0) * _LETTER < width
