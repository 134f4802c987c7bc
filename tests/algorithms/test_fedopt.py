"""FedOpt against hand-written server optimizers."""

import jax
import numpy as np
import optax
import pytest

from fedjax_links import algorithms, local_training
from tests.reference import block_loops, harness, quadratic_loops


def test_server_momentum_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(
        harness.client_program(setting), server_optimizer=optax.sgd(0.4, momentum=0.8)
    )
    harness.follow(setting, algorithm, block_loops.fedavgm(setting, 0.4, 0.8))


def test_server_adam_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(harness.client_program(setting), server_optimizer=optax.adam(0.1))
    result = harness.follow(setting, algorithm, block_loops.fedadam(setting, 0.1))
    steps = optax.tree.get(result.state.algorithm.optimizer, 'count')
    assert steps == setting.mask.any(axis=1).sum()


def test_plain_sgd_at_the_server_is_fedavg(x64):
    setting = quadratic_loops.hard_setting()
    algorithm = algorithms.fedopt(harness.client_program(setting), server_optimizer=optax.sgd(1.3))
    harness.follow(setting, algorithm, quadratic_loops.fedavg(setting))


def test_a_server_optimizer_with_a_traced_rate_is_swept():
    program = local_training.local_sgd(0.1, local_steps=1)

    def initial_count(rate):
        algorithm = algorithms.fedopt(program, server_optimizer=optax.adam(rate))
        state = algorithm.init(np.zeros(2, np.float32), None)
        return optax.tree.get(state.optimizer, 'count') + 0 * rate

    assert jax.vmap(initial_count)(np.array([0.1, 0.2], np.float32)).shape == (2,)


def test_anything_but_an_optax_transformation_is_refused():
    program = local_training.local_sgd(0.1, local_steps=1)
    message = r'^`server_optimizer` must be an optax gradient transformation, got 0\.1\.$'
    with pytest.raises(ValueError, match=message):
        algorithms.fedopt(program, server_optimizer=0.1)
