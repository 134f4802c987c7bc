"""Figure 2 of Wang and Ji (2022): amplification every P rounds that do not fit the cycle.

  python -m fedjax_links simulate --config=configs/wang2022_figure2.py:fashion_mnist \
      --workdir=runs/wang2

After the colon: fashion_mnist or cifar10, which must have been prepared, and as_released for the
released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU;
not run, its cost: studies/full_size.md. With --quick, minutes on two CPU cores: synthetic images,
cycles of 50 rounds. :gaussians is a small version that needs no data: classes that overlap, softmax
regression, 250 clients and the length of FashionMNIST; half an hour of one CPU core, recorded
in docs/papers.md; --quick, half a minute.

The paper's main text, with the figure, was not available; its appendix says that amplification
still helps if P is less than the cycle of participation. Deviations: the values of P are ours; else
as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

SHARES = {f'period{round(100 * share)}': share for share in (0.2, 0.5, 0.7, 1.0, 1.5)}


def algorithms(start: int, cycle: int, rate: float) -> dict[str, common.PaperSection]:
    """Returns amplification by 10 with several portions of a cycle as period, and none."""
    methods = {'plain': presets.amplified(1.0, start, cycle)} | {
        label: presets.amplified(10.0, start, round(share * cycle))
        for label, share in SHARES.items()
    }
    return {
        label: {**section, 'client': {'learning_rate': rate}}
        for label, section in methods.items()
    }


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    start = presets.WARM_UP_ROUNDS[dataset]
    rate = presets.TABLE_D1[dataset]['amplified']
    config = presets.experiment(dataset, code, item='Figure 2')
    config |= {
        'algorithms': algorithms(start, presets.PERIOD, rate),
        'names': (
            ('periodic', 'periodic availability'),
            ('plain', 'without amplification'),
            *((label, f'P = {share:g} cycles') for label, share in SHARES.items()),
        ),
        'caption': (
            f'{presets.BAND}. '
            'The paper says that amplification by 10 still helps if P is less than the cycle of '
            'participation; its main text with this figure was not available. Deviations: values '
            f'of P are ours; {presets.WARM_UP}'
            f'{presets.replaced(dataset, own_rates=True)}'
            f'{presets.selection(code, dataset)}; '
            'minibatches with replacement; loss as the mean over examples. With --quick: '
            f'{presets.quick_data(dataset)}, cycles of 50 rounds, rates of our own.'
        ),
    }
    config['quick']['algorithms'] = algorithms(
        presets.QUICK_WARM_UP_ROUNDS, presets.QUICK_PERIOD, presets.quick_rate(dataset)
    )
    return ConfigDict(config)
