"""A data set of Hugging Face's `datasets` with a column that says whose a row is."""

from collections.abc import Mapping
from typing import Any

from fedjax_links import checks, errors
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
      ValueError: for what is no split, a column that is not there, an owner that is missing, or
        rows that are no numbers of one shape.
    """
    if isinstance(dataset, Mapping):
        raise errors.invalid('dataset', 'be one split', f'all of {", ".join(map(str, dataset))}')
    if not hasattr(dataset, 'column_names') or not hasattr(dataset, '__getitem__'):
        requirement = 'be a datasets.Dataset in memory or on disk'
        raise errors.invalid('dataset', requirement, type(dataset).__name__)
    known = list(dataset.column_names)
    for argument, name in (('client', client), ('features', features), ('label', label)):
        checks.choice(argument, name, known)
    columns = dataset.select_columns(sorted({client, features, label})).with_format('numpy')[:]
    return owned(columns[features], columns[label], columns[client])
