"""Curves and limits under link chains, against closed forms and loops over modes."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis import linear_rounds, link_chains
from tests import refusals
from tests.analysis import linear_algorithms
from tests.analysis.linear_algorithms import WITH_PEERS, noise_of, options_of
from tests.analysis.link_chains import jump_systems
from tests.tiers import cases

RULES = list(linear_rounds.RULES)
SYMMETRIC = [name for name in RULES if name not in ('cogc', 'colrel')]
PROBS = np.array([0.7, 0.2, 0.5])
TARGETS = np.array([[0.3, -1.0], [2.0, 0.5], [-0.7, 1.2]])
CURVATURE = np.array([0.5, 2.0, 1.0])
WEIGHTS = np.array([[0.5, 0.2, 0.3], [0.4, 0.6, 0.2], [0.3, 0.3, 0.4]])
TRIANGLE = np.array([[1, 2], [0, 2], [0, 1]])


def rate_of(name, num_clients=3):
    return linear_algorithms.rate_of(name, 0.1, num_clients)


# Mean and standard deviation of the server by up rate, as printed in the notes on memory.
PRINTED = {
    None: {
        'fedavg': '34.62 ± 9.23',
        'fedavg_all': '37.50 ± 6.03',
        'fedavg_known': '50.00 ± 10.48',
        'fedpbc': '43.62 ± 20.07',
        'mifa': '50.00 ± 0.00',
    },
    0.3: {
        'fedavg': '35.27 ± 11.12',
        'fedavg_all': '37.87 ± 7.15',
        'fedavg_known': '50.76 ± 12.26',
        'fedpbc': '46.99 ± 21.86',
        'mifa': '50.00 ± 0.00',
    },
    0.1: {
        'fedavg': '36.27 ± 21.13',
        'fedavg_all': '38.08 ± 14.64',
        'fedavg_known': '49.13 ± 23.34',
        'fedpbc': '44.84 ± 31.51',
        'mifa': '50.00 ± 0.00',
    },
    0.05: {
        'fedavg': '37.17 ± 27.81',
        'fedavg_all': '38.33 ± 20.62',
        'fedavg_known': '47.52 ± 30.31',
        'fedpbc': '43.32 ± 36.31',
        'mifa': '50.00 ± 0.00',
    },
    0.01: {
        'fedavg': '39.06 ± 39.48',
        'fedavg_all': '39.19 ± 34.96',
        'fedavg_known': '43.88 ± 41.16',
        'fedpbc': '40.91 ± 42.39',
        'mifa': '50.00 ± nan',
    },
}


@pytest.mark.parametrize('up_rate', PRINTED)
def test_the_figures_of_two_clients_are_as_printed(up_rate):
    probs = [0.5, 0.3]
    chain = link_chains.independent(probs)
    if up_rate is not None:
        chain = link_chains.markov(probs, up_rate)
    for name, printed in PRINTED[up_rate].items():
        limit = analysis.linear_limit(name, chain, [0.0, 100.0], 0.02, 5)
        spread = np.sqrt(limit.covariances['server'][0, 0])
        assert f'{limit.means["server"][0]:.2f} ± {spread:.2f}' == printed, name
    for name in ('fedvarp', 'scaffold', 'area', 'mimic'):
        limit = analysis.linear_limit(name, chain, [0.0, 100.0], 0.02, 5)
        assert abs(limit.means['server'][0] - 50.0) < 1e-9
        assert limit.covariances['server'][0, 0] < 1e-9


def test_the_variance_of_mifa_grows_where_outages_are_long():
    chain = link_chains.markov([0.5, 0.3], 0.01)
    limit = analysis.linear_limit('mifa', chain, [0.0, 100.0], 0.02, 5)
    assert round(limit.second_moment_rate, 4) == 1.0013
    assert 'the variance does not' in limit.stability
    assert np.isnan(limit.covariances['server']).all()
    faster = analysis.linear_limit('mifa', chain, [0.0, 100.0], 0.1, 5)
    assert round(faster.second_moment_rate, 3) == 1.018
    for name in ('fedvarp', 'scaffold'):
        limit = analysis.linear_limit(name, chain, [0.0, 100.0], 0.1, 5)
        assert limit.second_moment_rate < 0.995
        assert limit.stability == 'mean and variance settle'


@pytest.mark.parametrize(
    ('up_rate', 'rate', 'plain', 'combined'),
    [
        (0.1, 0.01, 49.56, 49.99),
        (0.05, 0.005, 49.21, 49.88),
    ],
)
def test_extrapolation_takes_most_of_the_bias(up_rate, rate, plain, combined):
    chain = link_chains.markov([0.5, 0.3], up_rate)
    means = [
        analysis.linear_limit('fedavg_known', chain, [0.0, 100.0], eta, 5).means
        for eta in (rate, 2 * rate)
    ]
    one, two = (mean['server'][0] for mean in means)
    assert round(one, 2) == plain
    assert round(2 * one - two, 2) == combined


@pytest.mark.parametrize(
    ('name', 'probs', 'printed'),
    [
        ('mifa', [0.5, 0.4, 0.3], 1.0055),
        ('mifa', [0.5, 0.4, 0.3, 0.2], 0.9985),
        ('focus', [0.5, 0.3], 1.0014),
    ],
)
def test_second_moments_grow_for_few_clients(name, probs, printed):
    size = len(probs)
    chain = link_chains.markov(probs, 0.01)
    limit = analysis.linear_limit(name, chain, np.arange(size), rate_of(name, size), 5)
    assert round(limit.second_moment_rate, 4) == printed


@pytest.mark.parametrize('name', ['fedavg_known', 'fedpbc'])
def test_extrapolation_leaves_a_bias_of_second_order(name):
    """Half the rate leaves a quarter of the bias, up to terms of third order."""
    chain = link_chains.markov([0.5, 0.3], 0.1)
    means = [
        analysis.linear_limit(name, chain, [0.0, 100.0], rate, 1).means['server'][0]
        for rate in (0.002, 0.004, 0.008)
    ]
    fine = 2 * means[0] - means[1] - 50
    coarse = 2 * means[1] - means[2] - 50
    assert 3.5 < coarse / fine < 4.5


@pytest.mark.parametrize('name', cases(RULES, ['fedavg_known', 's2s', 'mimic', 'cogc']))
@pytest.mark.parametrize('is_plain', [True, False])
def test_independent_links_end_where_linear_rule_does(name, is_plain):
    options = dict(options_of(name, WEIGHTS))
    if name in WITH_PEERS:
        options.update(neighbours=TRIANGLE, edge_probs=0.8)
    if not is_plain:
        options.update(curvature=CURVATURE, noise=noise_of(name))
    arguments = TARGETS, rate_of(name), 3
    expected = analysis.linear_rule(name, PROBS, *arguments, **options)
    chain = link_chains.independent(PROBS)
    result = analysis.linear_limit(name, chain, *arguments, **options)
    assert result.means.keys() == expected.means.keys()
    for model, mean in expected.means.items():
        np.testing.assert_allclose(result.means[model], mean, rtol=0, atol=1e-12)
        variances = np.diagonal(result.covariances[model])
        np.testing.assert_allclose(
            variances, expected.variances[model], rtol=0, atol=1e-12
        )
    assert abs(result.rate - expected.rate) < 1e-10


CHAINS = {
    'markov': link_chains.markov(PROBS, 0.1),
    'periodic': link_chains.markov([PROBS, PROBS[::-1], [0.9, 0.1, 0.4]], 0.2),
    'minimum separation': link_chains.minimum_separation([4.0, 2.0, 1.0], separation=1),
    'shocks': link_chains.shared_shocks(
        link_chains.independent(PROBS), [0, 0, 1], up_rate=0.1, down_rate=0.2
    ),
}


@pytest.mark.parametrize('chain', CHAINS)
@pytest.mark.parametrize('name', ['fedavg', 'fedpbc', 'mifa'])
def test_a_curve_is_that_of_a_loop_over_modes(name, chain):
    links = CHAINS[chain]
    modes = links.modes()
    matrices = jump_systems.round_matrices(
        name, modes.masks, modes.probs, 0.1, 2, CURVATURE
    )
    targets = TARGETS[:, 0]
    means, variances = jump_systems.curve(
        matrices, modes.transition.toarray(), modes.start, targets, 12
    )
    curve = analysis.linear_curve(
        name, links, targets, 0.1, 2, num_rounds=12, curvature=CURVATURE
    )
    np.testing.assert_allclose(curve.means['server'][:, 0], means, atol=1e-13)
    result = curve.covariances['server'][:, 0, 0]
    np.testing.assert_allclose(result, variances, atol=1e-13)


def test_a_curve_under_independent_links_has_a_closed_form():
    arguments = TARGETS, 0.1, 3
    moments = analysis.fedavg_mean_and_covariance(PROBS, *arguments, num_rounds=9)
    chain = link_chains.independent(PROBS)
    curve = analysis.linear_curve('fedavg', chain, *arguments, num_rounds=9)
    np.testing.assert_allclose(curve.means['server'], moments.mean, atol=1e-13)
    covariances = curve.covariances['server']
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    np.testing.assert_allclose(variances, moments.variance, atol=1e-13)
    limit = analysis.linear_limit('fedavg', chain, *arguments)
    np.testing.assert_allclose(
        limit.covariances['server'], moments.limit_covariance, atol=1e-13
    )


@pytest.mark.parametrize('rate', [0.02, 0.2])
def test_fedavg_under_minimum_separation_ends_at_pi(rate):
    targets = np.arange(5.0)
    for separation, expected in ((1, 1.2294), (2, 1.5193), (3, 1.7826)):
        chain = link_chains.minimum_separation([8, 4, 2, 1, 1], separation=separation)
        limit = analysis.linear_limit('fedavg', chain, targets, rate, 1)
        assert round(limit.means['server'][0], 4) == expected


@pytest.mark.parametrize('rate', [0.01, 0.7])
@pytest.mark.parametrize('cohort_size', [1, 2])
def test_fedavg_without_empty_rounds_is_exact_at_any_step(cohort_size, rate):
    """The limit is sum_i law_i b_i: law by pi_R's closed form, or from a random chain's modes."""
    weights = [8.0, 4.0, 2.0, 1.0, 1.0]
    targets = np.array([3.0, -1.0, 0.5, 7.0, 2.0])
    selection_law = analysis.minimum_separation_stationary(
        weights, 1, cohort_size=cohort_size
    )
    chain = link_chains.minimum_separation(
        weights, separation=1, cohort_size=cohort_size
    )
    rng = np.random.default_rng(cohort_size)
    rows = rng.dirichlet(np.full(6, 0.3), 6)
    masks = rng.random((6, 5)) < 0.5
    masks[:, cohort_size] = True  # No round is empty.
    random_chain = link_chains.from_modes(rows, masks)
    modes = random_chain.modes()
    portions = modes.masks / modes.masks.sum(axis=1, keepdims=True)
    for links, law in (
        (chain, selection_law),
        (random_chain, modes.stationary @ portions),
    ):
        limit = analysis.linear_limit('fedavg', links, targets, rate, 3)
        np.testing.assert_allclose(limit.means['server'], [law @ targets], rtol=1e-9)


def test_empty_rounds_and_memory_bias_fedavg_in_the_step():
    """The bias from the implicit weights vanishes with the step, but not without one of both."""
    targets = np.array([0.0, 100.0, 30.0])
    for probs, up_rate, is_biased in (
        ([0.5, 0.3, 0.4], 0.05, True),
        ([0.5, 0.3, 0.4], None, False),
        ([0.5, 0.3, 1.0], 0.05, False),
    ):
        chain = link_chains.independent(probs)
        if up_rate is not None:
            chain = link_chains.markov(probs, up_rate=up_rate)
        weighted_mean = analysis.fedavg_weights(probs) @ targets
        biases = [
            analysis.linear_limit('fedavg', chain, targets, rate, 1).means['server']
            - weighted_mean
            for rate in (0.5, 0.001, 0.0005)
        ]
        if is_biased:
            assert abs(biases[0]) > 1
            assert biases[1] / biases[2] == pytest.approx(2, rel=0.05)
        else:
            np.testing.assert_allclose(biases, 0, atol=1e-8)


def test_a_periodic_chain_is_the_product_over_its_period():
    """Three modes in turn: the affine map of a period has one fixed point."""
    turn = np.roll(np.eye(3), 1, axis=1)
    masks = np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]], bool)
    chain = link_chains.from_modes(turn, masks, start=[1.0, 0.0, 0.0])
    targets = TARGETS[:, 0]
    for name in ('fedavg', 'mifa', 'fedpbc'):
        matrix_by_mode, vector_by_mode = jump_systems.round_matrices(
            name, masks, np.ones((3, 3)), 0.1, 2, CURVATURE
        )
        state = np.zeros(4)
        for _ in range(500):
            values = []
            for a, b in zip(matrix_by_mode, vector_by_mode, strict=True):
                state = a @ state + b @ targets
                values.append(state[0])
        limit = analysis.linear_limit(name, chain, targets, 0.1, 2, curvature=CURVATURE)
        assert abs(limit.means['server'][0] - np.mean(values)) < 1e-12
        assert abs(limit.covariances['server'][0, 0] - np.var(values)) < 1e-12
        period = matrix_by_mode[2] @ matrix_by_mode[1] @ matrix_by_mode[0]
        if name == 'fedavg':
            period = period[:1, :1]
        radius = np.abs(np.linalg.eigvals(period)).max()
        assert abs(limit.rate**3 - radius) < 1e-12
        assert abs(limit.second_moment_rate**3 - radius**2) < 1e-12
        curve = analysis.linear_curve(
            name, chain, targets, 0.1, 2, num_rounds=6, curvature=CURVATURE
        )
        np.testing.assert_allclose(curve.covariances['server'], 0.0, atol=1e-12)


GROUPED = {
    'markov': link_chains.markov([0.6, 0.6, 0.6, 0.3], 0.1),
    'periodic': link_chains.markov([[0.6, 0.6, 0.3, 0.3], [0.2, 0.2, 0.9, 0.9]], 0.1),
    'b-min-sep': link_chains.b_min_sep([0.5] * 4, 2),
    'cyclic': link_chains.cyclic([0.5] * 4, cycle_length=4, reset=True),
    'shocks': link_chains.shared_shocks(
        link_chains.markov([0.6] * 4, 0.1), [0, 0, 1, 1], up_rate=0.2, down_rate=0.1
    ),
}
GROUP_TARGETS = np.array([[0.3, -1.0], [2.0, 0.5], [-0.7, 1.2], [1.5, 0.4]])


@pytest.mark.parametrize(
    ('name', 'chain'),
    cases(
        [(name, chain) for name in SYMMETRIC for chain in GROUPED],
        [('fedavg', 'shocks'), ('mifa', 'markov'), ('s2a', 'b-min-sep')],
    ),
)
def test_lumped_chains_have_the_moments_of_all_clients(name, chain):
    options = {
        'noise': noise_of(name),
        'curvature': [1.0, 1.0, 0.5, 0.5],
        **options_of(name),
    }
    arguments = GROUPED[chain], GROUP_TARGETS, rate_of(name, 4), 2
    lumped = analysis.linear_curve(name, *arguments, num_rounds=6, lump=True, **options)
    full = analysis.linear_curve(name, *arguments, num_rounds=6, lump=False, **options)
    for model, mean in full.means.items():
        np.testing.assert_allclose(lumped.means[model], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            lumped.covariances[model], full.covariances[model], rtol=0, atol=1e-12
        )
    lumped = analysis.linear_limit(name, *arguments, lump=True, **options)
    full = analysis.linear_limit(name, *arguments, lump=False, **options)
    for model, mean in full.means.items():
        np.testing.assert_allclose(lumped.means[model], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            lumped.covariances[model], full.covariances[model], rtol=0, atol=1e-12
        )
    # The full chain also has differences within a group, which may vanish more slowly.
    assert lumped.rate < full.rate + 1e-9
    assert abs(lumped.second_moment_rate - full.second_moment_rate) < 1e-9


def test_uplinks_do_not_count_towards_the_limit_of_edges():
    """At most 16 edges: nine pass beside nine uplinks. Gossip ends at the mean of the targets."""
    targets = np.arange(9.0) ** 2
    clients = np.arange(9)
    options = {'neighbours': np.add.outer(clients, [-1, 1]) % 9, 'edge_probs': 0.5}
    chain = link_chains.independent(np.ones(9))
    limit = analysis.linear_limit('gossip', chain, targets, 0.1, 1, **options)
    np.testing.assert_allclose(limit.means['server'], [targets.mean()], rtol=1e-9)
    options['neighbours'] = np.add.outer(clients, [-2, -1, 1, 2]) % 9
    with refusals.names('neighbours', 'at most 16 edges', '18'):
        analysis.linear_limit('gossip', chain, targets, 0.1, 1, **options)


def test_edge_probabilities_are_refused_without_neighbours():
    chain = link_chains.independent(PROBS)
    for value in (2.0, np.full((3, 2), 0.5)):
        with refusals.names('edge_probs'):
            analysis.linear_limit('fedavg', chain, TARGETS, 0.1, 1, edge_probs=value)


def test_a_curve_ends_at_its_limit():
    chain = CHAINS['shocks']
    arguments = chain, TARGETS, 0.3, 3
    limit = analysis.linear_limit('fedpbc', *arguments, noise=0.3)
    curve = analysis.linear_curve('fedpbc', *arguments, num_rounds=400, noise=0.3)
    np.testing.assert_allclose(
        curve.means['server'][-1], limit.means['server'], atol=1e-9
    )
    np.testing.assert_allclose(
        curve.covariances['server'][-1], limit.covariances['server'], atol=1e-9
    )


def test_refusals():
    chain = CHAINS['markov']
    with refusals.names('algorithm', 'fedavg'):
        analysis.linear_curve('fedavgg', chain, TARGETS, 0.1, 2, num_rounds=1)
    with refusals.names('num_rounds'):
        analysis.linear_curve('fedavg', chain, TARGETS, 0.1, 2, num_rounds=-1)
    with refusals.names('targets'):
        analysis.linear_limit('fedavg', chain, [0.0, 1.0], 0.1, 2)
    with refusals.names('chain', 'fedavg_known'):
        analysis.linear_limit(
            'fedavg_known', CHAINS['minimum separation'], TARGETS, 0.1, 2
        )
    with refusals.names('algorithm', 'cogc'):
        analysis.linear_limit('cogc', chain, TARGETS, 0.1, 2, tolerance=2)
    many = link_chains.markov(np.linspace(0.1, 0.9, 30))
    with refusals.names('chain', '30 clients', '0 groups'):
        analysis.linear_limit('fedavg', many, np.arange(30.0), 0.1, 2)
