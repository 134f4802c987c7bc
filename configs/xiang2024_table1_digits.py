"""Table 1 of Xiang et al. (2024) in small: seven algorithms, six link patterns, real digits.

  python -m fedjax_links simulate --config=configs/xiang2024_table1_digits.py \
      --workdir=runs/table1_digits

Half an hour on two busy CPU cores with noisy, not timed with clean, not measured on a GPU. With
--quick a few minutes: tables of the same form, without their meaning.

The paper reports mean accuracies over the last 100 of 4,000 (SVHN) or 10,000 rounds; FedPBC is the
best of the algorithms without memory on every pattern of SVHN. Deviations: see the caption, which
report.md repeats. After a colon: clean (the default) or noisy. With noisy a fifth of the training
labels is wrong and the model is linear, so that they cannot be interpolated. As for
xiang2024_table1.py, as_released (:clean,as_released) or first_commit run what the released code
does differently. Seeds redraw everything.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``clean`` or ``noisy``, and ``as_released`` or ``first_commit`` for the
        algorithms of the released code.
    """
    labels, code = common.chosen(argument, ('clean', 'noisy'), presets.CODES)
    model = {'name': 'mlp', 'hidden': (64,)}
    network = 'one hidden layer of 64'
    data = ''
    noise = {}
    if labels == 'noisy':
        model = 'softmax'
        network = 'no hidden layer'
        data = ', a fifth of them mislabelled'
        noise = {'label_noise': {'rate': 0.2}}
    careful = presets.small_tuning(code)
    careful['tuning'] |= {'learning_rates': (0.08, 0.4, 2.0), 'grow': 5}
    deviations = presets.deviations(
        f'1,438 real digits of 8 x 8{data} in place of SVHN; ',
        '{config.problem.num_clients} clients in place of 100; {config.num_rounds} rounds, '
        'evaluated every {config.eval_every}, so that all of a cycle is seen, in place of 4,000; ',
        f'a network with {network} in place of convolutions; ',
        presets.TUNING_DEVIATION,
        *presets.TABLE1_DEVIATIONS,
    )
    return ConfigDict(
        {
            'title': f'Table 1 of Xiang et al. 2024 in small: handwritten digits{data}',
            'problem': {
                'name': 'digits',
                'num_clients': 50,
                'model': model,
                **presets.partition(code),
                **noise,
                'seed': 0,
            },
            **presets.small_experiment(code),
            **careful,
            'redraw': 'by_seed',
            'num_seeds': 10,
            'num_rounds': 3_999,
            'eval_every': 93,
            'caption': (
                'The paper column is SVHN, test accuracy (Xiang et al. 2024, Table 1), to compare '
                f'orders, not levels. {deviations}'
                f'{presets.departures(code, "links", "training")} FedPBC is evaluated at the mean '
                'of its client models, as in the released code.'
            ),
            'quick': {
                'problem': {'num_clients': 20},
                'tuning': {
                    'learning_rates': (0.5, 0.1),
                    'num_rounds': 102,
                    'num_seeds': 1,
                    'grow': 0,
                },
                'num_rounds': 102,
                'eval_every': 51,
                'num_seeds': 2,
            },
        }
    )
