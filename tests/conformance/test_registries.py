"""Every registered algorithm and pattern passes the suites that users run on their own."""

import functools
import itertools

import jax
import numpy as np
import pytest

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.participation import PARTICIPATION
from fedjax_links.testing import (
    ALGORITHM_CHECKS,
    PARTICIPATION_CHECKS,
    DoesNotApply,
    Promises,
    Runs,
)
from tests.conformance import shared
from tests.participation.sampling import roll
from tests.tiers import cases

NUM_CLIENTS = 9

WITH_PROGRAMS_OF_THEIR_OWN = (
    'relabelling_changes_nothing_global',
    'clients_that_cannot_compute_stay_out',
    'counts_match_the_data_used',
    'named_cohort_is_its_mask',
    'chunks_change_rounding_alone',
    'one_sample_a_round_is_all_data',
    'narrow_tables_agree',
    'resume_is_exact',
    'vmap_equals_loop',
    'jit_equals_eager',
    'double_precision_agrees',
    'examples_weigh_wherever_they_lie',
)
"""Checks that compile more than one run: by default of one algorithm of each kind."""

NEEDS_DEVICES = 'meshes_agree'

ONE_OF_EACH_KIND = ('amplified_fedavg', 'fedpbc', 'scaffold')
"""A server and its clock, models, and control variates of the clients: these checks by default."""

BY_DEFAULT_OF_ONE = {
    'examples_weigh_wherever_they_lie': 'fedprox',
    'jit_equals_eager': 'scaffold',
}
"""Checks that compile most, by default of one algorithm.

`tests/algorithms/test_weights.py` compares the others that weigh with loops.
"""


def default_pairs():
    """Lists the algorithms and checks of the default run."""
    pairs = []
    for name, check in itertools.product(ALGORITHMS, ALGORITHM_CHECKS):
        names = ALGORITHMS
        if check in BY_DEFAULT_OF_ONE:
            names = [BY_DEFAULT_OF_ONE[check]]
        elif check in WITH_PROGRAMS_OF_THEIR_OWN:
            names = ONE_OF_EACH_KIND
        if check != NEEDS_DEVICES and name in names:
            pairs.append((name, check))
    return pairs


@functools.lru_cache(maxsize=4)
def runs(name):
    """One object for all checks of an algorithm, which then share its runs, and one of FedAvg."""
    result = Runs(ALGORITHMS[name])
    result.rounds = shared.rounds(name)
    if ALGORITHMS[name].client_program is None:
        result.fedavg_runs = shared.fedavg_runs()
    return result


@functools.cache
def pattern(name):
    return PARTICIPATION[name].example(NUM_CLIENTS)


def skip_where_nothing_is_promised(check, *args):
    try:
        check(*args)
    except DoesNotApply as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize('name, check', default_pairs())
def test_algorithm(name, check):
    skip_where_nothing_is_promised(ALGORITHM_CHECKS[check], runs(name))


def other_pairs():
    """Makes parameters for the pairs that are not in the default run.

    A third of the pairs is slow; every algorithm and every check is among them. A release has all.
    """
    covered = pytest.mark.release('test_algorithm_with_programs_of_its_own')
    default = set(default_pairs())
    parameters = []
    for i, name in enumerate(ALGORITHMS):
        for j, check in enumerate(WITH_PROGRAMS_OF_THEIR_OWN):
            if (name, check) not in default:
                marks = () if (i + j) % 3 == 0 else covered
                parameters.append(pytest.param(name, check, marks=marks))
    return parameters


@pytest.mark.slow
@pytest.mark.parametrize('name, check', other_pairs())
def test_algorithm_with_programs_of_its_own(name, check):
    skip_where_nothing_is_promised(ALGORITHM_CHECKS[check], runs(name))


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize('name', ONE_OF_EACH_KIND)
def test_a_run_in_pieces_has_the_same_bits_as_users_compile(name):
    ALGORITHM_CHECKS['resume_is_exact'](Runs(ALGORITHMS[name]))


@pytest.mark.parametrize('check', PARTICIPATION_CHECKS)
@pytest.mark.parametrize('name', PARTICIPATION)
def test_participation(name, check):
    entry = PARTICIPATION[name]
    size = entry.cohort_size and entry.cohort_size(NUM_CLIENTS)
    promises = Promises(cohort_size=size, prob_is_marginal=entry.prob_is_marginal)
    skip_where_nothing_is_promised(PARTICIPATION_CHECKS[check], pattern(name), promises)


@pytest.mark.parametrize(
    'name', cases(PARTICIPATION, ['bernoulli', 'markov', 'uniform_cohort'])
)
def test_participation_meets_the_same_links_in_double_precision(name):
    """What is drawn must not depend on the precision that is computed with."""

    def realised():
        pattern = PARTICIPATION[name].example(NUM_CLIENTS)
        return roll(pattern, 40, seed=8).mask

    single = realised()
    with jax.enable_x64(True):
        double = realised()
    np.testing.assert_array_equal(double, single)
