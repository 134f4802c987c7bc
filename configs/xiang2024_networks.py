"""The convolutional networks of Xiang et al. (2024), appendix B, layer by layer.

  python -m fedjax_links figure --config=configs/xiang2024_networks.py --workdir=runs/xiang_nets

It takes three seconds on two CPU cores, and the same with `--quick`, which has nothing to shorten.
Nothing is trained, so there is nothing for a GPU to do.

The paper says "customized CNNs" and prints neither layers nor sizes. Deviation: the layers are
those of the released code; 273,706, 551,786 and 1,193,130 parameters follow from them.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the table's settings."""

    def network(model: str) -> dict:
        model = f'fedjax_links.papers.architectures:{model}'
        return {'model': model, 'image': (32, 32, 3)}

    return ConfigDict(
        {
            'title': 'Networks of Xiang et al. 2024, appendix B',
            'figure': {
                'name': 'figures.networks:network_sizes',
                'networks': {
                    'SVHN': network('xiang_svhn'),
                    'CIFAR-10': network('xiang_cifar10'),
                    'CINIC-10': network('xiang_cinic10'),
                },
            },
            'caption': (
                'Parameters of every layer, kernels with outputs last; 2 x 2 max-pooling follows '
                'each convolution. Deviation: the paper does not describe its networks; the list '
                'is that of the released code, from which 273,706, 551,786 and 1,193,130 '
                "parameters follow, as the networks here have. CINIC-10's drops a fifth of the "
                'inputs of each fully connected layer in training, which has no parameters.'
            ),
            'width': 130,
            'height': 40,
            'quick': {},
        }
    )
