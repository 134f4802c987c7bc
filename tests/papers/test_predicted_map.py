"""The predicted map against brute force at single points, and beside a run."""

import itertools

import jax
import numpy as np
import pytest

from configs.figures import predicted_map
from fedjax_links import analysis, experiment
from fedjax_links.pages import figure
from fedjax_links.problems import owners
from studies.gaussian_accuracy import gaussian_accuracy
from tests import refusals
from tests.report.made import results

AXES = {
    'bayes_accuracies': (0.5, 0.8),
    'sigmas': (0.0, 2.0, 10.0),
    'alphas': (0.1, 1.0),
}
KEY = jax.random.key(0)
SIZES = {'num_clients': 9, 'examples_per_client': 30, 'num_classes': 4}


def config(**changes):
    """Returns the config of the smallest map."""
    return {
        'title': 'A small map',
        'problem': {'name': 'gaussians', **SIZES},
        'links': {
            'name': 'bernoulli',
            'probs': {
                'name': 'label_dependent',
                'sigma': 1.0,
                'minimum': 0.02,
                'seed': 0,
            },
        },
        'client': {'local_steps': 1, 'batch_size': 4},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'redraw': 'by_seed',
        'grid': {
            'problem': {'bayes_accuracy': [0.5, 0.8], 'alpha': [0.1, 1.0]},
            'links': {'probs': {'sigma': [0.0, 2.0, 10.0]}},
            'client': {'learning_rate': [0.1]},
        },
        'num_rounds': 2,
        'eval_every': 1,
        'num_seeds': 2,
        **changes,
    }


def brute_force_weights(probs):
    """Returns E[1{i in A} / |A| given A not empty], by listing all sets."""
    weights = np.zeros(len(probs))
    prob_nonempty = 0.0
    for mask in itertools.product([0, 1], repeat=len(probs)):
        mask = np.array(mask)
        if mask.any():
            prob = np.prod(np.where(mask, probs, 1 - probs))
            weights += prob * mask / mask.sum()
            prob_nonempty += prob
    return weights / prob_nonempty


def test_a_point_is_the_minimiser_on_the_classes_of_its_seed():
    result = predicted_map.limits(**AXES, **SIZES, seeds=(3, 5))
    planned = experiment.build(config(first_seed=3, num_seeds=3))
    means = np.eye(4) * analysis.equidistant_distance(0.8, 4) / np.sqrt(2)
    for row, column, draw, seed in ((0, 2, 1, 5), (1, 1, 0, 3)):
        point = {
            'problem.bayes_accuracy': 0.8,
            'problem.alpha': AXES['alphas'][row],
            'links.probs.sigma': AXES['sigmas'][column],
        }
        problem = planned.problem_at('links', point, seed)
        labels = np.asarray(problem.data.labels)
        mix = np.zeros((9, 4))
        np.add.at(mix, (owners(problem), labels), 1 / 30)
        lane = planned.pattern_at('links', point, seed)
        _, links = lane.sample(lane.init(KEY), KEY, 0)
        weights = brute_force_weights(np.asarray(links.prob, np.float64))
        for client_weights, accuracies in (
            (weights, result.fedavg),
            (np.full(9, 1 / 9), result.fedpbc),
        ):
            model = analysis.gaussian_minimiser(means, mix, client_weights)
            expected = gaussian_accuracy(model, means)
            off = accuracies[row, 1, column, draw] - expected.accuracy
            assert abs(off) < 4.5 * expected.error + 1e-6
    assert np.ptp(result.fedpbc, axis=2).max() == 0
    np.testing.assert_allclose(
        result.fedavg[:, :, 0], result.fedpbc[:, :, 0], atol=1e-12
    )


@pytest.mark.slow
def test_a_run_stands_beside_its_prediction(tmp_path):
    run = experiment.build(config()).run(tmp_path)
    result = predicted_map.predicted_map(
        bayes_accuracies=(), sigmas=(), alphas=(), folder=str(tmp_path), tail=0.5
    )
    exact = predicted_map.limits(**AXES, **SIZES, seeds=(0, 1))
    columns = result.columns
    position = 1 * 6 + 1 * 3 + 2  # alpha 1, Bayes accuracy 0.8, sigma 10
    point = [columns[name][position] for name in ('alpha', 'bayes_accuracy', 'sigma')]
    assert point == [1.0, 0.8, 10.0]
    expected = 100 * (exact.fedpbc - exact.fedavg)[1, 1, 2].mean()
    assert columns['difference_predicted'][position] == pytest.approx(expected)
    rows = run.columns
    chosen = (rows['problem.alpha'] == 1.0) & (rows['problem.bayes_accuracy'] == 0.8)
    chosen &= (rows['links.probs.sigma'] == 10.0) & (rows['round'] == 2)
    of_fedavg = chosen & (rows['algorithm'] == 'fedavg')
    of_fedpbc = chosen & (rows['algorithm'] == 'fedpbc')
    fedavg = rows['server/eval_accuracy'][of_fedavg].astype(float)
    fedpbc = rows['client_mean/eval_accuracy'][of_fedpbc].astype(float)
    simulated = 100 * np.mean(fedpbc - fedavg)
    assert columns['difference_simulated'][position] == pytest.approx(
        simulated, abs=1e-5
    )
    excess = columns['difference_simulated_minus_predicted'][position]
    assert excess == pytest.approx(simulated - expected, abs=1e-5)
    assert [row[0] for row in result.table.rows[::4]] == [
        'predicted',
        'simulated',
        'simulated - predicted',
    ]
    values = {'title': 'A map', 'caption': 'Small.', 'figure': {'name': 'x:y'}}
    figure.write(tmp_path, values, result)
    assert (tmp_path / figure.PICTURE).stat().st_size > 10_000


COLUMNS = ('problem.bayes_accuracy', 'links.probs.sigma', 'problem.alpha')


@pytest.mark.parametrize(
    'algorithms, columns, message',
    [
        (('fedavg',), COLUMNS, '`algorithm` has no .fedpbc.'),
        (
            ('fedavg', 'fedpbc'),
            COLUMNS[:2],
            '`folder` must have a grid of problem.bayes_accuracy, links.probs.sigma, '
            'problem.alpha, got any.',
        ),
    ],
)
def test_a_run_without_such_a_map_is_refused(algorithms, columns, message, monkeypatch):
    curves = {}
    members = {}
    for algorithm in algorithms:
        for point in itertools.product((0.5, 0.8), repeat=len(columns)):
            label = f'{algorithm} {point}'
            curves[label] = np.full((1, 2, 1), 0.5)
            members[label] = algorithm, dict(zip(columns, point, strict=True))
    view = results(curves, members=members)
    monkeypatch.setattr(predicted_map.runs, 'read', lambda folder: None)
    monkeypatch.setattr(predicted_map.run_view, 'from_run', lambda run: view)
    with refusals.one_line(message):
        predicted_map.predicted_map(
            bayes_accuracies=(), sigmas=(), alphas=(), folder='any', best_over=()
        )


def test_a_map_without_values_is_refused():
    with refusals.names('sigmas', 'hold at least one value'):
        predicted_map.predicted_map(bayes_accuracies=(0.5,), sigmas=(), alphas=(0.1,))
