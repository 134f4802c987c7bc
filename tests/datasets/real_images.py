"""Real images for slow tests, from where this machine has them."""

import functools

import pytest

from fedjax_links import datasets
from fedjax_links.datasets import npz, publishers, system_copies


@functools.cache
def load(name, data_dir):
    """Reads a fetched data set, or the system's copy by way of ``data_dir``; None for neither."""
    if npz.npz_file(name).is_file():
        return datasets.published(name)
    file_names = publishers.RECIPES[name].file_names
    if system_copies.find(name, file_names) is None:
        return None
    return datasets.from_npz(publishers.fetch(name, data_dir=data_dir))


def load_or_skip(name, tmp_path_factory):
    """Loads a data set once per process; skips the test, and says why, if it is missing."""
    data = load(name, tmp_path_factory.getbasetemp())
    if data is None:
        file_names = publishers.RECIPES[name].file_names
        way = system_copies.how_to_get(name, file_names)
        pytest.skip(f'{name} is not on this machine: {way}')
    return data
