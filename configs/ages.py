"""Does forgetting old updates help where links come in cycles? Digits, MIFA and FedVARP by age.

  python -m fedjax_links simulate --config=configs/ages.py --workdir=runs/ages

The problem is that of `comparison`: 50 clients, softmax regression, 1,007 rounds. In each cycle of
100 rounds a client is up once, for a number of rounds that depends on its labels. It comes up at a
fixed time of the cycle, or at a time that is redrawn in each cycle. Independent links are beside
them for comparison. The server remembers a client's update for 3, 10, 30 or 99 rounds, or for good.
Each algorithm has a rate for each pattern, tuned by three seeds until the best lies inside the
grid. About three minutes on two CPU cores beside other work, with --quick twenty seconds. Results:
studies/ages.md.
"""

from ml_collections import ConfigDict

AGES = (3, 10, 30, 99)
TITLES = (('mifa', 'MIFA'), ('fedvarp', 'FedVARP'))


def get_config() -> ConfigDict:
    """Returns the settings."""
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    aged = {
        f'{name}_{age}': {'name': name, 'max_age': age}
        for name in ('mifa', 'fedvarp')
        for age in AGES
    }
    names = {
        f'{name}_{age}': f'{title}, {age} rounds'
        for name, title in TITLES
        for age in AGES
    }
    return ConfigDict(
        {
            'title': 'Remembered updates by their largest age: digits',
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
                'bernoulli': {'name': 'bernoulli', 'probs': probs},
                'cyclic': {'name': 'cyclic', 'probs': probs},
                'cyclic_reset': {'name': 'cyclic', 'probs': probs, 'reset': True},
            },
            'client': {'decay': 'inverse_sqrt', 'local_steps': 5, 'batch_size': 16},
            'algorithms': {'fedavg': {}, 'mifa': {}, 'fedvarp': {}, **aged},
            'names': tuple(names.items()),
            'tuning': {
                'learning_rates': (0.2, 1.0, 5.0),
                'num_seeds': 3,
                'ties': 1,
                'grow': 5,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': 1007,
            'eval_every': 19,
            'redraw': 'by_seed',
            'num_seeds': 10,
            'quick': {
                'tuning': {'learning_rates': (0.2, 1.0), 'num_seeds': 1, 'grow': 0},
                'num_rounds': 114,
                'num_seeds': 2,
            },
        }
    )
