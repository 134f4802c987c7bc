"""Commands that take no time."""

import pytest

from fedjax_links.runner import dry_runs, preflight

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


@pytest.fixture
def uncompiled(monkeypatch):
    """Has dry runs describe a run, and neither trace nor compile its programs."""
    monkeypatch.setattr(preflight, 'check', lambda *arguments: None)
    monkeypatch.setattr(dry_runs, 'dry_run', lambda *arguments: [])
