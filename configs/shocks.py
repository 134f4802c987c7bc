"""Are outages that clients share worse than outages of their own? Gaussian classes, four groupings.

  python -m fedjax_links simulate --config=configs/shocks.py --workdir=runs/shocks

There are 100 clients, whose link probabilities depend on their labels. They also go down half of
the time, for 20 rounds on average: each by itself, in cells of 5, in regions of 20, or all at once.
A client alone has the same law under all four groupings. Ten classes have a Bayes accuracy of 75 %,
and a fifth of the clients' labels are wrong. Each algorithm has a rate for each pattern. Five to
eighteen minutes on two CPU cores, by what else runs there; with --quick twenty seconds. Results:
studies/shocks.md.
"""

from ml_collections import ConfigDict

NUM_CLIENTS = 100
GROUPS = {'alone': 100, 'cells of 5': 20, 'regions of 20': 5, 'all at once': 1}


def get_config() -> ConfigDict:
    """Returns the settings."""
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    return ConfigDict(
        {
            'title': 'Outages alone and together: Gaussian classes',
            'problem': {
                'name': 'gaussians',
                'num_clients': NUM_CLIENTS,
                'examples_per_client': 200,
                'bayes_accuracy': 0.75,
                'alpha': 0.1,
                'label_noise': {'rate': 0.2},
            },
            'patterns': {
                label: {
                    'name': 'shared_shocks',
                    'pattern': {'name': 'bernoulli', 'probs': probs},
                    'groups': {'name': 'contiguous', 'num_groups': count},
                    'up_rate': 0.05,
                    'down_rate': 0.05,
                }
                for label, count in GROUPS.items()
            },
            'client': {'decay': 'inverse_sqrt', 'local_steps': 5, 'batch_size': 16},
            'algorithms': {
                'fedavg': {},
                'fedavg_known': {},
                'fedpbc': {},
                'fedau': {},
                'mifa': {},
                'fedvarp': {},
                'scaffold': {},
            },
            'tuning': {
                'learning_rates': (0.01, 0.04, 0.16),
                'num_seeds': 3,
                'ties': 1,
                'grow': 5,
                'model': {'fedpbc': 'client_mean'},
            },
            # Shown under their labels, in this order.
            'names': tuple((label,) * 2 for label in GROUPS),
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'redraw': 'by_seed',
            'num_rounds': 1000,
            'eval_every': 25,
            'num_seeds': 10,
            'quick': {
                'problem': {'examples_per_client': 50},
                'tuning': {'learning_rates': (0.04, 0.16), 'num_seeds': 1, 'grow': 0},
                'num_rounds': 100,
                'num_seeds': 2,
            },
        }
    )
