"""What every command line shares: flags that fail in one line, and a compilation cache."""

import copy
import difflib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags, logging

from fedjax_links import errors, shipped

_QUICK = flags.DEFINE_bool(
    'quick', False, "The config's short version: what its section `quick` replaces."
)


def run(
    main: Callable[..., None],
    config_flag: Any = None,
    *,
    positional: bool = False,
    instead: Any = None,
) -> None:
    """Runs ``main(config)``; a user's mistake ends in one line on stderr and exit status 2.

    Args:
      main: takes the config as nested dictionaries, or nothing if there is no such flag; then the
        positional arguments, each as one more.
      config_flag: holder of the ``--config`` flag; None for a command without.
      positional: whether the command takes any number of arguments that are no flags.
      instead: holder of a flag that stands in the config's place where it is given; ``main`` then
        has no config.
    """

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not positional:
            _fail(f'unexpected argument {argv[1]!r}; overrides look like --config.num_rounds=100.')
        configs = []
        without = config_flag is None or (instead is not None and instead.value is not None)
        if not without:
            configs = [_at_size(_read_config(config_flag), config_flag)]
        if not flags.FLAGS['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        _use_compilation_cache()
        try:
            with _importable(None if without else config_flag):
                main(*configs, *argv[1:])
        except (ValueError, errors.MissingPackageError) as error:
            _fail(str(error))
        except BrokenPipeError:
            errors.leave_unread()
        except OSError as error:
            _fail(f'`{error.filename}` cannot be used: {error.strerror or error}.')
        except KeyboardInterrupt:
            sys.exit(130)

    app.run(guarded, flags_parser=_parse_flags)


def _importable(config_flag: Any) -> AbstractContextManager[None]:
    """Lets a config name functions of the files beside it."""
    if config_flag is None:
        return nullcontext()
    from fedjax_links import sections

    return sections.importable(Path(_config_path(sys.argv)[0]).parent)


def output_folder(path: str) -> Path:
    """The folder for a command's files, created if missing.

    Args:
      path: what the user gave.

    Returns:
      The folder.

    Raises:
      ValueError: if it cannot be one.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f'`workdir` must name a folder, got {path}: {error.strerror}.') from None
    return folder


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        _name_files(argv)
        return flags.FLAGS(argv)
    except flags.Error as error:
        _fail(_hint_overrides(str(error), argv))
    except (AttributeError, KeyError, TypeError, ValueError, OSError, ImportError) as error:
        # A config file that cannot be read, or an override of a field that it does not have.
        _fail(_hint_overrides(f'{error}', argv))
    except (ArithmeticError, LookupError, NameError, SyntaxError) as error:
        # What a config file written in Python can get wrong besides.
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        line = error.lineno if isinstance(error, SyntaxError) else line
        said = f'{type(error).__name__}: {error.args[0]} on line {line}'
        _fail(f'`config` must be a file that Python runs, got {said} of {_config_path(argv)[0]}.')


def _configs(argv: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Where ``--config`` has its value: place, what stands before the value there, the value."""
    for place, argument in enumerate(argv):
        flag, equals, given = argument.partition('=')
        if flag in ('--config', '-config'):
            if equals:
                yield place, flag + equals, given
            elif place + 1 < len(argv):
                yield place + 1, '', argv[place + 1]


def _name_files(argv: list[str]) -> None:
    """Puts the file of a shipped config in the place of its name."""
    for place, before, given in _configs(argv):
        argv[place] = before + shipped.locate(given)


def _read_config(config_flag: Any) -> dict[str, Any]:
    """The config with its overrides, as nested dictionaries."""
    try:
        if config_flag.value is not None or any(_configs(sys.argv)):
            return _as_dictionary(config_flag.value)
    except ValueError as error:  # get_config was given an argument that it does not know
        _fail(str(error))
    except OSError:  # config_flags reports a missing file when the config is first used
        path = Path(_config_path(sys.argv)[0])
        near = shipped.nearest(path)
        hint = f'; did you mean {near}?' if near else ''
        _fail(f'`config` must name a readable config file, got {path}{hint}')
    _fail('`config` must name a config or its file, such as --config=quickstart.')


def _as_dictionary(config: Any) -> dict[str, Any]:
    """What ``get_config`` has returned, a ConfigDict or a plain dictionary."""
    if hasattr(config, 'to_dict'):
        return config.to_dict()
    if isinstance(config, dict):
        return copy.deepcopy(config)
    kind = type(config).__name__
    _fail(f'`config` must be a file whose get_config returns a dictionary, got {kind}.')


def _at_size(values: dict[str, Any], config_flag: Any) -> dict[str, Any]:
    """The config at the size asked for; overrides of single fields hold at both."""
    from ml_collections import config_flags

    from fedjax_links import sizes

    if not _QUICK.value:
        return sizes.full(values)
    try:
        values = sizes.quick(values)
    except ValueError as error:
        _fail(str(error))
    for field, value in config_flags.get_override_values(flags.FLAGS[config_flag.name]).items():
        *sections, name = field.split('.')
        if sections[:1] == [sizes.QUICK]:
            continue
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return values


def _config_path(argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The config file, and what ``get_config`` is called with: the text after a colon, if any."""
    *_, given = ['', *(given for *_, given in _configs(argv))]  # the last one counts
    path, *words = given.split(':', 1)
    return path, tuple(words)


def _hint_overrides(message: str, argv: Sequence[str]) -> str:
    """One line; with the nearest field if an override names none of the config's."""
    from ml_collections import ConfigDict

    known: list[str] = []

    def collect(section: Any, prefix: str) -> None:
        for name, value in section.items():
            known.append(f'{prefix}{name}')
            if isinstance(value, ConfigDict | dict):
                collect(value, f'{prefix}{name}.')

    try:
        path, argument = _config_path(argv)
        collect(_load_config(path, argument), '')
    except ValueError as error:  # get_config was given an argument that it does not know
        return str(error)
    except (OSError, AttributeError, ImportError, SyntaxError):
        return message
    for flag in argv:
        field = flag.removeprefix('--config.').split('=', 1)[0]
        if flag.startswith('--config.') and field not in known:
            near = difflib.get_close_matches(field, known, n=1, cutoff=0.4)
            hint = f'did you mean {near[0]!r}?' if near else f'fields: {", ".join(known)}.'
            return f'`config` has no {field!r}; {hint}'
    return message


def _load_config(path: str, argument: tuple[str, ...]) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location('config', path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(*argument)


def _use_compilation_cache() -> None:
    """Makes the second start of the same program fast; JAX_COMPILATION_CACHE_DIR overrides."""
    import jax

    if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
        home = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache'))
        jax.config.update('jax_compilation_cache_dir', str(home / 'fedjax_links'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)


def _fail(message: str) -> NoReturn:
    print(f'error: {" ".join(message.split())}', file=sys.stderr)
    sys.exit(2)
