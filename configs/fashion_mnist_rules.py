"""Seven algorithms on Fashion-MNIST over the six link patterns of Xiang et al. 2024.

  python -m fedjax_links simulate --config=configs/fashion_mnist_rules.py --workdir=runs/rules

Run `python -m fedjax_links data fetch fashion_mnist` first. 60,000 images lie at a hundred clients
(Dirichlet, alpha = 0.1), with uplinks that depend on their labels. They train softmax regression
for 304 rounds. Each seed redraws partition, links and batches, the same for all algorithms. Each
algorithm has a client rate for each pattern, tuned by three further seeds until the best lies
inside the grid. It takes half an hour on two CPU cores, with --quick a minute on synthetic images.

A convolutional network of 4,266 parameters trains with :cnn. It is shorter in a way that was
decided before it ran: five of the algorithms, three of the patterns, 152 rounds, and rates tuned
under Bernoulli links alone. It takes one to two hours on two CPU cores.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common

MODELS = {
    'softmax': 'softmax',
    'cnn': {'name': 'cnn', 'channels': (4, 8), 'hidden': ()},
}
LENGTHS = {'softmax': (304, 19), 'cnn': (152, 38)}
"""Rounds, and rounds between evaluations. Steps of 19 reach all phases of the cycles."""


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``softmax`` or ``cnn``.
    """
    (model,) = common.chosen(argument, MODELS)
    num_rounds, eval_every = LENGTHS[model]
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    sine = {'name': 'sine', 'gamma': 0.4, 'period': 40}
    config = ConfigDict(
        {
            'title': 'Algorithms over unreliable uplinks: Fashion-MNIST',
            'problem': {
                'name': 'images',
                'dataset': 'fashion_mnist',
                'num_clients': 100,
                'model': MODELS[model],
                'partition': 'dirichlet',
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
                'fedavg_known': {},
                'fedau': {},
                'fedpbc': {},
                'mifa': {},
                'fedvarp': {},
                'scaffold': {},
            },
            'tuning': {
                'learning_rates': (0.1, 0.5, 2.5, 12.5),
                'num_seeds': 3,
                'most_seeds': 3,
                'ties': 1,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': num_rounds,
            'eval_every': eval_every,
            'redraw': 'by_seed',
            'num_seeds': 5,
            'quick': {
                'problem': {
                    'dataset': 'synthetic_images',
                    'data': {'num_train': 2_000, 'num_test': 500},
                    'num_clients': 20,
                },
                'num_rounds': 57,
                'num_seeds': 2,
            },
        }
    )
    if model == 'cnn':
        config.quick.update(
            num_rounds=20, eval_every=10, tuning={'num_seeds': 1, 'grow': 0}
        )
        config.tuning.update(learning_rates=(0.03, 0.1, 0.3), pattern='bernoulli')
        for name in ('fedavg_known', 'mifa'):
            del config.algorithms[name]
        for name in ('markov', 'markov_sine', 'cyclic_reset'):
            del config.patterns[name]
    return config
