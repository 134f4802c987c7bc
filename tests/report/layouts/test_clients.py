"""Metrics of each client, and their table, against numbers from plain simulations."""

import jax
import numpy as np
import pytest
from flax import linen as nn

import fedjax_links as fl
from fedjax_links import datasets, evaluation, experiment, partition, report, runs
from tests import rendering

SEEDS = 2
ROUNDS = 40
RATE = 0.1
HELD_OUT = {'holdout_clients': 3, 'holdout_examples': 0.3, 'min_examples': 5}


def natural(**options):
    rng = np.random.default_rng(5)
    owners = np.repeat(np.arange(15), rng.integers(6, 30, 15))
    labels = rng.integers(0, 3, owners.size)
    shifts = rng.normal(size=(15, 4))[owners]
    features = np.eye(4)[labels] + shifts + rng.normal(size=(owners.size, 4))
    data = datasets.Dataset(features.astype(np.float32), labels, owners)
    options = {'partition': 'natural', 'model': 'softmax', 'seed': 1} | options
    return fl.problems.images(dataset=data, **options)


def config(**changes):
    return {
        'title': 'owners',
        'problem': {'name': f'{__name__}:natural', **HELD_OUT},
        'links': {
            'name': 'bernoulli',
            'probs': {'name': 'halves', 'first': 0.1, 'second': 0.9},
        },
        'client': {'learning_rate': RATE, 'local_steps': 2},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'num_rounds': ROUNDS,
        'eval_every': ROUNDS,
        'num_seeds': SEEDS,
        'reports': {'who': {'name': 'clients'}},
        **changes,
    }


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """An experiment and the folder of its run, with the report."""
    folder = tmp_path_factory.mktemp('runs') / 'owners'
    built = experiment.build(config())
    with rendering.skipped():
        report.write(built.run(folder), built)
    return built, folder


measure = jax.jit(evaluation.by_client)


def simulated_clients(built, label, problem):
    """Yields for every seed what `simulate` ends with.

    Metrics of clients, and of their own models, None if they have none.
    """
    algorithm = built.algorithm_at(label, {})
    pattern = built.pattern_at('links', {})
    simulate = jax.jit(
        lambda key, problem: fl.simulate(
            key, algorithm, pattern, problem, num_rounds=ROUNDS
        )
    )
    for seed in range(SEEDS):
        result = simulate(jax.random.key(seed), problem)
        state = result.state.algorithm
        models = algorithm.models(state)
        main_model = models.get('client_mean', models['server'])
        metrics = dict(measure(main_model, problem))
        counts = result.state.counters.participation_count
        metrics['participations'] = np.asarray(counts)
        personal = None
        if algorithm.client_models is not None:
            client_models = algorithm.client_models(state)
            personal = evaluation.personal_model_metrics(client_models, problem)
        yield metrics, personal


def test_clients_are_one_more_dimension(finished):
    built, folder = finished
    result = runs.read(folder).clients
    assert result['accuracy'].dims == ('algorithm', 'pattern', 'seed', 'client')
    assert dict(result.sizes) == {
        'algorithm': 2,
        'pattern': 1,
        'seed': SEEDS,
        'client': 15,
    }
    problem = natural(**HELD_OUT)
    for label in ('fedavg', 'fedpbc'):
        simulated = simulated_clients(built, label, problem)
        for seed, (expected, personal) in enumerate(simulated):
            lane = result.sel(algorithm=label, pattern='links', seed=seed)
            np.testing.assert_allclose(
                lane['accuracy'], expected['accuracy'], atol=1e-6
            )
            np.testing.assert_allclose(lane['loss'], expected['loss'], rtol=1e-4)
            counts = np.asarray(lane['participations'])
            np.testing.assert_array_equal(counts[:12], expected['participations'])
            assert np.isnan(counts[12:]).all()
            assert (personal is not None) == (label == 'fedpbc')
            if personal is not None:
                losses = np.asarray(lane['personal_loss'])
                np.testing.assert_allclose(losses[:12], personal['loss'], rtol=1e-4)
                assert np.isnan(losses[12:]).all()
    assert np.isnan(result['personal_loss'].sel(algorithm='fedavg')).all()


def test_the_table_has_the_numbers_of_the_clients(finished):
    _, folder = finished
    result = (
        runs.read(folder).clients['accuracy'].sel(algorithm='fedpbc', pattern='links')
    )
    lines = (folder / 'report.md').read_text().splitlines()
    header = next(line for line in lines if 'took part least' in line).split(' | ')
    row = next(
        line for line in lines if line.startswith('| links | fedpbc') and '±' in line
    )
    cells = dict(zip(header, row.split(' | '), strict=True))
    values = 100 * np.asarray(result, float)
    for name, expected in (
        ('mean', values.mean(axis=1)),
        ('p10', np.percentile(values, 10, axis=1)),
        ('spread', values.std(axis=1)),
        ('do not train', values[:, 12:].mean(axis=1)),
    ):
        assert abs(float(cells[name].split(' ± ')[0]) - expected.mean()) < 0.06


def test_the_tenth_percentile_is_a_metric_of_every_evaluation(finished):
    _, folder = finished
    run = runs.read(folder)
    last = run.dataset['eval_accuracy_p10'].sel(
        series='fedavg', pattern='links', model='server'
    )
    values = run.clients['accuracy'].sel(algorithm='fedavg', pattern='links')
    expected = np.percentile(np.asarray(values, float), 10, axis=1)
    np.testing.assert_allclose(last.isel(round=-1), expected, atol=1e-5)
    assert run.facts['directions']['eval_accuracy_p10'] == 'max'


def regression(**held):
    rng = np.random.default_rng(7)
    owners = np.repeat(np.arange(10), 12)
    features = rng.normal(size=(120, 3))
    labels = features @ np.arange(3.0) + rng.normal(size=10)[owners]
    part = partition.divide(owners, **held, seed=2)
    held_out = features[part.held_rows], labels[part.held_rows], part.held_clients
    return fl.problems.from_flax(
        features[part.rows],
        labels[part.rows],
        part.clients,
        module=nn.Dense(1),
        loss='squared_error',
        metrics=['mae', 'r2'],
        eval_data=held_out,
    )


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize(
    'metric, shown',
    [('eval_r2', 'loss'), ('eval_mae_spread', 'mae'), ('train_loss', 'loss')],
)
def test_a_metric_that_no_client_has_is_shown_as_the_loss(tmp_path, metric, shown):
    problem = {
        'name': f'{__name__}:regression',
        'holdout_clients': 2,
        'holdout_examples': 0.25,
    }
    built = experiment.build(config(problem=problem, metric=metric))
    text = report.write(built.run(tmp_path), built)
    values = np.asarray(
        runs.read(tmp_path).clients[shown].sel(algorithm='fedavg'), float
    )
    row = next(line for line in text.splitlines() if line.startswith('links    fedavg'))
    assert row.split()[2] == f'{values.mean():.3g}'
    assert f'{shown} of final models on every' in text
    assert 'ninetieth percentile' in text


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_patterns_may_have_unequal_numbers_of_clients(tmp_path):
    """The second pattern holds out more clients than the first, or fewer."""
    only = {'algorithms': {'fedpbc': {}}, 'baseline': 'fedpbc'}
    values = config(reports={}, num_seeds=1, **only)
    del values['links']
    values['patterns'] = {
        'a': {'name': 'bernoulli', 'probs': 0.5},
        'b': {'name': 'markov', 'probs': 0.5},
    }
    for folder, num_held_out in (('fewer', 5), ('more', 1)):
        values['problems'] = {'b': {'holdout_clients': num_held_out}}
        built = experiment.build(values)
        report.write(built.run(tmp_path / folder), built)
        for label, masks in runs.links(tmp_path / folder).masks.items():
            expected = fl.simulation.realised_links(
                jax.random.key(0), built.pattern_at(label, {}), num_rounds=ROUNDS
            )
            np.testing.assert_array_equal(masks[0], expected.mask)


def test_a_clients_report_without_owners_is_refused():
    plain = {'name': 'digits', 'num_clients': 12}
    with pytest.raises(
        ValueError, match=r'`config.reports.* must be of a problem that holds out'
    ):
        report.check(experiment.build(config(problem=plain)))


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_evaluation_data_without_owners_have_no_clients(tmp_path):
    built = experiment.build(
        config(problem={'name': 'digits', 'num_clients': 12}, reports={})
    )
    run = built.run(tmp_path)
    report.write(run, built)
    with pytest.raises(ValueError, match='`folder` must hold metrics of clients'):
        _ = runs.read(tmp_path).clients
    with pytest.raises(ValueError, match='its evaluation data have no owners'):
        _ = run.clients
    table = report.table(tmp_path, 'clients')
    assert table.empty
    assert 'if evaluation data have owners' in table.attrs['caption']
