"""The forms that papers give their results, named in `LAYOUTS`.

A layout is a function of a `RunView` and plain options that returns a `Page`: tables, and how to
draw. `write` puts all pages of a folder into ``report.md`` with their pictures beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.config import bound, nested, resolver
from fedjax_links.pages import figure, tables
from fedjax_links.planning import seeding, validation
from fedjax_links.plot import scripts
from fedjax_links.report import provenance
from fedjax_links.report.layouts.clients import clients, link_maps, participation
from fedjax_links.report.layouts.final import bars, best, levels, metrics, spread
from fedjax_links.report.layouts.heat_map import heat_map
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.layouts.price import price
from fedjax_links.report.layouts.progress import curves, first_rounds, overview
from fedjax_links.report.layouts.rates import rates
from fedjax_links.report.run_view import RunView
from fedjax_links.storage import checkpoints

_EVERY: Sequence[Callable[..., Page]] = (
    *(overview, metrics, levels, best, first_rounds, rates, bars, curves),
    *(heat_map, link_maps, participation, clients, price, spread),
)
LAYOUTS: Mapping[str, Callable[..., Page]] = {
    layout.__name__: layout for layout in _EVERY
}
"""By name, in the order of a report."""
REPORT = 'report.md'
_MOST_DIVERGED = 30


def default(source: RunView) -> dict[str, Mapping[str, Any]]:
    """The pages of a report for which a config names none.

    Args:
      source: of a run.

    Returns:
      By file name, ``name`` in `LAYOUTS` and its options.
    """
    names = ['levels']
    names += ['metrics', 'overview'] if len(source.patterns) == 1 else ['curves']
    several_points = len(source.members) > len(source.algorithms)
    names += ['best'] if several_points and source.metric().direction else []
    names += ['rates'] if source.tuning else []
    redrawn = all(seeding.GRID in point for _, point in source.members.values())
    names += ['clients'] if any(own.measured for own in source.clients.values()) else []
    names += ['spread'] if redrawn and source.num_seeds > 1 else []
    return {name: {'name': name} for name in names}


def build(source: RunView, reports: Mapping[str, Any]) -> dict[str, Page]:
    """Computes the pages.

    Args:
      source: of a run.
      reports: by file name, ``name`` in `LAYOUTS` (or ``module:factory``) and its options;
        `default` if empty. The links are added where they were kept.

    Returns:
      The pages by file name, in the order of `LAYOUTS`, those of the user's own last.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    validation.check_labels('config.reports', list(reports), validation.LINK_PAGES)
    reports, order = reports or default(source), [*LAYOUTS]
    pages = {
        file: resolver.build_named(f'config.reports.{file}', section, LAYOUTS, source)
        for file, section in sorted(reports.items())
    }
    names = {file: nested.section(reports[file])['name'] for file in pages}
    places = {k: order.index(v) if v in order else len(order) for k, v in names.items()}
    found = {file: pages[file] for file in sorted(pages, key=places.__getitem__)}
    if source.links:
        kept = link_maps(source), participation(source)
        found |= zip(validation.LINK_PAGES, kept, strict=True)
    return found


def recorded(reports: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Takes the pages that a run folder asks for, which is data.

    Args:
      reports: as in `build`, as the folder keeps them.

    Returns:
      Those that the package alone can make, without printed numbers that other code would give; and
      a line for each that lacks something.
    """
    kept: dict[str, Any] = {}
    lacking: list[str] = []
    for file, section in reports.items():
        try:
            bound.check_recorded(f'config.reports.{file}', section)
            kept[file] = section
        except bound.RefusedImportError as error:
            lacking.append(f'Left out of the report: {error}')
            rest = nested.section(section)
            rest = {name: part for name, part in rest.items() if name != 'published'}
            if not any(bound.foreign_names('', rest)):
                kept[file] = rest
    return kept, lacking


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
    parts, written = [f'# {tables.as_markdown(source.title)}\n'], [REPORT]
    parts += [f'{tables.as_markdown(line)}\n' for line in lacking]
    if source.missing:
        missing = tables.as_markdown(', '.join(source.missing))
        parts.append(f'Not finished yet: {missing}.\n')
    if source.diverged:
        more = len(source.diverged) - _MOST_DIVERGED
        listed = [
            *source.diverged[:_MOST_DIVERGED],
            *([f'{more} more'] if more > 0 else []),
        ]
        shown = tables.as_markdown('; '.join(listed))
        parts.append(f'Diverged (rounds count from 0): {shown}.\n')
    stand_ins: dict[str, str] = {}
    head = len(parts)
    for name, page in pages.items():
        parts.append(f'## {page.heading}\n')
        if page.draw is not None:
            written.append(f'{name}.png')
            captions = [page.caption, '' if page.of_links else source.caption]
            caption = '\n\n'.join(text for text in captions if text)
            around: dict[str, Any] = {'title': source.title, 'caption': caption}
            around |= {'size': page.size, 'stand_ins': stand_ins}
            figure.save_page(folder / written[-1], page.draw, **around)
            parts.append(f'![{page.heading}]({written[-1]})\n')
        parts.extend(table.markdown() for table in page.tables)
    if stand_ins:
        parts.insert(head, f'{tables.as_markdown(scripts.explanation(stand_ins))}\n')
    if source.caption:
        parts.append(f'{tables.as_markdown(source.caption)}\n')
    if source.run is not None:
        parts.append('## What ran\n')
        parts.extend(
            f'{tables.as_markdown(line)}\n' for line in provenance.lines(source.run)
        )
    checkpoints.write_atomically(folder / REPORT, '\n'.join(parts).encode())
    return written


def text(pages: Mapping[str, Page]) -> str:
    """The tables for a terminal."""
    return '\n\n'.join(table.text() for page in pages.values() for table in page.tables)
