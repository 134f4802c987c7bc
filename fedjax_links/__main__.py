"""Lists the commands and the names that a config can use; runs a command.

python -m fedjax_links
python -m fedjax_links simulate --config=quickstart --workdir=runs/quickstart
python -m fedjax_links help simulate

The console command ``fedjax-links`` does the same.
"""

import ast
import runpy
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_COMMANDS = Path(__file__).parent / 'cli'


def commands() -> dict[str, str]:
    """Lists the commands: the modules of the folder ``cli`` that define ``main``.

    Returns:
      What each command does, by name. Modules are read and not imported.
    """
    docstrings = _docstrings(sorted(_COMMANDS.glob('*.py')), defining='main')
    return {name: _first_line(text) for name, text in docstrings.items()}


def configs() -> dict[str, dict[str, str]]:
    """Lists the configs that ``--config`` takes by name.

    Returns:
      By command, then by name of a config: what the config runs. The docstring of a config names
      its command. Modules are read and not imported.
    """
    from fedjax_links.config import shipped

    by_command: dict[str, dict[str, str]] = {}
    docstrings = _docstrings(shipped.configs().values(), defining='get_config')
    for name, text in docstrings.items():
        command = text.partition('python -m fedjax_links ')[2].split(maxsplit=1)[0]
        by_command.setdefault(command, {})[name] = _first_line(text)
    return by_command


def _docstrings(paths: Iterable[Path], *, defining: str) -> dict[str, str]:
    """Returns the docstrings, by name, of the modules with a function named ``defining``."""
    docstrings: dict[str, str] = {}
    for path in paths:
        module = ast.parse(path.read_text(encoding='utf-8'))
        functions = [
            node.name for node in module.body if isinstance(node, ast.FunctionDef)
        ]
        if defining in functions:
            docstrings[path.stem] = ast.get_docstring(module) or ''
    return docstrings


def registries() -> dict[str, Mapping[str, Any]]:
    """Lists the tables of names that a config can use.

    Returns:
      By title of a table, its factories by name.
    """
    from fedjax_links import algorithms, datasets, participation, problems
    from fedjax_links.config import registries as config_registries
    from fedjax_links.partition import PARTITIONS
    from fedjax_links.problems import augmentation, classification
    from fedjax_links.report import layouts

    config_tables: dict[str, Mapping[str, Any]] = {}
    for name, table in vars(config_registries).items():
        is_public = name.isupper() and not name.startswith('_')
        # A name that ends so is a collection of tables. Each of these tables is listed itself.
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
    """Describes in a line each name of `registries`, and each name that ``log`` takes."""
    from fedjax_links.core import reprs
    from fedjax_links.runner import hooks

    lines = {
        title: {name: reprs.summary(factory) for name, factory in table.items()}
        for title, table in registries().items()
    }
    lines['log'] = {hooks.LINKS: 'The realised links of every seed, with the run.'}
    return lines


def main(argv: list[str] | None = None) -> int:
    """Runs the command that the first argument names, or lists commands and names.

    Args:
      argv: the command line without the program. By default the command line of this process. The
        process then ends at an interrupt, or when its output pipe closes.

    Returns:
      Exit status: 0, or 2 for an unknown command.
    """
    if argv is None:
        return _main_of_process()
    descriptions = commands()
    name = argv[0] if argv else 'help'
    if name == '--version':
        print(f'fedjax_links {sys.modules["fedjax_links"].__version__}')
        return 0
    if name in ('-h', '-help', '--help'):
        _print_sections(_commands_and_configs(descriptions))
        print(
            '\nWithout arguments: also the names that a config can use, with what they do.'
        )
        return 0
    if name == 'help' and len(argv) > 1:
        return main([argv[1], '--help'])
    if name == 'help':
        _print_sections(_commands_and_configs(descriptions) | tables())
        return 0
    if name not in descriptions:
        from fedjax_links.core import errors

        error = errors.unknown_name('command', name, descriptions)
        print(f'error: {error}', file=sys.stderr)
        return 2
    module = f'fedjax_links.cli.{name}'
    sys.argv = [module, *argv[1:]]
    runpy.run_module(module, run_name='__main__', alter_sys=True)
    return 0


def _main_of_process() -> int:
    """Runs `main` with the command line, signals and import path of this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python's handler raises KeyboardInterrupt, which JAX drops while it collects garbage.
        # The command would then continue. The system's default ends the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    current_folder = str(Path.cwd())
    if not sys.flags.safe_path:
        # `python -m` imports from the current folder first, so a file there could hide an installed
        # module. A console command never imports from that folder. Here, both search the folder
        # last.
        others = [path for path in sys.path if path not in ('', current_folder)]
        sys.path[:] = [*others, current_folder]
    try:
        return main(sys.argv[1:])
    except BrokenPipeError:
        from fedjax_links.core import errors

        errors.exit_on_broken_pipe()


def _commands_and_configs(
    descriptions: Mapping[str, str],
) -> dict[str, Mapping[str, str]]:
    """Describes the commands and the configs of each, without importing what they use."""
    sections: dict[str, Mapping[str, str]] = {'commands': descriptions}
    for command, names in configs().items():
        sections[f'configs of {command}'] = names
    return sections


def _print_sections(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Prints names and what they are, by title."""
    print('python -m fedjax_links COMMAND [--help] [FLAGS]')
    for title, lines in sections.items():
        width = max(map(len, lines))
        print(f'\n{title}')
        for name, line in sorted(lines.items()):
            print(f'  {name:<{width}}  {line}'.rstrip())


def _first_line(text: str) -> str:
    """Returns the first line of a docstring."""
    return text.strip().partition('\n')[0]


if __name__ == '__main__':
    sys.exit(main())
