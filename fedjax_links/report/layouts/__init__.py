"""The forms that papers give their results: one file per layout, named in `LAYOUTS`.

A layout is a function of `Results` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import experiment
from fedjax_links.report import style
from fedjax_links.report.layouts.bars import bars
from fedjax_links.report.layouts.curves import curves
from fedjax_links.report.layouts.first_rounds import first_rounds
from fedjax_links.report.layouts.levels import levels
from fedjax_links.report.layouts.link_maps import link_maps
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.layouts.rates import rates
from fedjax_links.report.results import Results

LAYOUTS: Mapping[str, Callable[..., Page]] = {
    'levels': levels,
    'first_rounds': first_rounds,
    'rates': rates,
    'bars': bars,
    'curves': curves,
}
"""By name, in the order of a report."""
DEFAULT: Mapping[str, Mapping[str, Any]] = {
    'levels': {'name': 'levels'},
    'curves': {'name': 'curves'},
}
REPORT = 'report.md'
_CAPTION_WIDTH = 14  # letters per inch


def build(results: Results, reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Page]:
    """Computes the pages.

    Args:
      results: of a run or comparison.
      reports: by file name, ``name`` in `LAYOUTS` and its options; `DEFAULT` if empty.

    Returns:
      The pages by file name, in the order of `LAYOUTS`.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    pages = {}
    for file, section in sorted((reports or DEFAULT).items()):
        page = experiment.build_named(f'config.reports.{file}', section, LAYOUTS, results)
        pages[list(LAYOUTS).index(section['name']), file] = page
    return {file: pages[place, file] for place, file in sorted(pages)}


def write(
    folder: Path,
    results: Results,
    pages: Mapping[str, Page],
    masks: Mapping[str, np.ndarray] | None = None,
) -> list[str]:
    """Writes ``report.md`` and the pictures.

    Args:
      folder: an existing folder.
      results: what the pages are made of.
      pages: from `build`.
      masks: realised links by pattern, drawn if given.

    Returns:
      Names of the files written.
    """
    pages = {**pages, **({'links': link_maps(results, masks)} if masks else {})}
    parts, written = [f'# {results.title}\n'], [REPORT]
    if results.missing:
        parts.append(f'Not finished yet: {", ".join(results.missing)}.\n')
    for name, page in pages.items():
        parts.append(f'## {page.heading}\n')
        if page.draw is not None:
            picture = f'{name}.png'
            _draw(folder / picture, results, page.draw, page.size)
            parts.append(f'![{page.heading}]({picture})\n')
            written.append(picture)
        parts.extend(table.markdown() for table in page.tables)
    if results.caption:
        parts.append(f'{results.caption}\n')
    (folder / REPORT).write_text('\n'.join(parts))
    return written


def text(pages: Mapping[str, Page]) -> str:
    """The tables for a terminal."""
    return '\n\n'.join(table.text() for page in pages.values() for table in page.tables)


def _draw(
    path: Path, results: Results, draw: Callable[[Any], None], size: tuple[float, float]
) -> None:
    """A picture under the title, over the caption."""
    pyplot = style.pyplot()
    width, height = size
    caption = textwrap.fill(results.caption, int(width * _CAPTION_WIDTH))
    below = 0.17 * (caption.count('\n') + 2) if caption else 0.01
    figure = pyplot.figure(figsize=(width, height + below), layout='constrained')
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, below])
    draw(top)
    top.suptitle(results.title)
    if caption:
        bottom.text(0.02, 0.95, caption, va='top', fontsize=8.5)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
