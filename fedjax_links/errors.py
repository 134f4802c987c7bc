"""One-line errors that name the argument, its value and the nearest valid choice."""

import contextlib
import csv
import difflib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_MOST_SHOWN = 100
_MOST_SAID = 1_500


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


def unknown_name(argument: str, value: Any, valid: Iterable[str]) -> ValueError:
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
    return ValueError(f'`{argument}` has no {shown(value)}; {hint}')


def missing_name(argument: str, valid: Iterable[str]) -> ValueError:
    """Builds ``ValueError: `argument` must be given; valid names: <valid>.``.

    Args:
      argument: the field that holds the name.
      valid: every valid name.

    Returns:
      The error, for the caller to raise.
    """
    return ValueError(f'`{argument}` must be given; valid names: {", ".join(sorted(valid))}.')


def shown(value: Any) -> str:
    """A value as an error shows it: short, and on one line."""
    text = ' '.join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else f'{text[:_MOST_SHOWN]}...'


@contextlib.contextmanager
def inside(where: str) -> Iterator[None]:
    """Makes messages about an argument messages about a field of a section.

    Args:
      where: the section's place: under ``config.links`` a message about ``cohort_size`` becomes one
        about ``config.links.cohort_size``. What already has its place in a config keeps it.

    Raises:
      ValueError: the same in one line, with its place.
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(placed(str(error), where)) from error


@contextlib.contextmanager
def building(where: str, what: str) -> Iterator[None]:
    """`inside`, and one line for whatever else goes wrong with values that a config gives.

    Args:
      where: the section's place.
      what: what is built of it.

    Raises:
      ValueError: naming the place, the error and where in the code it came up; the error itself
        follows as its cause.
    """
    try:
        with inside(where):
            yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f'{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})'
        raise ValueError(f'`{where}` must suit {what}, got {one_line(said)}.') from error


def placed(message: str, where: str) -> str:
    """A message about an argument as one about a field of a section, see `inside`."""
    message = one_line(message)
    if re.match(r'`config[.`]', message):
        return message
    if re.match(r'`\w[\w.]*`', message):
        return f'`{where}.{message[1:]}'
    if own := re.match(r'`\w+ (\(\w+\)` .*)', message):  # the section itself, named by who takes it
        return f'`{where} {own[1]}'
    return f'`{where}` cannot be used: {message}'


def one_line(message: str) -> str:
    """A message without line breaks, cut where it gets too long."""
    text = ' '.join(message.split())
    return text if len(text) <= _MOST_SAID else f'{text[:_MOST_SAID]}...'


@contextlib.contextmanager
def on_disk(path: object) -> Iterator[None]:
    """Turns what the operating system says of a file into one line.

    Args:
      path: what was being worked on, named where the system names nothing.

    Raises:
      ValueError: with path and reason, for a full disk, a missing right, a vanished folder, ...
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise ValueError(f'`{where}` cannot be used: {error.strerror or error}.') from None


@contextlib.contextmanager
def reading(path: object) -> Iterator[None]:
    """Makes a file that cannot be read a mistake in the argument ``path``.

    Args:
      path: the file.

    Raises:
      ValueError: with path and reason.
    """
    try:
        yield
    except (OSError, csv.Error) as error:
        said = f'{path}: {getattr(error, "strerror", None) or error}'
        raise invalid('path', 'name a readable file', said) from None


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


def leave_unread() -> NoReturn:
    """Ends without a word when whoever read the output has left, as in ``... | head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
