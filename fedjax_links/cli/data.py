"""Fetches published data: reads the system's copy or downloads the files, verifies and converts.

python -m fedjax_links data list
python -m fedjax_links data fetch mnist femnist
python -m fedjax_links data fetch mnist --mirror=FOLDER

Files that Debian's package installed in /usr/share/datasets are read there, and so are the files of
a folder that --mirror names. Downloads need a pip install of 'fedjax_links[data]', and data with
owners need 'fedjax_links[natural]'. Each data set becomes one npz file where configs look for it:
in TFDS_DATA_DIR or else in ~/tensorflow_datasets. --data_dir names another folder.
"""

import pathlib
import sys
import typing
import urllib.parse
from collections.abc import Sequence

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors

if typing.TYPE_CHECKING:
    from fedjax_links.datasets import publishers

ACTIONS = ('list', 'fetch')


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('data_dir', 'Folder of the data sets.')
    paths.define(
        'mirror',
        "For fetch: address of a folder, or a folder here, in the publisher's place.",
    )


def main(args: flags.FlagValues, action: str = 'list', *names: str) -> None:
    """Lists the data sets, or fetches the named data sets."""
    if action not in ACTIONS:
        raise errors.unknown_name('data', action, ACTIONS)
    if action == 'fetch' and not names:
        raise errors.invalid('data fetch', 'be given a name of `data list`', 'none')
    if action == 'list' and names:
        raise errors.invalid('data list', 'be given no names', ', '.join(names))
    if action == 'list' and args.mirror is not None:
        raise errors.invalid('mirror', 'go with `fetch`', args.mirror)
    if action == 'list':
        _list(args)
        return
    _check_names(names)
    for name in names:
        _fetch(name, args)


def _check_names(names: Sequence[str]) -> None:
    """Raises for an unknown data set, before any data set is fetched."""
    from fedjax_links.datasets import publishers, unknown

    for name in names:
        if name not in publishers.RECIPES:
            raise unknown('data', name, publishers.RECIPES)


def _list(args: flags.FlagValues) -> None:
    """Prints each data set: its size and where it is from, or how to get it."""
    from fedjax_links.datasets import npz, publishers

    print(f'Data sets in {npz.data_root(args.data_dir)}')
    for name, recipe in publishers.RECIPES.items():
        file = npz.npz_file(name, args.data_dir)
        if file.is_file():
            state = f'{file.name}, {_size(file)}{_source(file)}'
        else:
            state = _ways_to_get(name, recipe)
        print(f'  {name:<16} {state}')


def _ways_to_get(name: str, recipe: 'publishers.Recipe') -> str:
    """Says where a data set that was not fetched can come from."""
    from fedjax_links.datasets import system_copies

    folder = system_copies.find(name, recipe.file_names)
    if folder is not None:
        return f'to be read from {folder}'
    size = _megabytes(sum(part.size for part in recipe.files))
    host = urllib.parse.urlsplit(recipe.files[0].url).hostname
    download = f'{size} to download from {host}'
    install = system_copies.install_command(name)
    return f'missing; `{install}`, or {download}' if install else f'missing; {download}'


def _fetch(name: str, args: flags.FlagValues) -> None:
    """Reads or downloads a data set, unless it is already there."""
    from fedjax_links.datasets import npz, publishers

    file = npz.npz_file(name, args.data_dir)
    if file.is_file():
        print(f'{name}: {file} is there, {_size(file)}{_source(file)}')
        return
    publishers.fetch(
        name,
        data_dir=args.data_dir,
        mirror=args.mirror,
        progressbar=sys.stderr.isatty(),
    )
    print(f'{name}: {_size(file)} in {file}{_source(file)}')
    downloads = file.parent / 'downloads' / name
    if downloads.is_dir():
        size = _megabytes(sum(part.stat().st_size for part in downloads.iterdir()))
        print(f"The publisher's files, {size}, can be deleted: {downloads}")


def _size(file: pathlib.Path) -> str:
    """Writes the size of a file."""
    return _megabytes(file.stat().st_size)


def _source(file: pathlib.Path) -> str:
    """Writes the source of a data file, as the end of a line; empty if it is not known."""
    from fedjax_links.datasets import npz

    source = npz.source_of(file)
    return f', from {source}' if source else ''


def _megabytes(num_bytes: int) -> str:
    """Writes a size: ``170 MB``, and ``1.23 MB`` for a small one."""
    size = num_bytes / 1e6
    return f'{size:,.0f} MB' if size >= 10 else f'{size:.3g} MB'


if __name__ == '__main__':
    app.run(main, define_flags, takes_arguments=True)
