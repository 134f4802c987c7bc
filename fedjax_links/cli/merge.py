"""Joins the shards of a run into the run that one process would have made, and reports.

python -m fedjax_links merge --workdir=runs/map
python -m fedjax_links merge --workdir=runs/map node1/map node2/map

Of shards that shared a folder it is enough to name that; of others name every folder. The report
takes losses of clients and laws of links from the experiment. Where the config names modules of
your own, --allow_imports imports them, from the working folder too.
"""

import sys
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of the whole run.')
    flags.DEFINE_bool(
        'allow_mixed',
        False,
        'Shards may have run on machines of different kinds, a seed on one.',
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


def main(given: flags.FlagValues, *folders: str) -> None:
    """Joins and reports."""
    if given.workdir is None:
        raise errors.invalid(
            'workdir', 'name the folder of the whole run, such as runs/map', None
        )
    from fedjax_links import report, runs

    parts = folders or given.workdir
    with app.renamed(folder='workdir'):
        results = runs.merge(
            parts,
            given.workdir,
            allow_mixed=given.allow_mixed,
            allow_changed=given.allow_changed,
        )
    print(f'{len(runs.lanes(given.workdir)):,} lanes in {given.workdir}')
    with app.importing(given.allow_imports):
        planned = _experiment(given)
        print(report.write(results, planned, allow_imports=given.allow_imports))


def _experiment(given: flags.FlagValues) -> Any:
    """What ran, as far as the package alone or with what is allowed can build it; else None."""
    from fedjax_links import runs
    from fedjax_links.config import bound
    from fedjax_links.experiment.config import build, recorded

    config = runs.read_json(Path(given.workdir or ''), runs.CONFIG)
    if config is None:
        return None
    try:
        kept = recorded(config, allow_imports=given.allow_imports)
    except bound.RefusedImportError as error:
        print(
            f'The report lacks losses of clients and laws of links: {error}',
            file=sys.stderr,
        )
        return None
    return build(kept)


if __name__ == '__main__':
    app.run(main, define_flags, positional=True)
