"""Figure 2 of Wang and Ji (2022): amplification every P rounds that do not fit the cycle.

  python -m fedjax_links.cli.sweep --config=configs/wang2022_figure2.py:fashion_mnist \
      --workdir=runs/wang2

After the colon: fashion_mnist or cifar10, which must have been prepared. The full size takes weeks
on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes on two CPU cores:
synthetic images, cycles of 50 rounds.

The paper's main text, with the figure, was not available; its appendix says that amplification
still helps if P is less than the cycle of participation. Deviations: the values of P are ours; else
as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import wang2022

SHARES = (0.2, 0.5, 0.7, 1.0, 1.5)


def get_config(dataset: str = 'fashion_mnist') -> ConfigDict:
    """The comparison's settings.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.
    """
    problem = wang2022.problem(dataset)
    start = wang2022.WARM_UP_ROUNDS[dataset]
    rate = wang2022.TABLE_D1[dataset]['amplified']

    def algorithms(start: int, cycle: int, rate: float) -> dict[str, dict]:
        amplified = {
            f'period{round(100 * share)}': wang2022.amplified(10.0, start, round(share * cycle))
            for share in SHARES
        }
        methods = {'plain': wang2022.amplified(1.0, start, cycle), **amplified}
        return {
            label: {**section, 'client': {'learning_rate': rate}}
            for label, section in methods.items()
        }

    names = tuple((f'period{round(100 * s)}', f'P = {s:g} cycles') for s in SHARES)
    return ConfigDict(
        {
            'title': f'{wang2022.PRINTED_DATASETS[dataset]} (Wang and Ji 2022, Figure 2)',
            'problem': problem,
            'patterns': {'periodic': wang2022.periodic()},
            'client': wang2022.client(wang2022.INITIAL_RATES[dataset], start),
            'algorithms': algorithms(start, wang2022.PERIOD, rate),
            'baseline': 'plain',
            'metric': 'eval_accuracy',
            'num_rounds': wang2022.NUM_ROUNDS[dataset],
            'eval_every': 50,
            'num_seeds': wang2022.NUM_SEEDS[dataset],
            'names': (
                ('periodic', 'periodic availability'),
                ('plain', 'without amplification'),
                *names,
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
                'The paper says that amplification by 10 still helps if P is less than the cycle '
                'of participation; its main text with this figure was not available. Deviations: '
                'values of P are ours; nobody is selected twice in a round; minibatches with '
                'replacement; loss as the mean over examples. With --quick: synthetic images, 50 '
                'clients, cycles of 50 rounds, rates of our own.'
            ),
            'quick': {
                'problem': wang2022.small_problem(),
                'patterns': {'periodic': {'active_rounds': 10, 'cohort_size': 5}},
                'client': {'decay': {'initial': 0.1, 'rounds': 100}},
                'algorithms': algorithms(100, 50, 0.005),
                'num_rounds': 500,
                'eval_every': 25,
                'num_seeds': 2,
            },
        }
    )
