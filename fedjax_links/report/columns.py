"""Numbers on disk: columns of equal length as a CSV file."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_csv(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes one line per entry, numbers with ten digits.

    Args:
      path: where the file goes.
      columns: numbers or texts by name, all of the same length.
    """
    with path.open('w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(columns)
        for row in zip(*(np.asarray(column) for column in columns.values()), strict=True):
            writer.writerow([_text(value) for value in row])


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else f'{value:.10g}'
