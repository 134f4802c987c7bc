"""Small tables: for a terminal, for a document, for a paper, and as data; what papers print."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links.config import resolver

_NUMBER = r'[+-]?(?:inf|\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)'
_PARTS = re.compile(
    rf'^({_NUMBER})(?: ± ({_NUMBER}))?(?: \[({_NUMBER})\])?(?: (\*+))?$'
)
_SUFFIXES = '', ' ±', ' [±]', ' *'
_NOTHING = '', '-', 'diverged'
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
        """For a terminal: aligned columns under a rule, the caption below."""
        widths = [
            max(map(len, column))
            for column in zip(self.header, *self.rows, strict=True)
        ]

        def line(cells: Sequence[str]) -> str:
            padded = [
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            return '  '.join(padded).rstrip()

        rule = '-' * (sum(widths) + 2 * (len(widths) - 1))
        caption = textwrap.fill(self.caption, max(80, len(rule)))
        return '\n'.join(
            [line(self.header), rule, *map(line, self.rows), rule, caption]
        )

    def markdown(self) -> str:
        """For a document."""
        titles, *rows = (
            f'| {" | ".join(as_markdown(cell, in_table=True) for cell in row)} |'
            for row in (self.header, *self.rows)
        )
        rule = f'|{" --- |" * len(self.header)}'
        return '\n'.join([titles, rule, *rows, '', as_markdown(self.caption), ''])

    def data(self) -> Any:
        """A `pandas.DataFrame` with the numbers as they are printed, and ``attrs['caption']``.

        A column ``ours`` of ``84.3 ± 0.4 [0.9] *`` becomes ``ours``, ``ours ±``, ``ours [±]`` and
        ``ours *``, as far as it has them; NaN where a run diverged or nothing stands. Columns that
        hold anything else stay texts.
        """
        import pandas

        found: dict[str, Any] = {}
        for title, *column in zip(self.header, *self.rows, strict=True):
            cells = pandas.Series(column, dtype=object)
            parts = cells.str.extract(_PARTS)
            is_number = parts[0].notna()
            if not is_number.any() or not cells[~is_number].isin(_NOTHING).all():
                found[title] = column
                continue
            for part, suffix in enumerate(_SUFFIXES):
                if (texts := parts[part]).notna().any():
                    is_mark = suffix == _SUFFIXES[-1]
                    numbers = (
                        None if is_mark else texts.str.replace(',', '').astype(float)
                    )
                    found[f'{title}{suffix}'] = texts.fillna('') if is_mark else numbers
        frame = pandas.DataFrame(found)
        frame.attrs['caption'] = self.caption
        return frame

    def latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs, under the caption as a comment."""
        lines = [
            ' & '.join(map(_as_latex, row)) + r' \\'
            for row in (self.header, *self.rows)
        ]
        columns = ('l' * 2 + 'r' * len(self.header))[: len(self.header)]
        begin, end = rf'\begin{{tabular}}{{{columns}}}', r'\end{tabular}'
        caption = textwrap.fill(
            self.caption, 100, initial_indent='% ', subsequent_indent='% '
        )
        ruled = [r'\toprule', lines[0], r'\midrule', *lines[1:], r'\bottomrule']
        return '\n'.join([caption, begin, *ruled, end, ''])


def as_markdown(text: str, *, in_table: bool = False) -> str:
    """Writes a text so that a page shows it as it is: no HTML, no link, no further column."""
    shown = re.sub(r'<(?=[A-Za-z/!?])', r'\\<', text)
    shown = re.sub(r'\](?=[(:\[])', r'\\]', shown)
    return shown.replace('|', r'\|').replace('\n', ' ') if in_table else shown


def _as_latex(cell: str) -> str:
    """A cell with signs for minus, and no letter that LaTeX reads as its own."""
    return re.sub(r'(?<!\S)-(?=[\d.])', '$-$', cell.translate(_LATEX))


def of_rows(rows: Sequence[Mapping[str, str]], caption: str) -> Table:
    """A table from rows.

    Args:
      rows: what stands in it, by title; a row that lacks a title has nothing there.
      caption: what the numbers are.
    """
    titles = list(dict.fromkeys(title for row in rows for title in row))
    return Table(
        titles, [[row.get(title, '') for title in titles] for row in rows], caption
    )


def wrap(text: str, width: int) -> str:
    """Paragraphs, between which the text has empty lines, in lines of at most some letters."""
    return '\n'.join(textwrap.fill(part, width) for part in text.split('\n\n'))


class Level(NamedTuple):
    """A printed accuracy.

    Attributes:
      mean: fraction.
      deviation: standard deviation, as a fraction; None where none is printed.
    """

    mean: float
    deviation: float | None


def load_levels(section: resolver.Section | None) -> Mapping[Any, Any]:
    """What a paper prints.

    Args:
      section: ``name``, a ``module:factory`` that returns the numbers by what they belong to, and
        its options; None for no paper.

    Returns:
      Its result; empty without a paper.

    Raises:
      ValueError: for unknown options and names.
    """
    return {} if section is None else resolver.build_named('published', section, {})
