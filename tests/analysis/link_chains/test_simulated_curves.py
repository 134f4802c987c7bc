"""Exact curves under link chains against runs of the engine, in standard errors.

Each comparison uses the bound 4.5: a standard normal exceeds it with probability 6.8e-6.
All cases together make some 670 comparisons. So a correct engine would fail with
probability 5e-3 under other seeds; the seeds are fixed.
"""

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
from fedjax_links.analysis import linear_rounds, link_chains
from fedjax_links.links import graphs
from fedjax_links.participation import schedules
from tests.analysis.linear_algorithms import (
    WITH_PEERS,
    noise_of,
    options_of,
    rate_of,
)
from tests.reference import statistics

pytestmark = pytest.mark.statistical

NUM_SEEDS = 4000
NUM_ROUNDS = 32
ROUNDS_BETWEEN = 8
STEPS = 2
SIZE = 4
PROBS = np.array([0.7, 0.2, 0.5, 0.4])
TARGETS = np.array([[1.0, -1.0], [3.0, 0.5], [-2.0, 2.0], [0.5, 1.5]])
CURVATURE = np.array([0.5, 2.0, 1.0, 1.0])
GROUPS = np.array([0, 0, 1, 1])
RING = graphs.ring(SIZE)
EDGE_PROB = 0.7
WEIGHTS = np.random.default_rng(1).uniform(0.2, 0.6, (SIZE, SIZE))
UP = [1.0, 0.7, 0.2]
DOWN = [1.0, 1.0, 0.5, 0.5]
WAITS = np.concatenate([[1.0], 0.5 ** np.arange(1, 30)])


def sine_probs():
    waves = np.sin(2 * np.pi * np.arange(4) / 4)
    return np.minimum(1, PROBS * (0.6 + 0.4 * waves[:, None]))


PATTERNS = {
    'bernoulli': lambda: participation.bernoulli(PROBS),
    'markov': lambda: participation.markov(PROBS, up_rate=0.2),
    'sine': lambda: participation.markov(
        schedules.sine(PROBS, gamma=0.4, period=4), up_rate=0.2
    ),
    'cyclic': lambda: participation.cyclic(PROBS, cycle_length=5),
    'reset': lambda: participation.cyclic(PROBS, cycle_length=5, reset=True),
    'shocks': lambda: participation.shared_shocks(
        participation.markov(PROBS, up_rate=0.3), GROUPS, up_rate=0.3, down_rate=0.2
    ),
    'semi-markov': lambda: participation.semi_markov(UP, DOWN, num_clients=SIZE),
    'b-min-sep': lambda: participation.semi_markov([1.0], WAITS, num_clients=SIZE),
    'turns': lambda: participation.periodic_groups(
        GROUPS, active_rounds=2, cohort_size=1
    ),
    'separation': lambda: participation.minimum_separation(
        [4.0, 2.0, 1.0, 1.0], separation=1, cohort_size=2
    ),
}
CHAINS = {
    'bernoulli': lambda: link_chains.independent(PROBS),
    'markov': lambda: link_chains.markov(PROBS, 0.2),
    'sine': lambda: link_chains.markov(sine_probs(), 0.2),
    'cyclic': lambda: link_chains.cyclic(PROBS, cycle_length=5),
    'reset': lambda: link_chains.cyclic(PROBS, cycle_length=5, reset=True),
    'shocks': lambda: link_chains.shared_shocks(
        link_chains.markov(PROBS, 0.3), GROUPS, up_rate=0.3, down_rate=0.2
    ),
    'semi-markov': lambda: link_chains.semi_markov(UP, DOWN, kinds=[0] * SIZE),
    'b-min-sep': lambda: link_chains.b_min_sep([0.5] * SIZE, 2),
    'turns': lambda: link_chains.periodic_groups(
        GROUPS, active_rounds=2, cohort_size=1
    ),
    'separation': lambda: link_chains.minimum_separation(
        [4.0, 2.0, 1.0, 1.0], separation=1, cohort_size=2
    ),
}


def pairs():
    """Each algorithm with two or three chains, so that each chain has several algorithms."""
    # FedAvg with known probabilities and FedStale need a pattern that reports them.
    names = list(CHAINS)
    for index, algorithm in enumerate(linear_rounds.RULES):
        chains = [names[(index + shift) % len(names)] for shift in (0, 3)]
        if algorithm == 'fedavg_known':
            chains = ['sine', 'turns']
        elif algorithm == 'fedstale':
            # Under the sine its weights reach 25, and squares have too heavy tails for a z-test.
            chains = ['markov', 'turns']
        for chain in chains:
            yield algorithm, chain


ALL_PAIRS = [('mifa', 'markov'), ('fedavg', 'separation'), *pairs()]


def test_the_cases_make_over_five_hundred_comparisons():
    num_rounds = NUM_ROUNDS // ROUNDS_BETWEEN
    num_coordinates = 0
    for name, _ in ALL_PAIRS:
        num_models = 2 if name in linear_rounds.KEEP_MODELS else 1
        num_coordinates += num_models * num_rounds * TARGETS.shape[1]
    # Each coordinate has a mean and a variance.
    assert 500 < 2 * num_coordinates < 700
    assert {name for name, _ in ALL_PAIRS} == set(linear_rounds.RULES)
    assert {chain for _, chain in ALL_PAIRS} == set(CHAINS)


@pytest.mark.slow
@pytest.mark.parametrize('name, chain', ALL_PAIRS)
def test_runs_have_the_mean_and_variance_of_the_curve(x64, name, chain):
    rate = rate_of(name, 0.2, SIZE)
    options = options_of(name, WEIGHTS)
    noise = noise_of(name)
    pattern = PATTERNS[chain]()
    edges = {}
    if name in WITH_PEERS:
        pattern = participation.peers(pattern, RING, prob=EDGE_PROB)
        edges = {'neighbours': RING.neighbours, 'edge_probs': EDGE_PROB}
    curve = analysis.linear_curve(
        name,
        CHAINS[chain](),
        TARGETS,
        rate,
        STEPS,
        num_rounds=NUM_ROUNDS,
        curvature=CURVATURE,
        noise=noise,
        **edges,
        **options,
    )
    algorithm = algorithms.ALGORITHMS[name](
        local_training.local_sgd(rate, local_steps=STEPS), **options
    )
    problem = problems.quadratic(TARGETS, curvature=CURVATURE, noise=noise)

    def models(key, problem):
        return simulation.simulate(
            key,
            algorithm,
            pattern,
            problem,
            num_rounds=NUM_ROUNDS,
            eval_every=ROUNDS_BETWEEN,
            eval_fn=lambda params, key, problem: params,
        ).evals

    keys = jax.random.split(jax.random.key(3), NUM_SEEDS)
    evals = jax.jit(jax.vmap(models, in_axes=(0, None)))(keys, problem)
    for model, means in curve.means.items():
        runs = np.asarray(evals[model])
        at_rounds = slice(ROUNDS_BETWEEN, None, ROUNDS_BETWEEN)
        variances = np.diagonal(curve.covariances[model], axis1=1, axis2=2)
        statistics.assert_mean_and_variance(
            runs, means[at_rounds], variances[at_rounds]
        )
