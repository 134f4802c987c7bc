"""Small tables for a terminal, a document or a paper, and as data; metrics that papers print."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links.config import resolver

_NUMBER = r'[+-]?(?:inf|\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)'
_PARTS = re.compile(
    rf'^({_NUMBER})(?: ± ({_NUMBER}))?(?: \[({_NUMBER})\])?(?: (\*+))?$'
)
_NUMBER_SUFFIXES = ('', ' ±', ' [±]')
_STARS_SUFFIX = ' *'
_NO_NUMBER = ('', '-', 'diverged')
_SIGNS = {'±': r'$\pm$', '↑': r'$\uparrow$', '↓': r'$\downarrow$', '≈': r'$\approx$'}
_SIGNS |= {
    '\\': r'\textbackslash{}',
    '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}',
}
_LATEX = str.maketrans({**_SIGNS, **{mark: f'\\{mark}' for mark in '&%$#_{}'}})


class Table(NamedTuple):
    """A small table.

    Attributes:
      header: column names.
      rows: one text per column.
      caption: what the numbers are.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def text(self) -> str:
        """Writes it for a terminal: aligned columns under a rule, the caption below."""
        columns = zip(self.header, *self.rows, strict=True)
        widths = [max(map(len, column)) for column in columns]

        def line(cells: Sequence[str]) -> str:
            padded = []
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
                is_text = column < 2
                padded.append(cell.ljust(width) if is_text else cell.rjust(width))
            return '  '.join(padded).rstrip()

        rule = '-' * (sum(widths) + 2 * (len(widths) - 1))
        caption = textwrap.fill(self.caption, max(80, len(rule)))
        lines = [line(self.header), rule, *map(line, self.rows), rule, caption]
        return '\n'.join(lines)

    def markdown(self) -> str:
        """Writes it for a document."""

        def line(cells: Sequence[str]) -> str:
            shown = [as_markdown(cell, in_table=True) for cell in cells]
            return f'| {" | ".join(shown)} |'

        rule = f'|{" --- |" * len(self.header)}'
        lines = [line(self.header), rule, *map(line, self.rows)]
        return '\n'.join([*lines, '', as_markdown(self.caption), ''])

    def data(self) -> Any:
        """Returns a `pandas.DataFrame` with the printed numbers, and ``attrs['caption']``.

        A column ``ours`` of ``84.3 ± 0.4 [0.9] *`` becomes ``ours``, ``ours ±``, ``ours [±]`` and
        ``ours *``, as far as it has them; NaN where a run diverged or a cell is empty. Columns that
        hold anything else stay texts.
        """
        import pandas

        columns: dict[str, Any] = {}
        for title, *texts in zip(self.header, *self.rows, strict=True):
            columns |= _numbers_of_column(title, texts)
        frame = pandas.DataFrame(columns)
        frame.attrs['caption'] = self.caption
        return frame

    def latex(self) -> str:
        """Writes a ``tabular`` with the rules of the package booktabs, the caption as a comment."""
        header, *rows = [
            ' & '.join(map(_as_latex, row)) + r' \\'
            for row in (self.header, *self.rows)
        ]
        alignment = ('l' * 2 + 'r' * len(self.header))[: len(self.header)]
        caption = textwrap.fill(
            self.caption, 100, initial_indent='% ', subsequent_indent='% '
        )
        lines = [
            caption,
            rf'\begin{{tabular}}{{{alignment}}}',
            r'\toprule',
            header,
            r'\midrule',
            *rows,
            r'\bottomrule',
            r'\end{tabular}',
        ]
        return '\n'.join([*lines, ''])


def _numbers_of_column(title: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the numbers of a column, its half widths and its stars; or the texts as they are."""
    import pandas

    cells = pandas.Series(texts, dtype=object)
    parts = cells.str.extract(_PARTS)
    is_number = parts[0].notna()
    if not is_number.any() or not cells[~is_number].isin(_NO_NUMBER).all():
        return {title: texts}
    columns: dict[str, Any] = {}
    for part, suffix in enumerate(_NUMBER_SUFFIXES):
        if parts[part].notna().any():
            numbers = parts[part].str.replace(',', '').astype(float)
            columns[f'{title}{suffix}'] = numbers
    stars = parts[len(_NUMBER_SUFFIXES)]
    if stars.notna().any():
        columns[f'{title}{_STARS_SUFFIX}'] = stars.fillna('')
    return columns


def as_markdown(text: str, *, in_table: bool = False) -> str:
    """Writes a text so that a page shows it as it is: no HTML, no link, no further column."""
    shown = re.sub(r'<(?=[A-Za-z/!?])', r'\\<', text)
    shown = re.sub(r'\](?=[(:\[])', r'\\]', shown)
    return shown.replace('|', r'\|').replace('\n', ' ') if in_table else shown


def _as_latex(cell: str) -> str:
    """Writes a cell with signs for minus, and escapes letters that have a meaning in LaTeX."""
    return re.sub(r'(?<!\S)-(?=[\d.])', '$-$', cell.translate(_LATEX))


def of_rows(rows: Sequence[Mapping[str, str]], caption: str) -> Table:
    """Builds a table from rows.

    Args:
      rows: cells by title; a missing cell is empty.
      caption: what the numbers are.
    """
    titles: dict[str, None] = {}
    for row in rows:
        titles |= dict.fromkeys(row)
    header = list(titles)
    cells = [[row.get(title, '') for title in header] for row in rows]
    return Table(header, cells, caption)


def wrap(text: str, width: int) -> str:
    """Wraps paragraphs, which are separated by empty lines, into lines of at most ``width``."""
    return '\n'.join(textwrap.fill(part, width) for part in text.split('\n\n'))


class Level(NamedTuple):
    """Holds a printed accuracy.

    Attributes:
      mean: fraction.
      deviation: standard deviation, as a fraction; None if none is printed.
    """

    mean: float
    deviation: float | None


def load_levels(section: resolver.Section | None) -> Mapping[Any, Any]:
    """Returns the numbers that a paper prints.

    Args:
      section: ``name``, a ``module:factory`` that returns the numbers by what they belong to, and
        its options; None for no paper.

    Returns:
      Its result; empty without a paper.

    Raises:
      ValueError: for unknown options and names.
    """
    return {} if section is None else resolver.build_named('published', section, {})
