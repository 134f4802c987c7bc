"""FedNova with clients of unequal speed."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import algorithms, base, local_training, problems, simulation
from tests.reference import block_loops, harness, quadratic_loops

STEPS = np.array([1, 4, 2, 3, 4, 1, 2])


def test_it_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.fednova(setting, STEPS)
    result = harness.follow(
        setting,
        algorithms.fednova,
        expected,
        client={'client_steps': STEPS},
        server_lr=1.3,
    )
    np.testing.assert_array_equal(
        result.rounds.extra['num_local_steps'], setting.mask @ STEPS
    )


def test_more_steps_than_an_integer_holds_are_no_step_backwards():
    """Three clients that say that they made a thousand million steps: tau_eff is that."""
    program = local_training.local_sgd(0.1, local_steps=1)
    many = 10**9

    def run(*args, **adjustments):
        return program.run(*args, **adjustments)._replace(num_steps=jnp.int32(many))

    algorithm = algorithms.fednova(program._replace(run=run))
    problem = problems.quadratic(np.ones((3, 2)))
    links = base.LinkSample(jnp.ones(3, bool), jnp.ones(3))
    ctx = simulation.round_context(jax.random.key(0), 0, links)
    start = algorithm.init(jnp.zeros(2), problem)
    state, metrics = jax.jit(algorithm.round_step)(start, ctx, problem)
    np.testing.assert_allclose(state.server, [0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(metrics.extra['num_local_steps'], 3 * many, rtol=1e-6)


def test_equal_steps_give_fedavg(x64):
    setting = quadratic_loops.hard_setting()
    expected = quadratic_loops.fedavg(setting)
    for client in (None, {'client_steps': np.full(7, 4)}):
        harness.follow(
            setting, algorithms.fednova, expected, client=client, server_lr=1.3
        )


def test_full_participation_removes_bias_of_unequal_steps(x64):
    """Claim: the fixed point no longer weighs clients by their steps.

    On quadratics a client with tau steps has the normalised gain ``(1 - (1 - eta)^tau) / tau``,
    which is eta up to order eta^2: FedNova's limit tends to the optimum with eta, FedAvg's does
    not. Both limits are exact here.
    """
    eta = 1e-3
    setting = quadratic_loops.hard_setting()._replace(
        mask=np.ones((80, 7), bool), rate=lambda t: eta
    )
    gain = 1 - (1 - eta) ** STEPS
    optimum = setting.targets.mean(axis=0)
    nova_limit = (gain / STEPS) @ setting.targets / (gain / STEPS).sum()
    avg_limit = gain @ setting.targets / gain.sum()
    for factory, limit in (
        (algorithms.fednova, nova_limit),
        (algorithms.fedavg, avg_limit),
    ):
        harness.follow(
            setting._replace(start=limit),
            factory,
            np.broadcast_to(limit, (80, 3)),
            client={'client_steps': STEPS},
            server_lr=1.0,
        )
    assert np.abs(nova_limit - optimum).max() < 3 * eta * np.abs(setting.targets).max()
    assert np.abs(avg_limit - optimum).max() > 0.1
