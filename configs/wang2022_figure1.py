"""Figure 1 of Wang and Ji (2022): amplification against waiting, with periodic availability.

  python -m fedjax_links simulate --config=configs/wang2022_figure1.py:fashion_mnist \
      --workdir=runs/wang1

After the colon stands fashion_mnist or cifar10, which must have been prepared. Add as_released for
the released selection of clients (:fashion_mnist,as_released). The full size takes weeks on a CPU
and was not run; studies/full_size.md has its cost. With --quick it takes minutes on two CPU cores,
on synthetic images with cycles of 50 rounds.

A small version, :gaussians, needs no data: classes that overlap, softmax regression, 250 clients
and the length of FashionMNIST. It takes a quarter of an hour of one CPU core, or half a
minute with --quick. (--dry_run says more, as it times wait-full in the warm-up.) Its results are in
docs/papers.md.

The paper's main text, with the figure, was not available. Its appendix and released commands give
the methods and the rates (Table D.1), and say that amplification is ahead.

Deviations: the appendix gives no length of the phase at the initial rate. Ours is that of its
search for this rate, 2,000 or 4,000 rounds with clients that are always available. The selection
never picks a client twice in a round. The released code does in 5 % of them, and so does
as_released, which trains such a client once. Minibatches are drawn with replacement. The loss is
the mean over examples, where the released code divides by the number of samples once more.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.wang2022 import presets


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``fashion_mnist``, ``cifar10`` or ``gaussians``, and ``as_released`` for the
        released selection.
    """
    dataset, code = common.chosen(argument, presets.DATASETS, presets.CODES)
    start = presets.WARM_UP_ROUNDS[dataset]
    rates = presets.TABLE_D1[dataset]
    config = presets.experiment(dataset, code, item='Figure 1')
    config |= {
        'algorithms': presets.methods(start, rates=rates),
        'names': (('periodic', 'periodic availability'), *presets.METHOD_NAMES),
        'caption': (
            f'{presets.BAND}, as in the paper, whose main text with this figure was not '
            f'available. Deviations: {presets.WARM_UP}'
            f'{presets.data_deviations(dataset, own_rates=True)}'
            f'{presets.selection(code, dataset)}; minibatches '
            'with replacement; loss as the mean over examples. With --quick: '
            f'{presets.quick_data(dataset)}, cycles of 50 rounds, rates of our own.'
        ),
    }
    config['quick']['algorithms'] = presets.methods(
        presets.QUICK_WARM_UP_ROUNDS,
        period=presets.QUICK_PERIOD,
        rates={'waiting': 0.1, 'plain': 0.02, 'amplified': presets.quick_rate(dataset)},
    )
    return ConfigDict(config)
