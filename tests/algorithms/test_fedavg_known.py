"""FedAvg with known probabilities: own, current ones; and what happens where there is none."""

import jax
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from tests.reference import harness, interval_loops, quadratic_loops, statistics


def test_it_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected = interval_loops.fedavg_known(setting)
    harness.follow(setting, algorithms.fedavg_known, expected, server_lr=1.3)


def test_it_follows_the_listing_on_lossy_links_both_ways(x64):
    setting, links = harness.split_links(quadratic_loops.gentle_setting())
    expected = interval_loops.fedavg_known(setting)
    harness.follow(
        setting, algorithms.fedavg_known, expected, links=links, server_lr=1.3
    )


def test_an_upload_of_unknown_probability_makes_finite_false():
    mask = np.array(
        [[True, False], [False, False], [True, False], [True, True], [True, True]]
    )
    prob = np.broadcast_to([0.5, np.nan], mask.shape)
    result = simulation.simulate(
        jax.random.key(0),
        algorithms.fedavg_known(local_training.local_sgd(0.1, local_steps=1)),
        participation.replay(mask, prob),
        problems.quadratic(np.ones((2, 3))),
        num_rounds=len(mask),
    )
    assert not result.state.finite
    assert result.state.first_bad_round == 3


@pytest.mark.statistical
def test_with_losses_both_ways_the_mean_reaches_the_optimum(x64):
    """Claim: unbiased for known independent links, which holds exactly on quadratics.

    Two coordinates at 4.5 standard errors: false alarm 1.4e-5.
    """
    links = participation.duplex(
        uplink=participation.bernoulli(statistics.PROBS),
        downlink=participation.bernoulli([0.9, 0.5, 0.7, 0.4]),
    )
    finals = statistics.final_models(
        algorithms.fedavg_known(local_training.local_sgd(0.02, local_steps=4)),
        problems.quadratic(statistics.TARGETS),
        num_rounds=250,
        num_seeds=2000,
        links=links,
    )
    assert (
        np.abs(statistics.z_scores(finals, statistics.OPTIMUM)).max() < statistics.BOUND
    )
