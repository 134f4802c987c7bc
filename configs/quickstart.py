"""FedAvg, FedAvg-all and FedPBC on handwritten digits over unreliable uplinks.

  python -m fedjax_links simulate --config=configs/quickstart.py --workdir=runs/quickstart

A client's uplink probability depends on its labels. So links and data are correlated, which is what
biases FedAvg (Xiang et al. 2024, section 7.2, with digits instead of SVHN). Well under a minute on
two CPU cores.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the quickstart's settings."""
    return ConfigDict(
        {
            'title': 'Digits over label-dependent uplinks',
            'problem': {
                'name': 'digits',
                'num_clients': 50,
                'model': 'softmax',
                'partition': 'dirichlet',
                'order': 'numbers',
                'alpha': 0.1,
                'seed': 0,
            },
            'links': {
                'name': 'bernoulli',
                'probs': {
                    'name': 'label_dependent',
                    'sigma': 10.0,
                    'minimum': 0.02,
                    'seed': 0,
                },
                'schedule': {'name': 'constant'},
            },
            'client': {
                'learning_rate': 0.02,
                'decay': 'constant',
                'local_steps': 5,
                'batch_size': 16,
            },
            'algorithms': {'fedavg': {}, 'fedavg_all': {}, 'fedpbc': {}},
            'num_rounds': 1000,
            'eval_every': 20,
            'num_seeds': 5,
            'first_seed': 0,
        }
    )
