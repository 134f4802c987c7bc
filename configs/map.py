"""Which algorithm wins, by overlap of the classes, inequality of the links and heterogeneity.

  python -m fedjax_links simulate --config=configs/map.py --workdir=runs/map

Results and their cost are in studies/map.md. With --quick a minute or two: a map of two by two
points.

Eleven algorithms train on Gaussian classes of a known Bayes accuracy. Uplink probabilities depend
on the client's labels, and are the more unequal the larger sigma is. FedPBC appears twice, with a
rate for each of its models. Rates are tuned at each point until the best lies inside the grid. Each
difference to FedAvg has as many seeds as its verdict needs. Each seed redraws data, partition, link
probabilities, links and batches.

After a colon: `space`, the default, for overlap, sigma and alpha; `correlation` for links with
memory; `rounds` for who is ahead when. `rounds` begins from random and from zero weights, with the
best of a wide range of rates at each number of rounds.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common

RATE = 'client.learning_rate'
OVERLAP = 'problem.bayes_accuracy'
ALGORITHMS = {
    'fedavg': {},
    'fedpbc': {},
    'fedpbc_server': {'name': 'fedpbc'},
    'fedau': {},
    'fedavg_known': {},
    'scaffold': {},
    'mifa': {},
    'focus': {},
    'amplified_scaffold': {'period': 100, 'amplification': 1.5},
    'feddyn': {'alpha': 0.1},
    'fedstale': {'stale_weight': 0.5},
    'fedbuff': {'buffer_size': 10},
}
NAMES = {
    'fedavg': 'FedAvg',
    'fedpbc': 'FedPBC',
    'fedpbc_server': 'FedPBC, server',
    'fedau': 'FedAU',
    'fedavg_known': 'FedAvg known',
    'scaffold': 'SCAFFOLD',
    'mifa': 'MIFA',
    'focus': 'FOCUS',
    'amplified_scaffold': 'Amplified SCAFFOLD',
    'feddyn': 'FedDyn',
    'fedstale': 'FedStale',
    'fedbuff': 'FedBuff',
}
MODELS = {'fedpbc': 'client_mean', 'fedpbc_server': 'server'}
TUNED = {
    'tuning': {
        'learning_rates': (0.005, 0.02, 0.08),
        'num_seeds': 2,
        'ties': 1,
        'model': MODELS,
    },
    'seeds': {'until': 'decided', 'least': 4, 'most': 12, 'margin': 0.005, 'tail': 0.4},
}
QUICK = {
    'tuning': {'learning_rates': (0.06, 0.2), 'num_seeds': 1, 'grow': 0},
    'seeds': {'least': 4, 'most': 5},
}
RATES = (*(base * 10.0**power for power in range(-4, 3) for base in (1, 3)), 1000.0)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the settings of a map.

    Args:
      argument: ``space``, ``correlation`` or ``rounds``.
    """
    (which,) = common.chosen(argument, ('space', 'correlation', 'rounds'))
    title, x, grid, num_rounds, eval_every = {
        'space': (
            'Who is ahead by overlap, links and heterogeneity',
            'links.probs.sigma',
            {
                OVERLAP: (0.5, 0.7, 0.9, 0.98),
                'problem.alpha': (0.05, 0.1, 1.0),
                'links.probs.sigma': (0.0, 2.0, 10.0),
            },
            1000,
            200,
        ),
        'correlation': (
            'Who is ahead by the memory of links',
            'links.correlation_time',
            {
                OVERLAP: (0.6, 0.9),
                'links.correlation_time': (1.0, 10.0, 30.0, 100.0, 300.0),
            },
            2000,
            400,
        ),
        'rounds': (
            'Who is ahead by rounds',
            'round',
            {OVERLAP: (0.6, 0.9), 'problem.model.zero': (False, True)},
            640,
            20,
        ),
    }[which]
    algorithms = dict(ALGORITHMS)
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    layout = {'name': 'heat_map', 'x': x, 'y': OVERLAP}
    is_early = which == 'rounds'
    if is_early:
        del algorithms['fedpbc_server']
        grid = {**grid, RATE: RATES}
        layout |= {'best_over': (RATE,), 'tail': 0.0}
    return ConfigDict(
        {
            'title': title,
            'problem': {
                'name': 'gaussians',
                'num_clients': 100,
                'examples_per_client': 200,
                'bayes_accuracy': 0.7,
                'alpha': 0.1,
                'model': {'name': 'softmax', 'zero': False},
            },
            'links': {
                'name': 'markov' if which == 'correlation' else 'bernoulli',
                'probs': probs,
            },
            'client': {'local_steps': 5, 'batch_size': 16},
            'algorithms': algorithms,
            'names': tuple((label, NAMES[label]) for label in algorithms),
            'baseline': 'fedavg',
            'redraw': 'by_seed',
            'grid': _nested(grid),
            'num_rounds': num_rounds,
            'eval_every': eval_every,
            **({'num_seeds': 5} if is_early else TUNED),
            'reports': {'map': layout}
            | ({} if is_early else {'rates': {'name': 'rates'}}),
            'quick': {
                'problem': {'num_clients': 30, 'examples_per_client': 50},
                'grid': _nested(
                    {**{k: v[:2] for k, v in grid.items()}, OVERLAP: (0.6, 0.9)}
                ),
                # A period that fits into 80 rounds.
                'algorithms': {'amplified_scaffold': {'period': 40}},
                'num_rounds': 80,
                'eval_every': 20 if is_early else 40,
                **({'num_seeds': 2} if is_early else QUICK),
            },
        }
    )


def _nested(grid: dict) -> dict:
    """Nests a grid with dots in its names, as a config has it."""
    nested: dict = {}
    for path, values in grid.items():
        *parents, name = path.split('.')
        section = nested
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = values
    return nested
