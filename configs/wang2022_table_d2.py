"""Table D.2 of Wang and Ji (NeurIPS 2022): the layers of its two convolutional networks.

  python -m fedjax_links figure --config=configs/wang2022_table_d2.py --workdir=runs/wang_table_d2

It takes three seconds on two CPU cores, and the same with `--quick`, which has nothing to shorten.
Nothing is trained, so there is nothing for a GPU to do.

The paper lists kernels, padding and widths, from which 228,586 and 2,218,314 parameters follow; it
prints no totals. Deviations: none; its softmax is part of the loss here.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the table's settings."""
    return ConfigDict(
        {
            'title': 'Networks of Wang and Ji 2022, Table D.2',
            'figure': {
                'name': 'figures.networks:network_sizes',
                'networks': {
                    'FashionMNIST': {
                        'model': 'fedjax_links.papers.architectures:wang_fashion_mnist',
                        'image': (28, 28, 1),
                    },
                    'CIFAR-10': {
                        'model': 'fedjax_links.papers.architectures:wang_cifar10',
                        'image': (32, 32, 3),
                    },
                },
            },
            'caption': (
                'Parameters of every layer, kernels with outputs last; 2 x 2 max-pooling follows '
                'each convolution. The paper lists widths and no totals: 228,586 and 2,218,314 '
                'follow from its list, and are what the networks here have. Deviations: none; the '
                'softmax that ends both columns of its table is part of the loss here.'
            ),
            'width': 110,
            'height': 40,
            'quick': {},
        }
    )
