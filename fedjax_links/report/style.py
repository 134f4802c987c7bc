"""Pages: a picture under its title and over its caption, as a PNG."""

import io
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedjax_links import checkpoints

_LETTERS_PER_INCH = 14
_LINE_INCHES = 0.17


def save_page(
    path: Path, draw: Callable[[Any], None], *, title: str, caption: str, size: tuple[float, float]
) -> None:
    """Writes a picture under its title and over its caption.

    Args:
      path: where the PNG goes.
      draw: draws on an empty matplotlib figure.
      title: one line.
      caption: wrapped below; may be empty.
      size: inches of the picture, to which the caption's lines are added.
    """
    from matplotlib.figure import Figure

    width, height = size
    wrapped = textwrap.fill(caption, int(width * _LETTERS_PER_INCH))
    below = _LINE_INCHES * (wrapped.count('\n') + 2) if wrapped else 0.01
    page = Figure(figsize=(width, height + below), layout='constrained')
    parts: Any = page.subfigures(2, 1, height_ratios=[height, below])
    top, bottom = parts
    draw(top)
    top.suptitle(title)
    bottom.text(0.02, 0.95, wrapped, va='top', fontsize=8.5)
    buffer = io.BytesIO()
    page.savefig(buffer, dpi=110, format='png')
    checkpoints.write_whole(path, buffer.getvalue())
