"""Configs whose draws follow the seed."""

from fedjax_links.planning import seeding
from tests.experiment.configs import values

PROBS = {'name': 'label_dependent', 'minimum': 0.2, 'seed': 0}


PROBLEMS = {
    'digits': {'name': 'digits', 'num_clients': 6, 'alpha': 0.5},
    'gaussians': {
        'name': 'gaussians',
        'num_clients': 6,
        'examples_per_client': 30,
        'num_classes': 3,
        'partition': 'dirichlet_unequal',
        'alpha': 0.5,
        'test_examples': 60,
        'label_noise': {'rate': 0.1},
    },
}


def config(name='gaussians', **changes):
    """Returns a config of a problem above, all of whose draws follow the seed."""
    base = {
        'problem': PROBLEMS[name],
        'links': {'name': 'bernoulli', 'probs': PROBS},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'num_seeds': 3,
        'redraw': 'by_seed',
    }
    return values(**{**base, **changes})


def alone(stream):
    """Returns the config with one stream by seed, or with all for 'by_seed'; two seeds."""
    redraw = 'by_seed'
    if stream != 'by_seed':
        redraw = {**dict.fromkeys(seeding.STREAMS, 'fixed'), stream: 'by_seed'}
    return config(redraw=redraw, num_seeds=2, algorithms={'fedavg': {}})
