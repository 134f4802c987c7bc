"""Every lane is the plain simulation of its pattern, and nothing runs or compiles twice."""

import re

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, problems
from fedjax_links.core import prng
from fedjax_links.experiment import Callback
from fedjax_links.runner import lane_batch, program_cache, save_clock
from tests.experiment.configs import quadratic_values, tuned, values
from tests.runner import running
from tests.runner.made_in_python import in_python, quadratic
from tests.runner.plain_lanes import assert_lanes_are_plain_simulations, rows

QUADRATIC_PATTERNS = {
    'bernoulli': {'name': 'bernoulli', 'probs': 0.5},
    'cohort': {'name': 'uniform_cohort', 'cohort_size': 3},
}


def test_every_lane_is_the_plain_simulation_of_its_pattern(tuned_run):
    planned = experiment.build(tuned())
    results = fl.runs.read(tuned_run)
    tried = rows(results, stage='tuning', algorithm='fedpbc', round=8)
    assert tried['seed'].tolist() == [10_000, 10_001] * 2
    ends = np.maximum(tried['server/eval_accuracy'], tried['client_mean/eval_accuracy'])
    assert ends[2:].mean() > ends[:2].mean()
    point = {'client.learning_rate': 0.1}
    for label in ('fedavg', 'fedpbc'):
        points = dict.fromkeys(planned.patterns, point)
        assert_lanes_are_plain_simulations(planned, results, label, points)


def test_a_grid_compiles_one_program_per_algorithm_and_links(caplog):
    planned = experiment.build(
        quadratic_values(
            links=None,
            patterns=QUADRATIC_PATTERNS,
            algorithms={'fedavg': {}, 'fedpbc': {}},
            client={'local_steps': 2},
            num_rounds=8,
            eval_every=4,
            grid={'client': {'learning_rate': (0.1, 0.05)}},
        )
    )
    with jax.log_compiles():
        results = planned.run()
    compiled = [record.getMessage() for record in caplog.records]
    # Masks are one form, and cohorts of one size are another.
    for program, count in (('train', 2 * 2), ('draw_links', 2)):
        started = [
            m for m in compiled if m.startswith('Compiling') and f'jit({program})' in m
        ]
        assert len(started) == count, started
    assert len(results['round']) == 2 * 2 * 2 * 2 * 2
    for rate in (0.1, 0.05):
        lanes = rows(results, **{'client.learning_rate': rate}, round=8)
        assert sorted({*zip(lanes['algorithm'], lanes['pattern'], strict=True)}) == [
            (a, p) for a in ('fedavg', 'fedpbc') for p in ('bernoulli', 'cohort')
        ]


@pytest.mark.slow
def test_problems_can_differ_by_pattern():
    planned = experiment.build(
        tuned(
            algorithms={'fedavg': {'client': {'learning_rate': 0.1}}},
            problems={'cohort': {'alpha': 100.0}},
            tuning=None,
        )
    )
    results = planned.run()
    first = planned.problem_at('bernoulli', {})
    second = planned.problem_at('cohort', {})
    assert first is not second
    points = {pattern: {'client.learning_rate': 0.1} for pattern in planned.patterns}
    assert_lanes_are_plain_simulations(planned, results, 'fedavg', points)


@pytest.mark.slow
def test_server_rates_are_tuned_where_there_is_one_to_tune():
    tuning = {**tuned()['tuning'], 'server_lrs': (0.5, 1.0)}
    algorithms = {'fedavg': {}, 'fedau': {'server_lr': 1.0}, 'debiased_fedavg': {}}
    planned = experiment.build(tuned(algorithms=algorithms, tuning=tuning, num_seeds=1))
    results = planned.run()
    tried = rows(results, stage='tuning', algorithm='fedavg', round=8)
    assert tried['client.learning_rate'][::2].tolist() == [0.001, 0.001, 0.1, 0.1]
    assert tried['server_lr'][::2].tolist() == [0.5, 1.0, 0.5, 1.0]
    scores = tried['server/eval_accuracy'].reshape(4, 2).mean(axis=1)
    best = int(np.argmax(scores))
    point = {
        'client.learning_rate': tried['client.learning_rate'][2 * best],
        'server_lr': tried['server_lr'][2 * best],
    }
    points = dict.fromkeys(planned.patterns, point)
    assert_lanes_are_plain_simulations(planned, results, 'fedavg', points)
    for label in ('fedau', 'debiased_fedavg'):
        tried = rows(results, stage='tuning', algorithm=label, round=8)
        assert len(tried['seed']) == 2 * 2


@pytest.mark.parametrize('direction, best', [('max', 0.001), ('min', 0.1), (None, 0.1)])
def test_tuning_goes_the_way_that_the_metric_is_better(direction, best):
    planned = experiment.build(
        quadratic_values(
            client={'local_steps': 2},
            tuning={'learning_rates': (0.001, 0.1), 'grow': 0, 'num_seeds': 2},
            metric='loss',
            direction=direction,
        )
    )
    results = planned.run()
    tried = rows(results, stage='tuning', round=4)
    losses = tried['server/loss'].reshape(2, 2).mean(axis=1)
    assert losses[1] < losses[0]
    assert set(rows(results)['client.learning_rate']) == {best}


@pytest.mark.slow
def test_the_model_that_decides_can_be_named():
    """FedPBC's server model and client mean prefer different rates here."""
    chosen = {}
    for model in ('server', 'client_mean'):
        tuning = {
            'grid': {'client': {'learning_rate': (0.02, 0.1, 0.5)}},
            'pattern': 'bernoulli',
            'num_rounds': 8,
            'num_seeds': 1,
            'model': model,
        }
        changes = {'algorithms': {'fedpbc': {}}, 'tuning': tuning, 'num_seeds': 1}
        results = experiment.build(tuned(**changes, baseline='fedpbc')).run()
        tried = rows(results, stage='tuning', round=8)
        best = int(np.argmax(tried[f'{model}/eval_accuracy']))
        chosen[model] = tried['client.learning_rate'][best]
        assert set(rows(results)['client.learning_rate']) == {chosen[model]}
    assert chosen['server'] != chosen['client_mean']


@pytest.mark.slow
def test_a_grid_changes_links_data_and_built_in_values():
    grid = {
        'client': {'local_steps': (1, 3)},
        'links': {'probs': {'value': (0.25, 1.0)}},
        'problem': {'alpha': (0.5, 100.0)},
    }
    planned = experiment.build(values(grid=grid, grid_mode='together', num_seeds=1))
    results = planned.run()
    assert results['client.local_steps'].tolist() == [1, 1, 3, 3]
    assert results['links.probs.value'].tolist() == [0.25, 0.25, 1.0, 1.0]
    for steps, value, alpha in ((1, 0.25, 0.5), (3, 1.0, 100.0)):
        plain = values(
            client={'learning_rate': 0.1, 'local_steps': steps, 'batch_size': 4},
            links={'name': 'bernoulli', 'probs': {'name': 'equal', 'value': value}},
            problem={'name': 'digits', 'num_clients': 8, 'alpha': alpha},
            num_seeds=1,
        )
        expected = experiment.build(plain).run()
        lane = rows(results, **{'client.local_steps': steps})
        for name in ('server/eval_loss', 'rounds/num_active'):
            np.testing.assert_array_equal(lane[name], expected[name])


@pytest.mark.slow
def test_side_by_side_lanes_agree_to_rounding():
    planned = experiment.build(tuned())
    one_by_one = running.run(planned, side_by_side=False)
    together = running.run(planned, side_by_side=True)
    order = [
        np.lexsort(
            [
                r['round'],
                r['seed'],
                r['client.learning_rate'],
                r['pattern'],
                r['algorithm'],
            ]
        )
        for r in (one_by_one, together)
    ]
    assert one_by_one.columns.keys() == together.columns.keys()
    for name in one_by_one.columns:
        ours = one_by_one[name][order[0]]
        theirs = together[name][order[1]]
        if ours.dtype.kind == 'f':
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_a_period_has_the_links_of_its_own_rounds():
    """Four rounds from the fourth on are the same alone and as one period of four."""

    def group(eval_every):
        planned = in_python(num_rounds=8, eval_every=eval_every)
        lanes = planned.plan.schedule.main('fedavg')
        return lane_batch.LaneBatch(program_cache.Programs(planned.plan), lanes[:1])

    def states(group):
        return jax.tree.map(np.array, group.states())

    alone = group(1)
    together = group(4)
    alone.start()
    for _ in range(3):
        alone.advance_period()
    together.restore(states(alone))
    together.advance_period()
    for _ in range(4):
        alone.advance_period()
    assert alone.round == together.round == 7
    jax.tree.map(np.testing.assert_array_equal, states(alone), states(together))


def test_an_experiment_is_made_of_objects_without_a_config():
    planned = in_python()
    assert 'Made in Python' in planned.describe()
    results = planned.run()
    assert results.folder is None
    lines = rows(results, round=40)
    assert lines['algorithm'].tolist() == ['fedavg'] * 2 + ['fedpbc'] * 4
    np.testing.assert_array_equal(lines['learning_rate'][2:], [0.1, 0.1, 0.2, 0.2])
    assert np.isnan(np.asarray(lines['learning_rate'][:2], float)).all()
    pytest.importorskip('pandas')
    table = results.to_pandas()
    assert list(table.columns) == list(results.columns)
    assert len(table) == len(results['round'])


def test_a_diverged_value_is_null_in_the_metrics(tmp_path):
    client = fl.local_training.local_sgd(3.0, local_steps=50)
    planned = in_python(
        problem=problems.quadratic(np.full((2, 1), 1e30)),
        patterns={'all': participation.always(2)},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=5,
        eval_every=5,
        seeds=(0,),
        grid={},
    )
    results = planned.run(tmp_path)
    assert results['finite'].tolist() == [False]
    assert np.isnan(results['server/distance']).all()
    assert 'NaN' not in (tmp_path / fl.runs.METRICS).read_text()


def test_a_grid_on_which_all_diverges_is_named():
    def fedavg(learning_rate):
        return fl.ALGORITHMS['fedavg'](
            fl.local_training.local_sgd(learning_rate, local_steps=50)
        )

    planned = in_python(
        problem=problems.quadratic(np.full((2, 1), 1e30)),
        patterns={'all': participation.always(2)},
        algorithms={'fedavg': fedavg},
        grid={},
        tuning=experiment.Tuning(grid={'learning_rate': [3.0, 4.0]}, num_rounds=4),
    )
    with pytest.raises(
        ValueError, match=r'`tuning` must hold a value at which fedavg converges'
    ):
        planned.run()


@pytest.mark.parametrize(
    'field, form',
    [
        ('seeds', 'a list of seeds, such as range(3)'),
        ('patterns', "by label, such as {'mine': ...}"),
        ('algorithms', "by label, such as {'mine': ...}"),
    ],
)
def test_a_number_in_the_place_of_several_is_refused(field, form):
    line = re.escape(f'`{field}` must be {form}, got 5.')
    with pytest.raises(ValueError, match=f'^{line}$'):
        in_python(**{field: 5})


def test_a_run_resumes_only_with_the_draws_it_began_with(quadratic_copy, monkeypatch):
    monkeypatch.setattr(prng, 'DRAWS_VERSION', prng.DRAWS_VERSION + 1)
    with pytest.raises(ValueError, match=r'where config\.draws is \d+ and not \d+'):
        quadratic().run(quadratic_copy)


@pytest.mark.slow
def test_models_are_evaluated_before_the_first_round_where_asked(tmp_path, monkeypatch):
    """The first lines are the metrics of the initial model, all others as without; also resumed."""
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    plain = experiment.build(values()).run()
    planned = experiment.build(values(evaluate_start=True))
    received = []

    class Listen(Callback):
        def on_period(self, lane, record):
            received.append(
                (lane.seed, record['round'], float(record['server/eval_loss']))
            )

    full = planned.run(tmp_path / 'whole', [Listen()])
    columns = (full[name].tolist() for name in ('seed', 'round', 'server/eval_loss'))
    assert sorted(received) == sorted(zip(*columns, strict=True))
    first = full['round'] == 0
    assert first.tolist() == [True, False, False] * 2
    for name in plain.columns:
        np.testing.assert_array_equal(full[name][~first], plain[name])
    problem = planned.problem_at('links', {})
    for seed in planned.seeds:
        params = problem.init_params(prng.model_key(jax.random.key(seed)))
        (row,) = np.flatnonzero(first & (full['seed'] == seed))
        for name, value in problem.metrics(params, problem.eval_data).items():
            np.testing.assert_allclose(
                full[f'server/eval_{name}'][row], value, rtol=1e-6
            )

    class End(Callback):
        def __init__(self, last):
            self.last = last

        def on_period(self, lane, record):
            if (lane.seed, record['round']) == (planned.seeds[-1], self.last):
                raise experiment.Stop

    for last in (0, 2):
        with pytest.raises(experiment.Stop):
            planned.run(tmp_path / 'ended', [End(last)])
    planned.run(tmp_path / 'ended')
    lines = [
        (tmp_path / name / 'metrics.jsonl').read_bytes() for name in ('whole', 'ended')
    ]
    assert lines[0] == lines[1]
