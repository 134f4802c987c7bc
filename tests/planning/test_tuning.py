"""Tuning at the points of a grid."""

import re

import numpy as np
import pytest

from fedjax_links import algorithms, experiment, runs
from fedjax_links.experiment import nan_debugger
from fedjax_links.local_training import local_sgd
from fedjax_links.planning import trials
from fedjax_links.report import run_view
from tests.experiment.configs import tuned, values
from tests.refusals import names
from tests.runner.made_in_python import in_python


def test_every_point_of_problem_and_links_is_tuned_for_itself():
    probs = {'name': 'label_dependent', 'sigma': 1.0, 'minimum': 0.1, 'seed': 0}
    run = experiment.build(
        {
            'title': 'Tuned by point',
            'problem': {
                'name': 'gaussians',
                'num_clients': 4,
                'examples_per_client': 9,
            },
            'links': {'name': 'bernoulli', 'probs': probs},
            'client': {'local_steps': 1, 'batch_size': 4},
            'algorithms': {'fedavg': {}},
            'grid': {
                'problem': {'bayes_accuracy': [0.3, 0.9]},
                'links': {'probs': {'sigma': [0.0, 5.0]}},
            },
            'tuning': {
                'learning_rates': (0.1, 0.6, 1.5),
                'grow': 0,
                'pattern': 'links',
                'num_rounds': 2,
                'num_seeds': 2,
            },
            'metric': 'train_loss',
            'num_rounds': 4,
            'eval_every': 2,
            'redraw': {},
        }
    ).run()
    rows = run.columns
    accuracies = rows['problem.bayes_accuracy'].tolist()
    points = list(zip(accuracies, rows['links.probs.sigma'].tolist(), strict=True))
    scores = {}
    for index in np.flatnonzero((rows['stage'] == 'tuning') & (rows['round'] == 2)):
        key = points[index], rows['client.learning_rate'][index]
        scores.setdefault(key, []).append(rows['server/train_loss'][index])
    assert len(scores) == 4 * 3
    assert {len(values) for values in scores.values()} == {2}
    chosen_rates = set()
    for index in np.flatnonzero(rows['stage'] == 'main'):
        scores_at_point = {
            rate: np.mean(v)
            for (point, rate), v in scores.items()
            if point == points[index]
        }
        rate = rows['client.learning_rate'][index]
        assert rate == min(scores_at_point, key=scores_at_point.get)
        chosen_rates.add(rate)
    assert len(chosen_rates) > 1


def fedavg(learning_rate):
    return algorithms.fedavg(local_sgd(learning_rate, local_steps=2))


@pytest.mark.slow
def test_a_run_that_stopped_in_tuning_says_how_far_it_is(tmp_path):
    """Two rates with three seeds each; after four of these six lanes."""
    planned = in_python(
        algorithms={'mine': fedavg},
        grid={},
        tuning=experiment.Tuning(
            grid={'learning_rate': [0.1, 0.2]}, num_rounds=8, num_seeds=3, grow=0
        ),
    )

    class End(experiment.Callback):
        def on_period(self, lane, record):
            if (lane.position, record['round']) == ((1, 0), 8):
                raise experiment.Stop

    with pytest.raises(experiment.Stop):
        planned.run(tmp_path, [End()], devices=1)
    run = runs.read(tmp_path)
    text = (
        f'`workdir` must hold at least one finished algorithm, got {tmp_path}; not finished: mine '
        '(tuning: 1 of 2 tried).'
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        run_view.from_run(run)
    results = list(nan_debugger.debug_round(planned, tmp_path, 3))
    assert [line.partition(', tuning')[0] for line in results] == [
        f'mine, some, seed {seed}, learning_rate {rate}'
        for seed, rate in ((10_000, 0.1), (10_001, 0.1), (10_002, 0.1), (10_000, 0.2))
    ]


def test_whole_numbers_and_lists_are_chosen_as_they_were_given():
    """Beside an algorithm without them, whole numbers of a column are read as floats."""
    facts = {
        'tuning': {
            'grid': {'cutoff': [10, 50], 'cutoffs': [(1, 2), (3, 4)]},
            'num_rounds': 4,
            'num_seeds': 2,
            'model': 'server',
        },
        'grid': {},
        'grid_mode': 'cross',
        'patterns': ['some'],
        'seeds': [0],
        'metric': 'loss',
        'directions': {'loss': 'min'},
        'models': {'mine': ['server']},
    }
    record = {'server/loss': 1.0}
    lines = [
        runs.line_of({'algorithm': 'other', 'pattern': 'some', 'seed': 0}, 4, record)
    ]
    for cutoff in (10, 50):
        for cutoffs in ((1, 2), (3, 4)):
            for seed in (10_000, 10_001):
                labels = {
                    'stage': 'tuning',
                    'algorithm': 'mine',
                    'pattern': 'some',
                    'seed': seed,
                }
                labels |= {'cutoff': cutoff, 'cutoffs': cutoffs}
                loss = {'server/loss': 0.1 * cutoff - cutoffs[0] + seed - 10_000}
                lines.append(runs.line_of(labels, 4, loss))
    (result,) = trials.read_trials(runs.as_columns(lines), facts, 'mine')
    np.testing.assert_allclose(result.scores, [0.5, -1.5, 4.5, 2.5])
    assert repr(result.chosen) == "{'cutoff': 10, 'cutoffs': (3, 4)}"


@pytest.mark.parametrize(
    'first, both', [(10_000, '10000 to 10001'), (9_999, '10000 to 10000')]
)
def test_an_experiment_cannot_have_the_seeds_of_its_tuning(first, both):
    text = 'leave the seeds 10000 to 10001 to tuning'
    with names('config.first_seed', text, both):
        experiment.build(tuned(first_seed=first))
    tuning = experiment.Tuning(grid={'learning_rate': [0.1, 0.2]}, num_seeds=2)
    with names('seeds', text, both):
        in_python(seeds=[first, first + 1], tuning=tuning, grid={})
    experiment.build(tuned(first_seed=9_998))
    experiment.build(tuned(first_seed=10_002))


def test_tuning_on_the_draws_of_the_experiment_is_refused():
    """Without a stream by seed all seeds, those of tuning too, are one run."""
    streams = ('init', 'links', 'batches')
    for redraw in ('fixed', dict.fromkeys(streams, 'fixed')):
        with names('config.redraw', 'have a stream by seed, as tuning would see'):
            experiment.build(tuned(num_seeds=1, redraw=redraw))
    for stream in streams:
        redraw = {**dict.fromkeys(streams, 'fixed'), stream: 'by_seed'}
        planned = experiment.build(tuned(redraw=redraw))
        samples = [
            planned.plan.draws.seed_of(stream, seed) for seed in planned.tuning.seeds
        ]
        assert not {*samples} & {*planned.seeds}
        assert len({*samples}) == len(samples)


@pytest.mark.parametrize(
    'label, column, column_values, range_of',
    [
        ('fedstale', 'stale_weight', (0.25, 0.5, 1.0), (0.0, 1.0)),
        ('fedstale', 'stale_weight', (0.5, 0.25), (0.0, 1.0)),
        ('f3ast', 'beta', (0.4, 0.5), (0.0, 1.0)),
        ('fedavg', 'server_lr', (0.5, 1.0), (0.0, np.inf)),
    ],
)
def test_a_column_grows_within_what_its_algorithm_takes(
    label, column, column_values, range_of
):
    """At either end, whichever way the values go."""
    name = f'algorithms.{label}.{column}'
    tuning = {
        'grid': {'algorithms': {label: {column: column_values}}},
        'grow': 4,
        'num_rounds': 4,
    }
    planned = experiment.build(
        values(algorithms={label: {}}, tuning=tuning, num_seeds=1)
    )
    result, (start, stop) = planned.plan.candidates[name]
    assert tuple(result[start:stop]) == column_values
    candidates, ends = planned.tuning.candidates()[name]
    assert ends == (4, 4 + len(column_values))
    assert result == [
        value for value in candidates if range_of[0] <= value <= range_of[1]
    ]
    assert planned.plan.facts()['tuning']['grid'][name] == result


def test_main_lanes_at_values_not_chosen_are_refused():
    run = in_python(
        algorithms={'fedpbc': in_python().algorithms['fedpbc']},
        grid={},
        tuning=experiment.Tuning(
            grid={'learning_rate': [0.1, 0.2]}, num_rounds=8, num_seeds=2, grow=0
        ),
        num_rounds=8,
    ).run()
    trials.check_main_lanes(run.columns, run.facts)
    rates = run['learning_rate'].copy()
    (chosen,) = {*rates[run['stage'] == 'main']}
    (other,) = {0.1, 0.2} - {chosen}
    rates[(run['stage'] == 'main') & (run['seed'] == 3)] = other
    with names(
        'workdir', f'learning_rate {chosen}', f'fedpbc, some, seed 3 at {other}'
    ):
        trials.check_main_lanes({**run.columns, 'learning_rate': rates}, run.facts)
    trials.check_main_lanes(
        {**run.columns, 'learning_rate': rates}, {**run.facts, 'tuning': None}
    )


def test_an_algorithm_before_its_tuning_has_no_trials():
    start = (
        '{"stage": "tuning", "algorithm": "fedavg", "pattern": "links", '
        '"seed": 10000, "round": 2, '
    )
    lines = [f'{start}"rate": {rate}, "server/loss": {rate}}}' for rate in (0.2, 0.1)]
    facts = {
        'algorithms': ['fedavg', 'fedpbc'],
        'patterns': ['links'],
        'seeds': [0],
        'grid': {},
        'grid_mode': 'cross',
        'metric': 'loss',
        'directions': {'loss': 'min'},
        'models': {'fedavg': ['server'], 'fedpbc': ['server', 'client_mean']},
        'tuning': {
            'model': 'best',
            'num_rounds': 2,
            'num_seeds': 1,
            'grid': {'rate': [0.2, 0.1]},
        },
    }
    columns = runs.as_columns(lines)
    (result,) = trials.read_trials(columns, facts, 'fedavg')
    assert result.chosen == {'rate': 0.1}
    assert trials.read_trials(columns, facts, 'fedpbc') == []
    assert trials.progress(columns, facts, 'fedpbc') == ''


@pytest.mark.parametrize('values', [[0.1, 0.2, 0.1], [1, 1.0], [[1, 2], [1, 2]]])
def test_a_value_that_comes_twice_is_no_second_trial(values):
    with names('tuning.grid.client.x', 'each value once'):
        experiment.Tuning(grid={'client': {'x': values}})
