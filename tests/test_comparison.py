"""Comparisons: every lane is the plain simulation of its pattern, and nothing runs twice."""

import jax
import numpy as np
import pytest

from fedjax_links import comparison, evaluation, simulation
from fedjax_links.report import comparison_tables


def values(**changes):
    probs = {'name': 'label_dependent', 'seed': 1}
    base = {
        'title': 'test',
        'problem': {'name': 'digits', 'num_clients': 8, 'alpha': 0.5},
        'patterns': {
            'bernoulli': {'name': 'bernoulli', 'probs': probs},
            'cohort': {'name': 'uniform_cohort', 'cohort_size': 3},
        },
        'client': {'local_steps': 2, 'batch_size': 4, 'decay': 'inverse_sqrt'},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'tuning': {
            'learning_rates': (0.001, 0.1),
            'pattern': 'bernoulli',
            'num_rounds': 6,
            'num_seeds': 2,
        },
        'baseline': 'fedavg',
        'metric': 'eval_accuracy',
        'num_rounds': 8,
        'eval_every': 4,
        'num_seeds': 2,
        'first_seed': 5,
    }
    return {**base, **changes}


def test_every_lane_is_the_plain_simulation_of_its_pattern(tmp_path):
    plan = comparison.build(values())
    outcome = comparison.run(plan, 'fedpbc', comparison.realise(plan), tmp_path)
    assert outcome.learning_rate == 0.1
    assert outcome.tuning[1] > outcome.tuning[0]
    for place, pattern in enumerate(plan.patterns.values()):
        for column, seed in enumerate((5, 6)):
            alone = jax.jit(
                lambda key, problem, pattern=pattern: simulation.simulate(
                    key,
                    plan.algorithm('fedpbc', 0.1),
                    pattern,
                    problem,
                    num_rounds=8,
                    eval_every=4,
                    eval_fn=evaluation.train_and_eval,
                )
            )(jax.random.key(seed), plan.problem)
            for model, named in alone.evals.items():
                for metric, curve in named.items():
                    np.testing.assert_array_equal(
                        outcome.evals[model][metric][place, column], curve, err_msg=metric
                    )


def test_a_finished_algorithm_is_read_and_not_run_again(tmp_path, monkeypatch):
    plan = comparison.build(values())
    links = comparison.realise(plan)
    first = comparison.run(plan, 'fedavg', links, tmp_path)
    monkeypatch.setattr(comparison, '_tune', None)
    again = comparison.run(plan, 'fedavg', links, tmp_path)
    assert again.learning_rate == first.learning_rate
    jax.tree.map(np.testing.assert_array_equal, again.evals, first.evals)
    assert [path.name for path in tmp_path.iterdir()] == ['fedavg.npz']


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'baseline': 'fedpcb'}, "`config.baseline` has no 'fedpcb'; did you mean 'fedpbc'?"),
        ({'eval_every': 3}, '`config.eval_every` must divide num_rounds = 8, got 3.'),
        ({'patern': {}}, "`config` has no 'patern'; did you mean 'patterns'?"),
        (
            {'patterns': {'bernoulli': {'name': 'bernouli'}}},
            "`config.patterns.bernoulli.name` has no 'bernouli'; did you mean 'bernoulli'?",
        ),
        ({'algorithms': {'fedavg': {'server_lr': -1.0}}}, '`server_lr` must be positive'),
    ],
)
def test_a_mistake_costs_one_line_before_anything_runs(changes, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        comparison.build(values(**changes))
    assert str(caught.value).startswith(message)


def test_a_rate_that_cannot_be_is_refused_before_anything_runs():
    tuning = {**values()['tuning'], 'learning_rates': (0.1, -0.1)}
    with pytest.raises(ValueError, match=r'`learning_rate` must be positive, got -0\.1'):
        comparison.build(values(tuning=tuning))


def test_differences_are_paired_by_seed():
    """Seeds that move both alike cancel: the paired interval is far narrower than the levels'."""
    shared = np.array([[0.1, 0.5, 0.9]])
    finals = {
        'fedavg': {'server': shared},
        'fedpbc': {'server': shared + np.array([[0.01, 0.011, 0.009]])},
    }
    table = comparison_tables.difference_table(finals, ['links'], 'fedavg')
    assert table.rows == [['fedpbc', 'server', '0.010 ± 0.002 *']]
    levels = comparison_tables.level_table(finals, ['links'], {'fedavg': 0.1, 'fedpbc': 0.2})
    assert levels.rows[0] == ['fedavg', 'server', '0.1', '0.500 ± 0.994']
    assert comparison_tables.orderings(finals, ['links']) == {'links': ['fedpbc', 'fedavg']}
