"""What checks say: of a broken promise in one line, and of one that was never made."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class DoesNotApply(Exception):  # noqa: N818  (no error: the suites go on with the next check)
    """Raised by a check on what makes no promise it could check; the message is the reason."""


def check_all(checks: Mapping[str, Callable[..., None]], *subject: Any) -> None:
    """Runs a suite; what does not apply is left out."""
    for check in checks.values():
        with contextlib.suppress(DoesNotApply):
            check(*subject)


def require(kept: Any, promise: str) -> None:
    """Raises an AssertionError that says the promise, unless it is kept; with ``python -O`` too."""
    if not kept:
        raise AssertionError(promise)


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
