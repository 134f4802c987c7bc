"""The table of linear rules against closed forms, and against what the engine does."""

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
from fedjax_links.links import graphs
from tests import refusals
from tests.analysis.linear_algorithms import (
    WITH_PEERS,
    noise_of,
    options_of,
    rate_of,
)
from tests.reference import statistics
from tests.tiers import cases

SIZE = 5
RATE = 0.1
STEPS = 3
PROBS = np.array([0.7, 0.2, 0.5, 0.35, 0.9])
TARGETS = np.random.default_rng(0).normal(size=(SIZE, 2)) + 2 * PROBS[:, None]
CURVATURE = np.array([0.5, 2.0, 1.0, 0.3, 1.5])
RING = graphs.ring(SIZE)
WEIGHTS = np.random.default_rng(1).uniform(0.2, 0.6, (SIZE, SIZE))
RUN_LONGER_THAN_THEY_COMPILE = {'cogc', 'feddyn'}
NUM_SEEDS = 4000


def edge_prob_of(name):
    """CoGC steps only where all edges that it needs are up; rare edges would take many rounds."""
    return 0.9 if name == 'cogc' else 0.6


def limit(name, *, curvature=1.0, noise=0.0):
    edges = {}
    if name in WITH_PEERS:
        edges = {'neighbours': RING.neighbours, 'edge_probs': edge_prob_of(name)}
    return analysis.linear_rule(
        name,
        PROBS,
        TARGETS,
        rate_of(name, RATE, SIZE),
        STEPS,
        curvature=curvature,
        noise=noise,
        **edges,
        **options_of(name, WEIGHTS),
    )


def test_fedavg_and_fedpbc_are_as_in_their_closed_forms():
    inputs = PROBS, TARGETS, RATE, STEPS
    moments = analysis.fedavg_mean_and_covariance(*inputs, num_rounds=0)
    result = limit('fedavg')
    np.testing.assert_allclose(
        result.means['server'], moments.limit_mean, rtol=0, atol=1e-12
    )
    expected = np.diagonal(moments.limit_covariance)
    np.testing.assert_allclose(result.variances['server'], expected, rtol=0, atol=1e-12)
    result = limit('fedpbc')
    fixed = analysis.fedpbc_fixed_point(*inputs)
    np.testing.assert_allclose(result.means['server'], fixed.server, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        result.means['client_mean'], fixed.client_mean, rtol=0, atol=1e-12
    )
    moments = analysis.fedpbc_mean_and_covariance(*inputs, num_rounds=0)
    square = result.variances['server'].sum()
    square += ((result.means['server'] - result.optimum) ** 2).sum()
    assert abs(square - moments.limit_server_mean_square) < 1e-10


@pytest.mark.parametrize(
    'name',
    [
        'area',
        'feddyn',
        'fedavg_known',
        'fedstale',
        'fedvarp',
        'focus',
        'mifa',
        'mimic',
        'scaffold',
    ],
)
def test_exact_rules_end_at_the_optimum(name):
    """With equal curvature and without noise; only the two with known p keep a variance."""
    result = limit(name)
    np.testing.assert_allclose(
        result.means['server'], result.optimum, rtol=0, atol=1e-10
    )
    if name not in ('fedavg_known', 'fedstale'):
        np.testing.assert_allclose(result.variances['server'], 0, rtol=0, atol=1e-10)
    assert 0 < result.rate < 1


@pytest.mark.parametrize('name', ['gossip', 's2s'])
def test_the_mean_of_the_clients_is_exact_on_any_graph(name):
    result = limit(name)
    model = 'client_mean' if name == 's2s' else 'server'
    np.testing.assert_allclose(result.means[model], result.optimum, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.variances[model], 0, rtol=0, atol=1e-12)


def test_s2a_ends_where_fedavg_does_on_mixed_targets():
    """``w^T E[M] u`` where no round is empty: the weights of FedAvg, spread over neighbours."""
    probs = np.array([1.0, 0.2, 0.5, 0.35, 0.9])
    mixed = analysis.expected_metropolis_matrix(RING.neighbours, 0.6) @ TARGETS
    result = analysis.linear_rule(
        's2a', probs, TARGETS, RATE, STEPS, neighbours=RING.neighbours, edge_probs=0.6
    )
    expected = analysis.fedavg_weights(probs) @ mixed
    np.testing.assert_allclose(result.means['server'], expected, rtol=0, atol=1e-12)


def rules_by_tier():
    """Makes parameters: every second rule in its general case is slow; a release has all."""
    covered = pytest.mark.release('test_the_engine_ends_there')
    parameters = []
    for index, name in enumerate(analysis.linear_rules.RULES):
        is_long = name in RUN_LONGER_THAN_THEY_COMPILE
        marks = [pytest.mark.optimised] if is_long else []
        parameters.append(pytest.param(name, True, marks=[*marks, covered]))
        is_slow = index % 2 == 0
        parameters.append(
            pytest.param(name, False, marks=marks if is_slow else [*marks, covered])
        )
    return parameters


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize('name, is_plain', rules_by_tier())
def test_the_engine_ends_there(x64, name, is_plain):
    """Means and variances over 4,000 seeds in standard errors, once the mean has settled.

    In the general case curvatures are unequal and gradients are noisy, unless the rule's rows have
    another noise.
    """
    curvature = np.ones(SIZE) if is_plain else CURVATURE
    noise = 0.0 if is_plain else noise_of(name)
    result = limit(name, curvature=curvature, noise=noise)
    num_rounds = int(np.log(1e-13) / np.log(result.rate)) + 1
    program = local_training.local_sgd(rate_of(name, RATE, SIZE), local_steps=STEPS)
    rule = algorithms.ALGORITHMS[name](program, **options_of(name, WEIGHTS))
    problem = problems.quadratic(TARGETS, curvature=curvature, noise=noise)
    links = participation.bernoulli(PROBS)
    if name in WITH_PEERS:
        links = participation.peers(links, RING, prob=edge_prob_of(name))

    def end(key):
        run = simulation.simulate(key, rule, links, problem, num_rounds=num_rounds)
        return rule.models(run.state.algorithm)

    ends = jax.jit(jax.vmap(end))(jax.random.split(jax.random.key(0), NUM_SEEDS))
    for model, mean in result.means.items():
        runs = np.asarray(ends[model])
        statistics.assert_mean_and_variance(runs, mean, result.variances[model])


@pytest.mark.parametrize('name', cases(['fedavg', 'fedpbc'], ['fedavg']))
def test_richardson_removes_the_bias_of_unequal_curvature(x64, name):
    """With everyone active, the bias left is the drift of local steps, of first order in eta."""

    def exact(rate):
        return analysis.linear_rule(
            name, np.ones(SIZE), TARGETS, rate, STEPS, curvature=CURVATURE
        )

    once = exact(0.01)
    twice = exact(0.02)
    bias = np.linalg.norm(once.means['server'] - once.optimum)
    doubled_bias = np.linalg.norm(twice.means['server'] - once.optimum)
    np.testing.assert_allclose(doubled_bias / bias, 2, atol=0.1)
    extrapolated = 2 * once.means['server'] - twice.means['server']
    assert np.linalg.norm(extrapolated - once.optimum) < 0.05 * bias

    def make(learning_rate):
        program = local_training.local_sgd(learning_rate, local_steps=STEPS)
        return algorithms.ALGORITHMS[name](program)

    rule = algorithms.richardson(make)(learning_rate=0.01)
    problem = problems.quadratic(TARGETS, curvature=CURVATURE)
    run = jax.jit(
        lambda key, problem: (
            simulation.simulate(
                key, rule, participation.always(SIZE), problem, num_rounds=6000
            ).state
        )
    )(jax.random.key(0), problem)
    np.testing.assert_allclose(
        rule.models(run.algorithm)['server'], extrapolated, atol=1e-9
    )


@pytest.mark.parametrize(
    'rule, option, value',
    [
        ('cogc', 'tolerance', -1),
        ('cogc', 'tolerance', SIZE),
        ('cogc', 'tolerance', 1.5),
        ('colrel', 'weights', np.ones((2, 2))),
        ('colrel', 'weights', np.full((SIZE, SIZE), np.nan)),
        ('feddyn', 'alpha', 0.0),
        ('feddyn', 'alpha', 'a'),
        ('fedstale', 'stale_weight', 1.5),
        ('fedstale', 'stale_weight', np.nan),
    ],
)
def test_options_out_of_range_cost_one_line(rule, option, value):
    edges = {'neighbours': RING.neighbours, 'edge_probs': 0.9}
    with refusals.names(option):
        analysis.linear_rule(
            rule, PROBS, TARGETS, RATE, STEPS, **edges, **{option: value}
        )
    chain = analysis.link_chains.independent(PROBS)
    with refusals.names(option):
        analysis.linear_limit(
            rule, chain, TARGETS, RATE, STEPS, **edges, **{option: value}
        )


@pytest.mark.parametrize('rule', ['fedavg_known', 'fedstale'])
def test_a_client_that_is_never_up_is_not_divided_by_zero(rule):
    probs = [0.5, 0.3, 0.0]
    options = options_of(rule)
    with np.errstate(all='raise'):
        result = analysis.linear_rule(rule, probs, [0.0, 1.0, 2.0], RATE, 1, **options)
    chain = analysis.link_chains.independent(probs)
    expected = analysis.linear_limit(rule, chain, [0.0, 1.0, 2.0], RATE, 1, **options)
    np.testing.assert_allclose(
        result.means['server'], expected.means['server'], atol=1e-12
    )


@pytest.mark.parametrize('rule', ['fedavg', 'fedpbc', 'mifa', 'mimic'])
def test_what_moves_too_little_for_float64_is_refused(rule):
    targets = [0.0, 90.0]
    chain = analysis.link_chains.independent([0.5, 0.3])
    with refusals.names('learning_rate', 'move models'):
        analysis.linear_rule(rule, [0.5, 0.3], targets, 1e-11, 1)
    with refusals.names('learning_rate', 'move models'):
        analysis.linear_limit(rule, chain, targets, 1e-11, 1)
    with refusals.names('probs', 'move models'):
        analysis.linear_rule(rule, [1e-12, 5e-13], targets, 0.1, 1)


def test_the_smallest_steps_have_the_limit_of_their_weights():
    result = analysis.linear_rule('fedavg', [0.5, 0.3], [0.0, 100.0], 1e-8, 1)
    expected = analysis.fedavg_fixed_point([0.5, 0.3], [0.0, 100.0])
    np.testing.assert_allclose(result.means['server'], expected, rtol=1e-6)


def test_refusals():
    with refusals.names('rule', 'fedavg'):
        analysis.linear_rule('fedavgg', PROBS, TARGETS, RATE, STEPS)
    with refusals.names('learning_rate'):
        analysis.linear_rule('fedavg', PROBS, TARGETS, 2.5, STEPS)
    for curvature in (-1.0, [1.0, 1.0, 0.0, 1.0, 1.0], np.nan):
        with refusals.names('curvature', 'positive'):
            analysis.linear_rule(
                'fedavg', PROBS, TARGETS, RATE, STEPS, curvature=curvature
            )
    with refusals.names('noise'):
        analysis.linear_rule('focus', PROBS, TARGETS, RATE, STEPS, noise=1.0)
    with refusals.names('probs'):
        analysis.linear_rule('fedavg', np.full(30, 0.5), np.zeros((30, 1)), RATE, STEPS)
    # CoGC needs neighbours: without them no sum is complete.
    with refusals.names('rule', 'cogc'):
        analysis.linear_rule('cogc', PROBS, TARGETS, RATE, STEPS, tolerance=2)
    with refusals.names('curvature'):
        problems.quadratic(TARGETS, curvature=[1.0, 2.0])
    with refusals.names('curvature'):
        problems.quadratic(TARGETS, curvature=np.zeros(SIZE))
