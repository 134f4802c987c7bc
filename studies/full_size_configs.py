"""Makes the configs of `full_size`: random images and few rounds, or small to count clients."""

import importlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import experiment
from fedjax_links.base import Problem
from fedjax_links.config import nested
from fedjax_links.datasets import npz

STAND_INS = {
    # Numbers of images for training and testing, and the shape of one.
    'cifar10': (50_000, 10_000, (32, 32, 3)),
    'cinic10': (90_000, 90_000, (32, 32, 3)),
    'fashion_mnist': (60_000, 10_000, (28, 28, 1)),
    'mnist': (60_000, 10_000, (28, 28, 1)),
    'svhn': (73_257, 26_032, (32, 32, 3)),
}
COUNTED_ROUNDS = 500

Values = dict[str, Any]


def write_stand_in(name: str, folder: pathlib.Path, fraction: float = 1.0) -> None:
    """Writes 8-bit noise in the shape of a data set, where its loader looks first.

    Args:
      name: in `STAND_INS`.
      folder: the ``data_dir`` of the config.
      fraction: of the images, in (0, 1].
    """
    *counts, shape = STAND_INS[name]
    rng = np.random.default_rng(0)
    arrays = {}
    for split, count in zip(('train', 'test'), counts, strict=True):
        num_images = round(count * fraction)
        size = num_images * int(np.prod(shape))
        noise = np.frombuffer(rng.bytes(size), np.uint8)
        arrays[f'{split}_features'] = noise.reshape(num_images, *shape)
        arrays[f'{split}_labels'] = np.arange(num_images) % 10
    np.savez(npz.npz_file(name, folder), **arrays)


def full(name: str, argument: str, folder: pathlib.Path) -> Values:
    """Returns a config as written, except that it reads its data from a folder."""
    module = importlib.import_module(f'configs.{name}')
    values = nested.full(module.get_config(argument).to_dict())
    problem = {**values['problem'], 'data': {'data_dir': str(folder)}}
    return {**values, 'problem': problem}


def _trimmed(values: Values) -> Values:
    """Cuts a config down to one seed and one of the rates to try, without reports."""
    dropped = ('tuning', 'names', 'reports', 'baseline', 'caption', 'evaluate_start')
    others = {name: value for name, value in values.items() if name not in dropped}
    client = dict(values['client'])
    if 'tuning' in values:
        rates = values['tuning']['learning_rates']
        client.setdefault('learning_rate', rates[len(rates) // 2])
    return {**others, 'client': client, 'num_seeds': 1}


def shortened(values: Values, index: int, num_rounds: int) -> Values:
    """Returns the config of one algorithm over one pattern, for two evaluation periods.

    Args:
      values: the config as written.
      index: of the algorithm and of the pattern, modulo their numbers. The indices below the
        larger number reach all of them.
      num_rounds: even.

    Returns:
      The config, whose warm-ups and blocks take one period.
    """
    period = num_rounds // 2
    values = _trimmed(values)
    algorithm = list(values['algorithms'])[index % len(values['algorithms'])]
    pattern = list(values['patterns'])[index % len(values['patterns'])]
    section = {
        name: period if name in ('start_round', 'period') else value
        for name, value in values['algorithms'][algorithm].items()
    }
    client = values['client']
    if isinstance(client.get('learning_rate'), Mapping):
        client['learning_rate'] = {pattern: client['learning_rate'][pattern]}
    if isinstance(client.get('decay'), Mapping):
        client['decay'] = {**client['decay'], 'rounds': period}
    if 'problems' in values:
        by_pattern = values['problems']
        values['problems'] = {}
        if pattern in by_pattern:
            values['problems'][pattern] = by_pattern[pattern]
    return {
        **values,
        'patterns': {pattern: values['patterns'][pattern]},
        'algorithms': {algorithm: section},
        'num_rounds': num_rounds,
        'eval_every': period,
    }


def clients_per_round(
    values: Values, num_rounds: int = COUNTED_ROUNDS
) -> dict[str, float]:
    """Counts the clients that train in a round after the warm-up, by algorithm.

    The count is from a small problem with as many clients. Its labels are spread as in Xiang et
    al. (alpha 0.1, or that of the pattern), the only configs whose links depend on them.

    Args:
      values: the config.
      num_rounds: rounds to count, or those of the longest block of an algorithm if that is longer.
    """
    values = _trimmed(values)
    algorithms = {
        label: dict(section) for label, section in values['algorithms'].items()
    }
    for section in algorithms.values():
        num_rounds = max(num_rounds, section.get('period', 0))
        section.pop('client', None)
        if 'start_round' in section:
            section['start_round'] = 0
    small = {
        'name': 'gaussians',
        'examples_per_client': 20,
        'bayes_accuracy': 0.64,
        'alpha': 0.1,
    }
    values |= {
        'problem': {**small, 'num_clients': values['problem']['num_clients']},
        'algorithms': algorithms,
        'client': {'learning_rate': 1e-3, 'local_steps': 1, 'batch_size': 1},
        'num_rounds': num_rounds,
        'eval_every': num_rounds,
    }
    columns = experiment.build(values).run().columns
    means = {}
    for label in algorithms:
        num_computing = columns['rounds/num_computing'][columns['algorithm'] == label]
        means[label] = float(num_computing.mean() / num_rounds)
    return means


def client_of(values: Values, label: str) -> Values:
    """Returns the section ``client`` of an algorithm."""
    changes = values['algorithms'][label].get('client') or {}
    return {**values['client'], **changes}


def batch_of(values: Values, label: str, problem: Problem) -> int:
    """Returns the examples of a local step: all of a client's where the config says 0."""
    batch_size: int = client_of(values, label)['batch_size']
    return batch_size or problem.num_examples // problem.num_clients
