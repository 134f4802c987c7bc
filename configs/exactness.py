"""Who ends at the optimum under which links, how fast, and what it has to keep.

  python -m fedjax_links simulate --config=configs/exactness.py --workdir=runs/exactness

It takes one to three minutes on two CPU cores, twenty seconds with --quick. After a colon stand the
links: `bernoulli`, which is the default, `cyclic` or `groups`.

Clients have quadratics with different optima, the counterexample of Xiang et al. (2023, 2024) with
forty clients. The first half delivers rarely, the second often: independently in every round
(`bernoulli`), or in one stretch of a cycle each (`cyclic`). Or groups take turns (`groups`), as in
Wang and Ji (2022) and Crawshaw and Liu (2024). Gradients are full, so all scatter comes from the
links. Every algorithm has the best of twelve rates, or of more where the best lies at an end.

Papers claim exact and linear convergence for FOCUS under any of these (Ying, Li and Yang 2025), for
amplified SCAFFOLD under periodic participation, and no bias for FedPBC. studies/exactness.md has
the results.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002)
NAMES = (
    ('fedavg', 'FedAvg'),
    ('fedbuff', 'FedBuff'),
    ('fedavg_known', 'FedAvg known'),
    ('fedau', 'FedAU'),
    ('fedpbc', 'FedPBC'),
    ('fedpbc_server', 'FedPBC, server'),
    ('mifa', 'MIFA'),
    ('fedvarp', 'FedVARP'),
    ('fedstale', 'FedStale'),
    ('scaffold', 'SCAFFOLD'),
    ('amplified_scaffold', 'Amplified SCAFFOLD'),
    ('feddyn', 'FedDyn'),
    ('focus', 'FOCUS'),
)
HALVES = {'name': 'halves', 'first': 0.1, 'second': 0.5}
LINKS = {
    'bernoulli': {'name': 'bernoulli', 'probs': HALVES},
    'cyclic': {'name': 'cyclic', 'probs': HALVES, 'cycle_length': 50},
    'groups': {
        'name': 'periodic_groups',
        'groups': {'name': 'contiguous', 'num_groups': 4},
        'active_rounds': 10,
        'cohort_size': 5,
    },
}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``bernoulli``, ``cyclic`` or ``groups``.
    """
    (which,) = common.chosen(argument, LINKS)
    return ConfigDict(
        {
            'title': f'Who ends at the optimum: {which}',
            'problem': {'name': 'counterexample', 'num_clients': 40, 'dimension': 10},
            'patterns': {which: LINKS[which]},
            'client': {'local_steps': 5, 'batch_size': 0},
            'algorithms': {
                'fedavg': {},
                'fedavg_known': {},
                'fedau': {},
                'fedpbc': {},
                'fedpbc_server': {'name': 'fedpbc'},
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
                'num_seeds': 3,
                'model': {'fedpbc': 'client_mean', 'fedpbc_server': 'server'},
            },
            'names': NAMES,
            'baseline': 'fedavg',
            'metric': 'distance',
            'redraw': 'by_seed',
            'num_rounds': 3990,
            'eval_every': 19,
            'num_seeds': 10,
            'reports': {
                'comparison': {'name': 'comparison'},
                'fast': {
                    'name': 'first_rounds',
                    'targets': (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
                },
                'rates': {'name': 'rates'},
                'curves': {'name': 'curves', 'log': True},
            },
            'caption': (
                'F_i = 0.5 ||x - u_i||^2, u_i around (i / 1000) 1, 40 clients, 10 dimensions, full '
                'gradients, five local steps. Distance to the optimum in float32: below 2e-7 it is '
                'rounding. Each seed draws its own u_i and links. FedPBC stands twice, with a rate '
                'of its own for each of its models.'
            ),
            'quick': {
                'tuning': {'learning_rates': (0.1, 0.01), 'num_seeds': 1, 'grow': 0},
                'num_rounds': 190,
                'num_seeds': 2,
            },
        }
    )
