"""Brings published image data: downloads and converts them, or takes files that are there.

python -m fedjax_links data list
python -m fedjax_links data fetch mnist cifar10
python -m fedjax_links data convert svhn --source=my/downloads

Downloads need `pip install 'fedjax_links[data]'`. Data sets are kept where configs look for them,
in TFDS_DATA_DIR or else in ~/tensorflow_datasets, one npz each.
"""

import sys
from typing import NamedTuple

from fedjax_links.cli import app
from fedjax_links.core import errors

ACTIONS = ('list', 'fetch', 'convert')


class Flags(NamedTuple):
    """Flags of the command.

    Attributes:
      source: For convert: file or folder with what was published.
      data_dir: Folder of the data sets.
      mirror: For fetch: address of a folder that is used in the publisher's place.
    """

    source: str | None = None
    data_dir: str | None = None
    mirror: str | None = None


def main(given: Flags, action: str = 'list', *names: str) -> None:
    """Does what the first argument says with the data sets that follow."""
    from fedjax_links.problems.datasets import sources

    if action not in ACTIONS:
        raise errors.unknown_name('data', action, ACTIONS)
    if action == 'list':
        _list(given)
        return
    if not names:
        requirement = 'be given a data set (`data list` names them)'
        raise errors.invalid(f'data {action}', requirement, 'none')
    if action == 'fetch':
        for name in names:
            _fetch(name, given)
        return
    if len(names) > 1 or given.source is None:
        value = f'{len(names)} and --source={given.source}'
        raise errors.invalid('data convert', 'be given one data set and --source=FOLDER', value)
    _say(names[0], sources.convert(names[0], given.source, data_dir=given.data_dir))


def _list(given: Flags) -> None:
    from fedjax_links.problems.datasets import places, sources
    from fedjax_links.problems.datasets.sources.converting import megabytes

    print(f'Data sets in {places.data_root(given.data_dir)}')
    for name in sources.RECIPES:
        found = sources.status(name, data_dir=given.data_dir)
        size = megabytes(found.size)
        line = f'{found.place.name}, {size}' if found.place else f'missing; {size} to download'
        print(f'  {name:<16} {line}')


def _fetch(name: str, given: Flags) -> None:
    from fedjax_links.problems.datasets import sources
    from fedjax_links.problems.datasets.sources.converting import full_name, megabytes

    found = sources.status(full_name(name), data_dir=given.data_dir)
    if found.place is not None:
        print(f'{name}: {found.place} is there, {megabytes(found.size)}')
        return
    fetched = sources.fetch(
        name, data_dir=given.data_dir, mirror=given.mirror, progressbar=sys.stderr.isatty()
    )
    for file, digest in fetched.unpublished.items():
        print(f'{file}: no SHA-256 is published; this one has {digest}')
    _say(name, fetched.done)
    size = sum(file.stat().st_size for file in fetched.downloads.iterdir())
    print(f"The publisher's files, {megabytes(size)}, can be deleted: {fetched.downloads}")


def _say(name: str, done) -> None:
    from fedjax_links.problems.datasets.sources.converting import megabytes

    counts = f'{done.num_train:,} training and {done.num_test:,} test images'
    print(f'{name}: {counts}, {megabytes(done.size)} in {done.file}')


if __name__ == '__main__':
    app.run(main, Flags, positional=True)
