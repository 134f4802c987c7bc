"""The configs that ship with the project, and stand-ins for data that must be prepared."""

import importlib
import itertools

import numpy as np

from fedjax_links import datasets
from fedjax_links.config import nested
from tests import ROOT

FOLDER = ROOT / 'configs'
PATHS = sorted(FOLDER.glob('*.py'))
_SMALL = 'gaussians'
_WANG = ('fashion_mnist', 'cifar10', _SMALL)
_XIANG = ('svhn', 'cifar10', 'cinic10')
_RELEASED = ('as_released',)
_COMMITS = ('as_released', 'first_commit')
ARGUMENTS = {
    'sun2025_figure3': (('mnist', _SMALL), _RELEASED),
    'sun2025_table1': (('cifar10', _SMALL), _RELEASED),
    'wang2022_figure1': (_WANG, _RELEASED),
    'wang2022_figure2': (_WANG, _RELEASED),
    'wang2022_figure_d1': (_WANG, ()),
    'wang2022_figure_d2': (_WANG, _RELEASED),
    'wang2022_figure_d3': (_WANG, _RELEASED),
    'wang2022_initial_rates': (_WANG, ()),
    'wang2022_table_d1': (_WANG, _RELEASED),
    'xiang2024_figure6': ((), _RELEASED),
    'depth': (
        ('gaussians', 'long', 'images', 'images_linear', 'digits', 'digits_linear'),
        (),
    ),
    'fashion_mnist_rules': (('softmax', 'cnn'), ()),
    'exactness': (('bernoulli', 'cyclic', 'groups'), ()),
    'map': (('space', 'rounds', 'correlation'), ()),
    'xiang2024_figure9': (
        ('alpha', 'gamma', 'delta', 'sigma'),
        ('cifar10', _SMALL),
        _COMMITS,
    ),
    'xiang2024_table1': (_XIANG, _COMMITS),
    'xiang2024_table1_digits': (('clean', 'noisy'), _COMMITS),
    'xiang2023_figure3': (('own_rates', 'printed_rates'), ()),
    'xiang2024_table1_gaussians': (
        ('table', 'rules', 'betas', 'samples', 'decided'),
        _COMMITS,
    ),
    'xiang2024_table1_synthetic': ((), _COMMITS),
    'xiang2024_table2': ((*_XIANG, _SMALL), _COMMITS),
}
"""The words that a config takes after a colon, by its name: subjects, data sets, and last kinds of
released code."""

SHORT = {'sun2025_figure3': 'mnist', 'wang2022_figure_d1': 'fashion_mnist'}
"""The configs with a part of their figure, ``short``, and the data that it is meant for."""

SMALL = {
    'sun2025_figure3': 'mnist',
    'sun2025_table1': 'cifar10',
    'wang2022_figure1': 'fashion_mnist',
    'wang2022_figure2': 'fashion_mnist',
    'wang2022_figure_d1': 'fashion_mnist',
    'wang2022_figure_d2': 'fashion_mnist',
    'wang2022_figure_d3': 'fashion_mnist',
    'wang2022_table_d1': 'fashion_mnist',
    'xiang2024_figure9': 'cifar10',
    'xiang2024_table2': 'cifar10',
}
"""The configs with a small version, and the data whose length it has."""

_SHAPES = {
    'cifar10': (32, 32, 3),
    'cinic10': (32, 32, 3),
    'fashion_mnist': (28, 28, 1),
    'mnist': (28, 28, 1),
    'svhn': (32, 32, 3),
}


def module(path):
    """Imports a config file."""
    return importlib.import_module(f'configs.{path.stem}')


def arguments(name):
    """The words after the colon that tests try.

    First all combinations of subjects, or None for a config without subjects. Then the first and
    the last combination with each kind of released code, and the part of a figure, ``short``.
    """
    *subjects, codes = ARGUMENTS.get(name, ((), ()))
    texts = [','.join(words) for words in itertools.product(*filter(None, subjects))]
    some = list(dict.fromkeys([texts[0], texts[-1]]))
    released = [','.join(filter(None, (text, code))) for code in codes for text in some]
    short = [f'{SHORT[name]},short'] if name in SHORT else []
    return (*(text or None for text in texts), *released, *short)


def variants():
    """Lists what tests build: path, words after the colon or None, and size."""
    results = []
    for path in PATHS:
        for argument in arguments(path.stem):
            results.append((path, argument, 'full'))
            if nested.QUICK in values(path, argument, None):
                results.append((path, argument, 'quick'))
    return results


def values(path, argument, size):
    """Returns the config as nested dictionaries, at a size; with None, as it is in the file."""
    words = [] if argument is None else [argument]
    config = module(path).get_config(*words).to_dict()
    return config if size is None else getattr(nested, size)(config)


def stand_in(name, num_train=2_600, num_test=60):
    """Makes a loader of 8-bit noise in the shape of a data set that must be prepared."""

    def load(**options):
        del options
        rng = np.random.default_rng(0)
        shape = _SHAPES[name]
        return datasets.Dataset(
            rng.integers(0, 256, (num_train, *shape), np.uint8),
            np.arange(num_train) % 10,
            test_features=rng.integers(0, 256, (num_test, *shape), np.uint8),
            test_labels=np.arange(num_test) % 10,
        )

    return load


def use_stand_ins(monkeypatch, **options):
    """Replaces the loaders of all data sets that must be prepared."""
    for name in _SHAPES:
        monkeypatch.setitem(datasets.DATASETS, name, stand_in(name, **options))
