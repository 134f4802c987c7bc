"""FedProx: FedAvg with proximal clients."""

import numpy as np
import pytest

from fedjax_links import algorithms, local_training
from tests.reference import block_loops, harness, quadratic_loops


@pytest.mark.parametrize('mu', [0.0, 0.7])
def test_it_follows_the_listing(x64, mu):
    setting = quadratic_loops.hard_setting()
    expected = block_loops.fedprox(setting, mu)
    client = {'make_client': local_training.proximal_sgd, 'client': {'mu': mu}}
    harness.follow(setting, algorithms.fedavg, expected, server_lr=1.3, **client)


@pytest.mark.parametrize('local_steps', [2, 30])
def test_the_reported_loss_is_that_of_the_start(x64, local_steps):
    setting = quadratic_loops.hard_setting()._replace(local_steps=local_steps)
    client = {'make_client': local_training.proximal_sgd, 'client': {'mu': 5.0}}
    _, result = harness.run(setting, algorithms.fedavg, **client)
    first = setting.targets[setting.mask[0]]
    expected = 0.5 * ((setting.start - first) ** 2).sum()
    np.testing.assert_allclose(result.rounds.loss_sum[0], expected, rtol=1e-12)


def test_the_registered_entry_names_its_client_program():
    entry = algorithms.ALGORITHMS['fedprox']
    program = entry.client_program(
        0.1, local_steps=2, batch_size=None, **entry.client_example
    )
    assert program.local_steps == 2
    assert entry(program, server_lr=1.0).init is not None
    others = [e for name, e in algorithms.ALGORITHMS.items() if name != 'fedprox']
    assert all(e.client_program is None for e in others)


@pytest.mark.parametrize('mu', [-1.0, np.inf, np.nan])
def test_a_negative_or_infinite_strength_is_refused(mu):
    with pytest.raises(
        ValueError, match=f'^`mu` must be finite and at least 0, got {mu}.$'
    ):
        local_training.proximal_sgd(0.1, mu=mu, local_steps=1)
