"""Layouts of report pages, in the forms that papers use, named in `LAYOUTS`.

A layout is a function of a `RunView` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.config import bound, nested, resolver
from fedjax_links.core.records import Section
from fedjax_links.core.registry import Registry, current_name
from fedjax_links.pages import figure, tables
from fedjax_links.planning import seeding, validation
from fedjax_links.plot import scripts
from fedjax_links.report import provenance
from fedjax_links.report.layouts.clients import clients, link_maps, participation
from fedjax_links.report.layouts.comparison import comparison
from fedjax_links.report.layouts.cost import cost
from fedjax_links.report.layouts.final import bars, best, metrics, spread
from fedjax_links.report.layouts.final_table import final
from fedjax_links.report.layouts.heat_map import heat_map
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.layouts.progress import curves, overview
from fedjax_links.report.layouts.rates import rates
from fedjax_links.report.layouts.targets import first_rounds
from fedjax_links.report.run_view import RunView
from fedjax_links.storage import atomic_files

LAYOUTS: Mapping[str, Callable[..., Page]] = Registry(
    {
        'overview': overview,
        'metrics': metrics,
        'comparison': comparison,
        'final': final,
        'best': best,
        'first_rounds': first_rounds,
        'rates': rates,
        'bars': bars,
        'curves': curves,
        'heat_map': heat_map,
        'link_maps': link_maps,
        'participation': participation,
        'clients': clients,
        'cost': cost,
        'spread': spread,
    }
)
"""Layouts by name, in the order of a report."""
REPORT = 'report.md'
_MOST_DIVERGED = 30
"""Diverged simulations that the opening lists; further simulations are counted."""


def default(view: RunView) -> Mapping[str, Section]:
    """Chooses the pages of a report if the config names none.

    Args:
      view: the view of a run.

    Returns:
      By file name, the ``name`` of a layout in `LAYOUTS` and its options.
    """
    names = ['comparison']
    if len(view.patterns) == 1:
        names += ['metrics', 'overview']
    else:
        names.append('curves')
    has_grid = len(view.members) > len(view.algorithms)
    if has_grid and view.metric().direction:
        names.append('best')
    if view.tuning:
        names.append('rates')
    if any(stats.measured for stats in view.clients.values()):
        names.append('clients')
    if view.num_seeds > 1 and _redraws_streams(view):
        names.append('spread')
    return {name: {'name': name} for name in names}


def _redraws_streams(view: RunView) -> bool:
    """Returns whether every grid point says which streams of random draws follow the seed."""
    points = [point for _, point in view.members.values()]
    return all(seeding.REDRAW_COLUMN in point for point in points)


def build(view: RunView, reports: Section) -> dict[str, Page]:
    """Computes the pages.

    Args:
      view: the view of a run.
      reports: by file name, the ``name`` of a layout in `LAYOUTS` (or ``module:factory``) and its
        options; the pages of `default` if empty. Pages of links are added if links were recorded.

    Returns:
      The pages by file name, in the order of `LAYOUTS`. Pages of the user's own layouts come next,
      and pages of links last.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    validation.check_labels('config.reports', list(reports), validation.LINK_PAGES)
    reports = reports or default(view)
    # Pages are computed in the order of their files, and shown in the order of `LAYOUTS`.
    pages = {
        file: build_page(f'config.reports.{file}', section, view)
        for file, section in sorted(reports.items())
    }
    names = [*LAYOUTS]

    def position(file: str) -> int:
        name = current_name(nested.section(reports[file])['name'])
        return names.index(name) if name in names else len(names)

    ordered = {file: pages[file] for file in sorted(pages, key=position)}
    if view.links:
        maps_file, participation_file = validation.LINK_PAGES
        ordered[maps_file] = link_maps(view)
        ordered[participation_file] = participation(view)
    return ordered


def build_page(path: str, section: Section | str, view: RunView) -> Page:
    """Computes the page of a section.

    Args:
      path: the path of the section in the config, for errors.
      section: as in `build`.
      view: the view of a run.

    Raises:
      ValueError: as `build`, and for a layout of the user that returns no page.
    """
    layout = resolver.bind(path, section, LAYOUTS, view)
    page: Page = layout._replace(kind=Page).build()
    return page


def pages_of_package(reports: Section) -> tuple[Section, list[str]]:
    """Selects the pages of a run folder that need no code outside the package.

    A folder is data, so code that it names is not imported.

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
            # Without the numbers of a paper, the page may need no such code.
            rest = {**nested.section(section)}
            rest.pop('published', None)
            if not any(bound.foreign_names('', rest)):
                selected[file] = rest
    return selected, lacking


def write(
    folder: Path,
    view: RunView,
    pages: Mapping[str, Page],
    lacking: Sequence[str] = (),
) -> list[str]:
    """Writes ``report.md`` and the pictures.

    Args:
      folder: an existing folder.
      view: what the pages are made of.
      pages: from `build`.
      lacking: lines that say what the report leaves out.

    Returns:
      Names of the files written.
    """
    parts = [*_opening(view, lacking)]
    written = [REPORT]
    # What pictures show for names that no installed font can write, by name.
    stand_ins: dict[str, str] = {}
    sections: list[str] = []
    for name, page in pages.items():
        sections.append(f'## {page.heading}\n')
        if page.draw is not None:
            picture = f'{name}.png'
            captions = [page.caption]
            if not page.of_links:
                captions.append(view.caption)
            figure.save_page(
                folder / picture,
                page.draw,
                title=view.title,
                caption='\n\n'.join(filter(None, captions)),
                size=page.size,
                stand_ins=stand_ins,
            )
            written.append(picture)
            sections.append(f'![{page.heading}]({picture})\n')
        sections.extend(table.markdown() for table in page.tables)
    if stand_ins:
        parts.append(_paragraph(scripts.explanation(stand_ins)))
    parts += sections
    if view.caption:
        parts.append(_paragraph(view.caption))
    if view.run is not None:
        parts.append('## What ran\n')
        parts.extend(map(_paragraph, provenance.lines(view.run)))
    atomic_files.write(folder / REPORT, '\n'.join(parts).encode())
    return written


def _opening(view: RunView, lacking: Sequence[str]) -> Iterator[str]:
    """Yields the title, and what the report lacks."""
    yield f'# {tables.as_markdown(view.title)}\n'
    yield from map(_paragraph, lacking)
    if view.missing:
        yield _paragraph(f'Not finished yet: {", ".join(view.missing)}.')
    if view.diverged:
        listed = [*view.diverged[:_MOST_DIVERGED]]
        num_more = len(view.diverged) - _MOST_DIVERGED
        if num_more > 0:
            listed.append(f'{num_more} more')
        yield _paragraph(f'Diverged (rounds count from 0): {"; ".join(listed)}.')


def _paragraph(text: str) -> str:
    """Writes a text as a paragraph of Markdown."""
    return f'{tables.as_markdown(text)}\n'


def text(pages: Mapping[str, Page]) -> str:
    """Returns the tables of all pages for a terminal."""
    all_tables = itertools.chain.from_iterable(page.tables for page in pages.values())
    return '\n\n'.join(table.text() for table in all_tables)
