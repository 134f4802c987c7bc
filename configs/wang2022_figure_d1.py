"""Figure D.1 of Wang and Ji (2022): independent against regularised participation.

  python -m fedjax_links simulate --config=configs/wang2022_figure_d1.py:fashion_mnist \
      --workdir=runs/wang_d1

After the colon stands fashion_mnist or cifar10, which must have been prepared. The full size takes
hours on a CPU and was not run; studies/full_size.md has its cost. :fashion_mnist,short has half of
the rounds and four seeds. It took an hour of two CPU cores, and its results are in docs/papers.md.
With --quick it takes a few minutes on two CPU cores, on synthetic images.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and about the length of FashionMNIST. It takes three quarters of a minute on two CPU cores, or
half a minute with --quick. Its results are in docs/papers.md.

The paper reports similar curves, the regularised pattern marginally ahead. Deviations: it does
not state rates and lengths of the figure. Ours are those of its search for initial rates, 0.1 or
0.05 over 2,000 or 4,000 rounds. Minibatches are drawn with replacement, and the loss is the mean
over examples.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

LENGTHS = ('whole', 'short')


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``short`` for half of the
        rounds and four seeds.
    """
    dataset, length = common.chosen(argument, presets.DATASETS, LENGTHS)
    num_rounds = presets.WARM_UP_ROUNDS[dataset]
    config = presets.experiment(dataset, 'paper', item='Figure D.1')
    if dataset == presets.SMALL:
        # 9 and the cycle of 25 rounds have no common divisor, so evaluations see all of it.
        num_rounds = 1_998
        config['eval_every'] = 9
    config['reports']['curves']['lines'] = 'patterns'
    config['reports']['comparison'] = {'name': 'comparison'}
    config |= {
        'patterns': {
            'independent': {'name': 'uniform_cohort', 'cohort_size': 10},
            'regularised': {'name': 'regularized', 'cohort_size': 10},
        },
        'client': {
            'learning_rate': presets.INITIAL_RATES[dataset],
            'local_steps': 5,
            'batch_size': 16,
        },
        'algorithms': {'fedavg': {}},
        'baseline': 'fedavg',
        'num_rounds': num_rounds,
        'names': (
            ('independent', 'independent'),
            ('regularised', 'regularised'),
            ('fedavg', 'FedAvg'),
        ),
        'caption': (
            f'{presets.BAND}. '
            'The paper reports similar curves, the regularised pattern marginally ahead. '
            f'Deviations: {presets.data_deviations(dataset)}'
            'rate and length, not stated, are those of the '
            'search for the initial rates; minibatches with replacement; loss as the mean over '
            f'examples. With --quick: {presets.quick_cohorts(dataset)}.'
        ),
        'quick': {
            'problem': presets.quick_problem(dataset),
            'patterns': {
                'independent': {'cohort_size': 5},
                'regularised': {'cohort_size': 5},
            },
            'client': {'learning_rate': 0.1},
            'num_rounds': 400,
            'eval_every': 20,
            'num_seeds': 3,
        },
    }
    if length == 'short':
        full_size = f'{config["num_rounds"]:,} rounds and {config["num_seeds"]} seeds'
        shortened = (
            f'Shortened from {full_size} to '
            '{config.num_rounds} and {config.num_seeds}.'
        )
        config['caption'] = config['caption'].replace(
            'With --quick', f'{shortened} With --quick'
        )
        config |= {'num_rounds': config['num_rounds'] // 2, 'num_seeds': 4}
    return ConfigDict(config)
