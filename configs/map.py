"""Which algorithm wins, by overlap of the classes, inequality of the links and heterogeneity.

  python -m fedjax_links simulate --config=configs/map.py --workdir=runs/map

An hour and a half on two busy CPU cores, ten to fifteen minutes behind :rounds or :correlation
(studies/map.md, which has the outcome). With --quick a minute or less: a map of two by two points.

Algorithms on Gaussian classes that nobody tells apart more often than the Bayes accuracy says,
over links that are as good as their client's labels are lucky, the more unequal the larger sigma.
Every algorithm has the best of three or four rates at every point. After a colon: `space` for
overlap, sigma and alpha, which is the default; `rounds` for who is ahead when; `correlation` for
links with memory; with any of them `established` for six rules, the default, or `newer` for FedAvg
and five others. Every seed draws data, partition, link qualities, links and batches anew.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common

OVERLAPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
RATES = {
    'space': (0.005, 0.02, 0.08),
    'rounds': (0.005, 0.02, 0.08, 0.3),
    'correlation': (0.005, 0.02, 0.08),
}
RATE, OVERLAP = 'client.learning_rate', 'problem.bayes_accuracy'
ALGORITHMS = {
    'established': {
        'fedavg': {},
        'fedpbc': {},
        'fedau': {},
        'fedavg_known': {},
        'scaffold': {},
        'mifa': {},
    },
    'newer': {
        'fedavg': {},
        'focus': {},
        'amplified_scaffold': {'period': 100, 'amplification': 1.5},
        'feddyn': {'alpha': 0.1},
        'fedstale': {'stale_weight': 0.5},
        'fedbuff': {'buffer_size': 10},
    },
}
TITLES = {
    'space': 'Who is ahead by overlap, links and heterogeneity',
    'rounds': 'Who is ahead by rounds',
    'correlation': 'Who is ahead by the memory of links',
}
NAMES = {
    'fedavg': 'FedAvg',
    'fedpbc': 'FedPBC',
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


def get_config(argument: str = '') -> ConfigDict:
    """The settings of a map.

    Args:
      argument: ``space``, ``rounds`` or ``correlation``, and ``established`` or ``newer``.
    """
    which, rules = common.chosen(argument, ('space', 'rounds', 'correlation'), ALGORITHMS)
    algorithms = ALGORITHMS[rules]
    kind, grid, quick_grid, x, tail, num_rounds, eval_every = {
        'space': (
            'bernoulli',
            {
                'problem': {'alpha': (0.05, 0.1, 1.0)},
                'links': {'probs': {'sigma': (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)}},
            },
            {'problem': {'alpha': (0.1,)}, 'links': {'probs': {'sigma': (0.0, 10.0)}}},
            'links.probs.sigma',
            0.4,
            2000,
            400,
        ),
        'rounds': ('bernoulli', {}, {}, 'round', 0.0, 5120, 40),
        'correlation': (
            'markov',
            {'links': {'correlation_time': (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)}},
            {'links': {'correlation_time': (1.0, 100.0)}},
            'links.correlation_time',
            0.5,
            4000,
            500,
        ),
    }[which]
    probs = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
    overlaps = (0.6, 0.9) if which == 'correlation' else OVERLAPS
    grid.setdefault('problem', {})['bayes_accuracy'] = overlaps
    quick_grid.setdefault('problem', {})['bayes_accuracy'] = (0.6, 0.9)
    return ConfigDict(
        {
            'title': TITLES[which] + (', five more rules' if rules == 'newer' else ''),
            'problem': {
                'name': 'gaussians',
                'num_clients': 100,
                'examples_per_client': 200,
                'bayes_accuracy': 0.7,
                'alpha': 0.1,
            },
            'links': {'name': kind, 'probs': probs},
            'client': {'local_steps': 5, 'batch_size': 16},
            'algorithms': algorithms,
            'names': tuple((label, NAMES[label]) for label in algorithms),
            'baseline': 'fedavg',
            'redraw': 'by_seed',
            'grid': {**grid, 'client': {'learning_rate': RATES[which]}},
            'num_rounds': num_rounds,
            'eval_every': eval_every,
            'num_seeds': 5,
            'reports': {
                'map': {
                    'name': 'heat_map',
                    'x': x,
                    'y': OVERLAP,
                    'best_over': (RATE,),
                    'tail': tail,
                }
            },
            'quick': {
                'problem': {'num_clients': 30, 'examples_per_client': 50},
                'grid': {**quick_grid, 'client': {'learning_rate': (0.06, 0.2)}},
                'num_rounds': 4 * 40,
                'eval_every': 40,
                'num_seeds': 2,
            },
        }
    )
