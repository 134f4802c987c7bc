"""Suites of checks, and how a promise is said to be broken, or never to have been made."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import chex

_TOLERANCE = 2e-5  # float32 sums of a few terms in another order, over a dozen rounds


class DoesNotApply(Exception):  # noqa: N818  (no error: the suites go on with the next check)
    """Raised by a check on what makes no promise it could check; the message is the reason."""


class Suite(dict[str, Callable[..., None]]):
    """Checks by name, in the order in which they run."""

    def listed(self, check: Callable[..., None]) -> Callable[..., None]:
        """Puts a check into the suite."""
        self[check.__name__] = check
        return check

    def check(self, *subject: Any) -> None:
        """Runs all checks; what does not apply is left out."""
        for check in self.values():
            with contextlib.suppress(DoesNotApply):
                check(*subject)


def needs(applies: Any, reason: str) -> None:
    """Raises `DoesNotApply` with the reason, unless there is something to check."""
    if not applies:
        raise DoesNotApply(reason)


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


def close(actual: Any, expected: Any, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless both agree to rounding."""
    with saying(message):
        chex.assert_trees_all_close(actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE)


def identical(actual: Any, expected: Any, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless both have the same bits."""
    with saying(message):
        chex.assert_trees_all_equal(actual, expected)


def alike(actual: Any, expected: Any, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless only values differ."""
    with saying(message):
        chex.assert_trees_all_equal_shapes_and_dtypes(actual, expected)
