"""A pandas frame with a column that says whose a row is."""

from collections.abc import Sequence
from typing import Any

from fedjax_links import checks, errors
from fedjax_links.problems.adapters.examples import Examples, owned, stacked


def from_pandas(frame: Any, *, client: str, features: str | Sequence[str], label: str) -> Examples:
    """Rows of a frame as examples.

    Args:
      frame: a ``pandas.DataFrame``.
      client: column of the owners.
      features: columns of numbers, which become a vector; or one column, of numbers or arrays of
        one shape, which is taken as it is.
      label: column of the labels.

    Returns:
      The examples, in the frame's order.

    Raises:
      ValueError: for what is no frame, a column that is not there, an owner that is missing, or
        rows that are no numbers of one shape.
    """
    if not hasattr(frame, 'columns'):
        raise errors.invalid('frame', 'be a pandas.DataFrame', errors.shown(frame))
    known = [str(name) for name in frame.columns]
    single = isinstance(features, str)
    wanted = [features] if isinstance(features, str) else list(checks.names('features', features))
    checks.choice('client', client, known)
    checks.choice('label', label, known)
    for name in wanted:
        checks.choice('features', name, known)
    rows = frame[wanted[0] if single else wanted].to_numpy()
    return owned(stacked('features', rows), frame[label].to_numpy(), frame[client].to_numpy())
