"""Layouts of report pages, in the forms that papers use, named in `LAYOUTS`.

A layout is a function of a `RunView` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.config import bound, nested, resolver
from fedjax_links.core.records import Section
from fedjax_links.pages import figure, tables
from fedjax_links.planning import seeding, validation
from fedjax_links.plot import scripts
from fedjax_links.report import provenance
from fedjax_links.report.layouts.clients import clients, link_maps, participation
from fedjax_links.report.layouts.final import bars, best, metrics, spread
from fedjax_links.report.layouts.heat_map import heat_map
from fedjax_links.report.layouts.levels import levels
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.layouts.price import price
from fedjax_links.report.layouts.progress import curves, first_rounds, overview
from fedjax_links.report.layouts.rates import rates
from fedjax_links.report.run_view import RunView
from fedjax_links.storage import atomic_files

_ALL: Sequence[Callable[..., Page]] = (
    *(overview, metrics, levels, best, first_rounds, rates, bars, curves),
    *(heat_map, link_maps, participation, clients, price, spread),
)
LAYOUTS: Mapping[str, Callable[..., Page]] = {
    layout.__name__: layout for layout in _ALL
}
"""By name, in the order of a report."""
REPORT = 'report.md'
_MOST_DIVERGED = 30


def default(source: RunView) -> Mapping[str, Section]:
    """Chooses the pages of a report if the config names none.

    Args:
      source: of a run.

    Returns:
      By file name, ``name`` in `LAYOUTS` and its options.
    """
    names = ['levels']
    if len(source.patterns) == 1:
        names += ['metrics', 'overview']
    else:
        names.append('curves')
    has_several_points = len(source.members) > len(source.algorithms)
    if has_several_points and source.metric().direction:
        names.append('best')
    if source.tuning:
        names.append('rates')
    if any(clients.measured for clients in source.clients.values()):
        names.append('clients')
    is_redrawn = all(seeding.GRID in point for _, point in source.members.values())
    if is_redrawn and source.num_seeds > 1:
        names.append('spread')
    return {name: {'name': name} for name in names}


def build(source: RunView, reports: Section) -> dict[str, Page]:
    """Computes the pages.

    Args:
      source: of a run.
      reports: by file name, ``name`` in `LAYOUTS` (or ``module:factory``) and its options;
        `default` if empty. Pages of links are added if links were recorded.

    Returns:
      The pages by file name, in the order of `LAYOUTS`, those of the user's own last.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    validation.check_labels('config.reports', list(reports), validation.LINK_PAGES)
    reports = reports or default(source)
    # Pages are computed in the order of their files, and shown in the order of `LAYOUTS`.
    pages = {
        file: resolver.build_named(f'config.reports.{file}', section, LAYOUTS, source)
        for file, section in sorted(reports.items())
    }
    layouts = [*LAYOUTS]

    def position(file: str) -> int:
        name = nested.section(reports[file])['name']
        return layouts.index(name) if name in layouts else len(layouts)

    ordered = {file: pages[file] for file in sorted(pages, key=position)}
    if source.links:
        link_pages = link_maps(source), participation(source)
        ordered |= zip(validation.LINK_PAGES, link_pages, strict=True)
    return ordered


def recorded(reports: Section) -> tuple[Section, list[str]]:
    """Selects the pages of a run folder that need no code outside the package.

    A folder is data, so what it names is not imported.

    Args:
      reports: as in `build`, as the folder records them.

    Returns:
      The pages that the package alone can make, without printed numbers that other code would give;
      and a line for each page that lacks something.
    """
    selected: dict[str, Any] = {}
    lacking: list[str] = []
    for file, section in reports.items():
        try:
            bound.check_recorded(f'config.reports.{file}', section)
            selected[file] = section
        except bound.RefusedImportError as error:
            lacking.append(f'Left out of the report: {error}')
            rest = nested.section(section)
            rest = {name: part for name, part in rest.items() if name != 'published'}
            if not any(bound.foreign_names('', rest)):
                selected[file] = rest
    return selected, lacking


def write(
    folder: Path,
    source: RunView,
    pages: Mapping[str, Page],
    lacking: Sequence[str] = (),
) -> list[str]:
    """Writes ``report.md`` and the pictures.

    Args:
      folder: an existing folder.
      source: what the pages are made of.
      pages: from `build`.
      lacking: lines that say what the report leaves out.

    Returns:
      Names of the files written.
    """
    parts = [*_opening(source, lacking)]
    written = [REPORT]
    stand_ins: dict[str, str] = {}
    sections: list[str] = []
    for name, page in pages.items():
        sections.append(f'## {page.heading}\n')
        if page.draw is not None:
            picture = f'{name}.png'
            captions = [page.caption, '' if page.of_links else source.caption]
            figure.save_page(
                folder / picture,
                page.draw,
                title=source.title,
                caption='\n\n'.join(caption for caption in captions if caption),
                size=page.size,
                stand_ins=stand_ins,
            )
            written.append(picture)
            sections.append(f'![{page.heading}]({picture})\n')
        sections.extend(table.markdown() for table in page.tables)
    if stand_ins:
        parts.append(_paragraph(scripts.explanation(stand_ins)))
    parts += sections
    if source.caption:
        parts.append(_paragraph(source.caption))
    if source.run is not None:
        parts.append('## What ran\n')
        parts.extend(map(_paragraph, provenance.lines(source.run)))
    atomic_files.write(folder / REPORT, '\n'.join(parts).encode())
    return written


def _opening(source: RunView, lacking: Sequence[str]) -> Iterator[str]:
    """Yields the title, and what the report lacks."""
    yield f'# {tables.as_markdown(source.title)}\n'
    yield from map(_paragraph, lacking)
    if source.missing:
        yield _paragraph(f'Not finished yet: {", ".join(source.missing)}.')
    if source.diverged:
        listed = [*source.diverged[:_MOST_DIVERGED]]
        num_more = len(source.diverged) - _MOST_DIVERGED
        if num_more > 0:
            listed.append(f'{num_more} more')
        yield _paragraph(f'Diverged (rounds count from 0): {"; ".join(listed)}.')


def _paragraph(text: str) -> str:
    """Writes a text as a paragraph of Markdown."""
    return f'{tables.as_markdown(text)}\n'


def text(pages: Mapping[str, Page]) -> str:
    """Returns the tables for a terminal."""
    return '\n\n'.join(table.text() for page in pages.values() for table in page.tables)
