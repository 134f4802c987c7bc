"""Figure 1 of Wang and Ji (2022): amplification against waiting, with periodic availability.

  python -m fedjax_links.cli.sweep --config=configs/wang2022_figure1.py:fashion_mnist \
      --workdir=runs/wang1

After the colon: fashion_mnist or cifar10, which must have been prepared. The full size takes weeks
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, cycles of 50 rounds.

The paper's main text, with the figure, was not available; its appendix and released commands give
the methods, the rates (Table D.1) and the lengths, and say that amplification is ahead. Deviations:
the client selection never picks a client twice in a round (the released code does in 5 % of them);
minibatches are drawn with replacement; the loss is the mean over examples, where the released code
divides by the number of samples once more.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import wang2022


def get_config(dataset: str = 'fashion_mnist') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.
    """
    problem = wang2022.problem(dataset)
    start = wang2022.WARM_UP_ROUNDS[dataset]
    rates = wang2022.TABLE_D1[dataset]
    return ConfigDict(
        {
            'title': f'{wang2022.PRINTED_DATASETS[dataset]} (Wang and Ji 2022, Figure 1)',
            'problem': problem,
            'patterns': {'periodic': wang2022.periodic()},
            'client': wang2022.client(wang2022.INITIAL_RATES[dataset], start),
            'algorithms': wang2022.methods(start, rates=rates),
            'baseline': 'plain',
            'metric': 'eval_accuracy',
            'num_rounds': wang2022.NUM_ROUNDS[dataset],
            'eval_every': 50,
            'num_seeds': wang2022.NUM_SEEDS[dataset],
            'names': (('periodic', 'periodic availability'), *wang2022.METHOD_NAMES),
            'reports': {
                'curves': {
                    'name': 'curves',
                    'metrics': ('train_loss', 'eval_accuracy'),
                    'smoothing': 0.03,
                    'band': 'deviation',
                    'columns': 2,
                },
                'levels': {'name': 'levels', 'tail': 0.03},
            },
            'caption': (
                'Moving average over 3 % of the evaluations, band: standard deviation over seeds, '
                'as in the paper, whose main text with this figure was not available. '
                'Deviations: nobody is selected twice in a round; minibatches with replacement; '
                'loss as the mean over examples. With --quick: synthetic images, 50 clients, '
                'cycles of 50 rounds, rates of our own.'
            ),
            'quick': {
                'problem': wang2022.small_problem(),
                'patterns': {'periodic': {'active_rounds': 10, 'cohort_size': 5}},
                'client': {'decay': {'initial': 0.1, 'rounds': 100}},
                'algorithms': wang2022.methods(
                    100, period=50, rates={'waiting': 0.1, 'plain': 0.02, 'amplified': 0.005}
                ),
                'num_rounds': 500,
                'eval_every': 25,
                'num_seeds': 2,
            },
        }
    )
