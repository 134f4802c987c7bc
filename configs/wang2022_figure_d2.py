"""Figure D.2 of Wang and Ji (2022): local rates with and without amplification by 10.

  python -m fedjax_links.cli.sweep --config=configs/wang2022_figure_d2.py:fashion_mnist \
      --workdir=runs/wang_d2

After the colon: fashion_mnist or cifar10, which must have been prepared. The full size takes weeks
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, cycles of 50 rounds.

The paper reports that large rates are unstable, and that at the smallest one amplification is
ahead; FashionMNIST at 0.1 is left out there because it turns to NaN. Deviations: the largest rate
is run and shown as diverged where it is; the grid is that of the search ({1, .1, .01, .001, .0001}
times the initial rate), and for CIFAR-10 includes 5e-6; else as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import wang2022

FACTORS = (1.0, 0.1, 0.01, 0.001, 0.0001)
LABELS = tuple(f'rate{k}' for k in range(len(FACTORS)))


def get_config(dataset: str = 'fashion_mnist') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.
    """
    problem = wang2022.problem(dataset)
    start = wang2022.WARM_UP_ROUNDS[dataset]

    def rates(initial: float) -> dict[str, float]:
        return {label: initial * k for label, k in zip(LABELS, FACTORS, strict=True)}

    initial = wang2022.INITIAL_RATES[dataset]
    quick_links = {'active_rounds': 10, 'cohort_size': 5}
    return ConfigDict(
        {
            'title': f'{wang2022.PRINTED_DATASETS[dataset]} (Wang and Ji 2022, Figure D.2)',
            'problem': problem,
            'patterns': {label: wang2022.periodic() for label in LABELS},
            'client': {**wang2022.client(initial, start), 'learning_rate': rates(initial)},
            'algorithms': {
                'plain': wang2022.amplified(1.0, start),
                'amplified': wang2022.amplified(10.0, start),
            },
            'baseline': 'plain',
            'metric': 'eval_accuracy',
            'num_rounds': wang2022.NUM_ROUNDS[dataset],
            'eval_every': 50,
            'num_seeds': wang2022.NUM_SEEDS[dataset],
            'names': (
                *((label, f'rate {k:g} x') for label, k in zip(LABELS, FACTORS, strict=True)),
                ('plain', 'eta = 1'),
                ('amplified', 'eta = 10'),
            ),
            'reports': {
                'curves': {
                    'name': 'curves',
                    'metrics': ('train_loss', 'eval_accuracy'),
                    'lines': 'patterns',
                    'smoothing': 0.03,
                    'band': 'deviation',
                    'columns': 2,
                },
                'levels': {'name': 'levels', 'tail': 0.03},
            },
            'caption': (
                'Local rates after the warm-up, as multiples of the initial one. The paper '
                'reports that large rates are unstable and that at the smallest one eta = 10 is '
                'ahead; it leaves out FashionMNIST at 0.1 (NaN). Deviations: nothing is left out; '
                'nobody is selected twice in a round; minibatches with replacement; loss as the '
                'mean over examples. With --quick: synthetic images, 50 clients, cycles of 50 '
                'rounds.'
            ),
            'quick': {
                'problem': wang2022.small_problem(),
                'patterns': dict.fromkeys(LABELS, quick_links),
                'client': {'decay': {'initial': 0.1, 'rounds': 100}, 'learning_rate': rates(0.1)},
                'algorithms': {
                    'plain': {'start_round': 100, 'period': 50},
                    'amplified': {'start_round': 100, 'period': 50},
                },
                'num_rounds': 400,
                'eval_every': 25,
                'num_seeds': 2,
            },
        }
    )
