"""What every command line shares: its flags, how it ends that cannot go on, a compilation cache."""

import contextlib
import inspect
import os
import re
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from absl import app, flags, logging

from fedjax_links.cli import configs
from fedjax_links.core import errors
from fedjax_links.machines import cpus

MISTAKE, BUG, INTERRUPTED = 2, 1, 130
"""Exit statuses."""

flags.disclaim_key_flags()  # those below belong to the command that asks for them

_DEFINE: dict[Any, Callable[..., Any]] = {
    bool: flags.DEFINE_bool,
    float: flags.DEFINE_float,
    int: flags.DEFINE_integer,
    list: flags.DEFINE_list,
    str: flags.DEFINE_string,
}


class Workdir(NamedTuple):
    """Flags of a command that has no others.

    Attributes:
      workdir: Folder for what the command writes.
    """

    workdir: str | None = None


def run(
    main: Callable[..., None],
    kind: Any = None,
    *,
    config: str | None = None,
    positional: bool = False,
    instead: str | None = None,
    optional: bool = False,
    workdir: bool = False,
) -> None:
    """Runs ``main(config, flags)``; a user's mistake ends in one line on stderr and exit status 2.

    Args:
      main: takes the config as nested dictionaries and the flags, each if there are any; then the
        positional arguments, each as one more.
      kind: a NamedTuple with a field for each flag: its type, its default, and its help among the
        attributes of the docstring.
      config: of what the command takes the config, ``'experiment'`` or ``'figure'``; None for a
        command without.
      positional: whether the command takes any number of arguments that are no flags.
      instead: a flag that stands in the config's place where it is given; ``main`` then has None
        for a config.
      optional: whether ``main`` has None for a config where none is given.
      workdir: whether --workdir is ``runs/NAME`` of the config where none is given.
    """
    overridden: dict[str, str] = {}
    kinds: list[Any] = [each for each in (config and configs.Flags, kind) if each is not None]
    for each in kinds:
        _define(each)

    def parse(argv: list[str]) -> list[str]:
        try:
            return flags.FLAGS(configs.take(argv, overridden) if config else argv)
        except (flags.Error, errors.InvalidError) as error:
            fail(error)

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not positional:
            fail(f'unexpected argument {argv[1]!r}; overrides look like --config.num_rounds=100.')
        if not flags.FLAGS['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        # Nodes with one home may be of several kinds, and JAX reads this when it is imported.
        os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(cpus.cache(cpus.kind())))
        os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
        given = [each(*(flags.FLAGS[name].value for name in each._fields)) for each in kinds]
        with explained():
            if config is None:
                main(*given, *argv[1:])
                return
            source, own = given
            spared = instead is not None and getattr(own, instead) is not None
            if spared or (optional and source.config is None and not overridden):
                main(None, own)
                return
            values = configs.of_flags(source, overridden, config)
            from fedjax_links.config import sections

            if workdir and own.workdir is None:
                own = own._replace(workdir=configs.workdir(source))
            with sections.importable(configs.folder(source.config)):
                main(values, own)

    app.run(guarded, flags_parser=parse)


def _define(kind: Any) -> None:
    """A flag for every field."""
    helps = dict(re.findall(r'^  (\w+): (.+(?:\n    .+)*)', inspect.cleandoc(kind.__doc__), re.M))
    for name, hint in typing.get_type_hints(kind).items():
        members = [typing.get_origin(part) or part for part in (hint, *typing.get_args(hint))]
        define = next(_DEFINE[member] for member in members if member in _DEFINE)
        define(name, kind._field_defaults[name], ' '.join(helps[name].split()))


def make_portable(wanted: bool) -> None:
    """Begins this process again with the variables that NumPy and JAX read when they start."""
    if wanted and not cpus.is_portable():
        os.environ.update(cpus.portable_variables())
        os.execv(sys.executable, sys.orig_argv)


@contextlib.contextmanager
def importing(allowed: bool) -> Iterator[None]:
    """Lets a run folder name modules of the working folder, where the user allows that."""
    from fedjax_links.config import sections

    with sections.importable(Path.cwd()) if allowed else contextlib.nullcontext():
        yield


# How a command ends that cannot go on: a mistake in one line, a bug with its traceback.


@contextlib.contextmanager
def renamed(**flag_of: str) -> Iterator[None]:
    """Makes a mistake in an argument of a function one in the flag that gives it."""
    try:
        yield
    except errors.InvalidError as error:
        raise error.at(flag_of[error.path]) if error.path in flag_of else error from None


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
    except BrokenPipeError:
        errors.leave_unread()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        is_mistake = isinstance(error, errors.InvalidError)
        file, line = errors.users_place(error, called=is_mistake) or ('', 0)
        where = f'line {line} of {file}'
        if isinstance(error, errors.InvalidError):
            fail(f'{error} ({where})' if file and not error.path.startswith('config') else error)
        if file:
            notes = ''.join(f' ({note})' for note in getattr(error, '__notes__', ()))
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            said = f'{type(error).__name__}{": " * bool(said)}{said}'.rstrip('.')
            fail(f'`{Path(file).name}` must run, got {said} on {where}{notes}.')
        if isinstance(error, OSError):
            fail(errors.of_system(error))
        traceback.print_exception(error)
        print(
            'This is a bug of fedjax_links, no mistake of yours: please report it with the lines '
            'above and the config.',
            file=sys.stderr,
        )
        sys.exit(BUG)
