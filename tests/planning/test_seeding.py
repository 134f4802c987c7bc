"""Draws that follow the seed: a lane is the run of its seed's data, partition and links."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, local_training, participation, problems, simulation
from fedjax_links.config import link_sections, resolver
from fedjax_links.experiment import nan_debugger
from fedjax_links.planning import problem_families, seeding
from fedjax_links.report import layouts, run_view
from fedjax_links.runner.program_cache import Programs
from tests.planning.redrawn import PROBLEMS, PROBS, alone, config
from tests.runner.running import run


def columns_of(results, label, seed):
    """The metrics of one lane, by name."""
    rows = (results.columns['algorithm'] == label) & (results.columns['seed'] == seed)
    return {
        k: v[rows]
        for k, v in results.columns.items()
        if k.startswith(('server', 'client_m'))
    }


def simulate_directly(settings, label, seed):
    """Problem and links that are built with the seed, and their run by `simulate` alone."""
    data = resolver.bind_problem({**settings['problem'], 'seed': seed}).build()
    probs = {**PROBS, 'seed': seed}
    links = link_sections.bind_links(
        {'name': 'bernoulli', 'probs': probs}, data
    ).build()
    client = local_training.local_sgd(0.1, local_steps=2, batch_size=4)
    result = jax.jit(
        lambda key: simulation.simulate(
            key,
            fl.ALGORITHMS[label](client),
            links,
            data,
            num_rounds=4,
            eval_every=2,
            eval_fn=fl.evaluation.train_and_eval,
        )
    )(jax.random.key(seed))
    return data, links, result


def assert_same_leaves(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.slow
@pytest.mark.parametrize('problem', PROBLEMS)
def test_a_lane_is_the_run_that_its_seed_alone_would_give(problem):
    settings = config(problem, algorithms={'fedpbc': {}})
    planned = experiment.build(settings)
    results = planned.run()
    for seed in (0, 2):
        data, links, expected = simulate_directly(settings, 'fedpbc', seed)
        assert_same_leaves(planned.problem_at('links', {}, seed), data)
        sample = [
            pattern.sample((), jax.random.key(3), np.int32(0))
            for pattern in (links, planned.pattern_at('links', {}, seed))
        ]
        assert_same_leaves(*sample)
        result = columns_of(results, 'fedpbc', seed)
        for model, metrics in expected.evals.items():
            for name, value in metrics.items():
                np.testing.assert_allclose(result[f'{model}/{name}'], value, rtol=1e-6)
    first = planned.problem_at('links', {}, 0)
    last = planned.problem_at('links', {}, 2)
    assert not np.array_equal(first.data.features, last.data.features)


def test_one_program_of_each_algorithm_serves_all_seeds(monkeypatch):
    compiled = []
    compile = jax.stages.Lowered.compile

    def counted(lowered, *options):
        compiled.append(lowered)
        return compile(lowered, *options)

    monkeypatch.setattr(jax.stages.Lowered, 'compile', counted)
    algorithms = {'fedavg': {}, 'again': {'name': 'fedavg'}}
    planned = experiment.build(config(num_seeds=4, algorithms=algorithms))
    planned.run()
    assert len(compiled) == 4  # what begins lanes, and what advances them
    sizes = [
        np.asarray(planned.problem_at('links', {}, seed).counts) for seed in range(4)
    ]
    assert len({tuple(size) for size in sizes}) == 4
    lanes = planned.plan.schedule.main('fedavg')
    assert len({planned.plan.problem_of(lane).max_examples for lane in lanes}) == 1


@pytest.mark.slow
def test_lanes_side_by_side_meet_their_own_data():
    planned = experiment.build(config(algorithms={'fedpbc': {}}))
    one_by_one = run(planned)
    together = run(planned, side_by_side=True)
    for seed in range(3):
        result = columns_of(together, 'fedpbc', seed)
        for name, column in columns_of(one_by_one, 'fedpbc', seed).items():
            np.testing.assert_allclose(result[name], column, rtol=2e-5, err_msg=name)


@pytest.mark.slow
def test_full_local_data_of_unequal_sizes_share_a_program_too():
    client = {'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 0}
    changes = {'client': client, 'algorithms': {'fedavg': {}}}
    planned = experiment.build(config(**changes))
    result = columns_of(planned.run(), 'fedavg', 2)
    lone = experiment.build(config(**changes, num_seeds=1, first_seed=2))
    expected = columns_of(lone.run(), 'fedavg', 2)
    for name, column in expected.items():
        np.testing.assert_allclose(result[name], column, rtol=1e-5)


@pytest.mark.parametrize('stream', seeding.STREAMS)
def test_a_stream_alone_follows_the_seed(stream):
    planned = experiment.build(alone(stream))
    first = planned.problem_at('links', {}, 0)
    second = planned.problem_at('links', {}, 1)
    same_labels = np.array_equal(first.data.labels, second.data.labels)
    same_sizes = np.array_equal(first.counts, second.counts)
    same_test = np.array_equal(first.eval_data.features, second.eval_data.features)
    assert same_sizes == (stream != 'partition')
    assert same_labels == (stream not in ('data', 'partition'))
    assert same_test == (stream != 'data')
    probs = [
        np.asarray(
            planned.pattern_at('links', {}, s).sample((), jax.random.key(0), 0)[1].prob
        )
        for s in (0, 1)
    ]
    assert np.array_equal(*probs) == (
        stream not in ('data', 'partition', 'links_quality')
    )
    for name in ('init', 'links', 'batches'):
        assert planned.plan.draws.seed_of(name, 1) == (1 if name == stream else 0)


def test_algorithms_of_a_seed_meet_the_same_problem_and_links():
    planned = experiment.build(config())
    one = planned.plan.schedule.main('fedavg')
    other = planned.plan.schedule.main('fedpbc')
    for a, b in zip(one, other, strict=True):
        assert planned.problem_at(a.pattern, a.point, a.seed) is planned.problem_at(
            b.pattern, b.point, b.seed
        )
        assert planned.pattern_at(a.pattern, a.point, a.seed) is planned.pattern_at(
            b.pattern, b.point, b.seed
        )


def test_tuning_has_draws_of_its_own():
    settings = config(
        client={'local_steps': 1, 'batch_size': 4},
        tuning={
            'learning_rates': [0.1, 0.2],
            'grow': 0,
            'pattern': 'links',
            'num_rounds': 2,
            'num_seeds': 1,
        },
        algorithms={'fedavg': {}},
        num_seeds=2,
    )
    planned = experiment.build(settings)
    lane = planned.plan.schedule.first_trials('fedavg')[0]
    problem = planned.problem_at(lane.pattern, lane.point, lane.seed)
    expected = resolver.bind_problem({**settings['problem'], 'seed': 10_000}).build()
    assert_same_leaves(problem, expected)
    assert set(planned.run().columns['seed']) == {0, 1, 10_000}


class _StopInSecondSeed(experiment.Callback):
    """Stops the run after the second seed's first period."""

    def on_period(self, lane, record):
        if lane.seed == 1 and record['round'] == 2:
            raise experiment.Stop


@pytest.mark.slow
def test_an_interrupted_run_resumes_its_draws_for_debugging_too(tmp_path):
    planned = experiment.build(config(num_seeds=2, algorithms={'fedpbc': {}}))
    planned.run(tmp_path / 'unbroken')
    with pytest.raises(experiment.Stop):
        planned.run(tmp_path / 'resumed', [_StopInSecondSeed()])
    planned.run(tmp_path / 'resumed')
    first = (tmp_path / 'unbroken' / 'metrics.jsonl').read_bytes()
    second = (tmp_path / 'resumed' / 'metrics.jsonl').read_bytes()
    assert first == second
    results = list(nan_debugger.debug_round(planned, tmp_path / 'unbroken', 1))
    assert len(results) == 2
    assert all('everything is finite (6 clients trained)' in line for line in results)
    with pytest.raises(ValueError, match='redraw'):
        experiment.build(
            config(num_seeds=2, algorithms={'fedpbc': {}}, redraw=None)
        ).run(tmp_path / 'unbroken')


def test_patterns_without_draws_are_built_once():
    links = {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}}
    planned = experiment.build(config(links=links))
    assert planned.pattern_at('links', {}, 0) is planned.pattern_at('links', {}, 2)


def test_seeds_of_nested_patterns_are_found():
    inner = {'name': 'bernoulli', 'probs': dict(PROBS)}
    switch = {'name': 'switch', 'patterns': ['always', inner], 'at_rounds': 1}
    planned = experiment.build(config(links=switch))
    for seed in (0, 2):
        probs = {'name': 'bernoulli', 'probs': {**PROBS, 'seed': seed}}
        expected = link_sections.bind_links(
            probs, planned.problem_at('links', {}, seed)
        ).build()
        pattern = planned.pattern_at('links', {}, seed)
        key = jax.random.key(1)
        carry = jax.jit(pattern.init)(key)
        _, sample = jax.jit(pattern.sample)(carry, key, 1)
        assert_same_leaves(sample.prob, jax.jit(expected.sample)((), key, 1)[1].prob)
    assert inner['probs'] == PROBS


def quadratics(*, data_seed=0):
    """A problem whose start is closed over, and differs from seed to seed."""
    targets = np.random.default_rng(data_seed).standard_normal((4, 2))
    return problems.quadratic(targets, initial_point=targets[0])


def python_experiment(problem, **changes):
    algorithm = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=1))
    return fl.Experiment(
        title='objects',
        problem=problem,
        patterns={'links': participation.bernoulli(np.full(4, 0.5, np.float32))},
        algorithms={'fedavg': algorithm},
        num_rounds=2,
        eval_every=2,
        seeds=(0, 1),
        **changes,
    )


def test_makers_of_python_take_the_seed():
    planned = python_experiment(quadratics, redraw={'data': 'by_seed'})
    results = planned.run()
    for seed in (0, 1):
        problem = planned.problem_at('links', {}, seed)
        np.testing.assert_array_equal(problem.data, quadratics(data_seed=seed).data)
        start = problem.init_params(jax.random.key(0))
        np.testing.assert_array_equal(start, problem.data[0])
    assert 'data_seed' not in results.columns


def test_functions_that_differ_are_not_shared():
    """Where a function encloses what a seed drew, every seed keeps its own."""
    make = problem_families.ProblemCache(quadratics)
    rows = [{'data_seed': seed} for seed in (0, 1)]
    one, other = (make(**row) for row in rows)
    assert problem_families.structure_of(one) != problem_families.structure_of(other)
    assert make.sizes_of(rows) is None

    def from_one_point(*, data_seed):
        targets = np.random.default_rng(data_seed).standard_normal((4, 2))
        return problems.quadratic(targets, initial_point=[1.0, 2.0])

    make = problem_families.ProblemCache(from_one_point)
    built = [make(**row) for row in rows]
    assert problem_families.structure_of(built[0]) == problem_families.structure_of(
        built[1]
    )
    np.testing.assert_array_equal(built[1].data, from_one_point(data_seed=1).data)
    assert built[0].owned.counts is built[1].owned.counts
    stacked = problem_families.stack_varying(built)
    np.testing.assert_array_equal(stacked.data, jnp.stack([m.data for m in built]))
    assert stacked.owned.counts.shape == (4,)  # all have the same


@pytest.mark.slow
def test_points_that_change_only_arrays_share_one_program(caplog):
    grid = {'problem': {'label_noise': {'rate': [0.1, 0.3]}, 'alpha': [0.1, 1.0]}}
    equal = {**PROBLEMS['gaussians'], 'partition': 'dirichlet'}
    settings = config(problem=equal, num_seeds=2, grid=grid)
    caplog.set_level('WARNING', logger='jax')
    with jax.log_compiles():
        together = experiment.build(settings).run()
    compiled = [record.getMessage() for record in caplog.records]
    started = [m for m in compiled if m.startswith('Compiling') and 'jit(train)' in m]
    assert len(started) == 2, started  # FedAvg and FedPBC, not each of four points
    last = {'problem': {'label_noise': {'rate': [0.3]}, 'alpha': [1.0]}}
    last_point = experiment.build({**settings, 'grid': last}).run()
    columns = together.columns
    rows = (columns['problem.label_noise.rate'] == 0.3) & (
        columns['problem.alpha'] == 1.0
    )
    assert rows.any()
    assert rows.sum() == len(last_point.columns['round'])
    for name, column in last_point.columns.items():
        np.testing.assert_array_equal(columns[name][rows], column, err_msg=name)


def test_a_grid_of_streams_runs_them_one_at_a_time():
    """Each point is the experiment with that stream by seed; one program serves them all."""
    streams = ['by_seed', *seeding.STREAMS]
    settings = config(redraw=None, algorithms={'fedavg': {}}, num_seeds=2)
    planned = experiment.build({**settings, 'grid': {'redraw': streams}})
    programs = Programs(planned.plan)
    assert (
        len({programs.key(lane) for lane in planned.plan.schedule.main('fedavg')}) == 1
    )
    results = planned.run()
    (table,) = layouts.spread(run_view.from_run(results)).tables
    assert table.header[2:] == [stream.replace('_', ' ') for stream in streams]
    rows = {
        stream: {
            k: v[results.columns['redraw'] == stream]
            for k, v in results.columns.items()
        }
        for stream in streams
    }
    for index, columns in enumerate(rows.values()):
        last = columns['server/eval_accuracy'][columns['round'] == 4]
        assert table.rows[0][2 + index] == f'{100 * np.std(last, ddof=1):.2f}'
        losses = [
            columns['server/eval_loss'][columns['seed'] == seed] for seed in (0, 1)
        ]
        assert not np.array_equal(*losses)  # the stream does something
        np.testing.assert_array_equal(
            losses[0], rows['by_seed']['server/eval_loss'][:2]
        )
    for stream in ('partition', 'batches'):
        expected = experiment.build(alone(stream)).run().columns
        for name in ('server/eval_accuracy', 'server/eval_loss', 'rounds/loss_sum'):
            np.testing.assert_array_equal(rows[stream][name], expected[name])
