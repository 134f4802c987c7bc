"""Small images of noise, and problems with few clients that hold them."""

import numpy as np

from fedjax_links import datasets, problems

SIZE = 12
CLASSES = 3
CLIENTS = 3


def pixels(seed=0, number=24):
    """Draws images uint8[number, SIZE, SIZE, 1]."""
    return np.random.default_rng(seed).integers(
        0, 256, (number, SIZE, SIZE, 1), np.uint8
    )


def dataset(number=24):
    """Returns images for training, and 24 for evaluation, with classes in turn."""
    labels = np.arange(number) % CLASSES
    test = {'test_features': pixels(1), 'test_labels': np.arange(24) % CLASSES}
    return datasets.Dataset(pixels(0, number), labels, **test)


def build(data=None, **options):
    """Builds `problems.images` with three clients; options replace the defaults."""
    settings = {
        'num_clients': CLIENTS,
        'model': 'softmax',
        'partition': 'iid',
        'seed': 0,
    }
    return problems.images(dataset=data or dataset(), **settings | options)
