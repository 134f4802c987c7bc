"""Lists the commands and all that a config can name; runs a command.

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
    """The modules of the folder of commands that have a ``main``, with their first lines.

    Returns:
      What each command does, by name. Modules are read and not imported.
    """
    documented = _documented(sorted(_COMMANDS.glob('*.py')), 'main')
    return {name: _first_line(text) for name, text in documented.items()}


def configs() -> dict[str, dict[str, str]]:
    """The configs that ``--config`` takes by name, with their first lines.

    Returns:
      What each config runs, by the command that its text begins with, and by name. Modules are read
      and not imported.
    """
    from fedjax_links.config import shipped

    found: dict[str, dict[str, str]] = {}
    for name, text in _documented(shipped.configs().values(), 'get_config').items():
        command = text.partition('python -m fedjax_links ')[2].split(maxsplit=1)[0]
        found.setdefault(command, {})[name] = _first_line(text)
    return found


def _documented(paths: Iterable[Path], function: str) -> dict[str, str]:
    """The texts of the modules that define a function."""
    found = {}
    for path in paths:
        module = ast.parse(path.read_text(encoding='utf-8'))
        if any(
            isinstance(node, ast.FunctionDef) and node.name == function
            for node in module.body
        ):
            found[path.stem] = ast.get_docstring(module) or ''
    return found


def registries() -> dict[str, Mapping[str, Any]]:
    """What a config can name, by the place where the name stands.

    Returns:
      The factories of each place by name.
    """
    from fedjax_links import algorithms, datasets, participation, problems
    from fedjax_links.config import registries as choices
    from fedjax_links.partition import PARTITIONS
    from fedjax_links.problems import augmentation, classification
    from fedjax_links.report import layouts

    named = {n: v for n, v in vars(choices).items() if n.isupper() and n[0] != '_'}
    del named['DRAWN'], named['MADE']  # of tables that are there by themselves
    return {
        'algorithms': algorithms.ALGORITHMS,
        'patterns': participation.PARTICIPATION,
        'problems': problems.PROBLEMS,
        'models': classification.MODELS,
        'partitions': PARTITIONS,
        'datasets': datasets.DATASETS,
        'augmentations': augmentation.AUGMENTATIONS,
        **{name.lower().replace('_', ' '): table for name, table in named.items()},
        'reports': layouts.LAYOUTS,
    }


def tables() -> dict[str, dict[str, str]]:
    """What each name of `registries`, and of ``log``, stands for in a line."""
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
      argv: the command line without the program; by default that of this process, which then ends
        at an interrupt and where nobody reads on.

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
        # JAX drops what is raised while it collects garbage: the exception of Python's own handler
        # prints its lines while modules are imported, or is lost and the command goes on.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    here = str(Path.cwd())
    if not sys.flags.safe_path:
        # `python -m` looks here first, where a file may be called as a module of Python or of an
        # installed package is, and a console command does not look here at all.
        sys.path[:] = [*(path for path in sys.path if path not in ('', here)), here]
    try:
        return main(sys.argv[1:])
    except BrokenPipeError:
        from fedjax_links.core import errors

        errors.exit_on_broken_pipe()


def _print_all(known: Mapping[str, str]) -> None:
    of_commands = {
        f'configs of {command}': names for command, names in configs().items()
    }
    print('python -m fedjax_links COMMAND [--help] [FLAGS]')
    for title, lines in {'commands': known, **of_commands, **tables()}.items():
        width = max(map(len, lines))
        rows = [
            f'  {name:<{width}}  {line}'.rstrip()
            for name, line in sorted(lines.items())
        ]
        print('\n'.join(['', title, *rows]))


def _purpose(factory: Callable[..., Any]) -> str:
    """The first line on a factory; for a registry entry, on what sets it apart."""
    own = getattr(factory, 'client_program', None) or getattr(
        factory, 'factory', factory
    )
    return _first_line(getattr(own, 'func', own).__doc__)


def _first_line(text: str | None) -> str:
    return (text or '').strip().partition('\n')[0]


if __name__ == '__main__':
    sys.exit(main())
