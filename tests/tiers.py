"""Which cases of an expensive test the default run keeps."""

import pytest


def cases(values, kept, covered_by=None):
    """Makes parameters of a test: the default run has those kept, the others are slow.

    Args:
      values: Names, or other values; tuples for several arguments.
      kept: Those that the default run has.
      covered_by: The test that covers the others between releases; by default `.ci/run` has them.

    Returns:
      One parameter per value. The others have the mark `slow`, and `release` where another test
      covers them.
    """
    values = list(values)
    kept = list(kept)
    unknown = [value for value in kept if value not in values]
    if unknown:
        raise ValueError(f'`kept` must be among the values, got {unknown}.')
    others = [pytest.mark.slow]
    if covered_by is not None:
        others.append(pytest.mark.release(covered_by))
    parameters = []
    for value in values:
        arguments = value if isinstance(value, tuple) else (value,)
        parameters.append(
            pytest.param(*arguments, marks=() if value in kept else others)
        )
    return parameters
