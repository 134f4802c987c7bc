"""Figure D.3 of Wang and Ji (2022): amplification by 2 to 20 at one small local rate.

  python -m fedjax_links.cli.sweep --config=configs/wang2022_figure_d3.py:fashion_mnist \
      --workdir=runs/wang_d3

After the colon: fashion_mnist or cifar10, which must have been prepared. The full size takes weeks
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, cycles of 50 rounds.

The paper reports that factors 5, 10 and 15 do alike, and that 2 and 20 do worse. Deviations: as in
wang2022_figure1.py.
"""

from typing import Any

from ml_collections import ConfigDict

from fedjax_links.presets import wang2022

FACTORS = (2, 5, 10, 15, 20)


def get_config(dataset: str = 'fashion_mnist') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.
    """
    problem = wang2022.problem(dataset)
    start = wang2022.WARM_UP_ROUNDS[dataset]

    def algorithms(start: int, period: int) -> dict[str, Any]:
        return {f'eta{eta:02d}': wang2022.amplified(float(eta), start, period) for eta in FACTORS}

    return ConfigDict(
        {
            'title': f'{wang2022.PRINTED_DATASETS[dataset]} (Wang and Ji 2022, Figure D.3)',
            'problem': problem,
            'patterns': {'periodic': wang2022.periodic()},
            'client': {
                **wang2022.client(wang2022.INITIAL_RATES[dataset], start),
                'learning_rate': wang2022.TABLE_D1[dataset]['amplified'],
            },
            'algorithms': algorithms(start, wang2022.PERIOD),
            'baseline': 'eta10',
            'metric': 'eval_accuracy',
            'num_rounds': wang2022.NUM_ROUNDS[dataset],
            'eval_every': 50,
            'num_seeds': wang2022.NUM_SEEDS[dataset],
            'names': (
                ('periodic', 'periodic availability'),
                *((f'eta{eta:02d}', f'eta = {eta}') for eta in FACTORS),
            ),
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
                'Moving average over 3 % of the evaluations, band: standard deviation over seeds. '
                'The paper reports that eta = 5, 10 and 15 do alike, 2 and 20 worse. Deviations: '
                'nobody is selected twice in a round; minibatches with replacement; loss as the '
                'mean over examples. With --quick: synthetic images, 50 clients, cycles of 50 '
                'rounds, a rate of our own.'
            ),
            'quick': {
                'problem': wang2022.small_problem(),
                'patterns': {'periodic': {'active_rounds': 10, 'cohort_size': 5}},
                'client': {'decay': {'initial': 0.1, 'rounds': 100}, 'learning_rate': 0.005},
                'algorithms': algorithms(100, 50),
                'num_rounds': 500,
                'eval_every': 25,
                'num_seeds': 2,
            },
        }
    )
