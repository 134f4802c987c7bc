"""How much connectivity between clients replaces how much uplink? A map over both.

  python -m fedjax_links simulate --config=configs/connectivity.py --workdir=runs/connectivity

50 clients lie on a ring, each with two neighbours on either side. An edge is up with the
probability on the vertical axis. The probability of an uplink depends on its client's labels. Of
the uplinks that are up, the fraction on the horizontal axis is lost. Gaussian classes have a Bayes
accuracy of 70 %. Each algorithm has a tuned rate at each point. Four to 23 minutes on two CPU
cores, by what else runs there; with --quick forty seconds. Results: studies/connectivity.md.
"""

from ml_collections import ConfigDict

LOSSES = (0.0, 0.8, 0.95)
EDGES = (0.0, 0.1, 0.3, 1.0)
NAMES = {
    'fedavg': 'FedAvg',
    'fedpbc': 'FedPBC',
    'fedau': 'FedAU',
    's2s': 'S2S',
    's2a': 'S2A',
    'colrel': 'ColRel',
    'gossip': 'gossip',
}


def get_config() -> ConfigDict:
    """Returns the settings."""
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    uplinks = {'name': 'bernoulli', 'probs': probs}
    return ConfigDict(
        {
            'title': 'Edges between clients in place of uplinks',
            'problem': {
                'name': 'gaussians',
                'num_clients': 50,
                'examples_per_client': 200,
                'bayes_accuracy': 0.7,
                'alpha': 0.1,
                'model': {'name': 'softmax', 'zero': True},
            },
            'links': {
                'name': 'peers',
                'pattern': {
                    'name': 'packets',
                    'pattern': uplinks,
                    'loss': 0.0,
                    'num_packets': 1,
                },
                'graph': {'name': 'ring', 'degree': 4},
                'prob': 0.5,
            },
            'client': {'local_steps': 5, 'batch_size': 16},
            'algorithms': {label: {} for label in NAMES},
            'names': tuple(NAMES.items()),
            'baseline': 'fedavg',
            'redraw': 'by_seed',
            'grid': {'links': {'pattern': {'loss': LOSSES}, 'prob': EDGES}},
            'num_rounds': 500,
            'eval_every': 100,
            'tuning': {
                'learning_rates': (0.005, 0.02, 0.08),
                'num_seeds': 2,
                'ties': 1,
                'grow': 4,
                'model': {'fedpbc': 'client_mean', 's2s': 'client_mean'},
            },
            'num_seeds': 5,
            'reports': {
                'map': {
                    'name': 'heat_map',
                    'x': 'links.pattern.loss',
                    'y': 'links.prob',
                },
                'rates': {'name': 'rates'},
            },
            'quick': {
                'problem': {'num_clients': 20, 'examples_per_client': 50},
                'grid': {'links': {'pattern': {'loss': LOSSES[:2]}, 'prob': EDGES[:2]}},
                'tuning': {'learning_rates': (0.02, 0.08), 'num_seeds': 1, 'grow': 0},
                'num_rounds': 80,
                'eval_every': 40,
                'num_seeds': 2,
            },
        }
    )
