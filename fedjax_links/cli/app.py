"""Runs commands: their flags, errors and exit statuses, and the cache of compiled programs."""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from absl import app, flags, logging

import fedjax_links
from fedjax_links.cli import configs, paths
from fedjax_links.core import errors
from fedjax_links.machines import cpus

BUG = 1
"""Exit status of an error of this package."""
MISTAKE = 2
"""Exit status of a user's mistake."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""

# `--help` lists the flags below under the command that defines them, not under this module.
flags.disclaim_key_flags()


class _VersionFlag(flags.BooleanFlag):
    """A flag that prints the version of the package and ends the command."""

    def __init__(self) -> None:
        super().__init__(
            'version', False, 'Print the version of the package, then stop.'
        )

    def parse(self, argument: str | bool) -> None:
        super().parse(argument)
        if self.value:
            print(f'fedjax_links {fedjax_links.__version__}')
            sys.exit(0)


def define_workdir() -> None:
    """Defines --workdir, for a command without other flags."""
    paths.define('workdir', 'Folder for what the command writes.')


def run(
    main: Callable[..., None],
    define_flags: Callable[[], None] | None = None,
    *,
    config: str | None = None,
    positional: bool = False,
    instead: str | None = None,
    optional: bool = False,
    workdir: bool = False,
) -> None:
    """Runs ``main(config, flags)``; a user's mistake ends in one line on stderr and exit status 2.

    Args:
      main: the command. Its arguments are the config as nested dictionaries, if it has one,
        absl's flags, if it defines some, and the positional arguments.
      define_flags: defines the command's flags.
      config: what the config is of, ``'experiment'`` or ``'figure'``; None for a command without
        a config.
      positional: whether the command takes any number of positional arguments.
      instead: a flag that replaces the config if it is set; ``main`` then takes None for it.
      optional: whether the config may be missing; ``main`` then takes None for it.
      workdir: whether --workdir is ``runs/NAME`` of the config by default.
    """
    overridden: dict[str, str | None] = {}
    known = flags.FLAGS
    for define in (config and configs.define_flags, define_flags):
        if define:
            define()
    flags.DEFINE_flag(_VersionFlag(), module_name=__name__)

    def parse(argv: list[str]) -> list[str]:
        try:
            if config:
                argv = configs.take(argv, overridden)
            _define_flags_of_jax(argv)
            arguments: list[str] = known(argv)
            return arguments
        except flags.UnrecognizedFlagError as error:
            fail(configs.nearest_flag(error, [*known]) if config else error)
        except (flags.Error, errors.InvalidError) as error:
            fail(error)

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not positional:
            fail(
                f'unexpected argument {argv[1]!r}; overrides look like --config.num_rounds=100.'
            )
        if not known['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        _replace_unknown_letters()
        _set_cache()
        flag_values = [known] if define_flags else []
        with explained():
            if config is None:
                main(*flag_values, *map(os.path.expanduser, argv[1:]))
                return
            is_replaced = instead is not None and known[instead].value is not None
            is_missing = optional and known.config is None and not overridden
            if is_replaced or is_missing:
                main(None, *flag_values)
                return
            values = configs.of_flags(
                known.config, overridden, config, quick=known.quick
            )
            from fedjax_links.config import resolver

            if workdir and known.workdir is None:
                known.workdir = configs.workdir(known.config, quick=known.quick)  # type: ignore[assignment]
            with resolver.importable(configs.folder(known.config)):
                main(values, *flag_values)

    app.run(guarded, flags_parser=parse)


def _define_flags_of_jax(argv: Sequence[str]) -> None:
    """Defines JAX's flags, such as --jax_debug_nans, if the command line has one of them."""
    if any(re.match('--?(no)?jax_', argument) for argument in argv):
        _set_cache()
        import jax

        jax.config.config_with_absl()


def _set_cache() -> None:
    """Sets JAX's folder for compiled programs, which JAX reads when it is imported.

    Each kind of CPU has its own folder, since machines of several kinds may share one home. If no
    folder can be written, programs are not stored.
    """
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
    if 'JAX_COMPILATION_CACHE_DIR' in os.environ:
        return
    with contextlib.suppress(OSError):
        folder = cpus.cache(cpus.kind())
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ['JAX_COMPILATION_CACHE_DIR'] = str(folder)


def _replace_unknown_letters() -> None:
    """Makes output write ? for a letter that the encoding of the terminal or pipe lacks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='replace')


def make_portable(is_portable: bool) -> None:
    """Restarts this process with variables that give many machines the same bits.

    Args:
      is_portable: value of the flag ``--portable``; nothing is done without it.
    """
    if is_portable and not cpus.is_portable():
        os.environ.update(cpus.portable_variables())
        os.execv(sys.executable, sys.orig_argv)


@contextlib.contextmanager
def importing(allowed: bool) -> Iterator[None]:
    """Makes modules of the working folder importable for a run folder, if the user allows it."""
    from fedjax_links.config import resolver

    with resolver.importable(Path.cwd()) if allowed else contextlib.nullcontext():
        yield


# Errors: a mistake ends in one line, a bug with its traceback.


@contextlib.contextmanager
def renamed(**flag_of: str) -> Iterator[None]:
    """Renames an argument of a function to its flag in the errors of user mistakes."""
    try:
        yield
    except errors.InvalidError as error:
        if error.path not in flag_of:
            raise
        raise error.at(flag_of[error.path]) from None


def fail(message: object) -> NoReturn:
    """Ends with one line and the status of a mistake."""
    print(f'error: {errors.one_line(str(message))}', file=sys.stderr)
    sys.exit(MISTAKE)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Ends the command if an error is raised inside, with a message and an exit status.

    These end in one line and status 2: a user's mistake, a missing package, a refusal of the
    operating system or the device, and an error of the user's code, with its file and line. Any
    other error is a bug of this package. It ends with its traceback, a line that asks for a
    report, and status 1. With --pdb_post_mortem absl takes the error and starts the debugger.
    """
    try:
        yield
    except BrokenPipeError:
        errors.exit_on_broken_pipe()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if flags.FLAGS['pdb_post_mortem'].value:
            raise
        message = _message_of(error)
        if message is not None:
            fail(message)
        traceback.print_exception(error)
        print(
            'This is a bug of fedjax_links, no mistake of yours: please report it with the lines '
            'above and the config.',
            file=sys.stderr,
        )
        sys.exit(BUG)


def _message_of(error: Exception) -> object:
    """Returns the line to print for an error; None for a bug of this package."""
    if isinstance(error, errors.MissingPackageError):
        return error
    if errors.is_out_of_memory(error):
        return f'memory ran out: {errors.describe(error)}'
    refused = _message_of_backend(error)
    if refused is not None:
        return refused
    if isinstance(error, errors.InvalidError):
        return _message_of_mistake(error)
    file, line = errors.innermost_user_frame(error) or ('', 0)
    if file:
        return _message_of_users_code(error, file, line)
    return errors.of_system(error) if isinstance(error, OSError) else None


def _message_of_mistake(error: errors.InvalidError) -> object:
    """Returns a mistake with the line of the user's code that called this package."""
    file, line = errors.innermost_user_frame(error, called=True) or ('', 0)
    if file and not error.path.startswith('config'):
        return f'{error} (line {line} of {file})'
    return error


def _message_of_users_code(error: Exception, file: str, line: int) -> str:
    """Returns the message of an error of the user's code, with its line."""
    notes = ''.join(f' ({note})' for note in getattr(error, '__notes__', ()))
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = f'{type(error).__name__}: {text}' if text else type(error).__name__
    where = f'line {line} of {file}{notes}'
    return f'`{Path(file).name}` must run, got {text.rstrip(".")} on {where}.'


def _message_of_backend(error: BaseException) -> object:
    """Returns the message if JAX does not find the devices that it was told to use, else None.

    JAX looks for devices when they are first needed, so the error can come from anywhere.
    """
    if 'jax' not in sys.modules:
        return None
    causes = errors.causes(error)
    if not any(isinstance(cause, AssertionError | RuntimeError) for cause in causes):
        return None
    from fedjax_links.machines import devices

    try:
        devices.local()
    except errors.InvalidError as refused:
        return refused
    except Exception:  # The platform was not chosen by the user.
        return None
    return None
