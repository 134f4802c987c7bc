"""FedAvg and FedLin, which lies beside this file, over label-dependent uplinks.

  python -m fedjax_links simulate --config=examples/fedlin_config.py --workdir=runs/fedlin

Some ten seconds on two CPU cores.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the settings of the comparison."""
    return ConfigDict(
        {
            'title': 'FedLin over label-dependent uplinks',
            'problem': {
                'name': 'gaussians',
                'num_clients': 20,
                'num_classes': 5,
                'test_examples': 2000,
            },
            'links': {
                'name': 'bernoulli',
                'probs': {'name': 'label_dependent', 'sigma': 3.0, 'minimum': 0.05},
            },
            'client': {'learning_rate': 0.1, 'local_steps': 5, 'batch_size': 20},
            'algorithms': {'fedavg': {}, 'fedlin': {'name': 'fedlin:fedlin'}},
            'num_rounds': 400,
            'eval_every': 20,
            'num_seeds': 8,
        }
    )
