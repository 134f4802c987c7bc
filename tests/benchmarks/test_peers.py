"""Other simulators: their inputs, and Flower's clients against the engine."""

import json
import sys

import jax
import numpy as np
import pytest

from benchmarks import common, interpreters, micro, peer_loops, peers, run

SETTINGS = micro.Settings(
    num_clients=7,
    num_samples=4,
    num_features=3,
    num_classes=2,
    cohort_size=3,
    local_steps=2,
)


def by_hand(job):
    """FedAvg as a loop over what Flower's clients do."""
    model = job['weights'], job['bias']
    for cohort in job['cohorts']:
        models = [peer_loops.train(*model, job, client) for client in cohort]
        model = tuple(np.mean(parts, axis=0) for parts in zip(*models, strict=True))
    return {'weights': model[0], 'bias': model[1]}


def test_the_engine_computes_what_flower_s_clients_do_in_numpy():
    inputs = peers.federation(SETTINGS, 12)
    assert inputs['cohorts'].shape == (12, 3)
    ours = peers.engine(jax.random.key(0), peers.as_problem(inputs), inputs, 12)
    common.require_close(ours, by_hand(inputs), tolerance=1e-6, what='numpy')
    others = {**inputs, 'cohorts': (inputs['cohorts'] + 1) % 7}
    with pytest.raises(ValueError, match='numpy: results differ'):
        common.require_close(
            ours, by_hand(others), tolerance=peers.TOLERANCE, what='numpy'
        )


def test_the_work_is_micro_s_on_full_data():
    inputs = peers.federation(micro.Settings(num_samples=16), 5)
    assert inputs['features'].shape == (100, 16, 32)
    assert inputs['weights'].shape == (32, 10)
    assert inputs['local_steps'] == 5
    assert all(len(set(cohort)) == 10 for cohort in inputs['cohorts'].tolist())


def test_a_missing_peer_costs_one_line(monkeypatch, capsys):
    parts = {'other': dict}
    known = {
        **peer_loops.PEERS,
        'other': (None, 'no_such_package'),
        'numpy': (None, 'numpy'),
    }
    monkeypatch.setattr(peer_loops, 'PEERS', known)
    monkeypatch.setattr(peers, 'parts', lambda quick: parts)
    with pytest.raises(SystemExit, match=r'^peers: none of them is installed$'):
        peers.measure(quick=True)
    assert capsys.readouterr().err == (
        f'other: skipped, no_such_package is not installed for {sys.executable}\n'
    )
    assert run.lack('peers') == 'no_such_package is not installed'
    row = {'what': 'a', 'measured': 1.0, 'unit': 'x'}
    parts['numpy'] = lambda: {'version': '1', 'rows': [row]}
    record = peers.measure(quick=True)
    json.dumps(record)
    assert record == {'skipped': ['other'], 'numpy': {'version': '1'}, 'rows': [row]}


def test_the_interpreter_of_a_peer_can_be_named(monkeypatch):
    monkeypatch.delenv('PEER_PYTHON_FLOWER', raising=False)
    assert interpreters.interpreter('flower') == sys.executable
    monkeypatch.setenv('PEER_PYTHON_FLOWER', '/elsewhere/python')
    assert interpreters.interpreter('flower') == '/elsewhere/python'


def test_a_job_that_fails_ends_with_its_error_output(monkeypatch, tmp_path):
    python = tmp_path / 'python'
    python.write_text('#!/bin/sh\nread job\necho "no luck" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setenv('PEER_PYTHON_FEDJAX', str(python))
    with (
        interpreters.Session('fedjax') as session,
        pytest.raises(RuntimeError, match=r'^fedjax: no luck\n$'),
    ):
        session.run(session.job(features=np.zeros(2)))


def test_seconds_of_a_job_are_those_that_the_peer_counted(monkeypatch, tmp_path):
    python = tmp_path / 'python'
    code = (
        'import sys, numpy\n'
        'for line in iter(sys.stdin.readline, ""):\n'
        '    source, target = line.rstrip("\\n").split("\\t")\n'
        '    numpy.savez(target, twice=2 * numpy.load(source)["one"])\n'
        '    print(12.5, flush=True)\n'
    )
    (tmp_path / 'peer.py').write_text(code)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/peer.py\n')
    python.chmod(0o755)
    monkeypatch.setenv('PEER_PYTHON_FEDJAX', str(python))
    with interpreters.Session('fedjax') as session:
        jobs = [session.job(one=np.array([value])) for value in (1.0, 3.0)]
        assert [session.run(job)[0]['twice'].item() for job in jobs] == [2.0, 6.0]
        calls = {'peer': lambda: session.run(jobs[0])[1], 'here': lambda: None}
        seconds = common.take_turns(calls, repeats=2)
    assert seconds['peer'] == [12.5, 12.5]
    assert max(seconds['here']) < 1


@pytest.mark.slow
@pytest.mark.parametrize('name', list(peers.PEERS))
def test_the_engine_is_the_peer(name):
    package = interpreters.missing(name)
    if package:
        pytest.skip(f'{package} is not installed')
    record = peers.compare(name, SETTINGS, num_rounds=peers.UNTIMED + 2, repeats=1)
    json.dumps(record)
    assert record['largest_difference'] <= record['tolerance']
    assert record['rows'][0]['measured'] > 0
