"""Turns a run folder, finished or not, into report.md with tables and pictures.

python -m fedjax_links report --workdir=runs/comparison

The command reads only the folder, and names what has not run yet. --table=comparison prints that
table alone, as CSV or with --form=latex as LaTeX. --form=pdf saves the pictures for a paper, each
with its caption in a file of its own, --width=3.3 inches wide. --cost adds what the run would have
cost on devices of given speeds. Its value holds options of the report layout cost, as JSON or as a
file of JSON:

python -m fedjax_links report --workdir=runs/quickstart --cost='{"targets": [0.85], "step": 0.1,
  "uplink": {"name": "lognormal", "median": 2e5, "sigma": 1}, "downlink": 1e6}'
"""

from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors

_TABLE_ARGUMENTS = ('allow_imports', 'form', 'page', 'run')
"""Arguments of `report.table` that are no options of a layout."""


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of a finished or unfinished run.')
    flags.DEFINE_string(
        'table',
        None,
        'Print the table of this page or layout alone, such as comparison, and write nothing.',
    )
    paths.define(
        'options',
        'Options of the layout of --table, or their file (JSON), such as {"best": "bold"}.',
    )
    flags.DEFINE_string(
        'form',
        None,
        'With --table, csv (the default) or latex. Without it, pdf, svg or png saves the pictures '
        'for a paper and writes no report.',
    )
    flags.DEFINE_float(
        'width', None, 'Of pictures for a paper, in inches, such as 3.3 for a column.'
    )
    paths.define(
        'cost',
        'Options of the layout `cost`, or their file (JSON).',
    )
    flags.DEFINE_alias('price', 'cost')  # the flag's name in version 0.1.0
    flags.DEFINE_bool(
        'allow_imports',
        False,
        'Let the folder name code outside the package, which is imported.',
    )


def main(args: flags.FlagValues) -> None:
    """Writes the report of a run folder, saves its pictures, or prints one of its tables."""
    if args.workdir is None:
        requirement = 'name the folder of a run, such as runs/first'
        raise errors.invalid('workdir', requirement, None)
    from fedjax_links import report, runs
    from fedjax_links.core import checks
    from fedjax_links.core.registry import current_name

    _check_flags(args)
    with app.name_flags(folder='workdir'):
        run = runs.read(args.workdir)
    may_import = args.allow_imports
    with app.allow_imports(may_import), app.name_flags(page='table', folder='workdir'):
        if args.table is not None:
            form = args.form or 'csv'
            options = _options('options', args.options)
            table = report.table(
                run, args.table, form=form, allow_imports=may_import, **options
            )
            print(table, end='')
        elif args.form is not None:
            files = report.save_pictures(
                run,
                form=args.form,
                width=args.width,
                allow_imports=may_import,
            )
            print(f'Wrote {", ".join(files)} to {run.folder}')
        else:
            added = {}
            if args.cost is not None:
                options = {'name': 'cost', **_options('cost', args.cost)}
                # The options may name their layout, as it is called now or in version 0.1.0.
                checks.choice('cost.name', current_name(options['name']), ['cost'])
                added['cost'] = options
            print(report.write(run, added=added, allow_imports=may_import))


def _check_flags(args: flags.FlagValues) -> None:
    """Refuses flags that would have no effect."""
    from fedjax_links.core import checks

    if args.cost is not None and (args.table or args.form):
        requirement = 'be left out with `table` or `form`, which write no report'
        raise errors.invalid('cost', requirement, args.cost)
    if args.table is None:
        _check_flags_without_table(args)
    elif args.form is not None:
        checks.choice('form', args.form, ('csv', 'latex'))
    if args.width is not None and (args.table is not None or args.form is None):
        requirement = 'be of pictures for a paper, with `form` pdf, svg or png'
        raise errors.invalid('width', requirement, args.width)


def _check_flags_without_table(args: flags.FlagValues) -> None:
    """Refuses flags that need --table."""
    if args.options is not None:
        raise errors.invalid('table', 'name a layout, for `options`', None)
    if args.form in ('csv', 'latex'):
        raise errors.invalid('form', 'go with `table`, the name of a layout', args.form)


def _options(name: str, flag: str | None) -> dict[str, Any]:
    """Reads the JSON of a flag, or of the file that it names."""
    from fedjax_links.storage import documents

    if flag is None:
        return {}
    is_json = flag.lstrip().startswith('{')
    try:
        text = flag if is_json else Path(flag).read_text()
        options = documents.parse_json(text)
    except OSError as error:
        value = f'{flag}: {error.strerror}'
        raise errors.invalid(name, 'be JSON or name its file', value) from None
    except (ValueError, RecursionError) as error:
        raise errors.invalid(name, 'be JSON', f'{flag}: {error}') from None
    if not isinstance(options, dict):
        raise errors.invalid(name, 'hold options by name', errors.text_of(options))
    for option in options:
        if option in _TABLE_ARGUMENTS:
            requirement = 'hold options of the layout, which are no flags'
            raise errors.invalid(name, requirement, repr(option))
    return options


if __name__ == '__main__':
    app.run(main, define_flags)
