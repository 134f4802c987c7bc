"""FedStale against its listing, its relatives, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms, local_training
from tests.reference import harness, limits, newer_loops, quadratic_loops, statistics


@pytest.mark.parametrize('beta', [0.4, 1.0])
def test_it_follows_the_listing(x64, beta):
    setting = quadratic_loops.gentle_setting()
    expected, rows = newer_loops.fedstale(setting, beta)
    options = {'stale_weight': beta, 'server_lr': 1.3}
    result = harness.follow(setting, algorithms.fedstale, expected, **options)
    state = result.state.algorithm
    np.testing.assert_allclose(state.memory, rows, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.memory_sum, rows.sum(axis=0), rtol=0, atol=1e-12)


def test_it_follows_the_listing_on_lossy_links_both_ways(x64):
    setting, links = harness.split_links(quadratic_loops.gentle_setting())
    expected, _ = newer_loops.fedstale(setting, 0.4)
    options = {'stale_weight': 0.4, 'server_lr': 1.3}
    harness.follow(setting, algorithms.fedstale, expected, links=links, **options)


def test_without_stale_updates_it_is_known_p_fedavg(x64):
    setting = quadratic_loops.gentle_setting()
    ours, _ = harness.run(setting, algorithms.fedstale, stale_weight=0.0, server_lr=1.3)
    theirs, _ = harness.run(setting, algorithms.fedavg_known, server_lr=1.3)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)


def test_an_upload_of_unknown_probability_makes_finite_false(x64):
    setting = quadratic_loops.gentle_setting()
    setting = setting._replace(prob=np.full_like(setting.prob, np.nan))
    options = {'stale_weight': 0.5, 'server_lr': 1.3}
    _, result = harness.run(setting, algorithms.fedstale, **options)
    assert not result.state.finite
    first_upload = np.argmax(setting.mask.any(axis=1))
    assert result.state.first_bad_round == first_upload


@pytest.mark.parametrize('weight', [-0.1, 1.5, float('nan')])
def test_a_weight_that_is_no_share_is_refused(weight):
    with pytest.raises(ValueError, match=r'`stale_weight` must lie in \[0, 1\], got'):
        algorithms.fedstale(
            local_training.local_sgd(0.1, local_steps=1), stale_weight=weight
        )


@pytest.mark.slow
@pytest.mark.statistical
def test_the_mean_reaches_the_optimum_under_unequal_links(x64):
    """Two coordinates at 4.5 standard errors: false alarm 1.4e-5."""
    noisy = statistics.final_models(
        algorithms.fedstale(
            local_training.local_sgd(0.02, local_steps=4, batch_size=1),
            stale_weight=0.5,
        ),
        statistics.noisy_quadratic(statistics.TARGETS),
        num_rounds=300,
        num_seeds=2000,
    )
    assert (
        np.abs(statistics.z_scores(noisy, statistics.OPTIMUM)).max() < statistics.BOUND
    )


@pytest.mark.slow
def test_the_scatter_shrinks_with_stale_updates_down_to_none(x64):
    """To first order in the step x scatters by 1 - beta times what it does at beta = 0."""
    models = {}
    deviation = {}
    for beta in (0.0, 0.5, 1.0):
        algorithm = algorithms.fedstale(limits.program(), stale_weight=beta)
        models[beta] = limits.late_models(algorithm)
        deviation[beta] = models[beta].std(axis=0).max()
    assert 0.4 < deviation[0.5] / deviation[0.0] < 0.6
    assert deviation[1.0] < limits.ROUNDING
    assert np.abs(models[1.0] - limits.OPTIMUM).max() < limits.ROUNDING
