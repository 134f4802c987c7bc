"""Broken promises in one line, before what Chex says of arrays."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def saying(promise: str) -> Iterator[None]:
    """Puts the promise that a comparison of pytrees is about before the comparison's own words.

    Args:
      promise: one line.

    Raises:
      AssertionError: the promise on the first line, where and by how much it is broken below.
    """
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f'{promise}\n\n{error}') from None
