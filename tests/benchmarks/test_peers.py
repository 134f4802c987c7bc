"""Other simulators: what they are given, and that what Flower's clients do is the engine's work."""

import json
import sys

import jax
import numpy as np
import pytest

from benchmarks import common, micro, peer_loops, peers, run

SETTINGS = micro.Settings(
    num_clients=7, num_samples=4, num_features=3, num_classes=2, cohort_size=3, local_steps=2
)


def by_hand(given):
    """FedAvg as a loop over what Flower's clients do."""
    model = given['weights'], given['bias']
    for cohort in given['cohorts']:
        models = [peer_loops.train(*model, given, client) for client in cohort]
        model = tuple(np.mean(parts, axis=0) for parts in zip(*models, strict=True))
    return {'weights': model[0], 'bias': model[1]}


def test_the_engine_computes_what_flower_s_clients_do_in_numpy():
    given = peers.federation(SETTINGS, 12)
    assert given['cohorts'].shape == (12, 3)
    ours = peers.engine(jax.random.key(0), peers.as_problem(given), given, 12)
    common.require_close(ours, by_hand(given), tolerance=1e-6, what='numpy')
    others = {**given, 'cohorts': (given['cohorts'] + 1) % 7}
    with pytest.raises(ValueError, match='numpy: results differ'):
        common.require_close(ours, by_hand(others), tolerance=peers.TOLERANCE, what='numpy')


def test_the_work_is_micro_s_on_full_data():
    given = peers.federation(micro.Settings(num_samples=16), 5)
    assert given['features'].shape == (100, 16, 32)
    assert given['weights'].shape == (32, 10)
    assert given['local_steps'] == 5
    assert all(len(set(cohort)) == 10 for cohort in given['cohorts'].tolist())


def test_what_does_not_import_is_said_in_one_line(monkeypatch, capsys):
    made = {'other': (sys.executable, 'no_such_package', dict)}
    monkeypatch.setattr(peers, 'parts', lambda quick: made)
    with pytest.raises(SystemExit, match=r'^peers: none of them is installed$'):
        peers.measure(quick=True)
    assert capsys.readouterr().err == (
        f'other: skipped, no_such_package is not installed for {sys.executable}\n'
    )
    row = {'what': 'a', 'measured': 1.0, 'unit': 'x'}
    made['numpy'] = (sys.executable, 'numpy', lambda: {'version': '1', 'rows': [row]})
    record = peers.measure(quick=True)
    json.dumps(record)
    assert record == {'skipped': ['other'], 'numpy': {'version': '1'}, 'rows': [row]}


def test_the_interpreter_of_a_peer_can_be_named(monkeypatch):
    assert peer_loops.interpreter('flower') == sys.executable
    monkeypatch.setenv('PEER_PYTHON_FLOWER', '/elsewhere/python')
    assert peer_loops.interpreter('flower') == '/elsewhere/python'
    assert run.named(['peers']) == ['peers']


@pytest.mark.slow
@pytest.mark.parametrize('name', list(peers.PEERS))
def test_the_engine_is_the_peer(name):
    _, package = peer_loops.PEERS[name]
    if not peer_loops.imports(peer_loops.interpreter(name), package):
        pytest.skip(f'{package} is not installed')
    record = peers.compare(name, SETTINGS, num_rounds=peers.UNTIMED + 2, repeats=1)
    json.dumps(record)
    assert record['largest_difference'] <= record['tolerance']
    assert record['rows'][0]['measured'] > 0
