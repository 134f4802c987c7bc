"""Formats small tables for a terminal, a document or a paper, and as data."""

import html
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

_NUMBER = r'[+-]?(?:inf|\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)'
# A cell such as `84.3 ± 0.4 [0.9] *`: mean, half width over seeds and with tuning, stars.
_CELL = re.compile(rf'^({_NUMBER})(?: ± ({_NUMBER}))?(?: \[({_NUMBER})\])?(?: (\*+))?$')
_NUMBER_SUFFIXES = ('', ' ±', ' [±]')
_STARS_SUFFIX = ' *'
_NO_NUMBER = ('', '-', 'diverged')
_LATEX = str.maketrans(
    {
        '±': r'$\pm$',
        '↑': r'$\uparrow$',
        '↓': r'$\downarrow$',
        '≈': r'$\approx$',
        '\\': r'\textbackslash{}',
        '~': r'\textasciitilde{}',
        '^': r'\textasciicircum{}',
        '<': r'\textless{}',
        '>': r'\textgreater{}',
        '|': r'\textbar{}',
        **{sign: f'\\{sign}' for sign in '&%$#_{}'},
    }
)
_ARROWS = ' ↑↓'  # Follow numbers at an edge of the tried values.
_BEST = ' (best)'  # Follows bold cells where text cannot be bold, as in a terminal.


class Table(NamedTuple):
    """Holds a small table.

    Attributes:
      header: column names.
      rows: one text per column.
      caption: what the numbers are.
      bold: row and column of each cell that stands out, from 0.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    bold: Collection[tuple[int, int]] = ()

    def text(self) -> str:
        """Formats the table for a terminal: aligned columns under a rule, the caption below.

        Without columns, only the caption is left, here and in the other forms.
        """
        if not self.header:
            return textwrap.fill(self.caption, 80)
        rows = self._rows(_in_a_line, lambda cell: f'{cell}{_BEST}')
        header = [_in_a_line(title) for title in self.header]
        columns = zip(header, *rows, strict=True)
        widths = [max(map(len, column)) for column in columns]
        alignment = self._alignment()

        def line(cells: Sequence[str]) -> str:
            padded = []
            for cell, width, side in zip(cells, widths, alignment, strict=True):
                padded.append(cell.ljust(width) if side == 'l' else cell.rjust(width))
            return '  '.join(padded).rstrip()

        rule = '-' * (sum(widths) + 2 * (len(widths) - 1))
        caption = textwrap.fill(self.caption, max(80, len(rule)))
        lines = [line(header), rule, *map(line, rows), rule, caption]
        return '\n'.join(lines)

    def markdown(self) -> str:
        """Formats the table as Markdown."""

        def shown(cell: str) -> str:
            return as_markdown(cell, in_table=True)

        def line(cells: Sequence[str]) -> str:
            return f'| {" | ".join(cells)} |'

        header = line([shown(title) for title in self.header])
        rule = f'|{" --- |" * len(self.header)}'
        rows = self._rows(shown, _bold_markdown)
        lines = [header, rule, *map(line, rows), ''] if self.header else []
        return '\n'.join([*lines, as_markdown(self.caption), ''])

    def as_html(self) -> str:
        """Formats the table as HTML, with the caption as a paragraph below."""

        def line(cells: Sequence[str], tag: str) -> str:
            marked = [f'<{tag}>{cell}</{tag}>' for cell in cells]
            return f'<tr>{"".join(marked)}</tr>'

        header = line([html.escape(title) for title in self.header], 'th')
        rows = self._rows(html.escape, lambda cell: f'<b>{cell}</b>')
        lines = [header, *(line(row, 'td') for row in rows)]
        table = f'<div><table>{"".join(lines)}</table></div>' if self.header else ''
        return f'{table}<p>{html.escape(self.caption)}</p>'

    def data(self) -> Any:
        """Returns a `pandas.DataFrame` with the printed numbers, and ``attrs['caption']``.

        A column ``loss`` of cells such as ``84.3 ± 0.4 [0.9] *`` becomes the columns ``loss``,
        ``loss ±``, ``loss [±]`` and ``loss *``, each if any cell has that part. A number is NaN if
        a run diverged or the cell is empty or ``-``. Columns with other cells stay text. If the
        column has bold cells, ``loss (best)`` marks the rows of these.
        """
        import pandas

        columns: dict[str, Any] = {}
        for index, (title, *texts) in enumerate(
            zip(self.header, *self.rows, strict=True)
        ):
            columns |= _numbers_of_column(title, texts)
            is_bold = [(row, index) in self.bold for row in range(len(texts))]
            if any(is_bold):
                columns[f'{title}{_BEST}'] = is_bold
        frame = pandas.DataFrame(columns)
        frame.attrs['caption'] = self.caption
        return frame

    def latex(self) -> str:
        """Formats a ``tabular`` with rules of booktabs, and the caption as a comment."""

        def line(cells: Sequence[str]) -> str:
            row = ' & '.join(cells) + r' \\'
            # A bracket would be an option of the rule or the line break before it.
            return f'{{}}{row}' if row.startswith('[') else row

        header = line([as_latex(title) for title in self.header])
        rows = self._rows(as_latex, lambda cell: rf'\textbf{{{cell}}}')
        caption = textwrap.fill(
            self.caption, 100, initial_indent='% ', subsequent_indent='% '
        )
        if not self.header:
            return f'{caption}\n'
        lines = [
            caption,
            rf'\begin{{tabular}}{{{self._alignment()}}}',
            r'\toprule',
            header,
            r'\midrule',
            *map(line, rows),
            r'\bottomrule',
            r'\end{tabular}',
        ]
        return '\n'.join([*lines, ''])

    def _rows(
        self, shown: Callable[[str], str], emphasised: Callable[[str], str]
    ) -> list[list[str]]:
        """Returns the rows as they are shown, with emphasis on bold cells."""
        rows = [[shown(cell) for cell in row] for row in self.rows]
        for row, column in self.bold:
            rows[row][column] = emphasised(rows[row][column])
        return rows

    def _alignment(self) -> str:
        """Returns ``l`` for each column of text and ``r`` for each of numbers."""
        alignment = ''
        for column in range(len(self.header)):
            cells = [row[column].rstrip(_ARROWS) for row in self.rows]
            alignment += 'r' if _are_numbers(cells) else 'l'
        return alignment


def _in_a_line(text: str) -> str:
    """Returns a cell without its line breaks, which names for pictures may have."""
    return text.replace('\n', ' ')


def _are_numbers(cells: Sequence[str]) -> bool:
    """Returns whether a column holds numbers, and otherwise only signs for a missing number."""
    others = [cell for cell in cells if not _CELL.match(cell)]
    return len(others) < len(cells) and all(cell in _NO_NUMBER for cell in others)


def _numbers_of_column(title: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns columns of means, half widths and stars; or the text, if a cell is no number."""
    import pandas

    numbers_alone = [text.rstrip(_ARROWS) for text in texts]
    if not _are_numbers(numbers_alone):
        return {title: texts}
    parts = pandas.Series(numbers_alone, dtype=object).str.extract(_CELL)
    columns: dict[str, Any] = {}
    for group, suffix in enumerate(_NUMBER_SUFFIXES):
        if parts[group].notna().any():
            numbers = parts[group].str.replace(',', '').astype(float)
            columns[f'{title}{suffix}'] = numbers
    stars = parts[len(_NUMBER_SUFFIXES)]
    if stars.notna().any():
        columns[f'{title}{_STARS_SUFFIX}'] = stars.fillna('')
    return columns


def as_markdown(text: str, *, in_table: bool = False) -> str:
    """Escapes HTML, links, emphasis and, in a table, bars, so that a page shows the text as it is.

    Code between backticks, as captions have it, stays code if every line closes its own backticks.
    """
    lines_close_code = all(line.count('`') % 2 == 0 for line in text.splitlines())
    if lines_close_code and not re.search(r'``|\\`', text):
        parts = re.split('(`[^`]+`)', text)  # code at the odd indices
        parts[::2] = map(_escape_prose, parts[::2])
        shown = ''.join(parts)
    else:
        shown = _escape_prose(text)
    return shown.replace('|', r'\|').replace('\n', ' ') if in_table else shown


def _escape_prose(text: str) -> str:
    """Escapes HTML, links and emphasis in a text that holds no code."""
    shown = re.sub(r'<(?=[A-Za-z/!?])', r'\\<', text)
    shown = re.sub(r'\*+(?=\w)|(?<![\w`])_+(?=\w)', _with_backslashes, shown)
    return re.sub(r'\](?=[(:\[])', r'\\]', shown)


def _bold_markdown(cell: str) -> str:
    """Returns a cell of Markdown in bold, with stars escaped, as a star would end the bold text."""
    parts = re.split('(`[^`]+`)', cell)  # code at the odd indices
    parts[::2] = [re.sub(r'(?<!\\)\*', r'\\*', part) for part in parts[::2]]
    return f'**{"".join(parts)}**'


def _with_backslashes(match: re.Match[str]) -> str:
    """Returns the matched signs, each behind a backslash."""
    return ''.join(f'\\{sign}' for sign in match[0])


def as_latex(text: str) -> str:
    """Escapes a text for LaTeX, and sets signs of negative numbers in math mode."""
    return re.sub(r'(?<!\S)-(?=[\d.])', '$-$', text.translate(_LATEX))


def from_rows(rows: Sequence[Mapping[str, str]], caption: str) -> Table:
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
