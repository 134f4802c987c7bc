"""A study of a user: a config beside its own data, log and modules, which tests change."""

import textwrap

import numpy as np

from fedjax_links import experiment
from fedjax_links.config import resolver

MODULE = """
import flax.linen as nn
from fedjax_links import algorithms
from helper import SCALE

def algorithm(local_train, *, server_lr=1.0):
    return algorithms.ALGORITHMS['fedavg'](local_train, server_lr=SCALE * server_lr)

class Scores(nn.Module):
    num_classes: int
    @nn.compact
    def __call__(self, x):
        hidden = nn.relu(nn.Dense(5)(x.reshape(x.shape[0], -1)))
        return nn.Dense(self.num_classes)(hidden)
"""
HELPER = 'SCALE = 1.0\n'
LOG = 'client,start,end\n0,0,3\n1,1,4\n2,0,2\n3,2,4\n0,5,6\n'


class Study:
    """The config, data, log and modules in a user's folder, which methods write again."""

    def __init__(self, folder):
        """Writes everything.

        Args:
          folder: an empty one.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        rng = np.random.default_rng(0)
        self.arrays = {
            'train_features': rng.normal(size=(48, 3)).astype(np.float32),
            'train_labels': np.arange(48) % 3,
            'test_features': rng.normal(size=(12, 3)).astype(np.float32),
            'test_labels': np.arange(12) % 3,
        }
        self.write_data()
        self.write('mine.py', MODULE)
        self.write('helper.py', HELPER)
        self.write('log.csv', LOG)
        self.config = {
            'title': 'study',
            'problem': {
                'name': 'images',
                'dataset': 'npz',
                'data': {'path': str(folder / 'data.npz')},
                'partition': 'iid',
                'num_clients': 4,
                'model': 'softmax',
                'seed': 0,
            },
            'patterns': {
                'coin': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
                'log': {'name': 'trace', 'path': 'log.csv', 'tick': 1.0},
            },
            'client': {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4},
            'algorithms': {'fedavg': {}, 'own': {'name': 'mine:algorithm'}},
            'num_rounds': 4,
            'eval_every': 2,
            'num_seeds': 1,
        }

    def write(self, name, text):
        """Writes a file of text."""
        (self.folder / name).write_text(textwrap.dedent(text))

    def write_data(self):
        """Writes the data."""
        np.savez(self.folder / 'data.npz', **self.arrays)

    def build(self, **changes):
        """Returns the experiment with other fields."""
        with resolver.importable(self.folder):
            return experiment.build({**self.config, **changes})

    def run(self, to, **changes):
        """Runs the experiment with other fields in a folder."""
        with resolver.importable(self.folder):
            return experiment.build({**self.config, **changes}).run(to, devices=1)
