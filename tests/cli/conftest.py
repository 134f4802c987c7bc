"""A command that takes no time."""

import pytest

PLAIN = """
from ml_collections import ConfigDict


def get_config():
    return ConfigDict({
        'title': 'Two algorithms in no time',
        'problem': {'name': 'counterexample', 'num_clients': 10, 'dimension': 5},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 3, 'learning_rate': 0.1},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'num_rounds': 20,
        'eval_every': 10,
        'num_seeds': 2,
    })
"""


@pytest.fixture(scope='module')
def plain(tmp_path_factory):
    """The command with a config that compiles in no time."""
    path = tmp_path_factory.mktemp('config') / 'plain.py'
    path.write_text(PLAIN)
    return ['simulate', f'--config={path}']
