"""What does waiting for the first k of n cost, and what does it save? Digits, unequal devices.

  python -m fedjax_links simulate --config=configs/quorum.py --workdir=runs/quorum

50 clients train softmax regression. A local step takes 0.1 s in the median, lognormal with sigma 1
over devices and sigma 0.3 over rounds. Uplinks have 20 kB/s in the median, with sigma 1. A round
ends when the first k results have arrived, k from 5 to all 50, and reports how long it took. Each
algorithm has a tuned rate at each k. Ten minutes to two hours on two CPU cores, by what else runs
there; with --quick twenty seconds. Results: studies/quorum.md.
"""

from ml_collections import ConfigDict

QUORUMS = (5, 10, 20, 30, 40, 50)
DEVICES = {
    'step': {'name': 'lognormal', 'median': 0.1, 'sigma': 1.0},
    'uplink': {'name': 'lognormal', 'median': 2e4, 'sigma': 1.0, 'seed': 1},
    'downlink': 2e6,
}


def get_config() -> ConfigDict:
    """Returns the settings."""
    times = {'name': 'devices', **DEVICES, 'local_steps': 5, 'sigma': 0.3}
    return ConfigDict(
        {
            'title': 'The first k of 50: digits',
            'problem': {
                'name': 'digits',
                'num_clients': 50,
                'model': 'softmax',
                'partition': 'dirichlet',
                'order': 'numbers',
                'alpha': 0.1,
                'seed': 0,
            },
            'patterns': {
                f'first {count}': {'name': 'quorum', 'times': times, 'quorum': count}
                for count in QUORUMS
            },
            'client': {'decay': 'inverse_sqrt', 'local_steps': 5, 'batch_size': 16},
            'algorithms': {
                'fedavg': {},
                'fedpbc': {},
                'fedau': {},
                'mifa': {},
                'scaffold': {},
            },
            'tuning': {
                'learning_rates': (0.2, 1.0, 5.0),
                'num_seeds': 3,
                'ties': 1,
                'grow': 5,
                'model': {'fedpbc': 'client_mean'},
            },
            # Labels of patterns and how pages show them: unchanged, in this order.
            'names': tuple((f'first {k}', f'first {k}') for k in QUORUMS),
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': 1000,
            'eval_every': 10,
            'redraw': 'by_seed',
            'num_seeds': 10,
            'quick': {
                'tuning': {'learning_rates': (0.2, 1.0), 'num_seeds': 1, 'grow': 0},
                'num_rounds': 100,
                'num_seeds': 2,
            },
        }
    )
