"""Small tables, for a terminal and for a document."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


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
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            first, *rest = (
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            return '  '.join([first, *rest]).rstrip()

        rule = '-' * (sum(widths) + 2 * (len(widths) - 1))
        caption = textwrap.fill(self.caption, max(80, len(rule)))
        return '\n'.join([line(self.header), rule, *map(line, self.rows), rule, caption])

    def markdown(self) -> str:
        """For a document."""
        header = [f'| {" | ".join(self.header)} |', f'|{" --- |" * len(self.header)}']
        return '\n'.join([*header, *(f'| {" | ".join(row)} |' for row in self.rows)]) + (
            f'\n\n{self.caption}\n'
        )


def of_rows(rows: Sequence[Mapping[str, str]], caption: str) -> Table:
    """A table from rows.

    Args:
      rows: what stands in it, by title; a row that lacks a title has nothing there.
      caption: what the numbers are.
    """
    titles = list(dict.fromkeys(title for row in rows for title in row))
    return Table(titles, [[row.get(title, '') for title in titles] for row in rows], caption)


def write_csv(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes one line per entry, numbers with ten digits.

    Args:
      path: where the file goes.
      columns: numbers or texts by name, all of the same length.
    """
    import pandas

    table = pandas.DataFrame(columns)
    table.to_csv(path, index=False, float_format='%.10g', na_rep='nan', lineterminator='\n')


def wrap(text: str, width: int) -> str:
    """Paragraphs, between which the text has empty lines, in lines of at most some letters."""
    return '\n'.join(textwrap.fill(part, width) for part in text.split('\n\n'))
