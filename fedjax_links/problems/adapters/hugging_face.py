"""A data set of Hugging Face's `datasets` with a column that says whose a row is."""

from typing import Any

from fedjax_links import checks
from fedjax_links.problems.adapters.examples import Examples, owned


def from_hugging_face(dataset: Any, *, client: str, features: str, label: str) -> Examples:
    """Rows of a data set as examples.

    Args:
      dataset: one split, a ``datasets.Dataset``.
      client: column of the owners.
      features: column of numbers, arrays or images of one shape.
      label: column of the labels.

    Returns:
      The examples, in the data set's order; the whole column is read into memory.

    Raises:
      ValueError: for a column that is not there, an owner that is missing, or rows that are no
        numbers of one shape.
    """
    known = list(dataset.column_names)
    for argument, name in (('client', client), ('features', features), ('label', label)):
        checks.choice(argument, name, known)
    columns = dataset.select_columns(sorted({client, features, label})).with_format('numpy')[:]
    return owned(columns[features], columns[label], columns[client])
