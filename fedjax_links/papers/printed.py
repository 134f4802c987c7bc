"""Reads printed tables of papers from CSV files beside their readers."""

import csv
from importlib import resources

from fedjax_links.core import errors
from fedjax_links.pages.printed_numbers import PrintedAccuracy


def rows(paper: str, table: str, **values: str) -> list[dict[str, str]]:
    """Reads a table, one dictionary per printed number.

    Args:
      paper: the package that holds the table.
      table: the table's file, without the ending.
      **values: by column, a value as printed; only rows with these values are returned.

    Returns:
      The rows, in the order of the paper.

    Raises:
      ValueError: for a value that no row has, naming the nearest value.
    """
    text = resources.files(paper).joinpath(f'{table}.csv').read_text()
    selected = list(csv.DictReader(text.splitlines()))
    for column, value in values.items():
        known = {row[column] for row in selected}
        if value not in known:
            raise errors.unknown_name(column, value, known)
        selected = [row for row in selected if row[column] == value]
    return selected


def accuracies(
    paper: str, *, dataset: str, split: str
) -> dict[tuple[str, str], PrintedAccuracy]:
    """Returns the accuracies that Table 1 of a paper prints for a data set.

    Args:
      paper: the package that holds the table, whose columns include ``pattern``, ``algorithm``,
        ``mean_pct`` and ``std_fraction``.
      dataset: as printed, such as ``'CIFAR-10'``.
      split: ``'train'`` or ``'test'``.

    Returns:
      Accuracies by (pattern, algorithm), labelled as printed.

    Raises:
      ValueError: for an unknown data set or split.
    """
    return {
        (row['pattern'], row['algorithm']): PrintedAccuracy(
            float(row['mean_pct']) / 100,
            float(row['std_fraction']) if row['std_fraction'] else None,
        )
        for row in rows(paper, 'table1', dataset=dataset, split=split)
        if row['mean_pct']
    }
