"""Uplink, downlink and compute apart: both worlds of the literature."""

import jax
import numpy as np
import pytest

from fedjax_links import base, local_training, problems, simulation
from fedjax_links.algorithms import fedpbc
from fedjax_links.participation import (
    always,
    bernoulli,
    both,
    duplex,
    either,
    mixture,
    outage,
    replay,
    unavailable,
)
from tests.participation.sampling import assert_frequencies, masks, refuses, roll

P = np.array([0.3, 0.8])
Q = np.array([0.6, 0.5])
MASK = np.array([[True, False, True], [False, False, True], [True, True, False]])


def test_unavailable_clients_do_nothing():
    links = roll(unavailable(replay(MASK)), 3)
    for field in (links.mask, links.downlink, links.compute):
        np.testing.assert_array_equal(field, MASK)
    for read in (base.participants, base.delivers, base.receives, base.computes):
        np.testing.assert_array_equal(read(links), MASK)


def test_duplex_directions():
    up = MASK
    down = ~MASK
    work = np.roll(MASK, 1, axis=0)
    links = roll(
        duplex(uplink=replay(up), downlink=replay(down), compute=replay(work)), 3
    )
    np.testing.assert_array_equal(links.mask, up & work)
    np.testing.assert_array_equal(base.participants(links), up & work & down)
    np.testing.assert_array_equal(base.delivers(links), up & work)
    np.testing.assert_array_equal(base.receives(links), down)
    np.testing.assert_array_equal(base.computes(links), work)
    alone = roll(duplex(uplink=replay(up)), 3)
    assert alone.downlink.all()
    assert alone.compute.all()
    np.testing.assert_array_equal(alone.mask, up)


@pytest.mark.statistical
def test_duplex_parts_are_independent():
    p = np.array([0.3, 0.8])
    q = np.array([0.5, 0.9])
    r = np.array([0.8, 0.4])
    pattern = duplex(uplink=bernoulli(p), downlink=bernoulli(r), compute=bernoulli(q))
    np.testing.assert_allclose(roll(pattern, 1).prob[0], p * q * r, rtol=1e-6)
    assert_frequencies(masks(pattern, 1, 20_000)[:, 0].sum(axis=0), p * q, 20_000)


@pytest.mark.statistical
@pytest.mark.parametrize(
    'combine',
    [
        lambda split: split,
        lambda split: both(split, split),
        lambda split: either(split, bernoulli(Q)),
        lambda split: mixture([bernoulli(P), split], [0.25, 0.75]),
        lambda split: outage(unavailable(split), start=10**6, stop=10**6 + 1),
    ],
    ids=['alone', 'both', 'either', 'mixture', 'unavailable'],
)
def test_clients_take_part_as_often_as_the_probability_says(combine):
    split = duplex(
        uplink=bernoulli(P), downlink=bernoulli(Q), compute=bernoulli([0.9, 0.7])
    )
    num_rounds = 20_000
    links = roll(combine(split), num_rounds)
    np.testing.assert_array_equal(links.prob, np.tile(links.prob[0], (num_rounds, 1)))
    taking_part = np.asarray(base.participants(links)).sum(axis=0)
    assert_frequencies(taking_part, links.prob[0].astype(float), num_rounds)


def test_links_of_two_patterns_have_no_known_probability():
    split = duplex(uplink=bernoulli(P), downlink=bernoulli(Q))
    assert np.isnan(roll(either(split, split), 2).prob).all()


def test_unavailable_clients_take_no_part_in_either_direction():
    up = MASK
    down = np.roll(MASK, 1, axis=1)
    work = np.roll(MASK, 1, axis=0)
    inner = duplex(uplink=replay(up), downlink=replay(down), compute=replay(work))
    links = roll(unavailable(inner), 3)
    for field in (links.mask, links.downlink, links.compute):
        np.testing.assert_array_equal(field, up & down & work)


def test_both_worlds_without_touching_the_algorithm(x64):
    # FedPBC clients whose upload is lost train on. Unavailable clients keep their model.
    targets = np.array([[0.0], [1.0], [5.0]])
    problem = problems.quadratic(targets)
    step = local_training.local_sgd(0.5, local_steps=1)

    def client_models(pattern):
        state = simulation.simulate(
            jax.random.key(0), fedpbc(step), pattern, problem, num_rounds=1
        ).state
        return np.asarray(jax.tree.leaves(state.algorithm.clients)[0])

    after_lost_upload = client_models(replay(MASK[:1]))
    while_unavailable = client_models(unavailable(replay(MASK[:1])))
    np.testing.assert_allclose(after_lost_upload[:, 0], [1.25, 0.5, 1.25])
    np.testing.assert_allclose(while_unavailable[:, 0], [1.25, 0.0, 1.25])


def test_errors():
    refuses(
        lambda: duplex(uplink=always(3), compute=always(2)),
        '`compute` must have the 3 clients of `uplink`, got 2.',
    )
    split = duplex(uplink=always(3), downlink=always(3))
    for part in ('uplink', 'downlink', 'compute'):
        refuses(
            lambda part=part: duplex(**{'uplink': always(3), part: split}),
            f'`{part}` must have one mask (`both` joins patterns with separate '
            'ones), got <Participation combine: 3 clients>.',
        )
