"""How much each draw moves the result: one stream of draws at a time follows the seed.

  python -m fedjax_links simulate --config=configs/spread.py --workdir=runs/spread

Gaussian classes have a known difficulty (Bayes accuracy 75 %), and uplink probabilities depend on
the client's labels. At each value of the grid one stream follows the seed, and all others are those
of the first seed; under by_seed, all follow it. The report's table has standard deviations over 10
seeds. About two minutes on two CPU cores.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the settings of the runs."""
    return ConfigDict(
        {
            'title': 'Spread of FedAvg and FedPBC by stream of draws',
            'problem': {
                'name': 'gaussians',
                'num_clients': 100,
                'examples_per_client': 200,
                'bayes_accuracy': 0.75,
                'alpha': 0.1,
            },
            'links': {
                'name': 'bernoulli',
                'probs': {
                    'name': 'label_dependent',
                    'sigma': 10.0,
                    'minimum': 0.02,
                    'seed': 0,
                },
            },
            'client': {'learning_rate': 0.05, 'local_steps': 5, 'batch_size': 16},
            'algorithms': {'fedavg': {}, 'fedpbc': {}},
            'grid': {
                'redraw': (
                    'by_seed',
                    'data',
                    'partition',
                    'links_quality',
                    'init',
                    'links',
                    'batches',
                )
            },
            'num_rounds': 500,
            'eval_every': 20,
            'num_seeds': 10,
            'reports': {'spread': {'name': 'spread'}},
        }
    )
