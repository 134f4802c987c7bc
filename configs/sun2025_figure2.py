"""Figure 2 of Sun et al. (ICLR 2025): robust regression, groups that wait R rounds.

  python -m fedjax_links simulate --config=configs/sun2025_figure2.py --workdir=runs/sun2

It takes about a minute on two CPU cores, with --quick about 20 seconds. It was not measured on a
GPU.

The paper shows that the loss to which FedAvg converges is lower for larger R (a). Debiasing FedAvg
reaches, for every R, the loss of sampling the groups uniformly (b). It prints no numbers. Here (a)
holds up to R = 15, and debiasing ends below uniform sampling at every R: docs/papers.md.

Deviations: the paper does not state the values of R, step size, local steps and rounds. Ours are
full gradients, 5 steps at a constant 0.5, and 5,000 rounds. The loss has the printed sign, plus. As
stated, p_g is proportional to g^-1.5 over 20 contiguous groups of 5 clients. The minimum of the
loss is 0.27206.
"""

from ml_collections import ConfigDict

from fedjax_links.papers.sun2025 import presets

SEPARATIONS = (0, 5, 10, 15, 19)
MINIMUM = 0.27206
"""The minimum of the loss, to five digits."""


def get_config() -> ConfigDict:
    """Returns the comparison's settings."""
    return ConfigDict(
        {
            'title': 'Robust regression with minimum separation (Sun et al. 2025, Figure 2)',
            'problem': {'name': 'robust_regression', 'seed': 0},
            'patterns': presets.patterns(SEPARATIONS),
            'client': {'learning_rate': 0.5, 'local_steps': 5, 'batch_size': 0},
            'algorithms': {'fedavg': {}, 'debiased_fedavg': {}},
            'baseline': 'fedavg',
            'metric': 'loss',
            'num_rounds': 5_000,
            'eval_every': 50,
            'num_seeds': 5,
            'names': presets.pattern_names(SEPARATIONS) + presets.ALGORITHM_NAMES[:2],
            'reports': {
                'excess': {
                    'name': 'curves',
                    'above': MINIMUM,
                    'lines': 'patterns',
                    'log': True,
                    'columns': 2,
                },
                'curves': {
                    'name': 'curves',
                    'metrics': ('distance',),
                    'lines': 'patterns',
                    'log': True,
                    'columns': 2,
                },
                'loss': {'name': 'comparison'},
                'distance': {'name': 'bars', 'metric': 'distance'},
            },
            'caption': (
                'The paper shows that FedAvg ends at a lower loss for larger R, and that Debiasing '
                'FedAvg ends where uniform sampling does; no numbers. Deviations: R, step size, '
                'local steps and rounds are not stated there; printed sign (plus) of the loss; its '
                f'minimum is {MINIMUM}. Distance: to the minimiser, L2.'
            ),
            'quick': {'num_rounds': 1_500, 'num_seeds': 3},
        }
    )
