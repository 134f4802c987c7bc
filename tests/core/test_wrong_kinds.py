"""Public functions refuse vectors, texts and complex numbers where one real number is meant."""

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    datasets,
    evaluation,
    experiment,
    participation,
    partition,
    plot,
    problems,
    runs,
    simulation,
    testing,
)
from fedjax_links.analysis.theorems import link_marginals
from fedjax_links.datasets import publishers
from fedjax_links.problems import models
from tests import refusals

LABELS = np.arange(60) % 3
PATTERN = participation.bernoulli([0.5, 0.3])
LOG = participation.intervals([0, 1], [0.0, 1.0], [5.0, 6.0])
VALUES = [0.1, 0.2, 0.4]

VECTORS = {
    'alpha': lambda v: partition.dirichlet(LABELS, num_clients=6, alpha=v, seed=0),
    'beta': lambda v: partition.hierarchical_dirichlet(
        LABELS, num_clients=6, beta=v, seed=0
    ),
    'similarity': lambda v: partition.similarity(
        LABELS, num_clients=6, similarity=v, seed=0
    ),
    'holdout_examples': lambda v: partition.divide(LABELS, holdout_examples=v, seed=0),
    'holdout_clients': lambda v: partition.divide(LABELS, holdout_clients=v, seed=0),
    'heterogeneity': lambda v: problems.gaussian_regression(
        num_clients=2, examples_per_client=5, dimension=3, heterogeneity=v
    ),
    'shift': lambda v: problems.gaussian_regression(
        num_clients=2, examples_per_client=5, dimension=3, shift=v
    ),
    'bayes_accuracy': lambda v: problems.gaussians(num_clients=2, bayes_accuracy=v),
    'difficulty': lambda v: datasets.synthetic_images(num_train=4, difficulty=v),
    'grace': lambda v: participation.quorum([1.0, 2.0], quorum=1, grace=v),
    'deadline': lambda v: participation.quorum([1.0, 2.0], quorum=1, deadline=v),
    'tick': lambda v: participation.availability(LOG, tick=v),
    'start': lambda v: participation.outage(PATTERN, start=v, stop=9),
    'stop': lambda v: participation.outage(PATTERN, start=0, stop=v),
    'level': lambda v: evaluation.seed_interval(VALUES, level=v),
    'margin': lambda v: evaluation.decide(VALUES, margin=v),
    'distance': lambda v: analysis.equidistant_accuracy(v, 3),
    'accuracy': lambda v: analysis.equidistant_distance(v, 3),
    'learning_rate': lambda v: analysis.fedpbc_fixed_point([0.5, 0.3], [0, 1], v, 2),
    'p': lambda v: analysis.cogc_probability(4, v, 0.5, 1),
    'noise': lambda v: analysis.linear_rule(
        'fedavg', [0.5, 0.3], [0.0, 1.0], 0.1, 2, noise=v
    ),
}


@pytest.mark.parametrize('argument', VECTORS)
def test_a_vector_is_no_number(argument):
    with refusals.names(argument, 'one number'):
        VECTORS[argument]([0.5, 0.5, 0.5])


NUMBERS = {
    'values': lambda v: evaluation.seed_interval(v),
    'p_values': lambda v: evaluation.benjamini_hochberg(v),
    'differences': lambda v: evaluation.anytime_p_value(v),
    'start': lambda v: participation.intervals([0, 1], v, [5.0, 6.0]),
    'end': lambda v: participation.intervals([0, 1], [0.0, 1.0], v),
    'probs': lambda v: analysis.fedavg_weights(v),
    'weights': lambda v: analysis.cohort_law(v, 1),
    'up_rate': lambda v: analysis.markov_stationary(v, 0.5),
}


@pytest.mark.parametrize('argument', NUMBERS)
@pytest.mark.parametrize('value', [['a', 'b'], [1j, 2j], [{}, {}]])
def test_texts_and_complex_numbers_are_no_numbers(argument, value):
    with refusals.names(argument, 'number'):
        NUMBERS[argument](value)


@pytest.mark.parametrize('rate', [-1.0, float('nan'), 1.5])
def test_rates_of_exact_laws_are_probabilities(rate):
    for law in (
        lambda: analysis.expected_gap_counts([0.5, rate], [0.2, 0.2], 20, 4),
        lambda: analysis.expected_autocorrelation([0.5, rate], [0.2, 0.2], 4),
    ):
        with refusals.names('up_rate', '[0, 1]', str(rate)):
            law()


@pytest.mark.parametrize('noise', [-1.0, float('nan'), float('inf')])
def test_noise_is_a_standard_deviation(noise):
    with refusals.names('noise', str(noise)):
        analysis.linear_rule('fedavg', [0.5, 0.3], [0.0, 1.0], 0.1, 2, noise=noise)


@pytest.mark.parametrize('counts', [[0.5, 1.5], [-1, 2], ['a'], 3, [float('nan')]])
def test_volumes_are_integers(counts):
    with refusals.names('counts'):
        partition.volumes(counts)


@pytest.mark.parametrize('values, axis', [(0.5, 0), (VALUES, 1), (VALUES, 0.5)])
def test_an_interval_needs_a_seed_axis(values, axis):
    with refusals.names('values' if np.ndim(values) == 0 else 'axis'):
        evaluation.seed_interval(values, axis=axis)


def test_a_verdict_needs_one_difference_per_seed():
    for differences in (0.5, [], [[0.1, 0.2]]):
        with refusals.names('differences'):
            evaluation.anytime_p_value(differences)


@pytest.mark.parametrize('patterns', [0.5, None, PATTERN.init])
def test_parts_of_a_pattern_are_a_list(patterns):
    with refusals.names('patterns', 'pattern'):
        participation.mixture(patterns, [1.0])


RUN = 'a folder that is not read'
SIMULATED = simulation.SimulationResult(None, None, {})


def apply(model, features=None):
    """Initialises a model, which checks its options."""
    features = np.zeros((1, 3), np.int32) if features is None else features
    return model.init(jax.random.key(0), features)


FLAGS = {
    'zero': lambda v: apply(models.Softmax(3, zero=v)),
    'kaiming': lambda v: apply(models.CNN(3, kaiming=v), np.zeros((1, 4, 4, 1))),
    'every_token of units': lambda v: apply(models.GRU(3, every_token=v)),
    'every_token of blocks': lambda v: apply(models.Transformer(3, every_token=v)),
    'progressbar': lambda v: publishers.fetch('mnist', progressbar=v),
    'per_round': lambda v: SIMULATED.to_pandas(per_round=v),
    'uses_links': lambda v: testing.check_algorithm(algorithms.fedavg, uses_links=v),
    'prob_is_marginal': lambda v: testing.check_participation(
        PATTERN, prob_is_marginal=v
    ),
    'reset of links': lambda v: participation.cyclic([0.5, 0.3], reset=v),
    'reset of a chain': lambda v: analysis.link_chains.cyclic([0.5, 0.3], reset=v),
    'reset of a law': lambda v: link_marginals.cyclic_marginals([0.5, 0.3], reset=v),
    'lump': lambda v: analysis.linear_limit(
        'fedavg',
        analysis.link_chains.independent([0.5, 0.3]),
        [0.0, 1.0],
        0.1,
        2,
        lump=v,
    ),
    'tokens': lambda v: problems.digits(num_clients=2, tokens=v),
    'quick': lambda v: experiment.build({}, quick=v),
    'verify': lambda v: runs.read(RUN, verify=v),
    'allow_mixed': lambda v: runs.merge(RUN, allow_mixed=v),
    'allow_changed': lambda v: runs.merge(RUN, allow_changed=v),
    'log': lambda v: plot.learning_curves(VALUES, log=v),
    'log_rounds': lambda v: plot.learning_curves(VALUES, log_rounds=v),
    'legend': lambda v: plot.learning_curves(VALUES, legend=v),
    'colorbar': lambda v: plot.mixing_matrix(np.eye(2), colorbar=v),
}


@pytest.mark.parametrize('argument', FLAGS)
@pytest.mark.parametrize('value', ['no', 1, 0.0, [False]])
def test_what_is_true_or_false_is_nothing_else(argument, value):
    with refusals.names(argument.partition(' ')[0], 'True or False'):
        FLAGS[argument](value)


CHOICES = {
    'design': lambda v: analysis.cohort_law([1.0, 2.0], 1, design=v),
    'loss': lambda v: analysis.weighted_minimiser(
        np.eye(2), [0, 1], [0, 1], [0.5, 0.5], loss=v
    ),
    'theorem': lambda v: analysis.check_theorem(v, None, None),
    'algorithm': lambda v: analysis.linear_limit(v, None, [0.0], 0.1, 1),
    'band': lambda v: plot.learning_curves(VALUES, band=v),
    'overlaps': lambda v: participation.availability(LOG, overlaps=v),
}


@pytest.mark.parametrize('argument', CHOICES)
@pytest.mark.parametrize('value', [['sum'], {'name': 'sum'}, 3, None])
def test_what_is_no_name_is_an_unknown_name(argument, value):
    with refusals.names(argument):
        CHOICES[argument](value)


CHAIN = analysis.link_chains.independent([0.5, 0.3])


def linear(rule='fedavg', learning_rate=0.1, chain=CHAIN, **options):
    """Calls all that takes an algorithm on quadratics, and refuses alike."""
    return (
        lambda: analysis.linear_limit(
            rule, chain, [0.0, 1.0], learning_rate, 2, **options
        ),
        lambda: analysis.linear_curve(
            rule, chain, [0.0, 1.0], learning_rate, 2, num_rounds=3, **options
        ),
        lambda: analysis.linear_rule(
            rule, [0.5, 0.3], [0.0, 1.0], learning_rate, 2, **options
        ),
    )


@pytest.mark.parametrize(
    'field, changes',
    [
        ('learning_rate', {'learning_rate': 'a'}),
        ('learning_rate', {'learning_rate': [0.1, 0.2]}),
        ('learning_rate', {'learning_rate': None}),
        ('curvature', {'curvature': [1.0, 2.0, 3.0]}),
        ('curvature', {'curvature': 'a'}),
        ('mu', {'mu': 0.1}),
        ('alpha', {'alpha': 0.1}),
        ('alpha', {'rule': 'feddyn'}),
        ('stale_weight', {'rule': 'fedstale'}),
        ('alpha', {'rule': 'fedstale', 'stale_weight': 0.5, 'alpha': 0.1}),
    ],
)
def test_exact_laws_name_what_they_cannot_take(field, changes):
    for call in linear(**changes):
        with refusals.names(field):
            call()


@pytest.mark.parametrize('chain', [None, 0.5, [0.5, 0.3], PATTERN])
def test_what_is_no_link_chain_is_refused(chain):
    of_limit, of_curve, _ = linear(chain=chain)
    for call in (
        of_limit,
        of_curve,
        lambda: analysis.first_order_mean('fedavg', chain, [0.0, 1.0], 0.1, 2),
    ):
        with refusals.names('chain', 'link chain'):
            call()


RAGGED = [[0.5], [0.5, 0.1]]
ROWS = {
    'labels': lambda v: partition.report([0, 1], v),
    'clients': lambda v: partition.report(v, [0, 1]),
    'values': lambda v: evaluation.seed_interval(v),
    'differences': lambda v: evaluation.decide(v),
    'masks': lambda v: analysis.participation_report(v),
    'mask': lambda v: participation.replay(v),
    'probs': lambda v: participation.cyclic(v),
    'schedule': lambda v: participation.bernoulli(v),
}


@pytest.mark.parametrize('argument', ROWS)
def test_rows_of_unequal_length_are_no_array(argument):
    with refusals.names(argument):
        ROWS[argument](RAGGED)


@pytest.mark.parametrize('value', [[], {}, ''])
def test_what_is_empty_is_no_partition(value):
    with refusals.names('partition'):
        problems.gaussians(num_clients=2, partition=value)
