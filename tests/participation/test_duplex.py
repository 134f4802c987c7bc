"""Uplink, downlink and compute apart: both worlds of the literature."""

import jax
import numpy as np
import pytest

from fedjax_links import base, local_training, problems, simulation
from fedjax_links.algorithms import fedpbc
from fedjax_links.participation import always, bernoulli, duplex, replay, unavailable
from tests.participation.sampling import assert_frequencies, masks, refuses, roll

MASK = np.array([[True, False, True], [False, False, True], [True, True, False]])


def test_unavailable_clients_do_nothing():
    links = roll(unavailable(replay(MASK)), 3)
    for field in (links.mask, links.downlink, links.compute):
        np.testing.assert_array_equal(field, MASK)
    for read in (base.participants, base.delivers, base.receives, base.computes):
        np.testing.assert_array_equal(read(links), MASK)


def test_duplex_directions():
    up, down, work = MASK, ~MASK, np.roll(MASK, 1, axis=0)
    links = roll(duplex(uplink=replay(up), downlink=replay(down), compute=replay(work)), 3)
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
    p, q = np.array([0.3, 0.8]), np.array([0.5, 0.9])
    pattern = duplex(uplink=bernoulli(p), compute=bernoulli(q))
    np.testing.assert_allclose(roll(pattern, 1).prob[0], p * q, rtol=1e-6)
    assert_frequencies(masks(pattern, 1, 20_000)[:, 0].sum(axis=0), p * q, 20_000)


def test_both_worlds_without_touching_the_algorithm(x64):
    # Unreliable uplinks: silent FedPBC clients train on. Unavailable clients: they stand still.
    targets = np.array([[0.0], [1.0], [5.0]])
    problem = problems.quadratic(targets)
    step = local_training.local_sgd(0.5, local_steps=1)

    def client_models(pattern):
        state = simulation.simulate(
            jax.random.key(0), fedpbc(step), pattern, problem, num_rounds=1
        ).state
        return np.asarray(jax.tree.leaves(state.algorithm.clients)[0])

    silent = client_models(replay(MASK[:1]))
    absent = client_models(unavailable(replay(MASK[:1])))
    np.testing.assert_allclose(silent[:, 0], [1.25, 0.5, 1.25])
    np.testing.assert_allclose(absent[:, 0], [1.25, 0.0, 1.25])


def test_errors():
    refuses(
        lambda: duplex(uplink=always(3), compute=always(2)),
        '`compute` must have the 3 clients of `uplink`, got 2.',
    )
