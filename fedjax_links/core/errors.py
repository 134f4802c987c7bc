"""Builds the one error for users' mistakes: a line with argument, value and the nearest choice.

`InvalidError` reports what a user can mend. The commands print such an error as one line. They also
print as one line what the operating system refuses and what a user's own code raises. Any other
error is a bug of this package and keeps its traceback.
"""

import contextlib
import csv
import difflib
import inspect
import math
import os
import struct
import sys
import sysconfig
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

# The most letters of a value, and of a message that lists many names.
_MAX_VALUE_LENGTH = 100
_MAX_MESSAGE_LENGTH = 1_500
NO_MASKED_ENTRIES = 'have no masked entries, as `.filled(0)` returns'
"""What every array must be: a conversion drops a mask and keeps the numbers under it."""
_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARIES = {
    Path(sysconfig.get_path(name)).resolve()
    for name in ('stdlib', 'purelib', 'platlib')
}
_INSTALLED = {'site-packages', 'dist-packages'}  # of other environments on the path


class InvalidError(ValueError):
    """Reports a user's mistake: ``path`` must ``requirement``, got ``value``.

    Args:
      path: name of the offending argument as the caller wrote it, the path of a field in a config
        (``config.links.cohort_size``), a flag or a file.
      requirement: what would have been valid, starting with a verb: ``'be positive'``.
      value: what the caller passed.
      message: what to write after the path where ``must <requirement>, got <value>`` would not read
        well; without a full stop.
    """

    def __init__(  # noqa: D107
        self,
        path: str,
        requirement: str,
        value: object = None,
        message: str | None = None,
    ):
        super().__init__(path, requirement, value, message)
        self.path = path
        self.requirement = requirement
        self.value = value
        self.message = message

    def __str__(self) -> str:  # noqa: D105
        return one_line(
            f'`{self.path}` {self.clause}{"" if self.clause.endswith("?") else "."}'
        )

    @property
    def clause(self) -> str:
        """Returns the line without its path and full stop."""
        # An f-string alone writes a NumPy float32 of -0.1 as -0.10000000149011612.
        text = _written(str, self.value)
        value = text if text.strip() else repr(text)
        return self.message or f'must {self.requirement}, got {value}'

    def under(self, prefix: str) -> 'InvalidError':
        """Turns a mistake in an argument into a mistake in a field of a config section.

        Args:
          prefix: the section's path. Under ``config.links`` the argument ``cohort_size`` becomes
            ``config.links.cohort_size``. The path of a file stays as it is. So does a path with the
            same first name as the prefix, such as ``config.seeds``.

        Returns:
          Another error, so that it can be raised from this one.
        """
        root = prefix.partition('.')[0]
        if self.path.partition('.')[0] == root or os.sep in self.path:
            return self.at(self.path)
        return self.at(f'{prefix}.{self.path}')

    def at(self, path: str) -> 'InvalidError':
        """Returns the same mistake under another name, for the caller to raise.

        The error keeps its class, by which handlers recognise it.
        """
        return type(self)(path, self.requirement, self.value, self.message)


class UnknownOptionError(InvalidError):
    """Reports an option that a function does not take; ``path`` is the name of the function."""

    def under(self, prefix: str) -> InvalidError:
        """Names the config section that holds the options, in place of the function.

        Args:
          prefix: the section's path.
        """
        return self.at(prefix)

    def at(self, path: str) -> InvalidError:
        """Returns the same mistake under another name, which need not be a function's."""
        return InvalidError(path, self.requirement, self.value, self.message)


def invalid(argument: str, requirement: str, value: object) -> InvalidError:
    """Builds ``InvalidError: `argument` must <requirement>, got <value>.``."""
    return InvalidError(argument, requirement, value)


def unknown_name(
    argument: str, value: object, valid: Iterable[str], *, near: str | None = None
) -> InvalidError:
    """Builds the error for a name that is not among the valid ones.

    Args:
      argument: name of the argument, flag or field.
      value: the unknown name.
      valid: every valid name.
      near: the name that was meant, where the caller knows better than the spelling.

    Returns:
      The error, with the nearest valid name if one is close, and with all valid names otherwise.
      For a ``value`` of None the error says that a name must be given.
    """
    names = sorted(valid)
    if near is None:
        near = _nearest(str(value), names)
    listed = ', '.join(names) or 'none'
    hint = (
        f'did you mean {near!r}?'
        if near and value is not None
        else f'valid names: {listed}'
    )
    problem = 'must be given' if value is None else f'has no {text_of(value)}'
    message = f'{problem}; {hint}'
    return InvalidError(argument, f'be one of {listed}', value, message)


def unknown_option(
    function: str, option: str, valid: Iterable[str], condition: str
) -> UnknownOptionError:
    """Builds the error for an option that a function does not take.

    Args:
      function: its name.
      option: the unknown option.
      valid: every valid option.
      condition: when the valid options apply, such as ``'with this partition'``.

    Returns:
      The error, with the nearest option where one is close; else with the condition and all valid
      options.
    """
    names = sorted(valid)
    near = _nearest(option, names)
    listed = ', '.join(names) or 'none'
    message = f'has no {text_of(option)} {condition}; valid names: {listed}'
    if near:
        message = f'has no {text_of(option)}; did you mean {near!r}?'
    return UnknownOptionError(function, f'take one of {listed}', option, message)


def _nearest(text: str, names: Iterable[str]) -> str | None:
    """Finds the name nearest to a text, whatever the capitals; None if no name is close."""
    by_folded = {name.casefold().strip(): name for name in reversed(list(names))}
    near = difflib.get_close_matches(
        text.casefold().strip(), by_folded, n=1, cutoff=0.5
    )
    return by_folded[near[0]] if near else None


def _written(write: Callable[[object], str], value: object) -> str:
    """Returns the text of a value, or its type if Python does not write the value."""
    try:
        return write(value)
    except ValueError:  # An int of more than 4,300 digits.
        return f'a value of type {type(value).__name__} too long to write'


def text_of(value: object) -> str:
    """Formats a value for an error: short, and on one line."""
    text = ' '.join(_written(repr, value).split())
    return text if len(text) <= _MAX_VALUE_LENGTH else f'{text[:_MAX_VALUE_LENGTH]}...'


def count_text(count: int) -> str:
    """Formats a count for an error: ``12,500``, or the power of ten near a very large one."""
    return f'{count:,}' if count < 10**15 else f'about 10^{math.log10(count):.0f}'


def one_line(message: str) -> str:
    """Joins the lines of a message, and cuts it where it gets too long."""
    text = ' '.join(message.split())
    return (
        text if len(text) <= _MAX_MESSAGE_LENGTH else f'{text[:_MAX_MESSAGE_LENGTH]}...'
    )


def describe(error: BaseException) -> str:
    """Describes an error of other code in one line without a full stop: its type and message."""
    kind = type(error).__name__
    message = str(error).strip().removesuffix('.')
    return one_line(f'{kind}: {message}' if message else kind)


def causes(error: BaseException) -> list[BaseException]:
    """Lists an error and what caused it, each once: code may raise an error from itself."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    return chain


@contextlib.contextmanager
def context(where: str) -> Iterator[None]:
    """Turns a mistake in an argument into a mistake in a field of the section ``where``."""
    try:
        yield
    except InvalidError as error:
        raise error.under(where) from error


@contextlib.contextmanager
def on_disk(path: object) -> Iterator[None]:
    """Turns what the operating system says of a file into one line.

    Args:
      path: the file or folder in use, which the error names if the system names none.

    Raises:
      ValueError: with path and reason, for a full disk, a missing right, a vanished folder, ...
    """
    try:
        yield
    except OSError as error:
        raise from_os_error(error, path) from None


def from_os_error(error: OSError, path: object = 'a file') -> InvalidError:
    """Builds the error for what the operating system refuses; it names its file, else ``path``."""
    where = str(error.filename or path)
    reason = str(error.strerror or error)
    return InvalidError(where, 'be usable', reason, f'cannot be used: {reason}')


@contextlib.contextmanager
def reading(path: object) -> Iterator[None]:
    """Makes a file that cannot be read a mistake in the argument ``path``."""
    try:
        yield
    except UnicodeDecodeError as error:
        value = f'{path}, which is no text in {error.encoding}'
        raise invalid('path', 'name a readable file', value) from None
    except (OSError, csv.Error) as error:
        value = f'{path}: {getattr(error, "strerror", None) or error}'
        raise invalid('path', 'name a readable file', value) from None


_DECODING_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
    MemoryError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)
"""What decoders of the standard library and of NumPy raise for damaged content."""


@contextlib.contextmanager
def decoding(failed: Callable[[str], 'InvalidError']) -> Iterator[None]:
    """Turns whatever reading damaged content raises into a mistake of the user.

    Args:
      failed: makes the error from a description of what was raised.
    """
    try:
        yield
    except InvalidError:
        raise
    except _DECODING_ERRORS as error:
        raise failed(describe(error)) from None


def innermost_user_frame(
    error: BaseException, *, called: bool = False
) -> tuple[str, int] | None:
    """Finds where in a user's own code an error was raised.

    Args:
      error: whatever was raised.
      called: whether to find, for an error of this package, the line that called it.

    Returns:
      File and line of the innermost frame in a user's file. A user's file belongs neither to this
      package nor to an installed one. None if no frame is in a user's file. Also None for an error
      of this package, unless ``called`` is true.
    """
    if (
        isinstance(error, SyntaxError)
        and error.filename
        and is_users_file(Path(error.filename))
    ):
        return error.filename, error.lineno or 0
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if _PACKAGE in path.resolve().parents and not called:
            return None
        if is_users_file(path):
            return frame.filename, frame.lineno or 0
    return None


def is_users(function: Any) -> bool:
    """Returns whether a function is a user's: neither of this package nor of an installed one.

    The function may be an object with ``__call__``. It may also come from a notebook, whose cells
    are no files.
    """
    function = inspect.unwrap(getattr(function, 'func', function))
    if not hasattr(function, '__code__'):
        function = type(function).__call__
    code = getattr(function, '__code__', None)
    if code is None:
        return False
    return function.__module__ == '__main__' or is_users_file(Path(code.co_filename))


def is_users_file(path: Path) -> bool:
    """Returns whether a file is a user's: neither of this package nor of an installed one."""
    parents = path.resolve().parents
    is_library = any(
        parent in _LIBRARIES or parent.name in _INSTALLED for parent in parents
    )
    return path.is_file() and not is_library and _PACKAGE not in parents


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether the host or a device ran out of memory, by the errors of Python and XLA."""
    is_of_xla = type(error).__name__ in ('XlaRuntimeError', 'JaxRuntimeError')
    return isinstance(error, MemoryError) or (
        is_of_xla and 'RESOURCE_EXHAUSTED' in str(error)
    )


class MissingPackageError(ImportError):
    """Reports that an optional package is missing, and how to install it."""


def missing_package(purpose: str, packages: str) -> MissingPackageError:
    """Builds ``MissingPackageError: <purpose>: `pip install <packages>`.``.

    Args:
      purpose: what needs which package: ``'PNG files need Pillow'``.
      packages: the names to install.

    Returns:
      The error, for the caller to raise from the original one.
    """
    return MissingPackageError(f'{purpose}: `pip install {packages}`.')


def exit_on_broken_pipe() -> NoReturn:
    """Exits silently when the reader of the output has left, as in ``... | head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
