"""Which cases of an expensive test the default run keeps."""

import pytest


def cases(values, kept):
    """Parameters of a test, by default those kept; the others are slow.

    Args:
      values: Names, or other values; tuples for several arguments.
      kept: Those that the default run has.

    Returns:
      One parameter per value, with the mark `slow` where it is not kept.
    """
    values, kept = list(values), list(kept)
    unknown = [value for value in kept if value not in values]
    if unknown:
        raise ValueError(f'`kept` must be among the values, got {unknown}.')
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if value in kept else pytest.mark.slow,
        )
        for value in values
    ]
