"""Runs suites of checks, each of which names the promise that is broken."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import chex
import jax

from fedjax_links.base import PyTree

# Rounding: sums of a few float32 terms in another order, over a dozen rounds.
_TOLERANCE = 2e-5


class DoesNotApply(Exception):  # noqa: N818  (no error: the suites go on with the next check)
    """Ends a check of a promise that does not apply; the message is the reason."""


class Suite(dict[str, Callable[..., None]]):
    """Checks by name, in the order in which they run."""

    def listed(self, check: Callable[..., None]) -> Callable[..., None]:
        """Adds a check to the suite."""
        self[check.__name__] = check
        return check

    def check(self, *subject: Any) -> None:
        """Runs all checks that apply."""
        for check in self.values():
            with contextlib.suppress(DoesNotApply):
                check(*subject)


def needs(applies: object, reason: str) -> None:
    """Raises `DoesNotApply` with the reason, unless there is something to check."""
    if not applies:
        raise DoesNotApply(reason)


def require(holds: object, promise: str) -> None:
    """Raises an AssertionError with the promise unless it holds, also under ``python -O``."""
    if not holds:
        raise AssertionError(promise)


@contextlib.contextmanager
def naming(promise: str) -> Iterator[None]:
    """Puts a promise before the message of the comparison that checks it.

    Args:
      promise: one line.

    Raises:
      AssertionError: with the promise on the first line, and below it where and by how much it is
        broken.
    """
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f'{promise}\n\n{error}') from None


def close(actual: PyTree, expected: PyTree, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless both agree to rounding."""
    with naming(message):
        chex.assert_trees_all_close(actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE)


def identical(actual: PyTree, expected: PyTree, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless both have the same bits."""
    with naming(message):
        chex.assert_trees_all_equal(actual, expected)


def same_types(actual: PyTree, expected: PyTree, message: str) -> None:
    """Raises an AssertionError that begins with the message, unless shapes and dtypes agree."""
    with naming(message):
        chex.assert_trees_all_equal_shapes_and_dtypes(actual, expected)


def uses_keys_once(function: Callable[..., PyTree], *args: PyTree) -> None:
    """Raises an AssertionError if a function draws twice from one key, without running it.

    Args:
      function: draws from keys among its arguments, or from keys that it makes.
      *args: its arguments, or their types.
    """
    with jax.debug_key_reuse(True):
        try:
            jax.eval_shape(function, *args)
        except jax.errors.KeyReuseError as error:
            promise = 'no key may be used twice: split it, or fold in a number'
            raise AssertionError(f'{promise}\n\n{error}') from None
