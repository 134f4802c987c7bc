"""Table D.1 of Wang and Ji (2022): the best local rate of each method after the warm-up.

  python -m fedjax_links.cli.sweep --config=configs/wang2022_table_d1.py:fashion_mnist \
      --workdir=runs/wang_rates

After the colon: fashion_mnist or cifar10, which must have been prepared. The full size takes weeks
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, cycles of 50 rounds.

The paper prints 0.1 and 0.05 for the waiting methods, 1e-5 and 5e-5 without amplification, 1e-5 and
5e-6 with it, from {1, .1, .01, .001, .0001} times the initial rate; the report prints them beside
ours. Deviations: chosen by the training loss at the end of one seed (the criterion is not stated);
else as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import wang2022

FACTORS = (1.0, 0.1, 0.01, 0.001, 0.0001)


def get_config(dataset: str = 'fashion_mnist') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.
    """
    problem = wang2022.problem(dataset)
    start, initial = wang2022.WARM_UP_ROUNDS[dataset], wang2022.INITIAL_RATES[dataset]
    printed = wang2022.PRINTED_DATASETS[dataset]
    return ConfigDict(
        {
            'title': f'Local rates on {printed} (Wang and Ji 2022, Table D.1)',
            'problem': problem,
            'patterns': {'periodic': wang2022.periodic()},
            'client': wang2022.client(initial, start),
            'algorithms': wang2022.methods(start),
            'tuning': {
                'learning_rates': tuple(initial * factor for factor in FACTORS),
                'pattern': 'periodic',
                'num_rounds': wang2022.NUM_ROUNDS[dataset],
                'num_seeds': 1,
            },
            'baseline': 'plain',
            'metric': 'train_loss',
            'num_rounds': wang2022.NUM_ROUNDS[dataset],
            'eval_every': 500,
            'num_seeds': 1,
            'names': (('periodic', 'periodic availability'), *wang2022.METHOD_NAMES),
            'reports': {
                'rates': {
                    'name': 'rates',
                    'published': {'table': 'wang2022_table_d1', 'dataset': printed},
                },
                'levels': {'name': 'levels', 'tail': 0.03},
            },
            'caption': (
                'Deviations: chosen by the training loss at the end of one seed, as the criterion '
                'is not stated; nobody is selected twice in a round; minibatches with '
                'replacement. With --quick: synthetic images, 50 clients, cycles of 50 rounds, so '
                'that the printed rates do not apply.'
            ),
            'quick': {
                'problem': wang2022.small_problem(),
                'patterns': {'periodic': {'active_rounds': 10, 'cohort_size': 5}},
                'client': {'decay': {'initial': 0.1, 'rounds': 100}},
                'algorithms': wang2022.methods(100, period=50),
                'tuning': {'learning_rates': (0.1, 0.01, 0.001), 'num_rounds': 400},
                'num_rounds': 400,
                'eval_every': 50,
            },
        }
    )
