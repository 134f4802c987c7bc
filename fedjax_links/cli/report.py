"""Turns a run folder into tables and pictures: report.md, finished or not.

python -m fedjax_links report --workdir=runs/comparison

It reads only the folder, and names what has not run yet. --table=levels prints that table alone, as
CSV or with --form=latex as LaTeX. --price adds what the run would have cost on devices of given
speeds. Its value is the options of the layout `price`, as JSON or as a file of JSON:

python -m fedjax_links report --workdir=runs/quickstart --price='{"targets": [0.85], "step": 0.1,
  "uplink": {"name": "lognormal", "median": 2e5, "sigma": 1}, "downlink": 1e6}'
"""

import json
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of a finished or unfinished run.')
    flags.DEFINE_string(
        'table',
        None,
        'Print the table of this page or layout alone, such as levels, and write nothing.',
    )
    flags.DEFINE_string('form', 'csv', 'In which it is printed: csv or latex.')
    paths.define(
        'price',
        'Options of the layout `price`, or their file (JSON).',
    )
    flags.DEFINE_bool(
        'allow_imports',
        False,
        'Let the folder name code outside the package, which is imported.',
    )


def main(args: flags.FlagValues) -> None:
    """Writes the report of a run folder, or prints one of its tables."""
    if args.workdir is None:
        requirement = 'name the folder of a run, such as runs/first'
        raise errors.invalid('workdir', requirement, None)
    from fedjax_links import report, runs

    added = {}
    if args.price is not None:
        added['price'] = {'name': 'price', **_options(args.price)}
    with app.name_flags(folder='workdir'):
        run = runs.read(args.workdir)
    with app.allow_imports(args.allow_imports):
        if args.table is None:
            print(report.write(run, added=added, allow_imports=args.allow_imports))
            return
        with app.name_flags(page='table'):
            table = report.table(
                run, args.table, form=args.form, allow_imports=args.allow_imports
            )
        print(table, end='')


def _options(flag: str) -> dict[str, Any]:
    """Reads the JSON of a flag, or of the file that it names."""
    is_json = flag.lstrip().startswith('{')
    try:
        text = flag if is_json else Path(flag).read_text()
        options = json.loads(text)
    except ValueError as error:
        raise errors.invalid('price', 'be JSON', f'{flag}: {error}') from None
    if not isinstance(options, dict):
        raise errors.invalid('price', 'hold options by name', errors.text_of(options))
    return options


if __name__ == '__main__':
    app.run(main, define_flags)
