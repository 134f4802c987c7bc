"""23 algorithms on handwritten digits over the six link patterns of Xiang et al. 2024.

  python -m fedjax_links simulate --config=configs/comparison.py --workdir=runs/comparison

Digits instead of SVHN, CIFAR-10 and CINIC-10; softmax regression instead of convolutions; 50
clients instead of 100; 1,007 rounds. Twenty minutes on two CPU cores beside other work. Each seed
redraws the split into training and test images, partition, links and batches, the same for all
algorithms. Each algorithm has a client rate for each pattern, tuned by three seeds until the best
lies inside the grid.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the comparison's settings."""
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    sine = {'name': 'sine', 'gamma': 0.4, 'period': 40}
    return ConfigDict(
        {
            'title': 'Algorithms over unreliable uplinks: digits',
            'problem': {
                'name': 'digits',
                'num_clients': 50,
                'model': 'softmax',
                'partition': 'dirichlet',
                'order': 'numbers',
                'alpha': 0.1,
                'seed': 0,
            },
            'patterns': {
                'bernoulli': {'name': 'bernoulli', 'probs': probs},
                'bernoulli_sine': {
                    'name': 'bernoulli',
                    'probs': probs,
                    'schedule': sine,
                },
                'markov': {'name': 'markov', 'probs': probs},
                'markov_sine': {'name': 'markov', 'probs': probs, 'schedule': sine},
                'cyclic': {'name': 'cyclic', 'probs': probs},
                'cyclic_reset': {'name': 'cyclic', 'probs': probs, 'reset': True},
            },
            'client': {'decay': 'inverse_sqrt', 'local_steps': 5, 'batch_size': 16},
            'algorithms': {
                'fedavg': {},
                'fedavg_all': {},
                'fedavg_known': {},
                'fedpbc': {},
                'fedpbc_paused': {'name': 'fedpbc', 'compute': 'active'},
                'fedau': {},
                'f3ast': {},
                'mifa': {},
                'fedvarp': {},
                'debiased_fedavg': {},
                'amplified_fedavg': {'period': 100, 'amplification': 2.0},
                'wait_for_all': {'period': 100},
                'fedawe': {},
                'scaffold': {},
                'amplified_scaffold': {'period': 100, 'amplification': 1.5},
                'focus': {},
                'feddyn': {'alpha': 0.1},
                'fedstale': {'stale_weight': 0.5},
                'fedbuff': {'buffer_size': 10},
                'fedprox': {'client': {'mu': 0.1}},
                'fednova': {},
                'fedadam': {
                    'name': 'fedopt',
                    'server_optimizer': {'name': 'adam', 'learning_rate': 0.01},
                },
                'fedavgm': {
                    'name': 'fedopt',
                    'server_optimizer': {
                        'name': 'sgd',
                        'learning_rate': 1.0,
                        'momentum': 0.9,
                    },
                },
            },
            'tuning': {
                'learning_rates': (0.2, 1.0, 5.0),
                'num_seeds': 3,
                'ties': 1,
                'grow': 5,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': 1007,
            'eval_every': 19,  # all of the cycles of 100 and 40 rounds are seen
            'redraw': 'by_seed',
            'num_seeds': 10,
        }
    )
