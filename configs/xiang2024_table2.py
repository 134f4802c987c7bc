"""Table 2 of Xiang et al. (2024): how soon each algorithm reaches four levels of test accuracy.

  python -m fedjax_links simulate --config=configs/xiang2024_table2.py:svhn --workdir=runs/svhn2

After the colon: svhn, cifar10 or cinic10, which must have been prepared, and as_released
(:svhn,as_released) or first_commit as for xiang2024_table1.py. The full size takes days on a CPU;
it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, levels as shares of the best.

The paper reports, for time-varying Bernoulli links, the first of every 150th round, from 0 on, at
which the level is reached; the report prints it beside ours. Deviations: as in xiang2024_table1.py;
tuned after 450 rounds; the accuracy is averaged over seeds before it is compared with the level,
which the paper does not say. Such samples see the sine of the links in four of its 40 phases.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets

EVERY = 150
"""Rounds between the samples of accuracy."""


def get_config(argument: str = '') -> ConfigDict:
    """The comparison's settings.

    Args:
      argument: ``svhn``, ``cifar10`` or ``cinic10``, and ``as_released`` or ``first_commit``.
    """
    dataset, code = common.chosen(argument, presets.PRINTED_DATASETS, presets.CODES)
    printed = presets.PRINTED_DATASETS[dataset]
    shared = presets.experiment(code)
    table = {'name': 'fedjax_links.papers.xiang2024.tables:table2', 'dataset': printed}
    return ConfigDict(
        {
            'title': f'First rounds on {printed} (Xiang et al. 2024, Table 2)',
            'problem': presets.problem(dataset, code),
            **shared,
            'tuning': {**shared['tuning'], 'num_rounds': 3 * EVERY},
            'patterns': {'bernoulli_sine': presets.patterns(code)['bernoulli_sine']},
            'num_rounds': presets.NUM_ROUNDS[dataset] // EVERY * EVERY,
            'eval_every': EVERY,
            'evaluate_start': True,
            'names': (presets.PATTERN_NAMES[1], *presets.ALGORITHM_NAMES),
            'reports': {
                'first_rounds': {
                    'name': 'first_rounds',
                    'targets': presets.TABLE_2_TARGETS[dataset],
                    'published': table,
                },
                'curves': {'name': 'curves'},
                'rates': {'name': 'rates'},
            },
            'caption': (
                'Deviations: as for Table 1 (minibatches with replacement, tuning on these links, '
                f'gamma 0.4, FedPBC at the mean of its client models). '
                f'{presets.departures(code, links=False)} Accuracy is averaged over seeds before '
                'it is compared with the level. With --quick: synthetic images and levels as '
                'shares of the best final one.'
            ),
            'quick': {
                **presets.quick(code, learning_rates=(0.5, 0.1), tuning_rounds=60),
                'reports': {
                    'first_rounds': {
                        'targets': None,
                        'published': None,
                        'shares': (0.25, 0.5, 0.75, 1.0),
                    }
                },
                'num_rounds': 150,
                'eval_every': 10,
            },
        }
    )
