"""Brings published image data: downloads, verifies and converts it.

python -m fedjax_links data list
python -m fedjax_links data fetch mnist cifar10

Downloads need `pip install 'fedjax_links[data]'`. Data sets are kept where configs look for them,
in TFDS_DATA_DIR or else in ~/tensorflow_datasets, one npz each.
"""

import pathlib
import sys

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core import checks, errors

ACTIONS = ('list', 'fetch')

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
    elif not names:
        requirement = 'be given a data set (`data list` names them)'
        raise errors.invalid('data fetch', requirement, 'none')
    for name in names:
        _fetch(name)


def _print_list() -> None:
    from fedjax_links.problems.datasets import npz, sources

    print(f'Data sets in {npz.data_root(_DATA_DIR.value)}')
    for name, recipe in sources.RECIPES.items():
        file = npz.npz_file(name, _DATA_DIR.value)
        needed = _megabytes(sum(part.size for part in recipe.files))
        line = f'{file.name}, {_size(file)}' if file.is_file() else f'missing; {needed} to download'
        print(f'  {name:<16} {line}')


def _fetch(name: str) -> None:
    from fedjax_links.problems.datasets import npz, sources

    checks.choice('data', name, sources.RECIPES)
    file = npz.npz_file(name, _DATA_DIR.value)
    if file.is_file():
        print(f'{name}: {file} is there, {_size(file)}')
        return
    sources.fetch(
        name, data_dir=_DATA_DIR.value, mirror=_MIRROR.value, progressbar=sys.stderr.isatty()
    )
    print(f'{name}: {_size(file)} in {file}')
    downloads = file.parent / 'downloads' / name
    size = _megabytes(sum(part.stat().st_size for part in downloads.iterdir()))
    print(f"The publisher's files, {size}, can be deleted: {downloads}")


def _size(file: pathlib.Path) -> str:
    return _megabytes(file.stat().st_size)


def _megabytes(num_bytes: int) -> str:
    """A size as people read it: ``170 MB``, and with a decimal where it is small."""
    size = num_bytes / 1e6
    return f'{size:,.0f} MB' if size >= 10 else f'{size:.3g} MB'


if __name__ == '__main__':
    app.run(main, positional=True)
