"""Numbers that papers print, as CSV files of this package, to stand beside ours.

``xiang2024_table1``: accuracies of Xiang et al. 2024, Table 1. ``xiang2024_table2``: first rounds
to reach an accuracy, their Table 2, for time-varying Bernoulli links; ``lost`` where the available
text does not tell. ``sun2025_table1``: accuracies of Sun et al. 2025, Table 1.
``wang2022_table_d1``: learning rates of Wang and Ji 2022, Table D.1.
"""

import csv
from importlib import resources
from typing import NamedTuple

from fedjax_links import checks, errors

TABLES = ('sun2025_table1', 'wang2022_table_d1', 'xiang2024_table1', 'xiang2024_table2')
LEVELS = ('sun2025_table1', 'xiang2024_table1')


class Level(NamedTuple):
    """A printed accuracy.

    Attributes:
      mean: fraction.
      deviation: standard deviation, as a fraction; None where none is printed.
    """

    mean: float
    deviation: float | None


def rows(table: str) -> list[dict[str, str]]:
    """A table, one dictionary per printed number.

    Args:
      table: one of `TABLES`.

    Returns:
      The rows, in the order of the paper.

    Raises:
      ValueError: for an unknown table.
    """
    checks.choice('published', table, TABLES)
    text = resources.files(__name__).joinpath(f'{table}.csv').read_text()
    return list(csv.DictReader(text.splitlines()))


def levels(table: str, *, dataset: str, split: str) -> dict[tuple[str, str], Level]:
    """Printed accuracies of one data set.

    Args:
      table: one of `LEVELS`.
      dataset: as printed, such as ``'CIFAR-10'``.
      split: ``'train'`` or ``'test'``.

    Returns:
      By (pattern, algorithm) as printed.

    Raises:
      ValueError: for an unknown table, data set or split.
    """
    checks.choice('published', table, LEVELS)
    found = _of('dataset', dataset, rows(table))
    return {
        (row['pattern'], row['algorithm']): Level(
            float(row['mean_pct']) / 100,
            float(row['std_fraction']) if row['std_fraction'] else None,
        )
        for row in _of('split', split, found)
        if row['mean_pct']
    }


def first_rounds(table: str, *, dataset: str) -> dict[tuple[str, str, float], str]:
    """Printed first rounds to reach an accuracy, as text: a number, ``never`` or ``lost``.

    Args:
      table: ``'xiang2024_table2'``.
      dataset: as printed.

    Returns:
      By (pattern and algorithm as printed, target as a fraction).

    Raises:
      ValueError: for an unknown table or data set.
    """
    checks.choice('published', table, ('xiang2024_table2',))
    return {
        (row['pattern'], row['algorithm'], float(row['target_pct']) / 100): row['first_round']
        for row in _of('dataset', dataset, rows(table))
    }


def learning_rates(table: str, *, dataset: str) -> dict[str, float]:
    """Printed learning rates, by algorithm as printed.

    Args:
      table: ``'wang2022_table_d1'``.
      dataset: as printed.

    Returns:
      The rates by algorithm.

    Raises:
      ValueError: for an unknown table or data set.
    """
    checks.choice('published', table, ('wang2022_table_d1',))
    found = _of('dataset', dataset, rows(table))
    return {row['algorithm']: float(row['learning_rate']) for row in found}


def _of(column: str, value: str, table: list[dict[str, str]]) -> list[dict[str, str]]:
    found = [row for row in table if row[column] == value]
    if not found:
        raise errors.unknown_name(column, value, sorted({row[column] for row in table}))
    return found
