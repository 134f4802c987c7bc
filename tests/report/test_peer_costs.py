"""Durations of rounds and edges between clients: saved, read, replayed, and what they cost."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, runs, simulation
from fedjax_links.config import recorded_links
from fedjax_links.links import graphs
from fedjax_links.report import cost_model, layouts, run_view
from tests.report.made import rows_of

N = 6
T = 8
TIMES = participation.Times(np.linspace(1, 3, N), sigma=0.4, fixed=0.5)
UPLINKS = participation.bernoulli(np.full(N, 0.6))
PATTERNS = {
    'peers': participation.peers(UPLINKS, graphs.ring(N, 4), prob=0.5),
    'quorum': participation.quorum(TIMES, quorum=3),
}
SPEEDS = {'step': 0.1, 'uplink': 100.0, 'downlink': 1000.0}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A run of links with edges and of links with durations, which kept both."""
    folder = tmp_path_factory.mktemp('peers') / 'run'
    program = fl.local_training.local_sgd(0.1, local_steps=2)
    run = experiment.Experiment(
        title='peers and a quorum',
        problem=fl.problems.quadratic(np.eye(N)),
        patterns=PATTERNS,
        algorithms={
            's2s': lambda: fl.ALGORITHMS['s2s'](program),
            'fedavg': lambda: fl.ALGORITHMS['fedavg'](program),
        },
        num_rounds=T,
        eval_every=4,
        seeds=(3, 5),
        log=('links',),
    )
    run.run(folder)
    return folder


def sampler(pattern):
    """Returns ``seed -> links``, which compiles once."""
    draw = jax.jit(lambda key: simulation.realised_links(key, pattern, num_rounds=T))
    return lambda seed: draw(jax.random.key(seed))


def test_edges_and_durations_are_saved(folder):
    saved = runs.links(folder)
    peers, quorum = (sampler(PATTERNS[label]) for label in ('peers', 'quorum'))
    for seed in (3, 5):
        links = peers(seed)
        np.testing.assert_array_equal(saved.masks['peers'][seed], links.mask)
        np.testing.assert_array_equal(saved.edges['peers'][seed], links.edges)
        np.testing.assert_array_equal(
            saved.neighbours['peers'][seed], links.neighbours[0]
        )
        timed = quorum(seed)
        np.testing.assert_array_equal(saved.durations['quorum'][seed], timed.duration)
    assert not saved.durations.get('peers')
    assert not saved.edges.get('quorum')


def test_recorded_links_are_replayed_to_the_bit(folder):
    pattern = recorded_links.recorded(folder, num_clients=N, pattern='peers', seed=5)
    replayed = sampler(pattern)(0)
    saved = runs.links(folder)
    np.testing.assert_array_equal(replayed.mask, saved.masks['peers'][5])
    np.testing.assert_array_equal(replayed.edges, saved.edges['peers'][5])


def test_edges_cost_bytes_and_quorums_hours(folder):
    saved = runs.links(folder)
    page = layouts.cost(
        run_view.from_run(runs.read(folder)),
        **SPEEDS,
        model_bytes=24.0,
        local_steps=2,
        traffic={'s2s': {'peers': 1, 'everyone': True}, 'fedavg': {}},
    )
    (table,) = page.tables
    rows = rows_of(table)
    num_edges = np.mean([edges.sum() for edges in saved.edges['peers'].values()])
    durations = saved.durations['quorum'].values()
    hours = np.mean([duration.sum() for duration in durations]) / 3600
    assert len(rows) == 4
    for row in rows:
        if row['pattern'] == 'quorum':
            assert row['hours'] == f'{hours:.3g}'
        gigabytes = 0.0
        if (row['pattern'], row['algorithm']) == ('peers', 's2s'):
            gigabytes = 24.0 * num_edges / 1e9
        assert row['GB peers'] == f'{gigabytes:.3g}'


def test_a_cost_by_hand():
    mask = np.array([[True, False], [True, True]])
    table = cost_model.devices(2, step=[1.0, 2.0], uplink=10.0, downlink=20.0)
    costs = cost_model.round_costs(
        mask,
        cost_model.Traffic(peers=2),
        table,
        model_bytes=100,
        durations=np.array([4.0, 5.0]),
        edges=np.array([[[True], [True]], [[False], [False]]]),
        overhead=0.5,
    )
    assert costs.seconds.tolist() == [0, 4.5, 10]
    assert costs.peers.tolist() == [0, 400, 400]
