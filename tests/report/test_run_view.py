"""Run folders as results: order, divergence, series of a grid, what is missing."""

import json

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.report import blank_view, run_view
from tests.experiment.configs import tuned
from tests.runner import running

FACTS = {
    'title': 'A run',
    'caption': '',
    'patterns': ['first', 'second'],
    'algorithms': ['fedpbc', 'fedavg'],
    'names': [],
    'baseline': 'fedavg',
    'metric': 'eval_accuracy',
    'directions': {'eval_accuracy': 'max', 'train_loss': 'min'},
    'models': {'fedavg': ['server'], 'fedpbc': ['client_mean', 'server']},
    'num_rounds': 4,
    'eval_every': 2,
    'seeds': [5, 6],
    'grid': {},
    'grid_mode': 'cross',
    'tuning': None,
    'reports': {},
}


def lines(algorithm, accuracy, points=({},), patterns=('first', 'second')):
    """Lines of metrics of all lanes; ``accuracy`` takes pattern, seed, round and point."""
    models = FACTS['models'][algorithm]
    results = []
    for pattern in patterns:
        for point in points:
            for seed in (5, 6):
                for round in (2, 4):
                    values = {'eval_accuracy': accuracy(pattern, seed, round, point)}
                    record = {f'{m}/{k}': v for m in models for k, v in values.items()}
                    record |= {f'{m}/train_loss': 1.0 for m in models}
                    labels = {
                        'algorithm': algorithm,
                        'pattern': pattern,
                        'seed': seed,
                        **point,
                    }
                    results.append(runs.line_of(labels, round, record))
    return results


def level(pattern, seed, round, point):
    return {'first': 0.1, 'second': 0.2}[pattern] + seed / 100 + round / 1000


def view_of(all_lines, **changes):
    columns = runs.as_columns(all_lines)
    return run_view.from_run(runs.Results(columns, {**FACTS, **changes}))


def accuracy_of(view, label='fedavg'):
    """float[P, S, E] of the server's model."""
    return view.data['eval_accuracy'].sel(series=label, model='server').values


def test_curves_are_by_pattern_seed_and_evaluation():
    result = view_of(lines('fedavg', level))
    assert (result.title, result.metric().name, result.baseline) == (
        'A run',
        'eval_accuracy',
        'fedavg',
    )
    assert result.missing == ['fedpbc']
    np.testing.assert_array_equal(result.rounds, [2, 4])
    np.testing.assert_allclose(
        accuracy_of(result),
        [[[0.152, 0.154], [0.162, 0.164]], [[0.252, 0.254], [0.262, 0.264]]],
    )
    assert result.num_seeds == 2
    assert result.metrics == ['eval_accuracy', 'train_loss']


def test_the_order_of_lines_does_not_matter(rng):
    in_order = lines('fedavg', level)
    shuffled = [in_order[index] for index in rng.permutation(len(in_order))]
    expected = accuracy_of(view_of(in_order))
    np.testing.assert_array_equal(accuracy_of(view_of(shuffled)), expected)


def test_an_algorithm_is_missing_until_its_last_line_is_there():
    full = lines('fedavg', level) + lines('fedpbc', level)
    assert view_of(full[:-1]).missing == ['fedpbc']
    result = view_of(full)
    assert result.missing == []
    assert result.main_models['fedpbc'] == 'client_mean'
    assert result.main_models['fedavg'] == 'server'
    assert result.models['fedpbc'] == ['server', 'client_mean']


def test_patterns_and_algorithms_follow_the_order_of_the_run():
    result = view_of(lines('fedavg', level) + lines('fedpbc', level))
    assert list(result.patterns) == ['first', 'second']
    assert list(result.members) == ['fedpbc', 'fedavg']


def test_patterns_and_algorithms_follow_the_order_of_names():
    names = [['second', 'B'], ['fedpbc', 'FedPBC'], ['first', 'A']]
    result = view_of(lines('fedavg', level) + lines('fedpbc', level), names=names)
    assert list(result.patterns) == ['second', 'first']
    assert list(result.members) == ['fedpbc', 'fedavg']
    ends = accuracy_of(result)[:, 0, -1]
    np.testing.assert_allclose(ends, [0.254, 0.154])
    assert result.name('second') == 'B'
    assert result.name('fedavg') == 'fedavg'


def test_what_is_not_finite_diverged():
    result = view_of(lines('fedavg', lambda *_: float('inf')))
    assert np.isnan(accuracy_of(result)).all()


def test_a_model_that_diverged_has_no_accuracy():
    """Whose accuracy is that of guessing one class, which is a number."""
    rows = [{**json.loads(line), 'finite': False} for line in lines('fedavg', level)]
    result = view_of([json.dumps(row) + '\n' for row in rows])
    assert np.isnan(accuracy_of(result)).all()


def test_what_diverged_at_a_list_of_a_grid_is_named():
    probs = [(0.1, 0.2), (0.3, 0.4)]
    points = [{'probs': list(value)} for value in probs]
    all_lines = []
    for line in lines('fedavg', level, points, patterns=('first',)):
        row = {**json.loads(line), 'finite': True}
        if row['probs'] == [0.3, 0.4]:
            row |= {'finite': False, 'first_bad_round': 1}
        all_lines.append(json.dumps(row) + '\n')
    result = view_of(all_lines, grid={'probs': probs}, patterns=['first'])
    assert list(result.diverged) == [
        'fedavg (probs (0.3, 0.4)), first, seeds 5, 6 in round 1'
    ]


def test_each_grid_point_is_compared_with_the_baseline_there():
    points = [{'client.learning_rate': rate} for rate in (0.1, 0.2)]

    def accuracy(pattern, seed, round, point):
        return point['client.learning_rate']

    result = view_of(
        lines('fedavg', accuracy, points) + lines('fedpbc', accuracy, points),
        grid={'client.learning_rate': [0.1, 0.2]},
        names=[['fedpbc', 'FedPBC']],
    )
    labels = [
        f'{a} (learning_rate {r})' for a in ('fedpbc', 'fedavg') for r in (0.1, 0.2)
    ]
    assert list(result.members) == labels
    assert result.name(labels[0]) == 'FedPBC (learning_rate 0.1)'
    assert [result.baseline_of(label) for label in labels] == labels[2:] * 2
    for label, rate in zip(labels, (0.1, 0.2) * 2, strict=True):
        assert result.data['client.learning_rate'].sel(series=label) == rate
        np.testing.assert_array_equal(accuracy_of(result, label), rate)


def test_a_baseline_without_a_column_serves_all_its_points():
    points = [{'mu': mu} for mu in (0.1, 0.2)]
    result = view_of(
        lines('fedavg', level) + lines('fedpbc', level, points), grid={'mu': [0.1, 0.2]}
    )
    assert list(result.members) == ['fedpbc (mu 0.1)', 'fedpbc (mu 0.2)', 'fedavg']
    assert {result.baseline_of(label) for label in result.members} == {'fedavg'}


def test_an_unknown_direction_is_an_error_where_it_matters():
    result = view_of(
        lines('fedavg', level), directions={'eval_accuracy': None, 'train_loss': 'min'}
    )
    assert result.metric('train_loss').sign == -1
    with pytest.raises(
        ValueError, match=r'nothing says which way eval_accuracy is better'
    ):
        result.metric().sign  # noqa: B018


@pytest.mark.slow
def test_results_before_a_run_have_the_form_of_those_after_it(tmp_path):
    planned = experiment.build(
        tuned(num_seeds=1, grid={'client': {'batch_size': (2, 4)}})
    )
    blank = blank_view.blank(planned)
    real = run_view.from_run(running.run(planned, tmp_path))

    def form(view):
        """Arrays as their shapes, without what a run finds out: the best value and its ties."""
        by_label = {}
        for label, all_trials in view.tuning.items():
            by_label[label] = [
                trials._replace(
                    best=trials.best is None,
                    ties=None,
                    search=trials.search._replace(best=None),
                )
                for trials in all_trials
            ]
        return json.dumps(by_label, default=lambda array: list(np.shape(array)))

    assert form(blank) == form(real)
    metrics = blank.metrics
    assert metrics == real.metrics
    for name in (*metrics, *blank.data.coords):
        assert blank.data[name].dims == real.data[name].dims
        assert blank.data[name].shape == real.data[name].shape
    assert blank.members == real.members
    assert list(real.links) == ['bernoulli', 'cohort']
    assert real.links['cohort'].mask.shape == (8, 8)
    np.testing.assert_array_equal(real.links['cohort'].mask.sum(axis=1), 3)


def test_a_folder_without_results_costs_one_line():
    with pytest.raises(
        ValueError, match='`workdir` must hold at least one finished algorithm'
    ):
        view_of([])
