"""Printed tables of papers, kept as CSV files beside their readers."""

import csv
from importlib import resources

from fedjax_links.core import errors
from fedjax_links.report.published import Level

Rows = list[dict[str, str]]


def rows(paper: str, table: str) -> Rows:
    """A table, one dictionary per printed number.

    Args:
      paper: the package that holds it.
      table: its file, without the ending.

    Returns:
      The rows, in the order of the paper.
    """
    text = resources.files(paper).joinpath(f'{table}.csv').read_text()
    return list(csv.DictReader(text.splitlines()))


def matching(table: Rows, column: str, value: str) -> Rows:
    """The rows with a value in a column.

    Args:
      table: rows.
      column: its name.
      value: as printed.

    Returns:
      At least one row.

    Raises:
      ValueError: naming the nearest value that is there.
    """
    found = [row for row in table if row[column] == value]
    if not found:
        raise errors.unknown_name(column, value, sorted({row[column] for row in table}))
    return found


def levels(table: Rows, *, dataset: str, split: str) -> dict[tuple[str, str], Level]:
    """Printed accuracies of one data set.

    Args:
      table: rows with ``pattern``, ``algorithm``, ``mean_pct`` and ``std_fraction``.
      dataset: as printed, such as ``'CIFAR-10'``.
      split: ``'train'`` or ``'test'``.

    Returns:
      By (pattern, algorithm) as printed.

    Raises:
      ValueError: for an unknown data set or split.
    """
    return {
        (row['pattern'], row['algorithm']): Level(
            float(row['mean_pct']) / 100,
            float(row['std_fraction']) if row['std_fraction'] else None,
        )
        for row in matching(matching(table, 'dataset', dataset), 'split', split)
        if row['mean_pct']
    }
