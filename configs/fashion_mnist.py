"""FedAvg, FedAU and FedPBC on Fashion-MNIST over unreliable uplinks.

  python -m fedjax_links simulate --config=configs/fashion_mnist.py --workdir=runs/fashion_mnist

Run `python -m fedjax_links data fetch fashion_mnist` first. It reads the copy that Debian's package
dataset-fashion-mnist installs, or downloads 31 MB. 60,000 images lie at a hundred clients, whose
uplinks depend on their labels (Xiang et al. 2024, section 7.2, with Fashion-MNIST instead of SVHN).
Softmax regression, three minutes on two CPU cores. With --quick, half a minute on synthetic images.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the settings."""
    return ConfigDict(
        {
            'title': 'Fashion-MNIST over label-dependent uplinks',
            'problem': {
                'name': 'images',
                'dataset': 'fashion_mnist',
                'num_clients': 100,
                'model': 'softmax',
                'partition': 'dirichlet',
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
            },
            'client': {
                'learning_rate': 0.02,
                'decay': 'constant',
                'local_steps': 5,
                'batch_size': 16,
            },
            'algorithms': {'fedavg': {}, 'fedau': {}, 'fedpbc': {}},
            'num_rounds': 600,
            'eval_every': 50,
            'num_seeds': 3,
            'first_seed': 0,
            'quick': {
                'problem': {
                    'dataset': 'synthetic_images',
                    'data': {'num_train': 2_000, 'num_test': 500},
                    'num_clients': 20,
                },
                'num_rounds': 100,
                'eval_every': 10,
            },
        }
    )
