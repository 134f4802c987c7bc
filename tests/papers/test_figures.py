"""The numbers of every shipped figure, in quick size if it simulates.

A comparison of k simulated numbers with exact ones at bound z raises a false alarm with probability
at most ``k erfc(z / sqrt 2)``: 6.8e-6 per number at z = 4.5, below 2e-4 for this file.
"""

import importlib
import inspect
import re

import jax
import numpy as np
import pytest

from configs.figures import sun2025
from configs.figures import wang2022 as toy
from fedjax_links import analysis
from fedjax_links.config import nested, resolver
from fedjax_links.pages import figure
from fedjax_links.pages.figure import FigureResult
from tests import refusals
from tests.papers.shipped import CONFIGS, config, numbers

BOUND = 4.5
ARCHITECTURES = 'fedjax_links.papers.architectures'


def test_every_figure_is_shipped_in_two_sizes():
    shipped = set()
    written = set()
    with resolver.importable(CONFIGS):
        for path in (CONFIGS / 'figures').glob('*.py'):
            module = importlib.import_module(f'figures.{path.stem}')
            functions = dict(inspect.getmembers(module, inspect.isfunction)).values()
            written |= {
                f for f in functions if f.__annotations__.get('return') is FigureResult
            }
        for path in CONFIGS.glob('*.py'):
            values = config(path.stem, size=dict)
            if 'figure' not in values:
                continue
            assert '--quick' in path.read_text()
            for size in (nested.full, nested.quick):
                figure.check(size(values))
            shipped.add(resolver.lookup('figure', values['figure'], {})[0])
    assert len(shipped) == 11
    assert shipped == written


def test_distance_to_uniform_falls_with_the_separation():
    columns = numbers('sun2025_figure1', size=nested.full)
    for label in np.unique(columns['weights']):
        rows = columns['weights'] == label
        distance = columns['distance'][rows]
        np.testing.assert_array_equal(columns['separation'][rows], np.arange(500))
        assert (np.diff(distance) < 0).all()
        assert distance[-1] < 1e-12
    # With R = 0 the law is the weights themselves.
    power = np.arange(1.0, 501) ** -1.5
    start = columns['distance'][columns['weights'] == 'power law, exponent -3/2'][0]
    assert start == pytest.approx(
        np.abs(power / power.sum() - 1 / 500).sum(), rel=1e-10
    )


@pytest.mark.slow
@pytest.mark.statistical
def test_group_distances_are_the_exact_ones():
    columns = numbers('sun2025_groups')
    exact = [1.1396, 0.6434, 0.4581, 0.3545, 0.1405, 0.0331, 0]
    np.testing.assert_allclose(columns['exact'], exact, atol=5e-5)
    first = [0.4607, 0.1521, 0.1066, 0.0886, 0.0621, 0.0526, 0.05]
    np.testing.assert_allclose(columns['first_group_exact'], first, atol=5e-5)
    off = columns['simulated'] - columns['exact']
    error = columns['standard_error']
    # Eight seeds: Student's t with 7 degrees of freedom has this bound where the normal has 4.5.
    assert (np.abs(off[:-1]) < 12.3 * error[:-1]).all()
    assert (error[:-1] < 0.01).all()
    assert off[-1] == pytest.approx(0, abs=1e-6)
    assert error[-1] == pytest.approx(0, abs=1e-9)  # R = M - 1 is cyclic


@pytest.mark.slow
@pytest.mark.statistical
def test_fedavg_goes_where_two_links_send_it():
    columns = numbers('xiang2024_figure2', num_seeds=2000)
    p = columns['second_prob']
    np.testing.assert_allclose(columns['exact'], 150 * p / (1 + p), rtol=1e-12)
    z = (columns['simulated'] - columns['exact'])[1:] / columns['standard_error'][1:]
    assert np.isnan(columns['simulated'][0])
    assert np.abs(z).max() < BOUND
    assert columns['standard_error'][1:].max() < 1


def test_the_biased_estimate_and_its_floor_bracket_the_exact_law(monkeypatch):
    """R = 1 has an exact curve; estimated like larger R it lies between the two estimates."""
    weights = sun2025.selection_weights('w', {'name': 'power', 'exponent': 1.0}, 10)
    exact = sun2025._mixing(weights, 1, 12, 2000)
    assert exact['exact']
    monkeypatch.setattr(sun2025, '_exact_law', lambda *_: None)
    estimate = sun2025._mixing(weights, 1, 12, 2000)
    assert not estimate['exact']
    assert (estimate['low'] - BOUND * estimate['error'] <= exact['low']).all()
    # The upper estimate is off by at most the noise of the law, N terms of it; masks are float32.
    off = np.abs(estimate['high'] - exact['high'])
    assert (off <= 5 * estimate['floor'] + 1e-6).all()
    np.testing.assert_array_equal(estimate['running'], exact['running'])


def test_the_exact_law_goes_from_the_weights_to_stationary():
    weights = np.array([0.5, 0.3, 0.2])
    law = sun2025._exact_law(weights, 1, 60)
    np.testing.assert_allclose(law[0], weights)
    # By hand: the second client is not the first.
    second = [
        sum(weights[j] * weights[i] / (1 - weights[j]) for j in range(3) if j != i)
        for i in range(3)
    ]
    np.testing.assert_allclose(law[1], second)
    stationary = analysis.minimum_separation_stationary(weights, 1)
    np.testing.assert_allclose(law[-1], stationary, atol=1e-12)


@pytest.mark.slow
def test_larger_separations_mix_later_and_settle_shares_earlier():
    columns = numbers('sun2025_figure5', separations=(0, 5, 20, 50), num_rounds=100)
    by_round = {
        name: columns[name].reshape(4, 100)
        for name in ('low', 'high', 'error', 'running')
    }
    far = by_round['low'] - BOUND * by_round['error'] > 0.01
    last = [np.flatnonzero(row)[-1] if row.any() else -1 for row in far]
    assert last[0] == -1
    assert last == sorted(last)
    assert last[3] > 40
    assert (np.diff(by_round['running'][:, -1]) < 0).all()
    # In round 0 no client waits yet: the law is the weights.
    np.testing.assert_allclose(by_round['high'][:, 0], by_round['low'][:, 0], atol=1e-6)


def test_traces_have_the_shape_of_their_patterns():
    columns = numbers('xiang2024_figure6')
    up = {}
    for pattern in np.unique(columns['pattern']):
        for p in (0.01, 0.1, 0.5, 0.9):
            rows = (columns['pattern'] == pattern) & (columns['base_prob'] == p)
            up[pattern[1], p] = columns['up'][rows].astype(bool)
            assert rows.sum() == (400 if 'Cyclic' in pattern else 80)
            if pattern[1] in 'bd':
                t = np.arange(80)
                sine = p * (0.6 + 0.4 * np.sin(2 * np.pi * t / 40))
                np.testing.assert_allclose(columns['prob'][rows], sine, atol=1e-6)
    for p, active in ((0.01, 1), (0.1, 10), (0.5, 50), (0.9, 90)):
        blocks = up['f', p].reshape(4, 100)
        assert (blocks.sum(axis=1) == active).all()
        starts = np.flatnonzero(
            np.diff(np.concatenate([[0], up['e', p].astype(int)])) == 1
        )
        assert (np.diff(starts) == 100).all()
        assert up['e', p][starts[0] : starts[0] + active].all()
    # Only the reset changes when a block begins within its cycle.
    assert len(set(np.argmax(up['f', 0.5].reshape(4, 100), axis=1))) > 1


@pytest.mark.statistical
def test_most_label_dependent_probabilities_are_small():
    columns = numbers('xiang2024_figure4')
    assert columns['clients'].sum() == pytest.approx(100)
    assert columns['first_draw'].sum() == 100
    below = columns['clients'][columns['high'] < 0.1 + 1e-9].sum()
    error = np.sqrt(np.sum(columns['standard_error'][:2] ** 2))
    # 400 other draws have 76 %, with a standard error of 0.6.
    assert below == pytest.approx(76, abs=BOUND * np.hypot(error, 0.6))


SUN = 'figures.sun2025'
XIANG = 'figures.xiang2024'
NETWORKS = 'figures.networks:network_sizes'
COUNTEREXAMPLE = {
    'name': 'figures.counterexample:counterexample_error',
    'panels': {'a': {'algorithms': ('fedpcb',), 'compute': 'all'}},
    'pairs': ((0.1, 0.9),),
    'learning_rate': 0.1,
    'local_steps': 1,
    'num_rounds': 60,
}


WEIGHTS = {'name': 'power', 'exponent': 1.0}
GROUPS = 'figures.group_distances:group_distances'
MAP = {
    'name': 'figures.predicted_map:predicted_map',
    'sigmas': (1.0,),
    'alphas': (0.1,),
}


@pytest.mark.parametrize(
    'options, message',
    [
        ({**COUNTEREXAMPLE, 'num_rounds': 50}, 'num_rounds` must be a multiple of 10'),
        ({**COUNTEREXAMPLE, 'num_rounds': 65}, 'num_rounds` must be a multiple of 10'),
        ({**COUNTEREXAMPLE, 'panels': {}}, 'panels` must hold at least one value'),
        ({'name': NETWORKS, 'networks': {}}, 'networks` must hold at least one value'),
        (
            {'name': f'{XIANG}:two_client_limit', 'num_points': 0},
            'num_points` must be at least 1, got 0.',
        ),
        (
            {'name': f'{XIANG}:two_client_limit', 'num_seeds': 1},
            'num_seeds` must be at least 2, got 1.',
        ),
        (
            {
                'name': f'{XIANG}:class_weights',
                'published': (1.0,) * 10,
                'num_draws': 1,
            },
            'num_draws` must be at least 2, got 1.',
        ),
        (
            {'name': f'{XIANG}:class_weights', 'published': (1.0, 2.0)},
            'published` must have shape [10], got [2].',
        ),
        (
            {'name': f'{XIANG}:link_traces', 'panels': {}, 'probs': (0.5,)},
            'panels` must hold at least one value',
        ),
        (
            {
                'name': f'{XIANG}:link_traces',
                'panels': {'a': {'links': {'name': 'bernoulli'}, 'rounds': 4}},
                'probs': (),
            },
            'probs` must be a vector with one entry per client',
        ),
        (
            {'name': f'{SUN}:separation_distance', 'weights': {}},
            'weights` must hold at least one value',
        ),
        (
            {'name': f'{SUN}:separation_distance', 'weights': {'a': WEIGHTS}}
            | {'num_clients': 1},
            'num_clients` must be at least 2, got 1.',
        ),
        (
            {'name': f'{SUN}:selection_mixing', 'weights': WEIGHTS, 'separations': ()},
            'separations` must hold at least one value',
        ),
        (
            {'name': GROUPS, 'weights': WEIGHTS, 'num_seeds': 1},
            'num_seeds` must be at least 2, got 1.',
        ),
        (
            {'name': 'figures.wang2022:toy_trajectories', 'settings': ((0.1,),)},
            'settings` must have shape [panels, 2], got [1, 1].',
        ),
        (
            {'name': 'figures.wang2022:toy_trajectories', 'settings': ()},
            'settings` must have shape [panels, 2], got [0].',
        ),
        (
            {**MAP, 'bayes_accuracies': (0.5, 1.5)},
            'bayes_accuracies` must lie above 0.1 and below 1, got 1.5.',
        ),
    ],
)
def test_an_option_out_of_range_is_named(options, message):
    values = {'title': 't', 'figure': options, 'caption': 'c'}
    with resolver.importable(CONFIGS), pytest.raises(ValueError) as caught:  # noqa: PT011
        figure.build(values)
    assert str(caught.value).startswith(f'`config.figure.{message}')
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'figure': {'name': f'{SUN}:separation_distances'}},
            "`config.figure.name` has no 'separation_distances'; did you mean "
            "'separation_distance'?",
        ),
        (
            {'figure': {'name': f'{XIANG}:link_traces', 'panels': {}, 'prob': 1}},
            "`config.figure` has no 'prob'; did you mean 'probs'?",
        ),
        (
            {'figure': {'name': f'{XIANG}:link_traces', 'panels': {}}},
            '`config.figure.probs` must be given, got None.',
        ),
        (
            {
                'figure': {
                    'name': f'{SUN}:separation_distance',
                    'weights': {'a': {'name': 'pwer'}},
                }
            },
            "`config.figure.weights.a.name` has no 'pwer'; did you mean 'power'?",
        ),
        (
            {
                'figure': {
                    'name': f'{SUN}:separation_distance',
                    'weights': {'a': {'name': 'power', 'exponnt': 1.0}},
                }
            },
            "`config.figure.weights.a` has no 'exponnt'; did you mean 'exponent'?",
        ),
        (
            {
                'figure': {
                    'name': f'{XIANG}:link_traces',
                    'probs': (0.5,),
                    'panels': {'a': {'links': {'name': 'bernouli'}, 'rounds': 4}},
                }
            },
            "`config.figure.panels.a.links.name` has no 'bernouli'; did you mean 'bernoulli'?",
        ),
        (
            {'figure': {**COUNTEREXAMPLE, 'pairs': (0.1, 0.9)}},
            '`config.figure.pairs` must be a list of lists, got (0.1, 0.9).',
        ),
        (
            {'figure': {**COUNTEREXAMPLE, 'pairs': ((0.1, 0.9), (0.0, 0.0))}},
            '`config.figure.pairs` must have a positive entry in each pair, got (0, 0).',
        ),
        (
            {'figure': {**COUNTEREXAMPLE, 'num_seeds': 1}},
            '`config.figure.num_seeds` must be at least 2, got 1.',
        ),
        (
            {'figure': COUNTEREXAMPLE},
            "`config.figure.panels.a.name` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        (
            {
                'figure': {
                    'name': 'figures.wang2022:toy_trajectories',
                    'settings': (0.1, 0.2),
                }
            },
            '`config.figure.settings` must be a list of lists, got (0.1, 0.2).',
        ),
        (
            {
                'figure': {
                    'name': NETWORKS,
                    'networks': {
                        'a': {
                            'model': f'{ARCHITECTURES}:wang_cifar',
                            'image': (9, 9, 1),
                        }
                    },
                }
            },
            "`config.figure.networks.a.model` has no 'wang_cifar'; did you mean 'wang_cifar10'?",
        ),
        (
            {'figure': {'name': f'{XIANG}:markov_links', 'probs': (0.5, 1.0)}},
            '`config.figure.probs` must lie in (0, 1), got 1.0.',
        ),
        (
            {'figure': {'name': f'{XIANG}:markov_links', 'probs': (0.5, 2.0)}},
            '`config.figure.probs` must lie in [0, 1], got 2.0 at link 1.',
        ),
    ],
)
def test_a_mistake_costs_one_line_that_names_it(changes, message):
    values = {'title': 't', 'figure': {}, 'caption': 'c', **changes}
    with resolver.importable(CONFIGS), refusals.one_line(f'^{re.escape(message)}'):
        figure.build(values)


def test_triangle(x64):
    problem = toy.triangle()
    corners = np.asarray(problem.data)
    np.testing.assert_allclose(corners, [[-1, 0], [1, 0], [0, 3**0.5]])
    sides = [np.linalg.norm(corners[i] - corners[i - 1]) for i in range(3)]
    np.testing.assert_allclose(sides, 2)  # equilateral
    start = jax.jit(problem.init_params)(jax.random.key(0))
    np.testing.assert_array_equal(start, [1, 2])
    gradient = jax.jit(jax.grad(problem.loss_fn))
    for z in corners:
        np.testing.assert_allclose(gradient(start, z[None]), start - z)
    optimum = np.array([0, 3**-0.5])
    metrics = jax.jit(problem.metrics)(optimum, problem.eval_data)
    np.testing.assert_allclose(metrics['distance'], 0, atol=1e-15)
    np.testing.assert_allclose(metrics['loss'], 2 / 3)  # half the squared radius 4 / 3
