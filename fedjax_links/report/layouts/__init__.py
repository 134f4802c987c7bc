"""The forms that papers give their results: one file per layout, named in `LAYOUTS`.

A layout is a function of `Results` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import sections
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
        page = sections.named(f'config.reports.{file}', section, LAYOUTS, results)
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
            style.save_page(
                folder / picture,
                page.draw,
                title=results.title,
                caption=results.caption,
                size=page.size,
            )
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
