"""How a command ends that cannot go on: a mistake in one line, a bug with its traceback."""

import contextlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from fedjax_links.core import errors

MISTAKE, BUG, INTERRUPTED = 2, 1, 130
"""Exit statuses."""


def fail(message: object) -> NoReturn:
    """Ends with one line and the status of a mistake."""
    print(f'error: {errors.one_line(str(message))}', file=sys.stderr)
    sys.exit(MISTAKE)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Ends the command as the error says that comes up inside.

    A user's mistake, a package to install, what the operating system refuses, and an error of the
    user's own code with its file and line end in one line and status 2. Everything else is a bug of
    this package: its traceback, a line that asks for a report, and status 1.
    """
    try:
        yield
    except errors.MissingPackageError as error:
        fail(error)
    except errors.InvalidError as error:
        place = None if error.path.startswith('config') else errors.users_place(error, called=True)
        fail(error if place is None else f'{error} ({_line_of(*place)})')
    except BrokenPipeError:
        errors.leave_unread()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        place = errors.users_place(error)
        if place is not None:
            notes = ''.join(f' ({note})' for note in getattr(error, '__notes__', ()))
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            said = f'{type(error).__name__}{": " * bool(said)}{said}'.rstrip('.')
            fail(f'`{Path(place[0]).name}` must run, got {said} on {_line_of(*place)}{notes}.')
        if isinstance(error, OSError):
            fail(errors.of_system(error))
        traceback.print_exception(error)
        print(
            'This is a bug of fedjax_links, no mistake of yours: please report it with the lines '
            'above and the config.',
            file=sys.stderr,
        )
        sys.exit(BUG)


def _line_of(file: str, line: int) -> str:
    return f'line {line} of {file}'
