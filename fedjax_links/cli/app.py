"""Runs commands: flags, errors, exit statuses, and the cache of compiled programs."""

import contextlib
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from absl import app, flags, logging

import fedjax_links
from fedjax_links.cli import configs, paths
from fedjax_links.core import errors
from fedjax_links.machines import cpus

STARTED = time.perf_counter()
"""Seconds of `time.perf_counter` at the start of the command."""
BUG_STATUS = 1
"""Exit status of an error of this package."""
MISTAKE_STATUS = 2
"""Exit status of a user's mistake."""
INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C."""

# `--help` lists the flags below under the command that defines them, not under this module.
flags.disclaim_key_flags()


class _VersionFlag(flags.BooleanFlag):
    """Defines a flag that prints the version of the package and ends the command."""

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
    takes_arguments: bool = False,
    config_replaced_by: str | None = None,
    config_is_optional: bool = False,
    has_default_workdir: bool = False,
) -> None:
    """Runs a command: its flags, its config or arguments, and its errors.

    With a config it calls ``main(config, flags)``, without one ``main(flags, *arguments)``. A
    command without ``define_flags`` takes no ``flags``.

    A user's mistake ends in one line on stderr and exit status 2.

    Args:
      main: the command. The config comes as nested dictionaries, and flags as absl's
        ``FlagValues``.
      define_flags: defines the command's flags; None for a command without flags.
      config: what the config describes, ``'experiment'`` or ``'figure'``; None for a command
        without a config.
      takes_arguments: whether a command without a config takes any number of positional
        arguments.
      config_replaced_by: a flag that replaces the config if it is set; ``main`` then takes None
        for the config.
      config_is_optional: whether the config may be missing; ``main`` then takes None for the
        config.
      has_default_workdir: whether --workdir is ``runs/NAME`` of the config by default.
    """
    overrides: dict[str, str | bool] = {}
    values = flags.FLAGS
    if config is not None:
        configs.define_flags()
    if define_flags is not None:
        define_flags()
    flags.DEFINE_flag(_VersionFlag(), module_name=__name__)
    main_flags = [] if define_flags is None else [values]

    def parse(argv: list[str]) -> list[str]:
        """Sets the flags, and returns the program's name and the positional arguments."""
        try:
            if config is not None:
                argv = configs.take_overrides(argv, overrides)
            _define_flags_of_jax(argv)
            arguments: list[str] = values(argv)
            return arguments
        except flags.UnrecognizedFlagError as error:
            command_flags = values.get_key_flags_for_module(argv[0])
            flag_names = [flag.name for flag in command_flags]
            message = configs.nearest_flag(
                error, [*values], own_flags=flag_names, has_config=config is not None
            )
            fail(message)
        except (flags.CantOpenFlagFileError, UnicodeDecodeError) as error:
            # For a file that is no text, absl's error does not name the file.
            requirement = 'name a readable file of flags'
            reason = errors.describe(error).rpartition('Unable to open flagfile: ')[2]
            fail(errors.invalid('flagfile', requirement, reason))
        except (flags.Error, errors.InvalidError) as error:
            fail(_mistake_in_flag(error))

    def run_with_config(kind: str) -> None:
        """Runs the command with its config, or with None in place of the config."""
        has_config = values.config is not None or bool(overrides) or values.quick
        is_replaced = _is_replaced(config_replaced_by, has_config)
        is_missing = config_is_optional and not has_config
        if is_replaced or is_missing:
            main(None, *main_flags)
            return
        section = configs.from_flags(values.config, overrides, kind, quick=values.quick)
        from fedjax_links.config import resolver

        if has_default_workdir and values.workdir is None:
            values.workdir = configs.workdir(values.config, quick=values.quick)  # type: ignore[assignment]
        with resolver.importable(configs.folder(values.config)):
            main(section, *main_flags)

    def run_command(argv: Sequence[str]) -> None:
        """Runs the command after the flags are set."""
        arguments = argv[1:]
        if arguments and not takes_arguments:
            hint = configs.meant_by(arguments[0], [*values])
            fail(f'unexpected argument {arguments[0]!r}; {hint}')
        if not values['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        _replace_unknown_letters()
        _set_cache()
        with exit_on_error():
            if config is None:
                main(*main_flags, *map(os.path.expanduser, arguments))
            else:
                run_with_config(config)

    app.run(run_command, flags_parser=parse)


def _is_replaced(flag: str | None, has_config: bool) -> bool:
    """Returns whether a flag replaces the config; a flag and a config together are an error."""
    value = None if flag is None else flags.FLAGS[flag].value
    if flag is None or value is None:
        return False
    if has_config:
        raise errors.invalid(flag, 'be given without a config', value)
    return True


def _define_flags_of_jax(argv: Sequence[str]) -> None:
    """Defines JAX's flags, such as --jax_debug_nans, if the command line has any of these."""
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
        folder = cpus.cache_folder(cpus.kind())
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
      is_portable: the flag ``--portable``. Without it nothing happens.
    """
    if is_portable and not cpus.is_portable():
        os.environ.update(cpus.portable_variables())
        os.execv(sys.executable, sys.orig_argv)


@contextlib.contextmanager
def allow_imports(is_allowed: bool) -> Iterator[None]:
    """Makes modules of the working folder importable for a run folder, if the user allows it."""
    from fedjax_links.config import resolver

    with resolver.importable(Path.cwd()) if is_allowed else contextlib.nullcontext():
        yield


# Errors: a mistake ends in one line, a bug with its traceback.

_REQUIREMENTS = {
    'bool': 'be true or false',
    'int': 'be a whole number',
    'float': 'be a number',
}
"""By type of a flag, what its values must do."""


def _mistake_in_flag(error: Exception) -> Exception:
    """Rewords absl's error of an illegal value, ``flag --NAME=VALUE: REASON``, as other errors."""
    if not isinstance(error, flags.IllegalFlagValueError):
        return error
    name, _, rest = str(error).removeprefix('flag --').partition('=')
    reason = error.__context__
    if isinstance(reason, errors.InvalidError):
        return reason.at(name)
    requirement = _REQUIREMENTS.get(flags.FLAGS[name].flag_type())
    if requirement is None:
        return error
    return errors.invalid(name, requirement, rest.removesuffix(f': {reason}'))


@contextlib.contextmanager
def name_flags(**flag_of: str) -> Iterator[None]:
    """Makes errors of user mistakes name flags in place of a function's arguments.

    Args:
      **flag_of: the flag by name of the argument.
    """
    try:
        yield
    except errors.InvalidError as error:
        if error.path not in flag_of:
            raise
        raise error.at(flag_of[error.path]) from None


def fail(message: object) -> NoReturn:
    """Ends the process with one line and the status of a mistake."""
    print(f'error: {errors.one_line(str(message))}', file=sys.stderr)
    sys.exit(MISTAKE_STATUS)


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Ends the process if an error is raised inside, with a message and an exit status.

    A user's mistake, a missing package and a refusal of the operating system or the device end in
    one line and status 2. So does an error of the user's code, with its file and line. Any other
    error is a bug of this package. It ends with its traceback, a line that asks for a report, and
    status 1. With --pdb_post_mortem, absl takes every error and starts the debugger.
    """
    try:
        yield
    except BrokenPipeError:
        errors.exit_on_broken_pipe()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_STATUS)
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
        sys.exit(BUG_STATUS)


def _message_of(error: Exception) -> object:
    """Returns the line to print for an error; None for a bug of this package."""
    if isinstance(error, errors.MissingPackageError):
        return error
    if errors.is_out_of_memory(error):
        return f'memory ran out: {errors.describe(error)}'
    backend_message = _message_of_backend(error)
    if backend_message is not None:
        return backend_message
    if isinstance(error, errors.InvalidError):
        return _message_of_mistake(error)
    file, line = errors.innermost_user_frame(error) or ('', 0)
    if file:
        return _message_of_users_code(error, file, line)
    return errors.from_os_error(error) if isinstance(error, OSError) else None


def _message_of_mistake(error: errors.InvalidError) -> object:
    """Returns a mistake with the line of the user's code that called this package."""
    file, line = errors.innermost_user_frame(error, called=True) or ('', 0)
    if file and not error.path.startswith('config'):
        return f'{error} (line {line} of {file})'
    return error


def _message_of_users_code(error: Exception, file: str, line: int) -> str:
    """Returns the message of an error of the user's code, with its line."""
    notes = ''.join(
        f' ({note})'
        for note in getattr(error, '__notes__', ())
        if 'JAX_TRACEBACK_FILTERING' not in note  # JAX's note about its own frames
    )
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = f'{type(error).__name__}: {text}' if text else type(error).__name__
    where = f'line {line} of {file}{notes}'
    return f'`{Path(file).name}` must run, got {text.rstrip(".")} on {where}.'


def _message_of_backend(error: BaseException) -> object:
    """Returns the message if JAX does not find the devices that the user chose, else None.

    JAX looks for devices when they are first needed, so the error can come from anywhere.
    """
    if 'jax' not in sys.modules:
        return None
    causes = errors.causes(error)
    # JAX raises an AssertionError for a missing CUDA device.
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
