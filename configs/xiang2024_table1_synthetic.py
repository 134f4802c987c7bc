"""Table 1 of Xiang et al. (2024) in small: seven algorithms, six link patterns, synthetic images.

  python -m fedjax_links simulate --config=configs/xiang2024_table1_synthetic.py \
      --workdir=runs/table1_synthetic

About an hour on two busy CPU cores, not measured on a GPU. With --quick a few
minutes: tables of the same form, without their meaning.

The paper reports mean accuracies over the last 100 of 4,000 (SVHN) or 10,000 rounds; FedPBC is the
best of the algorithms without memory on every pattern of SVHN. Deviations: see the caption, which
report.md repeats; after a colon, as_released (:as_released) or first_commit run what the released
code does differently, as for xiang2024_table1.py.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``as_released`` or ``first_commit`` for the algorithms of the released code.
    """
    (code,) = common.chosen(argument, presets.CODES)
    deviations = presets.deviations(
        '{config.problem.data.num_train} synthetic images of 16 x 16 x 1 in place of SVHN; ',
        '{config.problem.num_clients} clients in place of 100; a network of 9,802 parameters; ',
        '{config.num_rounds} rounds in place of 4,000, evaluated every {config.eval_every}; no '
        'augmentation; ',
        'client rates from {config.tuning.learning_rates} on time-varying Bernoulli links after '
        '{config.tuning.num_rounds} rounds, server rate 1; ',
        *presets.TABLE1_DEVIATIONS,
    )
    return ConfigDict(
        {
            'title': 'Table 1 of Xiang et al. 2024 in small: synthetic images',
            'problem': presets.small_problem(50, 3_000, code),
            **presets.small_experiment(code),
            'tuning': {
                'grow': 0,
                'learning_rates': (0.5, 0.2, 0.1, 0.05, 0.02),
                'pattern': 'bernoulli_sine',
                'num_rounds': 152,
                'num_seeds': 2,
            },
            'num_rounds': 323,
            'eval_every': 19,
            'caption': (
                'The paper column is SVHN, test accuracy (Xiang et al. 2024, Table 1), to compare '
                f'orders, not levels. {deviations}'
                f'{presets.departures(code, "links", "training")} FedPBC is evaluated '
                'at the mean of its client models, as in the released code.'
            ),
            'quick': {
                'problem': presets.small_problem(20, 600, code),
                'tuning': {
                    'learning_rates': (0.5, 0.1),
                    'num_rounds': 38,
                    'num_seeds': 1,
                },
                'num_rounds': 38,
                'num_seeds': 2,
            },
        }
    )
