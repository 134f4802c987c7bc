"""A cohort's number of members decides how many chunks of each width hold it."""

import itertools
import math

import jax
import numpy as np
import pytest

from fedjax_links.clients import chunk_widths, cohorts, programs
from tests.clients.test_cohorts import Counter

SETS = [(4,), (2, 3), (7, 10, 12), (1, 5, 20)]
CHUNK_COST = 1.5
divide = jax.jit(chunk_widths.divide, static_argnums=1)


def least_cost(size, widths):
    """The smallest cost of all numbers of chunks that hold the members.

    A chunk costs its width in slots and `CHUNK_COST` more.
    """
    ranges = [range(math.ceil(size / width) + 1) for width in widths]
    return min(
        np.dot(counts, widths) + CHUNK_COST * sum(counts)
        for counts in itertools.product(*ranges)
        if np.dot(counts, widths) >= size
    )


@pytest.mark.parametrize('widths', SETS)
def test_no_other_chunks_cost_less(widths):
    for size in range(2 * widths[-1] + 3):
        counts = np.asarray(divide(size, widths))
        assert counts @ widths >= size
        cost = counts @ widths + CHUNK_COST * counts.sum()
        assert cost == pytest.approx(least_cost(size, widths))


@pytest.mark.parametrize('widths', SETS)
@pytest.mark.parametrize('size', [101, 4096, 10**6])
def test_large_cohorts_fill_nearly_all_of_their_chunks(size, widths):
    counts = np.asarray(divide(size, widths))
    assert 0 <= counts @ widths - size < widths[-1]
    assert counts[:-1] @ widths[:-1] <= 4 * widths[-1]


def test_only_slots_of_the_chunks_are_computed():
    widths = (2, 5)
    counter = Counter()
    run = jax.jit(
        lambda mask: cohorts.map_reduce(
            counter, cohorts.make_cohort(mask), (), chunk_size=widths
        )[0]
    )
    for active in (0, 1, 2, 5, 6, 13, 40):
        mask = np.arange(40) < active
        assert float(run(mask)) == active
        counts = np.asarray(divide(active, widths))
        assert counter.slots_of(run, mask) == counts @ widths


@pytest.mark.parametrize(
    'chunk_size, normal', [(3, 3), ((12, 7, 7), (7, 12)), ([np.int64(2)], (2,))]
)
def test_programs_hold_widths_in_increasing_order(chunk_size, normal):
    program = programs.local_sgd(0.1, local_steps=1, chunk_size=chunk_size)
    assert program.chunk_size == normal


def test_widths_above_the_number_of_slots_are_one():
    assert chunk_widths.at_most((3, 8, 12), 6) == (3, 6)
    assert chunk_widths.at_most(12, 6) == 6


def test_chunks_cost_least_only_up_to_four_of_the_largest():
    widths = (8, 9)
    costs = {}
    for size in (36, 37):
        counts = np.asarray(divide(size, widths))
        costs[size] = counts @ widths + CHUNK_COST * counts.sum()
    assert costs[36] == least_cost(36, widths)
    assert costs[37] == least_cost(37, widths) + 1
