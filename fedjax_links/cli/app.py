"""What every command line shares: flags that fail in one line, and a compilation cache."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from fedjax_links.cli import failures
from fedjax_links.cli.configs import ConfigFlags
from fedjax_links.core import errors


def run(
    main: Callable[..., None],
    config_flags: ConfigFlags | None = None,
    *,
    positional: bool = False,
    instead: Any = None,
) -> None:
    """Runs ``main(config)``; a user's mistake ends in one line on stderr and exit status 2.

    Args:
      main: takes the config as nested dictionaries, or nothing if there are no such flags; then
        the positional arguments, each as one more.
      config_flags: the flags of the config; None for a command without.
      positional: whether the command takes any number of arguments that are no flags.
      instead: holder of a flag that stands in the config's place where it is given; ``main`` then
        has no config.
    """

    def parse(argv: list[str]) -> list[str]:
        try:
            return flags.FLAGS(argv if config_flags is None else config_flags.take(argv))
        except (flags.Error, errors.InvalidError) as error:
            failures.fail(error)

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not positional:
            said = f'unexpected argument {argv[1]!r}; overrides look like --config.num_rounds=100.'
            failures.fail(said)
        if not flags.FLAGS['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        _use_compilation_cache()
        with failures.explained():
            if config_flags is None or (instead is not None and instead.value is not None):
                main(*argv[1:])
                return
            values = config_flags.load()
            from fedjax_links.config import sections

            with sections.importable(config_flags.folder):
                main(values, *argv[1:])

    app.run(guarded, flags_parser=parse)


@contextlib.contextmanager
def in_workdir() -> Iterator[None]:
    """Makes a mistake in a function's ``folder`` one in the flag --workdir."""
    try:
        yield
    except errors.InvalidError as error:
        if error.path != 'folder':
            raise
        raise error.at('workdir') from None


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
        raise errors.invalid('workdir', 'name a folder', f'{path}: {error.strerror}') from None
    return folder


def _use_compilation_cache() -> None:
    """Makes the second start of the same program fast; JAX_COMPILATION_CACHE_DIR overrides."""
    import jax

    if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
        home = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache'))
        jax.config.update('jax_compilation_cache_dir', str(home / 'fedjax_links'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
