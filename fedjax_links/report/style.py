"""Pages: a picture under its title and over its caption, as a PNG."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedjax_links.report import tables
from fedjax_links.storage import checkpoints

_LETTERS_PER_INCH, _LINE_INCHES = 14, 0.17
_TITLE_LETTERS_PER_INCH, _TITLE_LINE_INCHES = 10, 0.2


def save_page(path: Path, draw: Callable[[Any], None], **around: Any) -> None:
    """Writes a picture as a file, see `render`."""
    checkpoints.write_whole(path, render(draw, **around))


def render(
    draw: Callable[[Any], None], *, title: str, caption: str, size: tuple[float, float]
) -> bytes:
    """A picture under its title and over its caption.

    Args:
      draw: draws on an empty matplotlib figure.
      title: wrapped above.
      caption: wrapped below; may be empty.
      size: inches of the picture, to which the lines of caption and title are added.

    Returns:
      A PNG.
    """
    from matplotlib.figure import Figure

    width, height = size
    title = tables.wrap(title, int(width * _TITLE_LETTERS_PER_INCH))
    height += _TITLE_LINE_INCHES * title.count('\n')
    wrapped = tables.wrap(caption, int(width * _LETTERS_PER_INCH))
    below = _LINE_INCHES * (wrapped.count('\n') + 2) if wrapped else 0.01
    page = Figure(figsize=(width, height + below), layout='constrained')
    parts: Any = page.subfigures(2, 1, height_ratios=[height, below])
    top, bottom = parts
    draw(top)
    top.suptitle(title)
    bottom.text(0.02, 0.95, wrapped, va='top', fontsize=8.5)
    buffer = io.BytesIO()
    page.savefig(buffer, dpi=110, format='png')
    return buffer.getvalue()
