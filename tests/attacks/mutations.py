"""Everyday configs at tiny sizes, on files of one's own too, and what users get wrong in them."""

import copy
import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import choices, trees
from fedjax_links.participation import PARTICIPATION
from fedjax_links.problems import PROBLEMS
from fedjax_links.report.layouts import LAYOUTS
from tests.attacks import made_files

Config = dict[str, Any]
Path_ = tuple[Any, ...]

JUNK: tuple[Any, ...] = (
    *(float('inf'), float('-inf'), float('nan'), -1, -1.0, 0, 0.0, 1, 2, 0.5, 1.5, 3.7),
    *(2**31, 2**32, 2**40, 2**63, 10**30, 1e30, 1e308, -1e308, 1e-320, 7),
    *(
        '',
        'x',
        '0.1',
        '5',
        'links',
        '../x',
        'a/b',
        'nan',
        'a:b',
        'math:sqrt',
        None,
        True,
        False,
    ),
    *(
        [],
        {},
        [1],
        [0.1, 0.2],
        ['x'],
        [None],
        [[]],
        [float('nan')],
        (),
        {'name': 'x'},
        {'x': 1},
    ),
    *(
        {'name': None},
        {'name': 'constant'},
        {'': 1},
        b'x',
        1j,
        {1: 2},
        [[0.0, 1.0], [2.0]],
    ),
)
STRANGE_NAMES: tuple[Any, ...] = (
    *made_files.NAMES,
    *(
        '$$',
        '$a$',
        '$\\frac$',
        '_',
        '__',
        ' a',
        'a ',
        'a.b',
        '.a',
        'a\tb',
        '\x00',
        '\ud800',
        '`a`',
    ),
    *(
        '*a*',
        '[a](b)',
        '<script>alert(1)</script>',
        '&amp;',
        '{',
        '{config.title}',
        '\\alpha',
        '#',
    ),
    *(
        'CON',
        'nul.txt',
        'a:b',
        'a=b',
        '--config',
        '@',
        'links',
        'server',
        'FedAvg',
        'fedavg',
        b'x',
    ),
    *(
        'x' * 100,
        'x' * 101,
        '联' * 33,
        '联' * 34,
        '\u202eabc',
        'ﬁ',
        'SS',
        'ß',
        'a  b',
        '~',
        '?',
        1,
        None,
    ),
    *(
        'हिन्दी',
        'ไทย',
        '한국어',
        'עברית',
        '数学 A',
        '\u0301',
        '👩‍👩‍👧',
        'a\rb',
        '\u2028',
        'round',
        'seed',
        'a' * 60,
    ),
)
"""What algorithms, patterns, reports and clients might be called."""
_SHOWN = 'names', 'names', 'title', 'caption'
KEYS = (
    *(
        'name',
        'probs',
        'schedule',
        'client',
        'server_lr',
        'seed',
        'num_clients',
        'cohort_size',
    ),
    *(
        'learning_rate',
        'local_steps',
        'batch_size',
        'optimizer',
        'decay',
        'chunk_size',
        'mu',
    ),
    *(
        'client_steps',
        'up_rate',
        'cycle_length',
        'reset',
        'gamma',
        'period',
        'cutoff',
        'x',
        '',
    ),
    *(
        'budget',
        'memory',
        'compute',
        'amplification',
        'start_round',
        'grid',
        'grid_mode',
        'log',
    ),
    *(
        'tuning',
        'names',
        'reports',
        'metric',
        'direction',
        'baseline',
        'first_seed',
        'eval_fn',
    ),
    *(
        'problems',
        'patterns',
        'links',
        'caption',
        'model',
        'partition',
        'alpha',
        'data',
        'quick',
    ),
    *(
        'server_lrs',
        'learning_rates',
        'pattern',
        'tail',
        'targets',
        'shares',
        'every',
        'weights',
    ),
    *(
        'groups',
        'min_examples',
        'table_dtype',
        'innovation_clip',
        'Links',
        'FedAvg',
        'a/b',
        '..',
    ),
)
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
    """A config of the project at its quick size, if it has one, with changes."""
    values = importlib.import_module(f'configs.{name}').get_config().to_dict()
    values = trees.quick(values) if trees.QUICK in values else values
    return trees.quick({**values, trees.QUICK: changes})


def _some(table: dict[str, Any], rng: random.Random, count: int) -> dict[str, Any]:
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
    tuning = {'learning_rates': (1.0, 0.1), 'num_rounds': 8, 'num_seeds': 1}
    tuning |= {'pattern': tuned_on, 'grow': 0}
    sizes_ = {
        'problem': {'num_clients': 10},
        'num_rounds': 8,
        'eval_every': 4,
        'num_seeds': 2,
    }
    values = shipped('comparison', tuning=tuning, **sizes_)
    for label in ('amplified_fedavg', 'wait_for_all'):
        values['algorithms'][label]['period'] = 4
    kept = {tuned_on: values['patterns'][tuned_on]}
    values['patterns'] = {**kept, **_some(values['patterns'], rng, 1)}
    values['algorithms'] = {'fedavg': {}, **_some(values['algorithms'], rng, 2)}
    return values


def _quadratic(rng: random.Random) -> Config:
    patterns, algorithms = _some(_PATTERNS, rng, 2), _some(_ALGORITHMS, rng, 2)
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
            'levels': {'name': 'levels'},
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
    kept = {*values['patterns'], *values['algorithms']}
    values['names'] = [pair for pair in values.get('names', ()) if pair[0] in kept]
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
        'format': {'name': 'csv', 'unit': 'min', 'origin': 'first', 'clients': 4},
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
    'alike': {'name': 'look_alike', 'path': 'log.csv', 'tick': 1.0},
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
        'reports': {'table': {'name': 'levels'}},
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
            *(
                {},
                {},
                {},
                {'holdout_clients': 1},
                {'holdout_examples': 0.3},
                {'max_examples': 2},
            ),
            *({'min_examples': 2}, {'label_noise': {'rate': 0.2}}, {'seed': 3}),
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


def nodes(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every leaf, section and list of a config but the whole, with its path."""
    if path:
        yield path, value
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple) and len(value) < 20:
        inner = enumerate(value)
    for key, part in list(inner):
        yield from nodes(part, (*path, key))


def get(config: Any, path: Path_) -> Any:
    """What stands at a path."""
    for key in path:
        config = config[key]
    return config


def put(config: Any, path: Path_, value: Any) -> Any:
    """The config with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(config, dict):
        return {**config, first: put(config.get(first, {}), tuple(rest), value)}
    changed = list(config)
    changed[first] = put(changed[first], tuple(rest), value)
    return changed


class Case(NamedTuple):
    """A config with mistakes.

    Attributes:
      config: plain values.
      done: in words what was done to which base.
      files: contents of the files that it may name, by name.
    """

    config: Config
    done: str
    files: made_files.Files


ON_FILES = 'leaf', 'logged', 'npz'


def mutated(seed: int) -> Case:
    """Makes a config with up to three mistakes in values, files or names.

    Args:
      seed: everything depends on it alone.
    """
    rng = random.Random(seed)
    base = rng.choice([*sorted(BASES), *ON_FILES * 4])  # the cheap ones more often
    config, done = BASES[base](rng), [base]
    files = made_files.write(rng) if base in ON_FILES else {}
    values = (0, 0, 0, 1) if base in ON_FILES else (0, 1, 1, 1, 2)
    for _ in range(rng.choice(values)):
        config, what = rng.choice(MISTAKES)(config, rng)
        done.append(what)
    names = (0, 1, 1) if base in ON_FILES or len(done) == 1 else (0, 0, 0, 1)
    for _ in range(rng.choice(names)):
        config, what = _call(config, rng)
        done.append(what)
    return Case(config, '; '.join(done), files)


def _replace(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, _ = rng.choice(list(nodes(config)))
    value = copy.deepcopy(rng.choice(JUNK))
    return put(config, path, value), f'{_text(path)} = {value!r}'


def _delete(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, _ = rng.choice(list(nodes(config)))
    owner = get(config, path[:-1])
    if isinstance(owner, dict):
        less: Any = {key: value for key, value in owner.items() if key != path[-1]}
    else:
        less = [value for place, value in enumerate(owner) if place != path[-1]]
    return put(config, path[:-1], less), f'without {_text(path)}'


def _add(config: Config, rng: random.Random) -> tuple[Config, str]:
    places = [()] + [path for path, value in nodes(config) if isinstance(value, dict)]
    place, key = rng.choice(places), rng.choice(KEYS)
    found = [value for path, value in nodes(config) if path[-1] == key]
    value = copy.deepcopy(rng.choice([*JUNK, *(found or [1, 0.1]) * 20]))
    return put(
        config, (*place, key), value
    ), f'added {_text((*place, key))} = {value!r}'


def _distort(config: Config, rng: random.Random) -> tuple[Config, str]:
    numbers = [(p, v) for p, v in nodes(config) if type(v) in (int, float)]
    if not numbers:
        return _replace(config, rng)
    path, value = rng.choice(numbers)
    changed = rng.choice(
        (
            *(
                -value,
                0,
                value * 10**6,
                value * 10**12,
                value + 0.5,
                float(value),
                str(value),
            ),
            *(
                [value],
                value * 10,
                value + 1,
                {'value': value},
                True,
                None,
                1 / (value or 1),
            ),
            *(value * 3, value / 3, [value, -value], value * 1000),
        )
    )
    return put(config, path, changed), f'{_text(path)} = {changed!r}'


def _swap(config: Config, rng: random.Random) -> tuple[Config, str]:
    (one, first), (two, second) = rng.choices(list(nodes(config)), k=2)
    if one[: len(two)] == two or two[: len(one)] == one:
        return _replace(config, rng)
    return put(
        put(config, one, second), two, first
    ), f'{_text(one)} and {_text(two)} swapped'


def _rename(config: Config, rng: random.Random) -> tuple[Config, str]:
    named = [(path, value) for path, value in nodes(config) if isinstance(value, str)]
    if not named:
        return _replace(config, rng)
    path, value = rng.choice(named)
    tables = (
        ALGORITHMS,
        PARTICIPATION,
        PROBLEMS,
        LAYOUTS,
        choices.OPTIMIZERS,
        choices.PROBS,
    )
    name = rng.choice(sorted(rng.choice(tables)))
    name = rng.choice([name, _misspelt(value, rng), value.upper(), f'{value} '])
    return put(config, path, name), f'{_text(path)} = {name!r}'


def _misspell(config: Config, rng: random.Random) -> tuple[Config, str]:
    keyed = [path for path, _ in nodes(config) if isinstance(path[-1], str)]
    path = rng.choice(keyed)
    owner, name = get(config, path[:-1]), _misspelt(path[-1], rng)
    changed = {name if key == path[-1] else key: value for key, value in owner.items()}
    return put(config, path[:-1], changed), f'{_text(path)} spelt {name!r}'


def _misspelt(name: str, rng: random.Random) -> str:
    place = rng.randrange(len(name) + 1)
    return rng.choice(
        [
            name[:place] + name[place + 1 :],
            name[:place] + 'z' + name[place:],
            name.upper(),
        ]
    )


def _nest(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, value = rng.choice(list(nodes(config)))
    changed = rng.choice([{'name': value}, [value], {path[-1]: value}, [value, value]])
    if isinstance(value, dict) and rng.random() < 0.5:
        changed = value.get('name', list(value))
    return put(config, path, changed), f'{_text(path)} nested: {changed!r:.60}'


def _copy(config: Config, rng: random.Random) -> tuple[Config, str]:
    (one, value), (two, _) = rng.choices(list(nodes(config)), k=2)
    if two[: len(one)] == one:
        return _replace(config, rng)
    return put(config, two, copy.deepcopy(value)), f'{_text(two)} as {_text(one)}'


def _call(config: Config, rng: random.Random) -> tuple[Config, str]:
    """Gives an algorithm, a pattern, a report or the whole another name."""
    name = rng.choice(STRANGE_NAMES)
    field = rng.choice(
        ['algorithms', 'algorithms', 'patterns', 'patterns', 'reports', *_SHOWN]
    )
    if field in ('title', 'caption'):
        return {**config, field: name}, f'{field} = {name!r:.60}'
    labelled = config.get('algorithms' if field == 'names' else field)
    if not isinstance(labelled, dict) or not labelled:
        return {**config, 'title': name}, f'title = {name!r:.60}'
    label = rng.choice(list(labelled))
    if field == 'names':
        return {
            **config,
            'names': [[label, name]],
        }, f'{label!r:.60} is called {name!r:.60}'
    section = labelled[label]
    if field == 'algorithms' and isinstance(section, dict):
        section = {'name': label, **section}
    renamed = {name if key == label else key: value for key, value in labelled.items()}
    if field == 'algorithms':
        renamed[name] = section
    changed = {**config, field: renamed}
    for reference in ('baseline',):
        if config.get(reference) == label:
            changed[reference] = name
    pairs = config.get('names')
    if isinstance(pairs, list | tuple) and all(
        isinstance(pair, list | tuple) for pair in pairs
    ):
        changed['names'] = [
            [name if part == label else part for part in pair] for pair in pairs
        ]
    return changed, f'{field}: {label!r:.60} is called {name!r:.60}'


def _text(path: Path_) -> str:
    return '.'.join(map(str, path))


MISTAKES = (
    *(
        _replace,
        _replace,
        _replace,
        _distort,
        _distort,
        _distort,
        _delete,
        _add,
        _add,
        _swap,
    ),
    *(_rename, _rename, _misspell, _nest, _copy),
)
