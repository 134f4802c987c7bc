"""The forms that papers give their results: one file per layout, named in `LAYOUTS`.

A layout is a function of `Results` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import checks, errors, experiment
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
    'bars': bars,
    'curves': curves,
    'first_rounds': first_rounds,
    'levels': levels,
    'rates': rates,
}
DEFAULT: Mapping[str, Mapping[str, Any]] = {
    'levels': {'name': 'levels'},
    'curves': {'name': 'curves'},
}
REPORT = 'report.md'
_CAPTION_WIDTH = 14  # letters per inch


def check(reports: Mapping[str, Mapping[str, Any]]) -> None:
    """Checks the names and options of a config's reports.

    Args:
      reports: by file name, ``name`` in `LAYOUTS` and its options.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    for file, section in reports.items():
        options = dict(section)
        name = options.pop('name', None)
        if name not in LAYOUTS:
            raise errors.unknown_name(f'config.reports.{file}.name', str(name), LAYOUTS)
        checks.options(f'config.reports.{file}', LAYOUTS[name], options, None)


def build(results: Results, reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Page]:
    """Computes the pages.

    Args:
      results: of a run or comparison.
      reports: by file name, ``name`` in `LAYOUTS` and its options; `DEFAULT` if empty.

    Returns:
      The pages by file name.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    return {
        file: experiment.build_named(f'config.reports.{file}', section, LAYOUTS, results)
        for file, section in (reports or DEFAULT).items()
    }


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
        if page.draw is not None:
            picture = f'{name}.png'
            _draw(folder / picture, results, page)
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


def _draw(path: Path, results: Results, page: Page) -> None:
    pyplot = style.pyplot()
    width, height = page.size
    caption = textwrap.fill(results.caption, int(width * _CAPTION_WIDTH))
    below = 0.17 * (caption.count('\n') + 2) if caption else 0.01
    figure = pyplot.figure(figsize=(width, height + below), layout='constrained')
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, below])
    assert page.draw is not None
    page.draw(top)
    top.suptitle(results.title)
    if caption:
        bottom.text(0.02, 0.95, caption, va='top', fontsize=8.5)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
