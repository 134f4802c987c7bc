"""The search for initial local rates of Wang and Ji (2022), appendix D.1.

  python -m fedjax_links simulate --config=configs/wang2022_initial_rates.py:fashion_mnist \
      --workdir=runs/wang_initial

After the colon stands fashion_mnist or cifar10, which must have been prepared. :gaussians is a
small version that needs no data: classes that overlap, softmax regression, 250 clients and the
length of FashionMNIST. It takes about a minute on two CPU cores. The other two need a GPU or hours,
and were not run. With --quick each takes less than a minute.

The paper tries eight rates with clients that are always available. It takes the one of least
training loss after 2,000 or 4,000 rounds: 0.1 for FashionMNIST, 0.05 for CIFAR-10. The rates are
the same for independent and for regularised participation. Deviations: minibatches are drawn with
replacement; chosen by one seed, as the paper does not say how many; the loss is the mean over
examples.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

RATES = (0.5, 0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``.
    """
    (dataset,) = common.chosen(argument, presets.DATASETS)
    length = {'num_rounds': presets.WARM_UP_ROUNDS[dataset], 'eval_every': 50}
    if dataset == presets.SMALL:
        # 9 and the cycle of 25 rounds have no common divisor, so evaluations see all of it.
        length = {'num_rounds': 1_998, 'eval_every': 9}
    config = presets.experiment(dataset, 'paper', item='D.1, initial rates')
    config |= {
        'patterns': {
            'independent': {'name': 'uniform_cohort', 'cohort_size': 10},
            'regularised': {'name': 'regularized', 'cohort_size': 10},
        },
        'client': {'local_steps': 5, 'batch_size': 16},
        'algorithms': {'fedavg': {}},
        'tuning': {
            'grow': 0,
            'learning_rates': RATES,
            'num_rounds': length['num_rounds'],
            'num_seeds': 1,
        },
        'baseline': 'fedavg',
        'metric': 'train_loss',
        'num_seeds': 1,
        **length,
        'names': (
            ('independent', 'independent'),
            ('regularised', 'regularised'),
            ('fedavg', 'FedAvg'),
        ),
        'reports': {'rates': {'name': 'rates'}, 'comparison': {'name': 'comparison'}},
        'caption': (
            'The paper finds the same best rate for both kinds of participation: 0.1 for '
            'FashionMNIST, 0.05 for CIFAR-10. '
            f'Deviations: {presets.data_deviations(dataset)}'
            'chosen by one seed, as their number is not '
            'stated; minibatches with replacement; loss as the mean over examples. With --quick: '
            f'{presets.quick_cohorts(dataset)}, two rates.'
        ),
        'quick': {
            'problem': presets.quick_problem(dataset),
            'patterns': {
                'independent': {'cohort_size': 5},
                'regularised': {'cohort_size': 5},
            },
            'tuning': {'learning_rates': (0.1, 0.01), 'num_rounds': 100},
            'num_rounds': 100,
            'eval_every': 20,
        },
    }
    return ConfigDict(config)
