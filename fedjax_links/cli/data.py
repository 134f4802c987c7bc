"""Brings published image data: downloads and converts them, or takes files that are there.

python -m fedjax_links data list
python -m fedjax_links data fetch mnist cifar10
python -m fedjax_links data convert svhn --source=my/downloads

Downloads need `pip install 'fedjax_links[data]'`. Data sets are kept where configs look for them,
in TFDS_DATA_DIR or else in ~/tensorflow_datasets, one npz each.
"""

import sys

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core import errors

ACTIONS = ('list', 'fetch', 'convert')

_SOURCE = flags.DEFINE_string(
    'source', None, 'For convert: file or folder with what was published.'
)
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Folder of the data sets.')
_MIRROR = flags.DEFINE_string(
    'mirror', None, "For fetch: address of a folder that is used in the publisher's place."
)


def main(*arguments: str) -> None:
    """Does what the first argument says with the data sets that follow."""
    action, *names = arguments or ('list',)
    if action not in ACTIONS:
        raise errors.unknown_name('data', action, ACTIONS)
    if action == 'list':
        _print_list()
        return
    if not names:
        raise errors.invalid(
            f'data {action}', 'be given a data set (`data list` names them)', 'none'
        )
    if action == 'fetch':
        for name in names:
            _fetch(name)
        return
    if len(names) > 1 or _SOURCE.value is None:
        given = f'{len(names)} and --source={_SOURCE.value}'
        raise errors.invalid('data convert', 'be given one data set and --source=FOLDER', given)
    _convert(names[0], _SOURCE.value)


def _print_list() -> None:
    from fedjax_links.problems.datasets import places, sources
    from fedjax_links.problems.datasets.sources.converting import megabytes

    print(f'Data sets in {places.data_root(_DATA_DIR.value)}')
    for name in sources.RECIPES:
        found = sources.status(name, data_dir=_DATA_DIR.value)
        if found.place is None:
            line = f'missing; {megabytes(found.size)} to download'
        else:
            line = f'{found.place.name}, {megabytes(found.size)}'
        print(f'  {name:<16} {line}')


def _fetch(name: str) -> None:
    from fedjax_links.problems.datasets import sources
    from fedjax_links.problems.datasets.sources.converting import full_name, megabytes

    found = sources.status(full_name(name), data_dir=_DATA_DIR.value)
    if found.place is not None:
        print(f'{name}: {found.place} is there, {megabytes(found.size)}')
        return
    on_terminal = sys.stderr.isatty()
    fetched = sources.fetch(
        name, data_dir=_DATA_DIR.value, mirror=_MIRROR.value, progressbar=on_terminal
    )
    for file, digest in fetched.unpublished.items():
        print(f'{file}: no SHA-256 is published; this one has {digest}')
    _say(name, fetched.done)
    size = sum(file.stat().st_size for file in fetched.downloads.iterdir())
    print(f"The publisher's files, {megabytes(size)}, can be deleted: {fetched.downloads}")


def _convert(name: str, source: str) -> None:
    from fedjax_links.problems.datasets import sources

    _say(name, sources.convert(name, source, data_dir=_DATA_DIR.value))


def _say(name: str, done) -> None:
    from fedjax_links.problems.datasets.sources.converting import megabytes

    print(
        f'{name}: {done.num_train:,} training and {done.num_test:,} test images, '
        f'{megabytes(done.size)} in {done.file}'
    )


if __name__ == '__main__':
    app.run(main, positional=True)
