"""What every command line shares: flags that fail in one line, and a compilation cache."""

import contextlib
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import app, flags, logging

from fedjax_links.cli import configs, failures
from fedjax_links.core import errors
from fedjax_links.machines import caches, cpus

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
            failures.fail(error)

    def guarded(argv: Sequence[str]) -> None:
        if len(argv) > 1 and not positional:
            said = f'unexpected argument {argv[1]!r}; overrides look like --config.num_rounds=100.'
            failures.fail(said)
        if not flags.FLAGS['verbosity'].present:
            logging.set_verbosity(logging.WARNING)
        _use_compilation_cache()
        given = [each(*(flags.FLAGS[name].value for name in each._fields)) for each in kinds]
        with failures.explained():
            if config is None:
                main(*given, *argv[1:])
            elif (instead is not None and flags.FLAGS[instead].value is not None) or (
                optional and given[0].config is None and not overridden
            ):
                main(None, *given[1:])
            else:
                values = configs.of_flags(given[0], overridden, config)
                from fedjax_links.config import sections

                if workdir and given[1].workdir is None:
                    given[1] = given[1]._replace(workdir=configs.workdir(given[0]))
                with sections.importable(configs.folder(given[0].config)):
                    main(values, *given[1:])

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
def in_workdir() -> Iterator[None]:
    """Makes a mistake in a function's ``folder`` one in the flag --workdir."""
    try:
        yield
    except errors.InvalidError as error:
        raise error.at('workdir') if error.path == 'folder' else error from None


def output_folder(path: str) -> Path:
    """The folder for a command's files, created if missing."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _use_compilation_cache() -> None:
    """Makes the second start of the same program fast, by what JAX reads when it is imported."""
    own = caches.folder(cpus.kind())  # nodes with one home may be of several kinds
    os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(own))
    os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
