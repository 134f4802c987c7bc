"""FedAvg and FedPBC by depth of the model and examples per client: does theory know the network?

  python -m fedjax_links simulate --config=configs/depth.py --workdir=runs/depth

It takes fifteen minutes on two CPU cores; `images` and `digits` take ten each, `long` thirty on
busy ones. With --quick it takes three minutes, mostly to compile. studies/depth.md has the results.

Softmax regression and networks with one and two hidden layers of 64, on `gaussians` that overlap
(Bayes accuracy 70 %, the default), on `images` drawn by the package and on `digits`. Both kinds of
images also have a small convolutional network. A word after the colon chooses. `long` is two points
of two layers, for four times the rounds. `images_linear` and `digits_linear` are softmax regression
at larger rates, a minute each. Theory's limit in the population, Bayes' rule for the weighted class
shares, names no model. Rates are part of the grid.
"""

from ml_collections import ConfigDict

from fedjax_links.core import grids
from fedjax_links.papers import common

MODELS = {
    'softmax': 'softmax',
    'one': {'name': 'mlp', 'hidden': (64,)},
    'two': {'name': 'mlp', 'hidden': (64, 64)},
    'cnn': {'name': 'cnn', 'channels': (4,), 'hidden': (32,)},
}
NAMES = {
    'softmax': 'softmax',
    'one': 'one hidden layer',
    'two': 'two hidden layers',
    'cnn': 'convolutional',
}
RATE = 'client.learning_rate'
TITLES = {
    'gaussians': 'Gaussian classes',
    'long': 'Gaussian classes, four times the rounds',
    'images': 'images drawn by the package',
    'images_linear': 'images drawn by the package, large rates',
    'digits': 'digits',
    'digits_linear': 'digits, large rates',
}
CLIENTS = {
    'gaussians': 50,
    'long': 50,
    'images': 20,
    'images_linear': 20,
    'digits': 20,
    'digits_linear': 20,
}
LARGE = (51.2, 204.8, 819.2)
SIZES = (20, 60, 200, 600, 2000)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the settings of the runs.

    Args:
      argument: ``gaussians``, ``long``, ``images``, ``images_linear``, ``digits`` or
        ``digits_linear``.
    """
    (data,) = common.chosen(argument, CLIENTS)
    num_clients = CLIENTS[data]
    gaussians = {'name': 'gaussians', 'bayes_accuracy': 0.7}
    images = {'name': 'images', 'dataset': 'synthetic_images', 'order': 'numbers'}
    images['data'] = {'shape': (8, 8, 1), 'difficulty': 0.5}
    digits = {'name': 'digits', 'order': 'numbers'}
    per_client = 'examples_per_client'
    many = {'data': {'num_train': tuple(num_clients * size for size in SIZES[::2])}}
    few = {'num_clients': (num_clients,)}
    models, problem, grid, rates, num_rounds, num_seeds = {
        'gaussians': (
            ('softmax', 'one', 'two'),
            gaussians,
            {per_client: SIZES},
            (0.00015625, 0.000625, 0.0025, 0.01, 0.04, 0.16),
            2000,
            5,
        ),
        'long': (
            ('two',),
            gaussians,
            {per_client: (20, 600)},
            (0.00125, 0.0025, 0.16),
            8000,
            5,
        ),
        'images': (
            ('softmax', 'two', 'cnn'),
            images,
            many,
            (0.0125, 0.05, 0.2, 0.8, 3.2, 12.8),
            1500,
            3,
        ),
        'images_linear': (('softmax',), images, many, LARGE, 1500, 3),
        'digits': (tuple(MODELS), digits, few, (0.05, 0.2, 0.8, 3.2, 12.8), 2500, 5),
        'digits_linear': (('softmax',), digits, few, LARGE, 2500, 5),
    }[data]
    ((column, _),) = grids.flatten({'problem': grid}, 'grid').items()
    links = {
        'name': 'bernoulli',
        'probs': {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02},
    }
    titles = {'fedavg': 'FedAvg', 'fedpbc': 'FedPBC'}
    return ConfigDict(
        {
            'title': f'FedAvg and FedPBC by depth: {TITLES[data]}',
            'problem': {**problem, 'num_clients': num_clients, 'alpha': 0.1},
            'problems': {name: {'model': MODELS[name]} for name in models},
            'patterns': dict.fromkeys(models, links),
            'client': {'local_steps': 5, 'batch_size': 16},
            'algorithms': {name: {} for name in titles},
            'names': tuple(
                {**titles, **{name: NAMES[name] for name in models}}.items()
            ),
            'baseline': 'fedavg',
            'redraw': 'by_seed',
            'grid': {'problem': grid, 'client': {'learning_rate': rates}},
            'num_rounds': num_rounds,
            'eval_every': num_rounds // 10,
            'num_seeds': num_seeds,
            'reports': {
                'map': {
                    'name': 'heat_map',
                    'x': column,
                    'y': RATE,
                    'metric': 'eval_accuracy',
                    'tail': 0.4,
                }
            },
            'quick': {
                'grid': {'client': {'learning_rate': rates[1:3]}},
                'num_rounds': 20,
                'eval_every': 2,
                'num_seeds': 2,
            },
        }
    )
