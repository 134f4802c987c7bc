"""Client programs executed over a cohort."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import base, local_training, simulation
from fedjax_links.clients import cohorts
from fedjax_links.clients import programs as client_programs
from fedjax_links.local_training import Contribution, local_sgd
from tests.reference.local_loops import (
    FLAT_START,
    ROUND,
    SEED,
    START,
    Reference,
    flat,
    regression,
)


def test_a_cohort_trains_each_member_with_its_own_key_and_row():
    problem = regression()
    program = local_sgd(0.2, local_steps=3, batch_size=2, chunk_size=2)
    mask = jnp.array([True, True, False, True])
    links = base.LinkSample(mask=mask, prob=jnp.full(4, jnp.nan))
    ctx = simulation.round_context(jax.random.key(SEED), ROUND, links)
    table = jnp.arange(4.0)

    def body(train, client, row):
        update = train(START, lr_scale=1.0)
        return Contribution(update.delta, update.loss), row + update.loss

    total, new = jax.jit(
        lambda problem: local_training.train_cohort(
            program, cohorts.make_cohort(mask), ctx, problem, body, table
        )
    )(problem)
    ends = {i: Reference(i).descend(3, 2, lambda g: -0.2 * g) for i in (0, 1, 3)}
    expected = sum(end - FLAT_START for end, _ in ends.values())
    np.testing.assert_allclose(flat(total.value), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        total.loss, sum(loss for _, loss in ends.values()), rtol=1e-5
    )
    for i in range(4):
        np.testing.assert_allclose(
            new[i], i + (ends[i][1] if i in ends else 0), rtol=1e-5
        )


@pytest.mark.parametrize(
    'name', ['ClientProgram', 'LocalUpdate', 'local_sgd', 'proximal_sgd']
)
def test_client_programs_are_found_beside_their_execution(name):
    assert getattr(local_training, name) is getattr(client_programs, name)
    assert name in local_training.__all__
