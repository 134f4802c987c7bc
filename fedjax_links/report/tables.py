"""Small tables, for a terminal and for a document."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple


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


def format_interval(mean: float, half_width: float) -> str:
    """``0.932 ± 0.004``; without an interval the mean alone, and ``diverged`` without a mean."""
    if mean != mean:
        return 'diverged'
    return f'{mean:.3f}' if half_width != half_width else f'{mean:.3f} ± {half_width:.3f}'


def wrapped(text: str, width: int) -> str:
    """Paragraphs, between which the text has empty lines, in lines of at most some letters."""
    return '\n'.join(textwrap.fill(part, width) for part in text.split('\n\n'))
