"""Everyday configs at tiny sizes, some of them on a user's own files."""

import copy
import importlib
import random
from collections.abc import Callable
from typing import Any

from fedjax_links.config import nested
from tests.attacks import made_files

Config = dict[str, Any]

_PROBS = {'name': 'halves', 'first': 0.3, 'second': 0.9}
_PATTERNS: dict[str, Any] = {
    'always': 'always',
    'bernoulli': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
    'listed': {
        'name': 'bernoulli',
        'probs': {'name': 'listed', 'values': [0.2, 0.4, 0.5, 0.6, 0.8, 1.0]},
    },
    'everyone': {'name': 'bernoulli', 'probs': 0.5},
    'each': {'name': 'markov', 'probs': [0.2, 0.4, 0.5, 0.6, 0.8, 1.0]},
    'sine': {
        'name': 'bernoulli',
        'probs': _PROBS,
        'schedule': {'name': 'sine', 'gamma': 0.3, 'period': 8},
    },
    'jitter': {
        'name': 'bernoulli',
        'probs': _PROBS,
        'schedule': {'name': 'jitter', 'width': 0.1},
    },
    'diurnal': {
        'name': 'bernoulli',
        'probs': _PROBS,
        'schedule': {
            'name': 'diurnal',
            'trough': 0.1,
            'rounds_per_day': 6,
            'up_hours': 8.0,
        },
    },
    'markov': {'name': 'markov', 'probs': _PROBS, 'up_rate': 0.1},
    'cyclic': {'name': 'cyclic', 'probs': _PROBS, 'cycle_length': 5, 'reset': True},
    'cohort': {'name': 'uniform_cohort', 'cohort_size': 2},
    'regularized': {'name': 'regularized', 'cohort_size': 2},
    'turns': {
        'name': 'periodic_groups',
        'groups': {'name': 'contiguous', 'num_groups': 2},
        'active_rounds': 3,
        'cohort_size': 1,
    },
    'separated': {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 1.5, 'count': 3},
        'groups': {'name': 'contiguous', 'num_groups': 3},
        'separation': 1,
    },
    'outage': {
        'name': 'outage',
        'pattern': 'always',
        'start': 2,
        'stop': 5,
        'clients': [0, 1],
    },
    'switch': {
        'name': 'switch',
        'patterns': [{'name': 'always'}, {'name': 'markov', 'probs': _PROBS}],
        'at_rounds': 4,
    },
    'mixture': {
        'name': 'mixture',
        'patterns': [{'name': 'always'}, {'name': 'bernoulli', 'probs': _PROBS}],
        'probs': [0.5, 0.5],
    },
    'both': {
        'name': 'both',
        'first': {'name': 'bernoulli', 'probs': _PROBS},
        'second': {'name': 'markov', 'probs': _PROBS},
    },
    'cap': {
        'name': 'cap',
        'pattern': {'name': 'always'},
        'size': 3,
        'rule': 'permutation',
    },
    'duplex': {'name': 'duplex', 'uplink': {'name': 'bernoulli', 'probs': _PROBS}},
    'replay': {'name': 'replay', 'mask': [[True] * 6, [False] * 6]},
    'trace': {'name': 'trace', 'intervals': [[i, i, 9] for i in range(6)], 'tick': 1.0},
}
_ALGORITHMS: dict[str, Any] = {
    'fedavg': {'server_lr': 1.0, 'compute': 'active'},
    'fedpbc': {},
    'fedau': {'cutoff': 10},
    'f3ast': {'budget': 3, 'beta': 0.1},
    'mifa': {'memory': 'delta'},
    'amplified_fedavg': {'period': 4, 'amplification': 2.0},
    'wait_for_all': {'period': 4},
    'fedprox': {'client': {'mu': 0.1}},
    'adam': {
        'name': 'fedopt',
        'server_optimizer': {'name': 'adam', 'learning_rate': 0.01},
    },
    'fedawe': {'innovation_clip': 5.0},
    'momentum': {
        'name': 'fedavg_all',
        'client': {
            'optimizer': {'name': 'sgd', 'momentum': 0.9},
            'learning_rate': 0.05,
        },
    },
    'scaffold': {'server_lr': 0.5},
    'warm': {
        'name': 'fedvarp',
        'client': {'decay': {'name': 'warmup', 'initial': 0.2, 'rounds': 3}},
    },
    'focus': {'server_lr': 0.02},
    'amplified_scaffold': {'period': 4, 'amplification': 1.5},
    'fedstale': {'stale_weight': 0.5},
    'feddyn': {'alpha': 0.1},
    'fedbuff': {'buffer_size': 4},
    'fednova': {'client': {'client_steps': [1, 2, 1, 2, 1, 2]}},
}


def shipped(name: str, **changes: Any) -> Config:
    """Loads a config of the project at its quick size, if it has one, with changes."""
    values = importlib.import_module(f'configs.{name}').get_config().to_dict()
    if nested.QUICK in values:
        values = nested.quick(values)
    return nested.quick({**values, nested.QUICK: changes})


def _some(table: dict[str, Any], rng: random.Random, count: int) -> dict[str, Any]:
    """Copies up to ``count`` random entries of a table."""
    chosen = rng.sample(sorted(table), min(count, len(table)))
    return {label: copy.deepcopy(table[label]) for label in chosen}


def _quickstart(rng: random.Random) -> Config:
    del rng
    problem = {'num_clients': 10}
    return shipped(
        'quickstart', problem=problem, num_rounds=8, eval_every=4, num_seeds=2
    )


def _comparison(rng: random.Random) -> Config:
    tuned_on = 'bernoulli_sine'
    tuning = {
        'learning_rates': (1.0, 0.1),
        'num_rounds': 8,
        'num_seeds': 1,
        'pattern': tuned_on,
        'grow': 0,
    }
    values = shipped(
        'comparison',
        tuning=tuning,
        problem={'num_clients': 10},
        num_rounds=8,
        eval_every=4,
        num_seeds=2,
    )
    for label in ('amplified_fedavg', 'wait_for_all'):
        values['algorithms'][label]['period'] = 4
    tuning_pattern = {tuned_on: values['patterns'][tuned_on]}
    values['patterns'] = {**tuning_pattern, **_some(values['patterns'], rng, 1)}
    values['algorithms'] = {'fedavg': {}, **_some(values['algorithms'], rng, 2)}
    return values


def _quadratic(rng: random.Random) -> Config:
    patterns = _some(_PATTERNS, rng, 2)
    algorithms = _some(_ALGORITHMS, rng, 2)
    first, other = list(algorithms)
    values: Config = {
        'title': 'Quadratics',
        'problem': {
            'name': 'quadratic',
            'targets': [[float(i), 1.0] for i in range(6)],
        },
        'patterns': patterns,
        'client': {'learning_rate': 0.1, 'local_steps': 2},
        'algorithms': algorithms,
        'num_rounds': 8,
        'eval_every': 4,
        'num_seeds': 2,
        'first_seed': 3,
        'baseline': first,
        'names': [[first, 'First'], [other, 'Second']],
        'log': ['links'],
        'reports': {
            'ends': {'name': 'bars', 'tail': 0.5},
            'comparison': {'name': 'comparison'},
            'lines': {'name': 'curves', 'smoothing': 0.1, 'columns': 2, 'log': True},
            'first': {'name': 'curves', 'log_rounds': True},
        },
    }
    if rng.random() < 0.5:
        values['grid'] = {'client': {'learning_rate': [0.05, 0.1]}}
    if rng.random() < 0.3:
        values['links'] = next(iter(values.pop('patterns').values()))
    return values


def _images(rng: random.Random) -> Config:
    model = rng.choice(
        ['softmax', {'name': 'mlp', 'hidden': (8,)}, {'name': 'cnn', 'channels': [4]}]
    )
    return {
        'title': 'Images',
        'problem': {
            'name': 'images',
            'dataset': 'synthetic_images',
            'data': {
                'num_train': 60,
                'num_test': 10,
                'shape': (8, 8, 3),
                'difficulty': 0.4,
            },
            'num_clients': 6,
            'model': model,
            'partition': rng.choice(['iid', 'label_shards', 'dirichlet', 'similarity']),
            'normalise': 'cifar10',
            'augment': ('crop', 'mirror'),
            'seed': 1,
        },
        'links': {'name': 'markov', 'probs': {'name': 'label_dependent', 'seed': 0}},
        'client': {
            'learning_rate': 0.05,
            'local_steps': 2,
            'batch_size': 4,
            'decay': 'inverse',
        },
        'algorithms': _some(_ALGORITHMS, rng, 2),
        'num_rounds': 8,
        'eval_every': 4,
        'metric': 'eval_accuracy',
    }


def _paper(rng: random.Random) -> Config:
    short: dict[str, Any] = {'num_rounds': 8, 'eval_every': 4, 'num_seeds': 1}
    if rng.random() < 0.5:
        problem = {'num_clients': 20, 'max_examples': 60}
        values = shipped('xiang2023_figure3', problem=problem, **short)
    else:
        problem = {'num_clients': 20, 'examples_per_client': 4}
        values = shipped('sun2025_figure2', problem=problem, **short)
    values['patterns'] = _some(values['patterns'], rng, 2)
    labels = {*values['patterns'], *values['algorithms']}
    values['names'] = [pair for pair in values.get('names', ()) if pair[0] in labels]
    values.pop('tuning', None)
    values.setdefault('client', {})['learning_rate'] = 0.05
    return values


_OWN_LINKS: dict[str, Any] = {
    'log': {'name': 'trace', 'path': 'log.csv', 'tick': 1.0},
    'log again': {'name': 'trace', 'path': 'log.csv', 'tick': 2.0, 'match': 'numbers'},
    'first time': {
        'name': 'trace',
        'path': 'log.csv',
        'tick': 1.0,
        'format': {'name': 'csv', 'unit': 'min', 'origin': 'first'},
    },
    'events': {
        'name': 'trace',
        'path': 'events.csv',
        'tick': 1.0,
        'format': 'events',
        'rounds': 9,
    },
    'phones': {
        'name': 'trace',
        'path': 'flash.json',
        'tick': 1.0,
        'format': 'flash',
        'overlaps': 'merge',
    },
    'synthetic': {'name': 'synthetic_trace', 'path': 'log.csv', 'tick': 1.0},
    'often': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.7}},
    'mine': {'name': 'mine:half'},
}
_CHEAP = {label: _ALGORITHMS[label] for label in ('fedavg', 'fedpbc', 'mifa')}


def _on_files(rng: random.Random, problem: Config) -> Config:
    return {
        'title': 'My data',
        'problem': problem,
        'patterns': _some(_OWN_LINKS, rng, rng.choice((1, 1, 1, 2))),
        'client': {'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 2},
        'algorithms': _some(_CHEAP, rng, 2),
        'num_rounds': 4,
        'eval_every': 2,
        'reports': {'table': {'name': 'comparison'}},
    }


def _npz(rng: random.Random) -> Config:
    partition = rng.choice(
        ['natural', 'natural', 'natural', 'iid', 'dirichlet', 'mine:in_turns']
    )
    problem: Config = {
        'name': 'images',
        'dataset': 'npz',
        'data': {'path': 'mine.npz'},
        'partition': partition,
        'model': rng.choice(['softmax', 'softmax', {'name': 'mlp', 'hidden': (4,)}]),
    }
    if partition != 'natural':
        problem['num_clients'] = made_files.NUM_OWNERS
    problem |= rng.choice(
        [
            {},
            {},
            {},
            {'holdout_clients': 1},
            {'holdout_examples': 0.3},
            {'max_examples': 2},
            {'min_examples': 2},
            {'label_noise': {'rate': 0.2}},
            {'seed': 3},
        ]
    )
    return _on_files(rng, problem)


def _leaf(rng: random.Random) -> Config:
    data: Config = {'path': 'train.json'}
    if rng.random() < 0.3:
        data['test'] = 'train.json'
    problem = {
        'name': 'images',
        'dataset': 'leaf',
        'data': data,
        'partition': 'natural',
    }
    return _on_files(rng, {**problem, 'model': 'softmax'})


def _logged(rng: random.Random) -> Config:
    return _on_files(rng, rng.choice([{'name': 'mine:points'}, _QUADRATIC]))


_QUADRATIC = {'name': 'quadratic', 'targets': [[float(i), 1.0] for i in range(4)]}


BASES: dict[str, Callable[[random.Random], Config]] = {
    'quickstart': _quickstart,
    'comparison': _comparison,
    'quadratic': _quadratic,
    'quadratic again': _quadratic,
    'images': _images,
    'paper': _paper,
    'npz': _npz,
    'leaf': _leaf,
    'logged': _logged,
}
"""Tiny configs that build, by name; the argument chooses among their variants."""

ON_FILES = 'leaf', 'logged', 'npz'
"""Bases that name files of `made_files`."""
