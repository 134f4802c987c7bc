"""Comparisons: every lane is the plain simulation of its pattern, and nothing runs twice."""

import jax
import numpy as np
import pytest

from fedjax_links import comparison, evaluation, simulation, tree
from fedjax_links.comparison import running


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
            'num_rounds': 8,
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


def alone(plan, label, pattern, point):
    """``seed -> evaluations`` of one plain simulation whose rates are arguments, as in a sweep."""
    problem = plan.problems[pattern]
    rates = {name: np.float32(value) for name, value in point.items()}
    run = jax.jit(
        lambda key, problem, rates: (
            simulation.simulate(
                key,
                plan.algorithm(label, **rates),
                plan.patterns[pattern],
                problem,
                num_rounds=8,
                eval_every=4,
                eval_fn=evaluation.for_problem(problem),
            ).evals
        )
    )
    return lambda seed: run(jax.random.key(seed), problem, rates)


def assert_lanes_are_plain_simulations(plan, label, outcome, points):
    for place, pattern in enumerate(outcome.patterns):
        simulate = alone(plan, label, pattern, points[pattern])
        for column, seed in enumerate((5, 6)):
            for model, named in simulate(seed).items():
                for metric, curve in named.items():
                    np.testing.assert_array_equal(
                        outcome.evals[model][metric][place, column], curve, err_msg=metric
                    )


def test_every_lane_is_the_plain_simulation_of_its_pattern(tmp_path):
    plan = comparison.build(values())
    counted = []
    outcome = comparison.run(plan, 'fedpbc', tmp_path, counted.append)
    np.testing.assert_array_equal(outcome.learning_rates, 0.1)
    assert outcome.tuning['score'][1] > outcome.tuning['score'][0]
    np.testing.assert_array_equal(outcome.rounds, [4, 8])
    assert sum(counted) == comparison.rounds_of(plan, 'fedpbc') == (2 * 2 + 2 * 2) * 8
    points = {pattern: {'learning_rate': 0.1} for pattern in outcome.patterns}
    assert_lanes_are_plain_simulations(plan, 'fedpbc', outcome, points)
    blank = comparison.blank(plan, 'fedpbc')
    assert blank.patterns == outcome.patterns
    for name in ('learning_rates', 'rounds', 'tuning', 'evals'):
        shapes = [jax.tree.map(np.shape, getattr(made, name)) for made in (blank, outcome)]
        assert shapes[0] == shapes[1]


def test_memory_is_that_of_the_states_and_links_of_a_run(monkeypatch):
    plan = comparison.build(values())
    problem = plan.problems['bernoulli']
    for label in ('fedavg', 'fedpbc'):
        state = simulation.init(
            jax.random.key(0), plan.algorithm(label, 0.1), plan.patterns['cohort'], problem
        )
        own = tree.num_bytes(state) - tree.num_bytes(state.participation)
        needed = comparison.memory(plan, label)
        assert needed.state_bytes == own
        assert (needed.num_lanes, needed.link_bytes) == (1, 8 * 8 * 5)
        assert needed.total == own + 8 * 8 * 5
    monkeypatch.setattr(running, '_one_by_one', lambda: False)
    together = comparison.memory(plan, 'fedpbc')
    assert (together.num_lanes, together.link_bytes) == (4, 4 * 8 * 8 * 5)
    tuning = {**values()['tuning'], 'num_seeds': 3, 'num_rounds': 4}
    more = comparison.memory(comparison.build(values(tuning=tuning)), 'fedpbc')
    assert (more.num_lanes, more.link_bytes) == (6, 6 * 4 * 8 * 5)
    apart = comparison.build(values(problems={'cohort': {'alpha': 100.0}}))
    assert comparison.memory(apart, 'fedpbc').num_lanes == 4  # tuning; a run has two per problem


def test_rates_can_be_given_by_pattern_and_problems_can_differ(tmp_path):
    rates = {'bernoulli': 0.1, 'cohort': 0.05}
    plan = comparison.build(
        values(
            algorithms={'fedavg': {'client': {'learning_rate': rates}}},
            problems={'cohort': {'alpha': 100.0}},
            tuning={},
        )
    )
    assert plan.problems['cohort'] is not plan.problems['bernoulli']
    outcome = comparison.run(plan, 'fedavg', tmp_path)
    np.testing.assert_array_equal(outcome.learning_rates, [rates[p] for p in outcome.patterns])
    assert outcome.tuning == {}
    points = {pattern: {'learning_rate': rate} for pattern, rate in rates.items()}
    assert_lanes_are_plain_simulations(plan, 'fedavg', outcome, points)


def test_server_rates_are_tuned_where_there_is_one_to_tune(tmp_path):
    tuning = {**values()['tuning'], 'server_lrs': (0.5, 1.0)}
    algorithms = {'fedavg': {}, 'fedau': {'server_lr': 1.0}, 'debiased_fedavg': {}}
    plan = comparison.build(values(algorithms=algorithms, tuning=tuning))
    outcome = comparison.run(plan, 'fedavg', tmp_path)
    assert outcome.tuning['learning_rate'].tolist() == [0.001, 0.001, 0.1, 0.1]
    assert outcome.tuning['server_lr'].tolist() == [0.5, 1.0, 0.5, 1.0]
    best = int(np.argmax(outcome.tuning['score']))
    assert outcome.server_lr == outcome.tuning['server_lr'][best]
    point = {'learning_rate': outcome.learning_rates[0], 'server_lr': outcome.server_lr}
    points = dict.fromkeys(outcome.patterns, point)
    assert_lanes_are_plain_simulations(plan, 'fedavg', outcome, points)
    for label in ('fedau', 'debiased_fedavg'):
        assert comparison.rounds_of(plan, label) == comparison.rounds_of(plan, 'fedavg') - 2 * 2 * 8


def test_losses_are_tuned_downwards(tmp_path):
    plan = comparison.build(values(metric='eval_loss', algorithms={'fedavg': {}}))
    outcome = comparison.run(plan, 'fedavg', tmp_path)
    assert outcome.tuning['score'][1] < outcome.tuning['score'][0]
    assert outcome.learning_rates[0] == 0.1


def test_patterns_come_in_the_order_of_their_names():
    plan = comparison.build(values(names=(('cohort', 'Three at a time'), ('fedpbc', 'FedPBC'))))
    assert list(plan.patterns) == ['cohort', 'bernoulli']


def test_a_finished_algorithm_is_read_and_not_run_again(tmp_path, monkeypatch):
    plan = comparison.build(values())
    first = comparison.run(plan, 'fedavg', tmp_path)
    monkeypatch.setattr(running, '_compile', None)
    again = comparison.run(plan, 'fedavg', tmp_path)
    assert again.patterns == first.patterns
    for name in ('learning_rates', 'rounds', 'tuning', 'evals'):
        here, there = getattr(again, name), getattr(first, name)
        jax.tree.map(np.testing.assert_array_equal, here, there)
    assert [path.name for path in tmp_path.iterdir()] == ['fedavg.npz']


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'metric': 'eval_acuracy'},
            "`config.metric` has no 'eval_acuracy'; did you mean 'eval_accuracy'?",
        ),
        (
            {'problem': {'name': 'quadratic', 'targets': ((0.0,), (1.0,))}, 'metric': 'accuracy'},
            "`config.metric` has no 'accuracy'; valid names: distance, loss.",
        ),
        ({'baseline': 'fedpcb'}, "`config.baseline` has no 'fedpcb'; did you mean 'fedpbc'?"),
        (
            {'eval_every': 3},
            '`config.num_rounds` must be a multiple of config.eval_every = 3, got 8.',
        ),
        ({'problems': {'markov': {}}}, "`config.problems` has no 'markov'; "),
        ({'names': (('fedpcb', 'F'),)}, "`config.names` has no 'fedpcb'; did you mean 'fedpbc'?"),
        ({'names': ('fedpbc',)}, "`config.names` must be pairs (label, name), got 'fedpbc'."),
        ({'names': 'fedpbc'}, "`config.names` must be a list, got 'fedpbc'."),
        (
            {'tuning': {}},
            "`config.tuning` must have 'learning_rates', as fedavg has no learning_rate, got [].",
        ),
        (
            {'algorithms': {'fedavg': {'client': {'learning_rate': {'cohort': 0.1}}}}},
            "`config.algorithms.fedavg.client.learning_rate` must have 'bernoulli', got ['cohort']",
        ),
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


def test_a_pattern_with_separate_downlinks_is_refused():
    up, down = ({'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}} for _ in range(2))
    patterns = {'bernoulli': up, 'both': {'name': 'duplex', 'uplink': up, 'downlink': down}}
    with pytest.raises(ValueError, match=r'`config\.patterns\.both` must have one state per link'):
        comparison.build(values(patterns=patterns))


def test_a_rate_that_cannot_be_is_refused_before_anything_runs():
    tuning = {**values()['tuning'], 'learning_rates': (0.1, -0.1)}
    with pytest.raises(ValueError, match=r'client\.learning_rate` must be positive, got -0\.1'):
        comparison.build(values(tuning=tuning))
