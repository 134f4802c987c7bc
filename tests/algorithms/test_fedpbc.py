"""FedPBC against the listing and its exact identity on quadratics."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    local_training,
    participation,
    problems,
    simulation,
)
from tests.reference import harness, local_loops, quadratic_loops, statistics


@pytest.mark.parametrize(
    'compute, chunk_size', [('all', None), ('all', 3), ('active', None)]
)
def test_fedpbc_follows_the_listing(x64, compute, chunk_size):
    setting = quadratic_loops.hard_setting()
    expected_path, expected_models = quadratic_loops.fedpbc(
        setting, pause_inactive=compute == 'active'
    )
    options = {'server_lr': 1.3, 'compute': compute, 'chunk_size': chunk_size}
    result = harness.follow(setting, algorithms.fedpbc, expected_path, **options)
    np.testing.assert_allclose(
        result.state.algorithm.clients, expected_models, rtol=0, atol=1e-9
    )


@pytest.mark.parametrize('name', ['fedavg', 'fedpbc'])
def test_a_sample_per_round_follows_the_listing(x64, rng, name):
    """Xiang et al. 2023, Algorithms 1 and 2: xi_i^t is drawn before the loop over k."""
    mask = rng.random((12, len(local_loops.COUNTS))) < 0.5
    mask[4] = False
    client = local_training.local_sgd(
        0.1, local_steps=5, batch_size=2, resample='round'
    )
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key,
            algorithms.ALGORITHMS[name](client),
            participation.replay(mask),
            problem,
            num_rounds=len(mask),
            eval_every=1,
            eval_fn=lambda params, key, problem: params,
        )
    )
    start = local_loops.as_params(local_loops.FLAT_START)
    problem = dataclasses.replace(
        local_loops.regression(), init_params=lambda key: start
    )
    path = run(jax.random.key(local_loops.SEED), problem).evals['server']
    path = np.column_stack([path['w'], path['b']])
    listing = functools.partial(
        local_loops.xiang_listing, mask, 0.1, 5, 2, keeps_models=name == 'fedpbc'
    )
    np.testing.assert_allclose(path, listing(), rtol=0, atol=1e-12)
    harness.assert_caught(path, listing(resample='step'))


def test_the_reference_tells_the_ablation_apart():
    setting = quadratic_loops.hard_setting()
    full, _ = quadratic_loops.fedpbc(setting)
    paused, _ = quadratic_loops.fedpbc(setting, pause_inactive=True)
    assert np.abs(full - paused).max() > 1e-3


@pytest.mark.parametrize('density', [0.0, 0.1, 0.6, 1.0])
def test_client_mean_contracts_by_the_same_factor_for_any_masks(x64, rng, density):
    """``xbar^t - x* = (1 - eta)^{s t} (x^0 - x*)``: no mask appears in it."""
    num_rounds = 60
    num_clients = 11
    eta = 0.07
    steps = 3
    targets = rng.normal(size=(num_clients, 4))
    start = rng.normal(size=4)
    setting = quadratic_loops.Setting(
        targets=targets,
        start=start,
        mask=rng.random((num_rounds, num_clients)) < density,
        rate=lambda t: eta,
        local_steps=steps,
        server_lr=1.0,
    )
    _, result = harness.run(setting, algorithms.fedpbc)
    factor = (1 - eta) ** (steps * np.arange(1, num_rounds + 1))
    expected = targets.mean(0) + factor[:, None] * (start - targets.mean(0))
    np.testing.assert_allclose(
        result.evals['client_mean'], expected, rtol=0, atol=1e-12
    )


def test_an_empty_round_keeps_the_server_while_clients_train(x64):
    setting = quadratic_loops.hard_setting()
    _, result = harness.run(setting, algorithms.fedpbc, server_lr=1.0, compute='all')
    server = result.evals['server']
    mean = result.evals['client_mean']
    assert not setting.mask[10:14].any()
    np.testing.assert_array_equal(server[10:14], np.broadcast_to(server[9], (4, 3)))
    factor = np.array(
        [(1 - setting.rate(t)) ** setting.local_steps for t in range(10, 14)]
    )
    errors = np.asarray(mean[9:14]) - setting.targets.mean(axis=0)
    np.testing.assert_allclose(
        errors[1:] / errors[:-1], np.outer(factor, np.ones(3)), rtol=1e-6
    )


@pytest.mark.statistical
def test_server_model_fluctuates_around_the_exact_fixed_point(x64):
    """Two coordinates at 4.5 standard errors: false alarm 1.4e-5."""
    eta = 0.05
    steps = 4
    finals = statistics.final_models(
        algorithms.fedpbc(local_training.local_sgd(eta, local_steps=steps)),
        problems.quadratic(statistics.TARGETS),
        num_rounds=150,
        num_seeds=2000,
    )
    expected = analysis.fedpbc_fixed_point(
        statistics.PROBS, statistics.TARGETS, eta, steps
    )
    z_scores = statistics.z_scores(finals, expected.server)
    assert np.abs(z_scores).max() < statistics.BOUND
