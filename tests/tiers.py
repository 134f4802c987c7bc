"""Which cases of an expensive test the default run keeps."""

import pytest


def cases(values, default, covered_by=None):
    """Makes parameters of a test: the default run has some cases, the others are slow.

    Args:
      values: Names, or other values; tuples for several arguments.
      default: Those that the default run has.
      covered_by: The test that covers the others between releases; by default `.ci/run` has them.

    Returns:
      One parameter per value. The others have the mark `slow`, and `release` where another test
      covers them.
    """
    values = list(values)
    default = list(default)
    unknown = [value for value in default if value not in values]
    if unknown:
        raise ValueError(f'`default` must be among the values, got {unknown}.')
    others = [pytest.mark.slow]
    if covered_by is not None:
        others.append(pytest.mark.release(covered_by))
    parameters = []
    for value in values:
        arguments = value if isinstance(value, tuple) else (value,)
        parameters.append(
            pytest.param(*arguments, marks=() if value in default else others)
        )
    return parameters
