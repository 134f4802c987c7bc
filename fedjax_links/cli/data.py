"""Brings published data: downloads, verifies and converts it.

python -m fedjax_links data list
python -m fedjax_links data fetch mnist femnist

Downloads need `pip install 'fedjax_links[data]'`, those of data with owners
`'fedjax_links[natural]'`. Data sets are kept where configs look for them, in TFDS_DATA_DIR or else
in ~/tensorflow_datasets, one npz each.
"""

import pathlib
import sys

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors

ACTIONS = ('list', 'fetch')


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('data_dir', 'Folder of the data sets.')
    paths.define(
        'mirror',
        "For fetch: address of a folder, or a folder here, in the publisher's place.",
    )


def main(args: flags.FlagValues, action: str = 'list', *names: str) -> None:
    """Does what the first argument says with the data sets that follow."""
    if action not in ACTIONS:
        raise errors.unknown_name('data', action, ACTIONS)
    if action == 'fetch' and not names:
        raise errors.invalid('data fetch', 'be given a name of `data list`', 'none')
    if action == 'list':
        _list(args)
        return
    for name in names:
        _fetch(name, args)


def _list(args: flags.FlagValues) -> None:
    """Prints each data set, and its size."""
    from fedjax_links.datasets import npz, publishers

    print(f'Data sets in {npz.data_root(args.data_dir)}')
    for name, recipe in publishers.RECIPES.items():
        file = npz.npz_file(name, args.data_dir)
        if file.is_file():
            state = f'{file.name}, {_size(file)}'
        else:
            size = sum(part.size for part in recipe.files)
            state = f'missing; {_megabytes(size)} to download'
        print(f'  {name:<16} {state}')


def _fetch(name: str, args: flags.FlagValues) -> None:
    """Downloads a data set that is not there."""
    from fedjax_links.datasets import npz, publishers, unknown

    if name not in publishers.RECIPES:
        raise unknown('data', name, publishers.RECIPES)
    file = npz.npz_file(name, args.data_dir)
    if file.is_file():
        print(f'{name}: {file} is there, {_size(file)}')
        return
    publishers.fetch(
        name,
        data_dir=args.data_dir,
        mirror=args.mirror,
        progressbar=sys.stderr.isatty(),
    )
    print(f'{name}: {_size(file)} in {file}')
    downloads = file.parent / 'downloads' / name
    if downloads.is_dir():
        size = _megabytes(sum(part.stat().st_size for part in downloads.iterdir()))
        print(f"The publisher's files, {size}, can be deleted: {downloads}")


def _size(file: pathlib.Path) -> str:
    """Returns the size of a file as people read it."""
    return _megabytes(file.stat().st_size)


def _megabytes(num_bytes: int) -> str:
    """Returns a size as people read it: ``170 MB``, and with a decimal where it is small."""
    size = num_bytes / 1e6
    return f'{size:,.0f} MB' if size >= 10 else f'{size:.3g} MB'


if __name__ == '__main__':
    app.run(main, define_flags, positional=True)
