"""Six algorithms on Gaussian classes whose best accuracy is known, with 20 % wrong labels.

  python -m fedjax_links simulate --config=configs/gaussians.py --workdir=runs/gaussians

Ten classes at equal distances have a Bayes accuracy of 75 %: no model does better, and softmax
regression reaches it. There are 100 clients of 200 examples, a fifth of them with wrong labels.
Uplink probabilities depend on the client's labels. Each seed redraws data, partition, link
probabilities, links and batches, the same for all algorithms. About a minute on two CPU cores.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the settings of the comparison."""
    return ConfigDict(
        {
            'title': 'Gaussian classes over label-dependent uplinks',
            'problem': {
                'name': 'gaussians',
                'num_clients': 100,
                'examples_per_client': 200,
                'bayes_accuracy': 0.75,
                'alpha': 0.1,
                'label_noise': {'rate': 0.2},
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
            'algorithms': {
                'fedavg': {},
                'fedavg_known': {},
                'fedpbc': {},
                'fedau': {},
                'mifa': {},
                'scaffold': {},
            },
            'redraw': 'by_seed',
            'num_rounds': 1000,
            'eval_every': 20,
            'num_seeds': 5,
        }
    )
