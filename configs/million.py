"""A million clients on quadratics, a hundred in each round: uniformly, or 20 rounds apart or more.

  python -m fedjax_links simulate --config=configs/million.py --workdir=runs/million

It takes about half a minute and 1 GiB on two CPU cores. A round computes only for its hundred
clients. A checkpoint every few seconds holds the counters and clocks of all clients.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the experiment's settings."""
    return ConfigDict(
        {
            'title': 'A million clients, a hundred per round',
            'problem': {
                'name': 'counterexample',
                'num_clients': 1_000_000,
                'dimension': 10,
            },
            'patterns': {
                'uniform': {'name': 'uniform_cohort', 'cohort_size': 100},
                'waiting': {
                    'name': 'minimum_separation',
                    'weights': {'name': 'equal', 'value': 1.0},
                    'separation': 20,
                    'cohort_size': 100,
                    'design': 'successive',
                },
            },
            'client': {'learning_rate': 0.1, 'local_steps': 3},
            'algorithms': {'fedavg': {}},
            'num_rounds': 500,
            'eval_every': 100,
            'num_seeds': 4,
            'redraw': {'data': 'fixed'},
            'metric': 'distance',
        }
    )
