"""Merges the shards of a run into the run that one process would have made, and reports.

python -m fedjax_links merge --workdir=runs/map
python -m fedjax_links merge --workdir=runs/map node1/map node2/map

A shard is the part of a run's lanes (algorithm, pattern, grid point and seed) that one process ran.
If the shards shared a folder, --workdir alone is enough. Otherwise name the folder of each shard.
The report computes losses of clients and laws of links from the experiment. If the config names
your modules, --allow_imports imports them, also from the working folder.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors

if TYPE_CHECKING:
    from fedjax_links.experiment import Experiment


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of the whole run.')
    flags.DEFINE_bool(
        'allow_mixed',
        False,
        'Shards may have run on machines of different kinds, all lanes of a seed on one.',
    )
    flags.DEFINE_bool(
        'allow_imports',
        False,
        "Let the folder's config name code outside the package, which is imported.",
    )
    flags.DEFINE_bool(
        'allow_changed',
        False,
        'Shards may have run with different programs or data; every report says so.',
    )


def main(args: flags.FlagValues, *folders: str) -> None:
    """Merges the shards and writes the report."""
    if args.workdir is None:
        requirement = 'name the folder of the whole run, such as runs/map'
        raise errors.invalid('workdir', requirement, None)
    from fedjax_links import report, runs

    with app.name_flags(folder='workdir'):
        results = runs.merge(
            folders or args.workdir,
            args.workdir,
            allow_mixed=args.allow_mixed,
            allow_changed=args.allow_changed,
        )
    print(f'{len(runs.lanes(args.workdir)):,} lanes in {args.workdir}')
    with app.allow_imports(args.allow_imports):
        planned = _experiment(args)
        print(report.write(results, planned, allow_imports=args.allow_imports))


def _experiment(args: flags.FlagValues) -> 'Experiment | None':
    """Builds the experiment that ran; None without a config, or if the config's code is refused."""
    from fedjax_links import runs
    from fedjax_links.config import bound
    from fedjax_links.experiment import build
    from fedjax_links.experiment.config import prepare_recorded

    config = runs.read_json(Path(args.workdir or ''), runs.CONFIG)
    if config is None:
        return None
    try:
        values = prepare_recorded(config, allow_imports=args.allow_imports)
    except bound.RefusedImportError as error:
        print(
            f'The report lacks losses of clients and laws of links: {error}',
            file=sys.stderr,
        )
        return None
    return build(values)


if __name__ == '__main__':
    app.run(main, define_flags, takes_arguments=True)
