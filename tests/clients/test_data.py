"""Which rows a client's local steps are taken on."""

import functools

import jax
import numpy as np
import pytest

from fedjax_links.clients.data import client_data
from tests.reference.local_loops import COUNTS, client_key, regression, rows_drawn


@functools.partial(jax.jit, static_argnums=(1, 3))
def rows_by_key(client, local_steps, key, batch_size):
    (rows, _), _ = client_data(regression(), client, key, local_steps, batch_size)
    return rows


def rows_of(client, local_steps, batch_size):
    return np.asarray(rows_by_key(client, local_steps, client_key(client), batch_size))


@pytest.mark.parametrize('client', range(len(COUNTS)))
def test_a_batch_is_drawn_by_client_round_and_step(client):
    rows = rows_of(client, 6, 5)
    assert rows.shape == (6, 5)
    for step in range(6):
        step_key = jax.random.fold_in(client_key(client), step)
        np.testing.assert_array_equal(rows[step], rows_drawn(step_key, 5, COUNTS[client]))


def test_a_batch_does_not_depend_on_the_number_of_steps():
    longest = rows_of(1, 9, 4)
    for local_steps in range(1, 9):
        np.testing.assert_array_equal(rows_of(1, local_steps, 4), longest[:local_steps])


def test_every_row_of_a_client_is_drawn_equally_often():
    for client, count in enumerate(COUNTS):
        drawn = np.bincount(rows_of(client, 500, 40).ravel(), minlength=count)
        assert drawn.size == count
        deviations = (drawn - 20_000 / count) / np.sqrt(20_000 / count)
        assert np.sum(deviations**2) <= count - 1 + 4 * np.sqrt(2 * (count - 1))
