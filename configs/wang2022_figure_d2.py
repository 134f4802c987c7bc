"""Figure D.2 of Wang and Ji (2022): local rates with and without amplification by 10.

  python -m fedjax_links simulate --config=configs/wang2022_figure_d2.py:fashion_mnist \
      --workdir=runs/wang_d2

After the colon stands fashion_mnist or cifar10, which must have been prepared. Add as_released for
the released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU
and was not run; studies/full_size.md has its cost. With --quick it takes minutes on two CPU cores,
on synthetic images with cycles of 50 rounds.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and the length of FashionMNIST. It takes 46 minutes of one CPU core, or half a minute with
--quick. Its results are in docs/papers.md.

The paper reports that large rates are unstable, and that at the smallest one amplification is
ahead; FashionMNIST at 0.1 is left out there because it turns to NaN. Deviations: the largest rate
is run, and shown as diverged where it is. The grid is that of the search ({1, .1, .01, .001, .0001}
times the initial rate), and for CIFAR-10 includes 5e-6. The rest is as in wang2022_figure1.py.
"""

from typing import Any

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets

FACTORS = 1.0, 0.1, 0.01, 0.001, 0.0001


def rates(initial: float) -> dict[str, Any]:
    """Returns the grid of local rates."""
    return {'client': {'learning_rate': [initial * factor for factor in FACTORS]}}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    start = presets.WARM_UP_ROUNDS[dataset]
    initial = presets.INITIAL_RATES[dataset]
    config = presets.experiment(dataset, code, item='Figure D.2')
    config |= {
        'grid': rates(initial),
        'algorithms': {
            'plain': presets.amplified(1.0, start),
            'amplified': presets.amplified(10.0, start),
        },
        'names': (('plain', 'eta = 1'), ('amplified', 'eta = 10')),
        'caption': (
            f'{presets.BAND}. '
            'Local rates are those after the warm-up. The paper reports that large rates are '
            'unstable and that at the smallest one eta = 10 is ahead; it leaves out FashionMNIST '
            f'at 0.1 (NaN). Deviations: nothing is left out; {presets.WARM_UP}'
            f'{presets.data_deviations(dataset)}'
            f'{presets.selection(code, dataset)}; minibatches with replacement; '
            f'loss as the mean over examples. With --quick: {presets.quick_data(dataset)}, cycles '
            'of 50 rounds.'
        ),
    }
    quick_blocks = {
        'start_round': presets.QUICK_WARM_UP_ROUNDS,
        'period': presets.QUICK_PERIOD,
    }
    config['quick'] |= {
        'grid': rates(0.1),
        'algorithms': {'plain': quick_blocks, 'amplified': quick_blocks},
        'num_rounds': 403,  # 31 evaluations, one every 13 rounds
    }
    return ConfigDict(config)
