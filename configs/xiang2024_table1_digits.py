"""Table 1 of Xiang et al. (2024) in small: seven algorithms, six link patterns, real digits.

  python -m fedjax_links.cli.sweep --config=configs/xiang2024_table1_digits.py \
      --workdir=runs/table1_digits

About 12 minutes on two CPU cores, not measured on a GPU. With --quick a few
minutes: tables of the same form, without their meaning.

The paper reports mean accuracies over the last 100 of 4,000 (SVHN) or 10,000 rounds; FedPBC is the
best of the algorithms without memory on every pattern. Deviations: see the caption, which report.md
repeats.
"""

from ml_collections import ConfigDict

from fedjax_links.presets import xiang2024


def get_config() -> ConfigDict:
    """The comparison's settings."""
    return ConfigDict(
        {
            'title': 'Table 1 of Xiang et al. 2024 in small: handwritten digits',
            'problem': {
                'name': 'digits',
                'num_clients': 50,
                'model': {'name': 'mlp', 'hidden': (64,)},
                'partition': 'dirichlet',
                'alpha': 0.1,
                'seed': 0,
            },
            'patterns': xiang2024.patterns(),
            'client': xiang2024.client(),
            'algorithms': xiang2024.algorithms(),
            'tuning': {
                'learning_rates': (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05),
                'pattern': 'bernoulli_sine',
                'num_rounds': 500,
                'num_seeds': 3,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': 4_000,
            'eval_every': 50,
            'num_seeds': 3,
            'names': xiang2024.PATTERN_NAMES + xiang2024.ALGORITHM_NAMES,
            'reports': {
                'levels': {
                    'name': 'levels',
                    'published': {'table': 'xiang2024_table1', 'dataset': 'SVHN', 'split': 'test'},
                },
                'rates': {'name': 'rates'},
                'bars': {'name': 'bars'},
                'curves': {'name': 'curves'},
            },
            'caption': (
                'The paper column is SVHN, test accuracy (Xiang et al. 2024, Table 1), to compare '
                'orders, not levels. Deviations: 1,437 real digits of 8 x 8 in place of SVHN; 50 '
                'clients in place of 100; a network with one hidden layer of 64 in place of '
                'convolutions; client rates from a grid of eight on time-varying Bernoulli links '
                'after 500 rounds, server rate 1; minibatches drawn with replacement; '
                'non-homogeneous Markov links keep their memory, and cyclic links with reset '
                'their probability, as the text says (the released code does neither). FedPBC is '
                'evaluated at the mean of its client models, as in the released code.'
            ),
            'quick': {
                'problem': {'num_clients': 20},
                'tuning': {'learning_rates': (0.5, 0.1), 'num_rounds': 100, 'num_seeds': 1},
                'num_rounds': 100,
                'num_seeds': 2,
            },
        }
    )
