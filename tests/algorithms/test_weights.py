"""Clients that weigh by their examples, and epochs of clients of unequal size."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import (
    algorithms,
    experiment,
    local_training,
    problems,
    simulation,
)
from fedjax_links.algorithms import ALGORITHMS
from tests import refusals
from tests.reference import harness, quadratic_loops, weighted_loops
from tests.tiers import cases

VOLUMES = [1, 4, 2, 9, 3, 1, 6]
WEIGHTED = {
    'fedau',
    'fedavg',
    'fedavg_all',
    'fedavg_known',
    'fednova',
    'fedopt',
    'fedprox',
}
SETTING = quadratic_loops.hard_setting()
IN_BATCHES = functools.partial(local_training.local_sgd, batch_size=2)


def problem_of(volumes, spread=1.0):
    """A federation on the quadratics of `SETTING`.

    Client i owns ``volumes[i]`` examples, whose mean is its target. With spread 0 each example is
    the target.
    """
    rng = np.random.default_rng(11)
    owners = np.repeat(np.arange(len(volumes)), volumes)
    features = np.zeros((len(owners), SETTING.targets.shape[1]))
    for i, target in enumerate(SETTING.targets):
        noise = spread * rng.normal(size=(volumes[i], len(target)))
        noise -= noise.mean(axis=0)
        features[owners == i] = target + noise
    features = features.astype(jnp.result_type(float))
    return problems.from_arrays(
        features,
        np.zeros(len(owners), int),
        owners,
        init_params=lambda key: jnp.asarray(SETTING.start, features.dtype),
        loss_fn=lambda x, batch: (
            0.5 * jnp.mean(jnp.sum(jnp.square(x[None] - batch.features), axis=-1))
        ),
    )


def follow(make, expected, *, spread=1.0, **options):
    """Asserts that an algorithm with weights by examples has the expected path."""
    problem = problem_of(VOLUMES, spread)
    options['weights'] = 'examples'
    harness.follow(SETTING, make, expected, problem=problem, **options)


@pytest.mark.parametrize('compute', ['active', 'all'])
def test_fedavg_weighs_by_the_examples_of_the_active(x64, compute):
    expected = weighted_loops.fedavg(SETTING, VOLUMES)
    follow(algorithms.fedavg, expected, server_lr=1.3, compute=compute)
    harness.assert_caught(expected, quadratic_loops.fedavg(SETTING))


@pytest.mark.parametrize('name', ['fedavg_all', 'fedavg_known', 'fedau'])
def test_sums_over_n_weigh_by_shares_of_all_examples(x64, name):
    options = {'cutoff': 9} if name == 'fedau' else {}
    expected = getattr(weighted_loops, name)(SETTING, VOLUMES, **options)
    follow(getattr(algorithms, name), expected, server_lr=1.3, **options)


def test_a_server_optimizer_takes_the_weighted_mean(x64):
    expected = weighted_loops.fedavgm(SETTING, VOLUMES, 0.4, 0.8)
    optimizer = optax.sgd(0.4, momentum=0.8)
    follow(algorithms.fedopt, expected, server_optimizer=optimizer)


def test_fednova_takes_both_means_by_examples(x64):
    steps = np.array([1, 4, 2, 3, 1, 2, 4])
    expected = weighted_loops.fednova(SETTING, VOLUMES, steps)
    client = {'client_steps': steps}
    follow(algorithms.fednova, expected, server_lr=1.3, client=client)
    harness.assert_caught(expected, weighted_loops.fednova(SETTING, [1] * 7, steps))


@pytest.mark.slow
@pytest.mark.parametrize('name', sorted(WEIGHTED))
def test_equal_volumes_weigh_as_equal_clients_to_the_bit(x64, name):
    entry = ALGORITHMS[name]
    paths = []
    for weights in ('equal', 'examples'):
        path, _ = harness.run(
            SETTING,
            entry.factory,
            problem=problem_of([3] * 7),
            **entry.example,
            weights=weights,
        )
        paths.append(path)
    np.testing.assert_array_equal(*paths)


def test_averages_of_updates_have_the_option():
    names = {
        name
        for name, entry in ALGORITHMS.items()
        if 'weights' in inspect.signature(entry.factory).parameters
    }
    assert names == WEIGHTED | {'colrel'}  # ColRel's weights are those of relays.


@pytest.mark.parametrize('name', sorted(WEIGHTED))
def test_other_weights_are_refused_with_the_nearest(name):
    entry = ALGORITHMS[name]
    with refusals.names('weights', "did you mean 'examples'?"):
        entry(
            local_training.local_sgd(0.1, local_steps=1),
            **entry.example,
            weights='example',
        )


@pytest.mark.slow
def test_one_step_of_all_in_a_config_is_gradient_descent():
    config = {
        'title': 'all examples',
        'problem': {
            'name': 'digits',
            'num_clients': 5,
            'partition': 'dirichlet_unequal',
        },
        'links': 'always',
        'client': {'learning_rate': 0.5, 'local_epochs': 1, 'batch_size': 0},
        'algorithms': {'fedavg': {'weights': 'examples'}, 'equal': {'name': 'fedavg'}},
        'num_rounds': 1,
        'eval_every': 1,
    }
    planned = experiment.build(config)
    problem = planned.problem_at('links', {}, 0)
    assert problem.min_examples < problem.max_examples
    start = simulation.initial_params(problem.init_params, jax.random.key(0))
    gradient = jax.grad(problem.loss_fn)(start, problem.data)
    after = jax.tree.map(lambda x, g: x - 0.5 * g, start, gradient)
    expected = float(problem.metrics(after, problem.eval_data)['loss'])
    weighted, equal = planned.run()['server/eval_loss']
    assert weighted == pytest.approx(expected, rel=1e-5)
    assert abs(equal - expected) > 1e-4


# Epochs.


@pytest.mark.parametrize(
    'epochs, batch_size',
    cases([(1, 4), (3, 2), (2, 5), (3, None), (1, 100)], [(2, 5), (3, None)]),
)
def test_a_client_takes_as_many_steps_as_its_epochs_need(epochs, batch_size):
    program = local_training.local_sgd(0.1, local_epochs=epochs, batch_size=batch_size)
    assert program.local_steps is None
    problem = problem_of(VOLUMES)
    key = jax.random.key(0)
    run = jax.jit(program.run)
    start = jnp.zeros(3)
    runs = {}
    for client, volume in enumerate(VOLUMES):
        steps = epochs
        if batch_size is not None:
            steps = int(np.ceil(epochs * volume / batch_size))
        update = run(start, client, jnp.int32(0), key, problem)
        assert int(update.num_steps) == steps
        if steps not in runs:
            same = local_training.local_sgd(
                0.1, local_steps=steps, batch_size=batch_size
            )
            runs[steps] = jax.jit(same.run)
        expected = runs[steps](start, client, jnp.int32(0), key, problem)
        np.testing.assert_allclose(update.params, expected.params, rtol=1e-6)


def in_epochs(rate, *, local_steps, epochs, batch_size, **options):
    """A client program whose length follows from epochs, in place of steps."""
    return local_training.local_sgd(
        rate, local_epochs=epochs, batch_size=batch_size, **options
    )


def test_fedavg_with_epochs_follows_a_loop_with_unequal_steps(x64):
    steps = np.ceil(2 * np.array(VOLUMES) / 3).astype(int)
    assert len(set(steps)) > 3
    make_client = functools.partial(in_epochs, epochs=2, batch_size=3)
    options = {'spread': 0.0, 'make_client': make_client, 'server_lr': 1.3}
    follow(algorithms.fedavg, weighted_loops.fedavg(SETTING, VOLUMES, steps), **options)
    expected = weighted_loops.fednova(SETTING, VOLUMES, steps)
    follow(algorithms.fednova, expected, **options)


def test_epochs_of_equal_clients_are_their_steps_to_the_bit(x64):
    options = {'problem': problem_of([3] * 7)}
    three_epochs = functools.partial(in_epochs, epochs=3, batch_size=2)
    path, _ = harness.run(
        SETTING, algorithms.fedavg, make_client=three_epochs, **options
    )
    expected, _ = harness.run(
        SETTING._replace(local_steps=5),
        algorithms.fedavg,
        make_client=IN_BATCHES,
        **options,
    )
    np.testing.assert_array_equal(path, expected)


def test_fedprox_takes_epochs():
    program = local_training.proximal_sgd(0.1, mu=0.5, local_epochs=2, batch_size=3)
    update = jax.jit(program.run)(
        jnp.zeros(3), 3, jnp.int32(0), jax.random.key(0), problem_of(VOLUMES)
    )
    assert int(update.num_steps) == 6


@pytest.mark.parametrize(
    'options, field',
    [
        ({}, 'local_steps'),
        ({'local_steps': 2, 'local_epochs': 1}, 'local_steps'),
        ({'local_epochs': 0}, 'local_epochs'),
        ({'local_epochs': 1.5}, 'local_epochs'),
        ({'local_epochs': 2, 'client_steps': np.array([1, 2])}, 'client_steps'),
    ],
)
def test_numbers_of_epochs_out_of_range_are_refused(options, field):
    with refusals.names(field):
        local_training.local_sgd(0.1, batch_size=2, **options)


def test_over_a_million_steps_are_refused_for_known_clients():
    program = local_training.local_sgd(0.1, local_epochs=200_000, batch_size=1)
    with refusals.names('local_epochs', 'at most 111111', 'got 200000'):
        program.run(
            jnp.zeros(3),
            3,
            jnp.int32(0),
            jax.random.key(0),
            problem_of(VOLUMES),
        )


def test_a_config_without_a_length_of_local_work_names_both():
    with refusals.names('config.algorithms.fedavg.client.local_steps', 'local_epochs'):
        experiment.build(
            {
                'title': 'none',
                'problem': {'name': 'quadratic', 'targets': [[0.0], [1.0]]},
                'links': 'always',
                'client': {'learning_rate': 0.5},
                'algorithms': {'fedavg': {}},
                'num_rounds': 1,
                'eval_every': 1,
            }
        )
