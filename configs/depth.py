"""FedAvg and FedPBC by depth of the model and examples per client: does theory know the network?

  python -m fedjax_links simulate --config=configs/depth.py --workdir=runs/depth

Fifteen minutes on two CPU cores; behind a colon `images` ten minutes and `digits` four
(studies/depth.md, which has the outcome). With --quick half a minute.

Softmax regression and networks with one and two hidden layers of 64, on `gaussians` that overlap
(Bayes accuracy 70 %, the default), on `images` drawn by the package and on `digits`; a small
convolutional network on both kinds of images. The limit that theory gives in the population, Bayes'
rule for the weighted class shares, is the same for all of them. Rates are part of the grid.
"""

from ml_collections import ConfigDict

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
CLIENTS = {'gaussians': 50, 'images': 20, 'digits': 20}


def get_config(argument: str = '') -> ConfigDict:
    """The settings of the runs.

    Args:
      argument: ``gaussians``, ``images`` or ``digits``.
    """
    (data,) = common.chosen(argument, ('gaussians', 'images', 'digits'))
    models = {name: MODELS[name] for name in MODELS if data != 'gaussians' or name != 'cnn'}
    sizes = (20, 60, 200, 600, 2000)
    problem, grid, column, rates, num_rounds, num_seeds = {
        'gaussians': (
            {'name': 'gaussians', 'bayes_accuracy': 0.7},
            {'examples_per_client': sizes},
            'problem.examples_per_client',
            (0.0025, 0.01, 0.04, 0.16),
            2000,
            5,
        ),
        'images': (
            {
                'name': 'images',
                'dataset': 'synthetic_images',
                'data': {'shape': (8, 8, 1), 'difficulty': 0.5},
            },
            {'data': {'num_train': tuple(CLIENTS[data] * size for size in sizes[::2])}},
            'problem.data.num_train',
            (0.05, 0.2, 0.8),
            2500,
            3,
        ),
        'digits': (
            {'name': 'digits'},
            {'num_clients': (CLIENTS[data],)},
            'problem.num_clients',
            (0.05, 0.2, 0.8),
            2500,
            5,
        ),
    }[data]
    links = {
        'name': 'bernoulli',
        'probs': {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02},
    }
    return ConfigDict(
        {
            'title': f'FedAvg and FedPBC by depth, {data}',
            'problem': {**problem, 'num_clients': CLIENTS[data], 'alpha': 0.1},
            'problems': {name: {'model': model} for name, model in models.items()},
            'patterns': dict.fromkeys(models, links),
            'client': {'local_steps': 5, 'batch_size': 16},
            'algorithms': {'fedavg': {}, 'fedpbc': {}},
            'names': tuple((name, NAMES[name]) for name in models),
            'baseline': 'fedavg',
            'redraw': 'by_seed',
            'grid': {'problem': grid, 'client': {'learning_rate': rates}},
            'num_rounds': num_rounds,
            'eval_every': num_rounds // 10,
            'num_seeds': num_seeds,
            'reports': {'map': {'name': 'heat_map', 'x': column, 'y': RATE, 'tail': 0.4}},
        }
    )
