"""Table 1 and Figure 4 of Sun et al. (ICLR 2025): CIFAR-10 with groups that wait R rounds.

  python -m fedjax_links.cli.sweep --config=configs/sun2025_table1.py --workdir=runs/sun_table1

Needs prepared CIFAR-10. The full size takes days on a CPU; it has not been run, on a GPU neither.
With --quick, a few minutes on two CPU cores: synthetic images.

The paper prints training and test accuracies for R = 5, 10, 15; the report prints them beside ours.
Debiasing FedAvg is ahead of FedVARP and FedAvg throughout. Deviations: of the setting only "three
convolution layers" and rates "of order 1e-3" are stated; partition, batch, local work and rounds
are those of the MNIST experiment's code, the network is ours, and rates are tuned at R = 10.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import sun2025

SEPARATIONS = (5, 10, 15)


def get_config() -> ConfigDict:
    """The comparison's settings."""

    def levels(split: str, metric: str) -> dict:
        published = {'table': 'sun2025_table1', 'dataset': 'CIFAR-10', 'split': split}
        return {'name': 'levels', 'metric': metric, 'published': published}

    return ConfigDict(
        {
            'title': 'CIFAR-10 with minimum separation (Sun et al. 2025, Table 1 and Figure 4)',
            'problem': {
                'name': 'images',
                'dataset': 'cifar10',
                'num_clients': sun2025.NUM_CLIENTS,
                'model': {'name': 'sun_cifar10'},
                'partition': 'dirichlet_per_class',
                'alpha': 0.5,
                'seed': 1,
                'store': 'uint8',
            },
            'patterns': sun2025.patterns(SEPARATIONS),
            'client': {'local_steps': 50, 'batch_size': 8},
            'algorithms': {'fedavg': {}, 'debiased_fedavg': {}, 'fedvarp': {}},
            'tuning': {
                'learning_rates': (0.1, 0.03, 0.01, 0.003, 0.001),
                'pattern': 'R10',
                'num_rounds': 200,
                'num_seeds': 1,
            },
            'baseline': 'fedavg',
            'metric': 'train_accuracy',
            'num_rounds': 2_000,
            'eval_every': 10,
            'num_seeds': 3,
            'names': sun2025.pattern_names(SEPARATIONS) + sun2025.ALGORITHM_NAMES,
            'reports': {
                'train': levels('train', 'train_accuracy'),
                'test': levels('test', 'eval_accuracy'),
                'curves': {'name': 'curves', 'columns': 4},
                'rates': {'name': 'rates'},
            },
            'caption': (
                'Deviations: the paper states "three convolution layers" and rates of order 1e-3; '
                'partition, batch, local work and rounds here are those of its MNIST code, the '
                'network is ours, rates are tuned at R = 10. With --quick: synthetic images, a '
                'smaller network, 5 local steps, 150 rounds.'
            ),
            'quick': {
                'problem': {
                    'dataset': 'synthetic_images',
                    'data': {
                        'num_train': 3_000,
                        'num_test': 500,
                        'shape': (16, 16, 3),
                        'difficulty': 0.5,
                    },
                    'model': {'name': 'cnn', 'channels': (8, 8, 16), 'hidden': (32,)},
                    'store': 'float32',
                },
                'client': {'local_steps': 5},
                'tuning': {'learning_rates': (0.1, 0.03), 'num_rounds': 50},
                'num_rounds': 150,
            },
        }
    )
