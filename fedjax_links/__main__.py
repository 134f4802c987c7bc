"""Lists the commands and the names that a config can use; runs a command.

python -m fedjax_links
python -m fedjax_links simulate --config=quickstart --workdir=runs/quickstart

The console command `fedjax-links` does the same.
"""

import ast
import runpy
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_COMMANDS = Path(__file__).parent / 'cli'


def commands() -> dict[str, str]:
    """Lists the modules of the folder of commands that have a ``main``.

    Returns:
      What each command does, by name. Modules are read and not imported.
    """
    documented = _documented(sorted(_COMMANDS.glob('*.py')), 'main')
    return {name: _first_line(text) for name, text in documented.items()}


def configs() -> dict[str, dict[str, str]]:
    """Lists the configs that ``--config`` takes by name.

    Returns:
      What each config runs, by the command in its docstring, and by name. Modules are read and not
      imported.
    """
    from fedjax_links.config import shipped

    by_command: dict[str, dict[str, str]] = {}
    for name, text in _documented(shipped.configs().values(), 'get_config').items():
        command = text.partition('python -m fedjax_links ')[2].split(maxsplit=1)[0]
        by_command.setdefault(command, {})[name] = _first_line(text)
    return by_command


def _documented(paths: Iterable[Path], function: str) -> dict[str, str]:
    """Returns the docstrings of the modules that define a function."""
    docstrings: dict[str, str] = {}
    for path in paths:
        module = ast.parse(path.read_text(encoding='utf-8'))
        functions = [
            node.name for node in module.body if isinstance(node, ast.FunctionDef)
        ]
        if function in functions:
            docstrings[path.stem] = ast.get_docstring(module) or ''
    return docstrings


def registries() -> dict[str, Mapping[str, Any]]:
    """Lists the tables of names that a config can use.

    Returns:
      Factories by name, by the field or section that takes the name.
    """
    from fedjax_links import algorithms, datasets, participation, problems
    from fedjax_links.config import registries as config_registries
    from fedjax_links.partition import PARTITIONS
    from fedjax_links.problems import augmentation, classification
    from fedjax_links.report import layouts

    config_tables: dict[str, Mapping[str, Any]] = {}
    for name, table in vars(config_registries).items():
        is_public = name.isupper() and not name.startswith('_')
        # Those that end so collect tables that are listed themselves.
        if is_public and not name.endswith('_TABLES'):
            config_tables[name.lower().replace('_', ' ')] = table
    return {
        'algorithms': algorithms.ALGORITHMS,
        'patterns': participation.PARTICIPATION,
        'problems': problems.PROBLEMS,
        'models': classification.MODELS,
        'partitions': PARTITIONS,
        'datasets': datasets.DATASETS,
        'augmentations': augmentation.AUGMENTATIONS,
        **config_tables,
        'reports': layouts.LAYOUTS,
    }


def tables() -> dict[str, dict[str, str]]:
    """Says in a line what each name of `registries`, and of ``log``, stands for."""
    from fedjax_links.runner import hooks

    lines = {
        title: {name: _purpose(factory) for name, factory in table.items()}
        for title, table in registries().items()
    }
    lines['log'] = {hooks.LINKS: 'The realised links of every seed, with the run.'}
    return lines


def main(argv: list[str] | None = None) -> int:
    """Runs the command that the first argument names; without one, lists what there is.

    Args:
      argv: the command line without the program. By default that of this process, which then ends
        at an interrupt, and when the reader of its output leaves.

    Returns:
      Exit status: 0, or 2 for an unknown command.
    """
    if argv is None:
        return _main_of_process()
    known = commands()
    if argv[:1] == ['--version']:
        print(f'fedjax_links {sys.modules["fedjax_links"].__version__}')
        return 0
    if not argv or argv[0] in ('help', '-h', '-help', '--help'):
        _print_all(known)
        return 0
    name, *rest = argv
    if name not in known:
        from fedjax_links.core import errors

        print(f'error: {errors.unknown_name("command", name, known)}', file=sys.stderr)
        return 2
    module = f'fedjax_links.cli.{name}'
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name='__main__', alter_sys=True)
    return 0


def _main_of_process() -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # JAX drops exceptions that are raised while it collects garbage. So that of Python's own
        # handler would be printed while modules are imported, or lost, and the command would go on.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    current_folder = str(Path.cwd())
    if not sys.flags.safe_path:
        # `python -m` looks first in the current folder, where a file may have the name of an
        # installed module. A console command does not look there at all. So it comes last for both.
        others = [path for path in sys.path if path not in ('', current_folder)]
        sys.path[:] = [*others, current_folder]
    try:
        return main(sys.argv[1:])
    except BrokenPipeError:
        from fedjax_links.core import errors

        errors.exit_on_broken_pipe()


def _print_all(known: Mapping[str, str]) -> None:
    sections: dict[str, Mapping[str, str]] = {'commands': known}
    for command, names in configs().items():
        sections[f'configs of {command}'] = names
    sections |= tables()
    print('python -m fedjax_links COMMAND [--help] [FLAGS]')
    for title, lines in sections.items():
        width = max(map(len, lines))
        print(f'\n{title}')
        for name, line in sorted(lines.items()):
            print(f'  {name:<{width}}  {line}'.rstrip())


def _purpose(factory: Callable[..., Any]) -> str:
    """Returns the summary of a factory; of an entry's client program if it has its own."""
    function = getattr(factory, 'client_program', None)
    if function is None:
        function = getattr(factory, 'factory', factory)
    return _first_line(getattr(function, 'func', function).__doc__)


def _first_line(text: str | None) -> str:
    return (text or '').strip().partition('\n')[0]


if __name__ == '__main__':
    sys.exit(main())
