"""Table 2 of Xiang et al. (2024): how soon each algorithm reaches four levels of test accuracy.

  python -m fedjax_links.cli.sweep --config=configs/xiang2024_table2.py:svhn --workdir=runs/svhn2

After the colon: svhn, cifar10 or cinic10, which must have been prepared. The full size takes days
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, levels as shares of the best.

The paper reports, for time-varying Bernoulli links, the first of every 150th round at which the
level is reached; the report prints it beside ours. Deviations: as in xiang2024_table1.py, and the
accuracy is averaged over seeds before it is compared with the level, which the paper does not say.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import xiang2024


def get_config(dataset: str = 'svhn') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'svhn'``, ``'cifar10'`` or ``'cinic10'``.
    """
    problem = xiang2024.problem(dataset)
    printed = xiang2024.PRINTED_DATASETS[dataset]
    return ConfigDict(
        {
            'title': f'First rounds on {printed} (Xiang et al. 2024, Table 2)',
            'problem': problem,
            'patterns': {'bernoulli_sine': xiang2024.patterns()['bernoulli_sine']},
            'client': xiang2024.client(),
            'algorithms': xiang2024.algorithms(),
            'tuning': {
                'learning_rates': xiang2024.LEARNING_RATES,
                'server_lrs': xiang2024.SERVER_LRS,
                'pattern': 'bernoulli_sine',
                'num_rounds': 500,
                'num_seeds': 1,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': xiang2024.NUM_ROUNDS[dataset],
            'eval_every': 50,
            'num_seeds': 3,
            'names': (xiang2024.PATTERN_NAMES[1], *xiang2024.ALGORITHM_NAMES),
            'reports': {
                'first_rounds': {
                    'name': 'first_rounds',
                    'targets': xiang2024.TABLE_2_TARGETS[dataset],
                    'every': 150,
                    'published': {'table': 'xiang2024_table2', 'dataset': printed},
                },
                'curves': {'name': 'curves'},
                'rates': {'name': 'rates'},
            },
            'caption': (
                'Deviations: as for Table 1 (minibatches with replacement, tuning on these links, '
                'gamma 0.4, equal volumes, FedPBC at the mean of its client models); accuracy '
                'averaged over seeds before it is compared with the level. With --quick: '
                'synthetic images and levels as shares of the best final one.'
            ),
            'quick': {
                'problem': xiang2024.small_problem(num_clients=20, num_train=600),
                'tuning': {
                    'learning_rates': (0.5, 0.1),
                    'server_lrs': (1.0,),
                    'num_rounds': 60,
                },
                'reports': {
                    'first_rounds': {
                        'targets': None,
                        'published': None,
                        'shares': (0.25, 0.5, 0.75, 1.0),
                        'every': 10,
                    }
                },
                'num_rounds': 150,
                'eval_every': 10,
                'num_seeds': 2,
            },
        }
    )
