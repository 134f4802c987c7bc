"""Every registered algorithm and pattern passes the suites that users run on their own."""

import functools

import jax
import numpy as np
import pytest

from fedjax_links import simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.participation import PARTICIPATION
from fedjax_links.testing import ALGORITHM_CHECKS, PARTICIPATION_CHECKS, Promises

NUM_CLIENTS = 9


COMPILES_MOST = (
    'resume_is_exact',
    'vmap_equals_loop',
    'jit_equals_eager',
    'double_precision_agrees',
)
"""Checks of what algorithms share; the default run takes them for one algorithm of each kind."""

ONE_OF_EACH_KIND = ('amplified_fedavg', 'fedavg', 'fedpbc', 'mifa', 'scaffold')
"""A server alone, its clock, models, memories and control variates of the clients."""

PAIRS = [
    pytest.param(
        name,
        check,
        id=f'{name}-{check}',
        marks=pytest.mark.slow if check in COMPILES_MOST and name not in ONE_OF_EACH_KIND else (),
    )
    for name in ALGORITHMS
    for check in ALGORITHM_CHECKS
]


@pytest.mark.parametrize('name, check', PAIRS)
def test_algorithm(name, check):
    entry = ALGORITHMS[name]
    ALGORITHM_CHECKS[check](functools.partial(entry, **entry.example), entry)


@pytest.mark.parametrize('check', PARTICIPATION_CHECKS)
@pytest.mark.parametrize('name', PARTICIPATION)
def test_participation(name, check):
    entry = PARTICIPATION[name]
    size = entry.cohort_size and entry.cohort_size(NUM_CLIENTS)
    promises = Promises(cohort_size=size, prob_is_marginal=entry.prob_is_marginal)
    PARTICIPATION_CHECKS[check](entry.example(NUM_CLIENTS), promises)


@pytest.mark.parametrize('name', PARTICIPATION)
def test_participation_meets_the_same_links_in_double_precision(name):
    """What is drawn must not depend on the precision that is computed with."""

    def realised():
        pattern = PARTICIPATION[name].example(NUM_CLIENTS)
        links = simulation.realised_links(jax.random.key(8), pattern, num_rounds=40)
        return np.asarray(links.mask)

    single = realised()
    with jax.enable_x64(True):
        double = realised()
    np.testing.assert_array_equal(double, single)
