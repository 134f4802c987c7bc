"""Figure 2 of Wang and Ji (2022): amplification every P rounds that do not fit the cycle.

  python -m fedjax_links simulate --config=configs/wang2022_figure2.py:fashion_mnist \
      --workdir=runs/wang2

After the colon stands fashion_mnist or cifar10, which must have been prepared. Add as_released for
the released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU
and was not run; studies/full_size.md has its cost. With --quick it takes minutes on two CPU cores,
on synthetic images with cycles of 50 rounds.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and the length of FashionMNIST. It takes half an hour of one CPU core, or half a minute with
--quick, and its results are in docs/papers.md.

The paper's main text, with the figure, was not available. Its appendix says that amplification
still helps if P is less than the cycle of participation. Deviations: the values of P are ours,
everything else is as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

CYCLE_FRACTIONS = {
    'period20': 0.2,
    'period50': 0.5,
    'period70': 0.7,
    'period100': 1.0,
    'period150': 1.5,
}
"""P by label, as a fraction of the cycle of participation."""


def algorithms(start: int, cycle: int, rate: float) -> dict[str, common.PaperSection]:
    """Returns sections of amplification by 1 and, with periods of parts of a cycle, by 10.

    Args:
      start: rounds of the warm-up.
      cycle: rounds of a cycle of participation.
      rate: the local rate.
    """
    client = {'client': {'learning_rate': rate}}
    sections = {'plain': {**presets.amplified(1.0, start, cycle), **client}}
    for label, fraction in CYCLE_FRACTIONS.items():
        period = round(fraction * cycle)
        sections[label] = {**presets.amplified(10.0, start, period), **client}
    return sections


def get_config(argument: str = '') -> ConfigDict:
    """Returns the config of the figure.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    start = presets.WARM_UP_ROUNDS[dataset]
    rate = presets.TABLE_D1[dataset]['amplified']
    period_names = [
        (label, f'P = {fraction:g} cycles')
        for label, fraction in CYCLE_FRACTIONS.items()
    ]
    config = presets.experiment(dataset, code, item='Figure 2')
    config |= {
        'algorithms': algorithms(start, presets.PERIOD, rate),
        'names': (
            ('periodic', 'periodic availability'),
            ('plain', 'without amplification'),
            *period_names,
        ),
        'caption': (
            f'{presets.BAND}. '
            'The paper says that amplification by 10 still helps if P is less than the cycle of '
            'participation; its main text with this figure was not available. Deviations: values '
            f'of P are ours; {presets.WARM_UP}'
            f'{presets.data_deviations(dataset, own_rates=True)}'
            f'{presets.selection(code, dataset)}; '
            'minibatches with replacement; loss as the mean over examples. With --quick: '
            f'{presets.quick_data(dataset)}, cycles of 50 rounds, rates of our own.'
        ),
    }
    config['quick']['algorithms'] = algorithms(
        presets.QUICK_WARM_UP_ROUNDS, presets.QUICK_PERIOD, presets.quick_rate(dataset)
    )
    return ConfigDict(config)
