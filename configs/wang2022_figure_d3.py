"""Figure D.3 of Wang and Ji (2022): amplification by 2 to 20 at one small local rate.

  python -m fedjax_links simulate --config=configs/wang2022_figure_d3.py:fashion_mnist \
      --workdir=runs/wang_d3

After the colon stands fashion_mnist or cifar10, which must have been prepared. Add as_released for
the released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU
and was not run; studies/full_size.md has its cost. With --quick it takes minutes on two CPU cores,
on synthetic images with cycles of 50 rounds.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and the length of FashionMNIST. It takes 26 minutes of one CPU core, or half a minute with
--quick. Its results are in docs/papers.md.

The paper reports that factors 5, 10 and 15 do equally well, especially near convergence. Factors 2
and 20 do worse, 20 because it fluctuates more. Deviations: as in wang2022_figure1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

FACTORS = {f'eta{eta:02d}': eta for eta in (2, 5, 10, 15, 20)}


def algorithms(start: int, period: int) -> dict[str, common.PaperSection]:
    """Returns amplification by each factor."""
    return {
        label: presets.amplified(float(eta), start, period)
        for label, eta in FACTORS.items()
    }


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    config = presets.experiment(dataset, code, item='Figure D.3')
    config['client']['learning_rate'] = presets.TABLE_D1[dataset]['amplified']
    config |= {
        'algorithms': algorithms(presets.WARM_UP_ROUNDS[dataset], presets.PERIOD),
        'baseline': 'eta10',
        'names': (
            ('periodic', 'periodic availability'),
            *((label, f'eta = {eta}') for label, eta in FACTORS.items()),
        ),
        'caption': (
            f'{presets.BAND}. The '
            'paper reports that eta = 5, 10 and 15 do alike, 2 and 20 worse, 20 as it fluctuates '
            f'more. Deviations: {presets.WARM_UP}'
            f'{presets.data_deviations(dataset, own_rates=True)}'
            f'{presets.selection(code, dataset)}; minibatches '
            'with replacement; loss as the mean over examples. With --quick: '
            f'{presets.quick_data(dataset)}, cycles of 50 rounds, a rate of our own.'
        ),
    }
    config['quick']['client']['learning_rate'] = presets.quick_rate(dataset)
    config['quick']['algorithms'] = algorithms(
        presets.QUICK_WARM_UP_ROUNDS, presets.QUICK_PERIOD
    )
    return ConfigDict(config)
