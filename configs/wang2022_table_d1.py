"""Table D.1 of Wang and Ji (2022): the best local rate of each method after the warm-up.

  python -m fedjax_links simulate --config=configs/wang2022_table_d1.py:fashion_mnist \
      --workdir=runs/wang_rates

After the colon stands fashion_mnist or cifar10, which must have been prepared. Add as_released for
the released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU
and was not run; studies/full_size.md has its cost. With --quick it takes minutes on two CPU cores,
on synthetic images with cycles of 50 rounds.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and the length of FashionMNIST. It takes a quarter of an hour of one CPU core, or half a
minute with --quick. (--dry_run says more, as it times wait-full in the warm-up.) Its results are in
docs/papers.md.

The paper prints 0.1 and 0.05 for the waiting methods, 1e-5 and 5e-5 without amplification, 1e-5 and
5e-6 with it. They are from {1, .1, .01, .001, .0001} times the initial rate. The report prints them
beside ours. The small version continues the grid if the best rate is at an end. Deviations: chosen
by the training loss at the end of one seed (the criterion is not stated); else as in
wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

FACTORS = (1.0, 0.1, 0.01, 0.001, 0.0001)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    start = presets.WARM_UP_ROUNDS[dataset]
    initial = presets.INITIAL_RATES[dataset]
    printed = presets.PRINTED_DATASETS.get(dataset, 'FashionMNIST')
    comparison = (
        'The printed rates are those of FashionMNIST. '
        if dataset == presets.SMALL
        else ''
    )
    config = presets.experiment(dataset, code, item='Table D.1')
    config |= {
        'title': f'Local rates on {presets.DATASETS[dataset]} (Wang and Ji 2022, Table D.1)',
        'algorithms': presets.methods(start),
        'tuning': {
            'grow': 3 if dataset == presets.SMALL else 0,
            'learning_rates': tuple(initial * factor for factor in FACTORS),
            'pattern': 'periodic',
            'num_rounds': presets.NUM_ROUNDS[dataset],
            'num_seeds': 1,
        },
        'metric': 'train_loss',
        'num_seeds': 1,
        'names': (('periodic', 'periodic availability'), *presets.METHOD_NAMES),
        'reports': {
            'rates': {
                'name': 'rates',
                'published': {
                    'name': 'fedjax_links.papers.wang2022.tables:table_d1',
                    'dataset': printed,
                },
            },
            'comparison': {'name': 'comparison', 'tail': 0.03},
        },
        'caption': (
            f'{comparison}Deviations: {presets.WARM_UP}{presets.data_deviations(dataset)}'
            'chosen by the training loss at the '
            f'end of one seed, as the criterion is not stated; {presets.selection(code, dataset)}; '
            f'minibatches with replacement. With --quick: {presets.quick_data(dataset)}, cycles of '
            '50 rounds, so that the printed rates do not apply.'
        ),
    }
    config['quick'] |= {
        'algorithms': presets.methods(
            presets.QUICK_WARM_UP_ROUNDS, period=presets.QUICK_PERIOD
        ),
        'tuning': {'learning_rates': (0.1, 0.01, 0.001), 'num_rounds': 403},
        'num_rounds': 403,  # 31 evaluations, one every 13 rounds
        'num_seeds': 1,
    }
    return ConfigDict(config)
