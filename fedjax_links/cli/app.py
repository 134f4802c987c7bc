"""What every command line shares: flags that fail in one line, and a compilation cache."""

import copy
import difflib
import inspect
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
            _fail(f'`{error.filename or "a file"}` cannot be used: {error.strerror or error}.')
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
    except Exception as error:  # of a flag, or whatever a config file in Python raises
        _fail(_hint_overrides(str(error), argv))


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
    path, _ = _config_path(sys.argv)
    try:
        if path:
            return _as_dictionary(config_flag.value, path)
    except OSError as error:  # config_flags reports a missing file when the config is first used
        if error.__cause__ is not None and Path(path).is_file():  # missing is one that it reads
            _fail(_not_run(error.__cause__, path))
        near = shipped.nearest(Path(path))
        hint = f'; did you mean {near}?' if near else ''
        _fail(f'`config` must name a readable config file, got {path}{hint}')
    _fail('`config` must name a config or its file, such as --config=quickstart.')


def _as_dictionary(config: Any, path: str) -> dict[str, Any]:
    """What ``get_config`` has returned, a ConfigDict or a plain dictionary."""
    if hasattr(config, 'to_dict'):
        return config.to_dict()
    if isinstance(config, dict):
        return copy.deepcopy(config)
    given = f'{type(config).__name__} from {path}'
    _fail(f'`config` must name a file whose get_config returns a dictionary, got {given}.')


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
    """One line: what the config file raises, or the nearest field to an override that is none."""
    from ml_collections import ConfigDict

    known: list[str] = []

    def collect(section: Any, prefix: str) -> None:
        for name, value in section.items():
            known.append(f'{prefix}{name}')
            if isinstance(value, ConfigDict | dict):
                collect(value, f'{prefix}{name}.')

    path, argument = _config_path(argv)
    try:
        config = _load_config(path, argument)
    except OSError:
        return message
    except Exception as error:
        refused = isinstance(error, ValueError) and str(error).startswith('`')  # a word, say
        return str(error) if refused else _not_run(error, path)
    if not isinstance(config, ConfigDict | dict):
        return message
    collect(config, '')
    for flag in argv:
        field = flag.removeprefix('--config.').split('=', 1)[0]
        if flag.startswith('--config.') and field not in known:
            near = difflib.get_close_matches(field, known, n=1, cutoff=0.4)
            hint = f'did you mean {near[0]!r}?' if near else f'fields: {", ".join(known)}.'
            return f'`config` has no {field!r}; {hint}'
    return message


def _load_config(path: str, argument: tuple[str, ...]) -> Any:
    """What the ``get_config`` of a file returns; raises what the file does."""
    import importlib.util

    spec = importlib.util.spec_from_file_location('config', path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make = getattr(module, 'get_config', None)
    if not callable(make):
        raise errors.invalid('config', 'name a file with a function get_config', path)
    try:
        inspect.signature(make).bind(*argument)
    except TypeError as error:
        requirement = 'have no word after a colon' if argument else 'have a word after a colon'
        if len(inspect.signature(make).parameters) > 1:
            raise errors.invalid('config', 'have a get_config of one word', f'{error}') from None
        given = ':'.join([path, *argument])
        raise errors.invalid('config', f'{requirement}, as its get_config says', given) from None
    return make(*argument)


def _not_run(error: BaseException, path: str) -> str:
    """One line on what a config file written in Python gets wrong, and where."""
    said, lines = str(error), traceback.extract_tb(error.__traceback__)
    own = [line.lineno for line in lines if Path(line.filename).resolve() == Path(path).resolve()]
    line = own[-1] if own else None
    if isinstance(error, SyntaxError):
        said, line = error.msg, error.lineno
    said = f'{type(error).__name__}{": " * bool(said)}{said}'
    where = path if line is None else f'line {line} of {path}'
    return f'`config` must be a file that Python runs, got {said} on {where}.'


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
