"""Models out of a run's folder, and into a new run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, local_training, participation, problems, runs
from fedjax_links.core import tree
from fedjax_links.runs import export
from tests import refusals
from tests.experiment.configs import values

FEDPBC = {'algorithm': 'fedpbc', 'seed': 1}


@pytest.fixture(scope='module')
def first(tmp_path_factory):
    """A run with client models, and two seeds."""
    folder = tmp_path_factory.mktemp('first')
    planned = experiment.build(values(algorithms={'fedavg': {}, 'fedpbc': {}}))
    return planned, folder, planned.run(folder, devices=1)


def loss_of(planned, params):
    problem = planned.problem_at('links', {}, 0)
    return float(jax.jit(problem.metrics)(params, problem.eval_data)['loss'])


def last(results, metric, **labels):
    chosen = np.ones(len(results['round']), bool)
    for label, value in {'round': 4, **labels}.items():
        chosen &= results[label] == value
    (result,) = results[metric][chosen]
    return result


@pytest.mark.parametrize('name', ['server', 'client_mean'])
def test_a_model_is_the_one_that_was_measured(first, name):
    built, folder, results = first
    params = runs.model(folder, FEDPBC, name=name)
    problem = built.problem_at('links', {}, 0)
    like = jax.eval_shape(problem.init_params, jax.random.key(0))
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, dict(like))
    expected = last(results, f'{name}/eval_loss', **FEDPBC)
    assert loss_of(built, params) == pytest.approx(expected, rel=1e-6)


def test_a_lane_has_a_name_and_rounds_with_saves(first):
    _, folder, _ = first
    lane = next(
        lane for lane in runs.lanes(folder) if lane.labels['algorithm'] == 'fedavg'
    )
    by_name = runs.model(folder, lane.name)
    labels = {'algorithm': 'fedavg', 'seed': lane.labels['seed']}
    for options in ({}, {'at_round': 4}):
        model = runs.model(folder, labels, **options)
        jax.tree.map(np.testing.assert_array_equal, by_name, model)
    with refusals.names('at_round', 'round with a save'):
        runs.model(folder, labels, at_round=3)


def test_an_exported_state_holds_the_same_model(first, tmp_path):
    _, folder, _ = first
    export.export(folder, tmp_path)
    (path,) = tmp_path.glob('states/fedpbc/links/*/1.npz')
    result = runs.model(path)
    jax.tree.map(np.testing.assert_array_equal, result, runs.model(folder, FEDPBC))
    with refusals.names('at_round', 'be left out for an npz', '4'):
        runs.model(path, at_round=4)
    with refusals.names('lane', 'be left out for an npz'):
        runs.model(path, FEDPBC)


@pytest.mark.parametrize(
    'lane, options, field',
    [
        (None, {}, 'lane'),
        ({'algorithm': 'fedavg'}, {}, 'lane'),
        ({'algoritm': 'fedavg'}, {}, 'lane'),
        ('fedavg', {}, 'lane'),
        ({'algorithm': 'fedavg', 'seed': 0}, {'name': 'client_mean'}, 'name'),
        ({'algorithm': 'fedavg', 'seed': 0}, {'name': 'clients'}, 'name'),
    ],
)
def test_what_names_no_model_is_refused(first, lane, options, field):
    with refusals.names(field):
        runs.model(first[1], lane, **options)


def test_a_run_begins_with_the_model_of_another(first, tmp_path):
    _, folder, results = first
    begins = {'folder': str(folder), 'lane': FEDPBC, 'name': 'client_mean'}
    config = values(initial_params=begins, evaluate_start=True)
    onward = experiment.build(config).run(tmp_path / 'onward', devices=1)
    expected = last(results, 'client_mean/eval_loss', **FEDPBC)
    starts = onward['server/eval_loss'][onward['round'] == 0]
    np.testing.assert_allclose(starts, [expected] * 2, rtol=1e-6)
    # Seeds still differ.
    assert len(set(onward['server/eval_loss'][onward['round'] == 4])) == 2


def test_a_run_begins_with_arrays_by_name(first, tmp_path):
    _, folder, _ = first
    params = runs.model(folder, FEDPBC)
    path = tmp_path / 'mine.npz'
    np.savez(
        path,
        **{
            name: leaf.astype(np.float64) for name, leaf in tree.by_name(params).items()
        },
    )
    built = experiment.build(values(initial_params=str(path)))
    initial = built.problem_at('links', {}, 0).init_params(jax.random.key(5))
    jax.tree.map(np.testing.assert_array_equal, dict(initial), params)


def test_seeds_that_draw_their_data_share_one_beginning(first):
    _, folder, _ = first
    redraw = {'data': 'by_seed', 'partition': 'by_seed'}
    config = values(
        initial_params={'folder': str(folder), 'lane': FEDPBC}, redraw=redraw
    )
    del config['problem']['seed']
    built = experiment.build(config)
    ones = [built.problem_at('links', {}, seed) for seed in (0, 1)]
    assert ones[0] is not ones[1]
    assert ones[0].init_params == ones[1].init_params


def test_parameters_of_another_model_are_refused(first, tmp_path):
    path = tmp_path / 'other.npz'
    np.savez(path, weights=np.zeros(3))
    with refusals.names('config.initial_params', 'have the leaf', 'got leaves weights'):
        experiment.build(values(initial_params=str(path)))
    with refusals.names('config.initial_params.folder', 'No such file'):
        experiment.build(values(initial_params=str(tmp_path / 'nothing.npz')))
    path.write_text('junk')
    with refusals.names('config.initial_params.folder', 'which is no npz.'):
        experiment.build(values(initial_params=str(path)))
    with refusals.names('config.initial_params', "did you mean 'lane'"):
        experiment.build(
            values(initial_params={'folder': str(first[1]), 'lan': FEDPBC})
        )


@pytest.mark.parametrize(
    'params, words',
    [
        (np.zeros(3), 'hold float32[2], got'),
        (np.zeros(2, int), 'hold float32[2]'),
        ({'w': np.zeros(2)}, 'be one array'),
        (np.array([0.0, np.nan]), 'be finite, got nan'),
        (np.array([1e300, 0.0]), 'be finite, got inf'),
    ],
)
def test_what_a_problem_cannot_begin_with(params, words):
    with refusals.names('params', words):
        problems.with_initial_params(problems.quadratic([[0.0, 1.0]]), params)


def test_lists_and_tuples_come_back_as_lists(tmp_path):
    path = tmp_path / 'layers.npz'
    layers = [{'w': np.ones((2, 3))}, {'w': np.zeros(4)}]
    np.savez(
        path, **{f'layers.{name}': leaf for name, leaf in tree.by_name(layers).items()}
    )
    result = runs.model(path)
    assert isinstance(result['layers'], list)
    jax.tree.map(np.testing.assert_array_equal, result['layers'], layers)


def test_a_dictionary_with_numbers_for_names_is_no_list(tmp_path):
    """As torch names the layers of a `Sequential`."""

    def init_params(key):
        return {'0': {'weight': jnp.ones((2, 3))}, '2': {'weight': jnp.ones((3, 1))}}

    def loss_fn(params, batch):
        hidden = batch.features @ params['0']['weight']
        return jnp.mean((hidden @ params['2']['weight'])[:, 0] - batch.labels) ** 2

    client = local_training.local_sgd(0.1, local_steps=1)
    fl.Experiment(
        title='numbers for names',
        problem=problems.from_arrays(
            np.ones((4, 2), np.float32),
            np.zeros(4, np.float32),
            [0, 0, 1, 1],
            init_params=init_params,
            loss_fn=loss_fn,
        ),
        patterns={'links': participation.always(2)},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=1,
        eval_every=1,
    ).run(tmp_path, devices=1)
    shapes = jax.eval_shape(init_params, jax.random.key(0))
    model = runs.model(tmp_path)
    assert jax.tree.map(np.shape, model) == jax.tree.map(np.shape, shapes)


def test_a_list_keeps_the_indices_of_entries_with_arrays(tmp_path):
    """As stax has it: a layer without parameters is an empty tuple."""
    layers = [(np.ones((2, 3)),), (), (np.zeros(4),)]
    path = tmp_path / 'layers.npz'
    np.savez(path, **tree.by_name(layers))
    model = runs.model(path)
    by_name = tree.by_name(model)
    assert by_name.keys() == {'0.0', '2.0'}
    np.testing.assert_array_equal(by_name['0.0'], np.ones((2, 3)))


def test_one_array_is_a_model(tmp_path):
    path = tmp_path / 'vector.npz'
    np.savez(path, **tree.by_name(np.arange(3.0)))
    np.testing.assert_array_equal(runs.model(path), np.arange(3.0))
