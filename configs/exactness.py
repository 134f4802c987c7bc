"""Who ends at the optimum under which links, how fast, and what it has to keep.

  python -m fedjax_links simulate --config=configs/exactness.py --workdir=runs/exactness

A few minutes on two CPU cores, twenty seconds with --quick.

Quadratics whose optima differ between clients, the counterexample of Xiang et al. (2023, 2024) with
forty clients: the first half delivers rarely, the second often, independently in every round;
in one stretch of a cycle each; or in groups that take turns, as in Wang and Ji (2022) and Crawshaw
and Liu (2024). Full gradients, so that whatever scatter is left is that of the links. Every
algorithm has the rate that is best of twelve on cyclic links. Papers claim exact and linear
convergence for FOCUS under any of these (Ying, Li and Yang 2025), for amplified SCAFFOLD under
periodic participation, and no bias for FedPBC. docs/exactness.md has the outcome.
"""

from ml_collections import ConfigDict

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002)


def get_config() -> ConfigDict:
    """The comparison's settings."""
    halves = {'name': 'halves', 'first': 0.1, 'second': 0.5}
    return ConfigDict(
        {
            'title': 'Who ends at the optimum',
            'problem': {'name': 'counterexample', 'num_clients': 40, 'dimension': 10},
            'patterns': {
                'bernoulli': {'name': 'bernoulli', 'probs': halves},
                'cyclic': {'name': 'cyclic', 'probs': halves, 'cycle_length': 50},
                'groups': {
                    'name': 'periodic_groups',
                    'groups': {'name': 'contiguous', 'num_groups': 4},
                    'active_rounds': 10,
                    'cohort_size': 5,
                },
            },
            'client': {'local_steps': 5, 'batch_size': 0},
            'algorithms': {
                'fedavg': {},
                'fedavg_known': {},
                'fedau': {},
                'fedpbc': {},
                'fedbuff': {'buffer_size': 10},
                'mifa': {},
                'fedvarp': {},
                'fedstale': {'stale_weight': 1.0},
                'scaffold': {},
                'amplified_scaffold': {'period': 50, 'amplification': 1.5},
                'feddyn': {'alpha': 0.1},
                'focus': {},
            },
            'tuning': {
                'learning_rates': RATES,
                'num_rounds': 3990,
                'num_seeds': 1,
                'pattern': 'cyclic',
            },
            'baseline': 'fedavg',
            'metric': 'distance',
            'num_rounds': 3990,
            'eval_every': 19,
            'num_seeds': 10,
            'reports': {
                'levels': {'name': 'levels'},
                'fast': {'name': 'first_rounds', 'targets': (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)},
                'rates': {'name': 'rates'},
                'curves': {'name': 'curves', 'log': True},
            },
            'caption': (
                'F_i = 0.5 ||x - u_i||^2, u_i around (i / 1000) 1, 40 clients, 10 dimensions, full '
                'gradients, five local steps. Distance to the optimum in float32, whose rounding '
                'is some 1e-7. Each seed draws its own u_i and links.'
            ),
            'quick': {
                'tuning': {'learning_rates': (0.1, 0.01), 'num_rounds': 190},
                'num_rounds': 190,
                'num_seeds': 2,
            },
        }
    )
