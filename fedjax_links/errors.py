"""One-line errors that name the argument, its value and the nearest valid choice."""

import difflib
from collections.abc import Iterable
from typing import Any


def invalid(argument: str, requirement: str, value: Any) -> ValueError:
    """Builds ``ValueError: `argument` must <requirement>, got <value>.``.

    Args:
      argument: name of the offending argument as the caller wrote it.
      requirement: what would have been valid, starting with a verb: ``'be positive'``.
      value: what was given.

    Returns:
      The error, for the caller to raise.
    """
    return ValueError(f'`{argument}` must {requirement}, got {value}.')


def unknown_name(argument: str, value: str, valid: Iterable[str]) -> ValueError:
    """Builds the error for a name that is not among the valid ones.

    Args:
      argument: name of the argument, flag or field.
      value: the unknown name.
      valid: every valid name.

    Returns:
      The error, with the nearest valid name where one is close and all of them otherwise.
    """
    names = sorted(valid)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f'did you mean {near[0]!r}?' if near else f'valid names: {", ".join(names)}.'
    return ValueError(f'`{argument}` has no {value!r}; {hint}')


class MissingPackageError(ImportError):
    """An optional package that what was asked for needs, and how to install it."""


def missing_package(purpose: str, packages: str) -> MissingPackageError:
    """Builds ``MissingPackageError: <purpose>: `pip install <packages>`.``.

    Args:
      purpose: what needs which package: ``'PNG files need Pillow'``.
      packages: the names to install.

    Returns:
      The error, for the caller to raise from the original one.
    """
    return MissingPackageError(f'{purpose}: `pip install {packages}`.')
