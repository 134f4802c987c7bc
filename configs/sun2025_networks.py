"""The fully connected network of Sun et al. (ICLR 2025) for MNIST, layer by layer.

  python -m fedjax_links figure --config=configs/sun2025_networks.py --workdir=runs/sun_nets

It takes three seconds on two CPU cores, and the same with `--quick`, which has nothing to shorten.
Nothing is trained, so there is nothing for a GPU to do.

The paper says "three-layer fully-connected" without widths. Deviation: the layers are those of
the released notebook; 1,853,778 parameters follow from them.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the table's settings."""
    return ConfigDict(
        {
            'title': 'Network of Sun et al. 2025, section 6',
            'figure': {
                'name': 'figures.networks:network_sizes',
                'networks': {
                    'MNIST': {
                        'model': 'fedjax_links.papers.architectures:sun_mnist',
                        'image': (28, 28, 1),
                    },
                },
            },
            'caption': (
                'Parameters of every layer, kernels with outputs last. Deviations: the paper says '
                '"three-layer fully-connected"; the widths and the two normalisations are those '
                'of the released notebook, from which 1,853,778 parameters follow, as the network '
                'here has. Its running averages are not parameters, and are not kept here. The '
                'network for CIFAR-10 has no published layers beyond their number and is left out.'
            ),
            'width': 70,
            'height': 40,
            'quick': {},
        }
    )
