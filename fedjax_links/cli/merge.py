"""Joins the shards of a run into the run that one process would have made, and reports.

python -m fedjax_links merge --workdir=runs/map
python -m fedjax_links merge --workdir=runs/map node1/map node2/map

Of shards that shared a folder it is enough to name that; of others name every folder.
"""

from pathlib import Path
from typing import NamedTuple

from fedjax_links.cli import app
from fedjax_links.core import errors


class Flags(NamedTuple):
    """Flags of the command.

    Attributes:
      workdir: Folder of the whole run.
      allow_mixed: Shards may have run on machines of different kinds, a seed on one.
    """

    workdir: str | None = None
    allow_mixed: bool = False


def main(given: Flags, *folders: str) -> None:
    """Joins and reports."""
    if given.workdir is None:
        raise errors.invalid('workdir', 'name the folder of the whole run, such as runs/map', None)
    from fedjax_links import experiment, report, runs

    parts = folders or given.workdir
    with app.renamed(folder='workdir'):
        results = runs.merge(parts, given.workdir, allow_mixed=given.allow_mixed)
    print(f'{len(runs.lanes(given.workdir)):,} lanes in {given.workdir}')
    config = runs.read_json(Path(given.workdir), runs.CONFIG)
    print(report.write(results, None if config is None else experiment.build(config)))


if __name__ == '__main__':
    app.run(main, Flags, positional=True)
