"""Rounds that tell their length, and edges between clients: kept, read, replayed and priced."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, runs, simulation
from fedjax_links.config import recorded_links
from fedjax_links.links import graphs
from fedjax_links.report import cost_model, layouts, run_view

N = 6
T = 8
TIMES = participation.Times(np.linspace(1, 3, N), sigma=0.4, fixed=0.5)
UPLINKS = participation.bernoulli(np.full(N, 0.6))
SPEEDS = {'step': 0.1, 'uplink': 100.0, 'downlink': 1000.0}


@pytest.fixture
def folder(tmp_path):
    program = fl.local_training.local_sgd(0.1, local_steps=2)
    run = experiment.Experiment(
        title='peers and a quorum',
        problem=fl.problems.quadratic(np.eye(N)),
        patterns={
            'peers': participation.peers(UPLINKS, graphs.ring(N, 4), prob=0.5),
            'quorum': participation.quorum(TIMES, quorum=3),
        },
        algorithms={
            's2s': lambda: fl.ALGORITHMS['s2s'](program),
            'fedavg': lambda: fl.ALGORITHMS['fedavg'](program),
        },
        num_rounds=T,
        eval_every=4,
        seeds=(3, 5),
        log=('links',),
    )
    run.run(tmp_path / 'run')
    return tmp_path / 'run'


def sampled(pattern, seed):
    return simulation.realised_links(jax.random.key(seed), pattern, num_rounds=T)


def test_edges_and_durations_are_kept(folder):
    remaining = runs.links(folder)
    for seed in (3, 5):
        links = sampled(participation.peers(UPLINKS, graphs.ring(N, 4), prob=0.5), seed)
        np.testing.assert_array_equal(remaining.masks['peers'][seed], links.mask)
        np.testing.assert_array_equal(remaining.edges['peers'][seed], links.edges)
        np.testing.assert_array_equal(
            remaining.neighbours['peers'][seed], links.neighbours[0]
        )
        timed = sampled(participation.quorum(TIMES, quorum=3), seed)
        np.testing.assert_array_equal(
            remaining.durations['quorum'][seed], timed.duration
        )
    assert not remaining.durations.get('peers')
    assert not remaining.edges.get('quorum')


def test_a_recording_is_played_back_to_the_bit(folder):
    again = sampled(
        recorded_links.recorded(folder, num_clients=N, pattern='peers', seed=5), 0
    )
    remaining = runs.links(folder)
    np.testing.assert_array_equal(again.mask, remaining.masks['peers'][5])
    np.testing.assert_array_equal(again.edges, remaining.edges['peers'][5])


def test_edges_cost_bytes_and_quorums_hours(folder):
    remaining = runs.links(folder)
    page = layouts.price(
        run_view.of_run(runs.read(folder)),
        **SPEEDS,
        model_bytes=24.0,
        local_steps=2,
        traffic={'s2s': {'peers': 1, 'everyone': True}, 'fedavg': {}},
    )
    (table,) = page.tables
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    sent = (
        np.mean([24.0 * edges.sum() for edges in remaining.edges['peers'].values()])
        / 1e9
    )
    lasted = (
        np.mean([each.sum() for each in remaining.durations['quorum'].values()]) / 3600
    )
    for row in rows:
        if row['pattern'] == 'quorum':
            assert float(row['hours']) == pytest.approx(lasted, rel=1e-2)
        between = row['pattern'] == 'peers' and row['algorithm'] == 's2s'
        assert float(row['GB peers']) == pytest.approx(
            sent if between else 0.0, rel=1e-2
        )


def test_a_price_by_hand():
    mask = np.array([[True, False], [True, True]])
    table = cost_model.devices(2, step=[1.0, 2.0], uplink=10.0, downlink=20.0)
    spent = cost_model.price(
        mask,
        cost_model.Traffic(peers=2),
        table,
        model_bytes=100,
        durations=np.array([4.0, 5.0]),
        edges=np.array([[[True], [True]], [[False], [False]]]),
        overhead=0.5,
    )
    assert spent.seconds.tolist() == [0, 4.5, 10]
    assert spent.peers.tolist() == [0, 400, 400]
