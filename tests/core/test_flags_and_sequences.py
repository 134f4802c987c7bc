"""Flags are no numbers, and arguments per client are neither empty nor ragged."""

import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    choices,
    graphs,
    local_training,
    participation,
    partition,
    problems,
)
from fedjax_links.analysis import link_chains
from fedjax_links.analysis.theorems import sun2025, wang2022, xiang2023, xiang2024
from tests import refusals

PROBS = [0.5, 0.3]
TARGETS = [0.0, 1.0]
MASK = [[True, False], [False, True]]
LABELS = np.arange(12) % 3
RING = graphs.ring(4)
PATTERN = participation.bernoulli(PROBS)
CLIENT = local_training.local_sgd(0.1, local_steps=2)
PROBLEM = problems.quadratic([[0.0], [4.0]])
CHAIN = link_chains.independent(PROBS)

NUMBERS = {
    'probs of weights': lambda v: analysis.fedavg_weights(v),
    'probs of a chain': lambda v: link_chains.independent(v),
    'up_rate': lambda v: analysis.markov_stationary(v, 0.5),
    'group_prob of time': lambda v: analysis.shock_correlation(PROBS, v),
    'targets': lambda v: analysis.fedavg_fixed_point(PROBS, v),
    'learning_rate': lambda v: analysis.linear_rule('fedavg', PROBS, TARGETS, v, 2),
    'edge_probs': lambda v: analysis.linear_rule(
        'gossip', PROBS, TARGETS, 0.1, 2, neighbours=[[1], [0]], edge_probs=v
    ),
    'means': lambda v: analysis.gaussian_boundaries(v),
    'noise of a bound': lambda v: wang2022.client_drift_bound(
        0.1, local_steps=2, round_divergence=1.0, weight_square=0.5, noise=v
    ),
    'offset': lambda v: xiang2024.theorem1_bound(
        0.001,
        num_rounds=9,
        local_steps=1,
        smoothness=1.0,
        mixing_rate=0.25,
        initial_gap=0.5,
        offset=v,
    ),
    'slope': lambda v: xiang2023.consensus_bound(
        0.01, local_steps=1, mixing_rate=0.25, mean_gradient_square=2.0, slope=v
    ),
    'smoothness': lambda v: wang2022.local_rate_cap(
        smoothness=v, local_steps=1, period=1
    ),
    'remembered': lambda v: sun2025.lemma10_terms(
        1e-4,
        num_rounds=10**6,
        lag=3,
        smoothness=1.0,
        initial_gap=1.0,
        dissimilarity=0.0,
        remembered=v,
    ),
    'schedule': lambda v: participation.bernoulli(v),
    'up_rate of links': lambda v: participation.markov(PROBS, v),
    'sigma': lambda v: participation.label_dependent_probs(
        [[0.5, 0.5]], sigma=v, seed=0
    ),
    'class_mix': lambda v: participation.label_dependent_probs(v, seed=0),
    'weights': lambda v: participation.minimum_separation(v, separation=0),
    'alpha': lambda v: partition.dirichlet(LABELS, num_clients=2, alpha=v, seed=0),
    'noise of gradients': lambda v: problems.quadratic([[0.0]], noise=v),
    'value': lambda v: choices.PROBS['equal'](PROBLEM, value=v),
    'values': lambda v: choices.PROBS['listed'](PROBLEM, values=v),
    'median': lambda v: choices.DEVICE_SPEEDS['lognormal'](2, median=v, sigma=1.0),
    'optimal_losses': lambda v: algorithms.ca_fed(CLIENT, optimal_losses=v),
}


@pytest.mark.parametrize('argument', NUMBERS)
@pytest.mark.parametrize(
    'value', [True, [True, False], [True, 0.5], np.array([True, False])], ids=str
)
def test_true_and_false_are_no_numbers(argument, value):
    with refusals.names(argument.partition(' ')[0]):
        NUMBERS[argument](value)


def peers(**changes):
    """A recording of four clients and their peers."""
    recorded = {
        'neighbours': RING.neighbours,
        'edges': np.zeros((2, 4, 2), bool),
        'edge_prob': np.zeros((2, 4, 2)),
    }
    return participation.replay(np.ones((2, 4), bool), **{**recorded, **changes})


def gossip(**options):
    """An exact law of two clients with an edge."""
    options = {'neighbours': [[1], [0]], 'edge_probs': 0.5, **options}
    return analysis.linear_rule('gossip', PROBS, TARGETS, 0.1, 2, **options)


SEQUENCES = {
    'neighbours of a log': lambda v: peers(neighbours=v),
    'edges of a log': lambda v: peers(edges=v),
    'edge_prob': lambda v: peers(edge_prob=v),
    'prob of a log': lambda v: participation.replay(MASK, v),
    'downlink': lambda v: participation.replay(MASK, downlink=v),
    'at_rounds': lambda v: participation.switch([PATTERN] * 3, v),
    'probs of a mixture': lambda v: participation.mixture([PATTERN] * 2, v),
    'prob of peers': lambda v: participation.peers(
        participation.always(4), RING, prob=v
    ),
    'separation': lambda v: participation.minimum_separation([1.0, 2.0], separation=v),
    'weights': lambda v: participation.minimum_separation(v, separation=0),
    'times': lambda v: participation.quorum(v, quorum=1),
    'groups': lambda v: participation.periodic_groups(
        v, active_rounds=1, cohort_size=1
    ),
    'client': lambda v: participation.intervals(v, [0.0, 1.0], [2.0, 3.0]),
    'class_mix': lambda v: participation.label_dependent_probs(v, seed=0),
    'client_steps': lambda v: (
        local_training.local_sgd(0.1, local_steps=2, client_steps=v).run
    ),
    'noise': lambda v: problems.quadratic([[0.0], [1.0]], noise=v),
    'curvature': lambda v: problems.quadratic([[0.0], [1.0]], curvature=v),
    'initial_point': lambda v: problems.quadratic([[0.0]], initial_point=v),
    'features': lambda v: problems.from_arrays(
        v, [0, 1], [0, 1], init_params=None, loss_fn=None
    ),
    'neighbours of a law': lambda v: gossip(neighbours=v),
    'edge_probs of a law': lambda v: gossip(edge_probs=v),
    'group_prob': lambda v: analysis.shock_correlation(PROBS, v),
    'lag': lambda v: analysis.markov_autocorrelation(0.1, 0.2, v),
    'up_rate of a chain': lambda v: link_chains.markov(PROBS, v),
    'correlation_time': lambda v: link_chains.markov(PROBS, correlation_time=v),
    'up_rate of shocks': lambda v: link_chains.shared_shocks(
        CHAIN, [0, 1], up_rate=v, down_rate=0.1
    ),
    'groups of shocks': lambda v: link_chains.shared_shocks(
        CHAIN, v, up_rate=0.1, down_rate=0.1
    ),
    'separation of a chain': lambda v: analysis.minimum_separation_chain(
        [1.0, 2.0, 3.0], v
    ),
    'values': lambda v: choices.PROBS['listed'](PROBLEM, values=v),
    'labels': lambda v: partition.iid(v, num_clients=2, seed=0),
    'counts': lambda v: partition.volumes(v),
}


@pytest.mark.parametrize('argument', SEQUENCES)
@pytest.mark.parametrize('value', [[], [[0.5], [0.5, 0.1]]], ids=['empty', 'ragged'])
def test_what_is_per_client_is_neither_empty_nor_ragged(argument, value):
    if argument in {'client', 'lag'} and not value:
        pytest.skip('an empty log, and no lags, are possible')
    with refusals.names(argument.partition(' ')[0]):
        SEQUENCES[argument](value)


PARTS = {
    'init_params': lambda v: arrays(init_params=v),
    'loss_fn': lambda v: arrays(loss_fn=v),
    'predict': lambda v: arrays(loss_fn='cross_entropy', predict=v),
    'eval_data': lambda v: arrays(eval_data=v),
    'client_names': lambda v: arrays(client_names=v),
    'larger_is_better': lambda v: arrays(larger_is_better=v),
    'clients': lambda v: participation.trace(
        participation.intervals([0], [0.0], [5.0]), tick=1.0, clients=v
    ),
    'problem': lambda v: problems.with_initial_params(v, np.zeros(1)),
    'algorithm': lambda v: algorithms.uniform_iterate(v),
    'chain of a law': lambda v: sun2025.column_sums(v),
    'chain of shocks': lambda v: link_chains.shared_shocks(
        v, [0, 1], up_rate=0.1, down_rate=0.1
    ),
}


def arrays(**options):
    """A problem of two examples."""
    defaults = {
        'init_params': lambda key: np.zeros(2),
        'loss_fn': lambda params, batch: params.sum(),
    }
    options = {**defaults, **options}
    return problems.from_arrays([[0.0], [1.0]], [0, 1], [0, 1], **options)


@pytest.mark.parametrize('argument', PARTS)
@pytest.mark.parametrize('value', [0.5, True, np.array(0.5), 3])
def test_another_kind_of_part_costs_one_line(argument, value):
    with refusals.names(argument.partition(' ')[0]):
        PARTS[argument](value)


@pytest.mark.parametrize('name', ['fedstale', 'fedvarp', 'mifa', 'fedavg'])
def test_a_rate_of_the_server_is_a_number(name):
    example = algorithms.ALGORITHMS[name].example
    with refusals.names('server_lr', 'number'):
        algorithms.ALGORITHMS[name](CLIENT, **example, server_lr=None)


@pytest.mark.parametrize('edges', [[[0], [1, 2]], [(0, 1, 2)], 3])
def test_edges_are_pairs(edges):
    with refusals.names('edges'):
        graphs.from_edges(3, edges)


@pytest.mark.parametrize('rounds', [[2, 1], [1, 1], [-1, 2], [1.5, 2.5], [1, 2, 3]])
def test_rounds_of_a_switch_increase_from_zero(rounds):
    with refusals.names('at_rounds'):
        participation.switch([PATTERN] * 3, rounds)
