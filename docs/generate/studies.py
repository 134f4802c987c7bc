"""Write the section of studies: pages with date and strength, and their records."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

STRENGTHS = 'strong', 'fair', 'weak', 'exact', 'cost'
"""The strengths of evidence that the index defines."""

_RECORDS = 'records'
_LINE = re.compile(
    r'^\*(?P<date>\d{1,2} \w+ \d{4})\. Evidence: (?P<strength>\w+), (?P<why>.+)\.\*$'
)
_INTRODUCTION = """\
# Studies

Read what experiments with this package have shown. Each page says when its numbers were measured
and how strong the evidence is. *Strong*, *fair* and *weak* are defined with the [evidence for the
choice of an algorithm](choosing.md#strength). *Exact* is theory, compared with simulation. *Cost*
is times and sizes only. [Which algorithm should I use](../../choosing.md) sums the pages up for a
decision. [Claims of four papers](../../papers.md) has a row for each figure, table and claim.

"""
_OF_RECORDS = """\
# Records

Reports of the runs behind the studies and the papers' tables, as they were written: final metrics
with paired intervals, curves, tuned rates.

"""


class Study(NamedTuple):
    """A page.

    Attributes:
      name: of its file, without suffix.
      title: its heading.
      date: of its last measurement.
      strength: in `STRENGTHS`.
      why: what the strength comes from.
    """

    name: str
    title: str
    date: str
    strength: str
    why: str


def read(page: Path) -> Study:
    """Read the title of a page and the line below it.

    Args:
      page: a study.

    Raises:
      ValueError: for a page without that line.
    """
    title, _, line = page.read_text(encoding='utf-8').splitlines()[:3]
    match = _LINE.match(line)
    if match is None or match['strength'] not in STRENGTHS:
        raise ValueError(
            f'{page.name} needs a line of date and evidence below its title: {line!r}'
        )
    return Study(page.stem, title.removeprefix('# '), *match.groups())


def write(source: Path, folder: Path) -> None:
    """Copy pages, pictures and reports, and write an index of pages and one of records.

    Args:
      source: the folder of studies.
      folder: where pages go; it must not exist.
    """
    others = shutil.ignore_patterns('__pycache__', '*.py', '*.npz', '*.json')
    shutil.copytree(source, folder, ignore=others)
    studies = sorted(map(read, source.glob('*.md')), key=lambda study: study.title)
    rows = [
        f'| [{study.title}]({study.name}.md) | {study.date} | {study.strength}: {study.why} |'
        for study in studies
    ]
    table = ['| study | measured | evidence |', '| --- | --- | --- |', *rows]
    entries = [
        '../../choosing',
        '../../papers',
        *(study.name for study in studies),
        'records/index',
    ]
    page = _INTRODUCTION + '\n'.join([*table, '', *_contents(entries)])
    (folder / 'index.md').write_text(page, encoding='utf-8')
    _write_records(folder / _RECORDS)


def _write_records(folder: Path) -> None:
    """Write an index of reports, and mark their titles as records."""
    entries, rows = [], []
    for report in sorted(folder.rglob('report.md')):
        content = report.read_text(encoding='utf-8')
        title = content.partition('\n')[0].removeprefix('# ')
        report.write_text(content.replace('# ', '# Record: ', 1), encoding='utf-8')
        path = report.relative_to(folder).with_suffix('').as_posix()
        name = path.removesuffix('/report')
        entries.append(f'{name} <{path}>')
        rows.append(f'| [{title}]({path}.md) | {name} |')
    page = _OF_RECORDS + '\n'.join(['| record | folder |', '| --- | --- |', *rows, ''])
    page += '\n'.join(['', *_contents(entries)])
    (folder / 'index.md').write_text(page, encoding='utf-8')


def _contents(entries: list[str]) -> list[str]:
    """Return a table of contents that only the side bar shows."""
    return ['```{toctree}', ':hidden:', '', *entries, '```', '']
