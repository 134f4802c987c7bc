"""Client programs against NumPy loops on the same batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import problems
from fedjax_links.clients.batches import client_data
from fedjax_links.clients.programs import local_sgd, proximal_sgd
from tests.reference.local_loops import (
    COUNTS,
    FLAT_START,
    ROUND,
    START,
    Reference,
    as_params,
    client_key,
    data,
    flat,
    regression,
    run,
    sampled_rows,
)
from tests.tiers import cases


@pytest.mark.parametrize('batch_size', [None, 1, 4])
def test_sgd_follows_the_loop_on_the_batches_of_the_key_tree(batch_size):
    program = local_sgd(0.2, local_steps=7, batch_size=batch_size)
    for client in range(len(COUNTS)):
        update = run(program, client)
        expected, loss = Reference(client).descend(7, batch_size, lambda g: -0.2 * g)
        np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(
            flat(update.delta), expected - FLAT_START, rtol=2e-5, atol=2e-6
        )
        np.testing.assert_allclose(update.loss, loss, rtol=2e-5)
        assert int(update.num_steps) == 7


@pytest.mark.parametrize(
    'make, client, batch_size',
    [
        (local_sgd, 0, 1),
        (local_sgd, 1, 4),
        (functools.partial(proximal_sgd, mu=0.0), 3, 2),
        (local_sgd, 1, None),
    ],
)
def test_a_sample_per_round_is_used_in_all_local_steps(x64, make, client, batch_size):
    program = make(0.2, local_steps=7, batch_size=batch_size, resample='round')
    update = run(program, client, start=as_params(FLAT_START))
    reference = Reference(client, resample='round')
    expected, loss = reference.descend(7, batch_size, lambda g: -0.2 * g)
    np.testing.assert_allclose(flat(update.params), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(update.loss, loss, rtol=1e-12)
    fresh, _ = Reference(client).descend(7, batch_size, lambda g: -0.2 * g)
    assert np.allclose(fresh, expected, atol=1e-3) == (batch_size is None)


def test_slow_clients_and_step_counts_share_a_rounds_sample(x64):
    steps = np.array([1, 12, 2, 3])
    options = {'batch_size': 2, 'resample': 'round', 'client_steps': steps}
    program = local_sgd(0.02, local_steps=12, **options)
    update = run(program, 1, start=as_params(FLAT_START))
    expected, loss = Reference(1, 'round').descend(12, 2, lambda g: -0.02 * g)
    np.testing.assert_allclose(flat(update.params), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(update.loss, loss, rtol=1e-12)


def test_one_step_draws_the_same_either_way():
    by_step = run(local_sgd(0.2, local_steps=1, batch_size=3, resample='step'), 1)
    by_round = run(local_sgd(0.2, local_steps=1, batch_size=3, resample='round'), 1)
    np.testing.assert_array_equal(flat(by_step.params), flat(by_round.params))


def test_full_batches_of_equal_clients_follow_the_loop():
    equal = regression((4, 4, 4))
    assert equal.min_examples == equal.max_examples
    features, labels, _ = data((4, 4, 4))
    design = np.c_[features, np.ones(12)][4:8].astype(float)
    x = FLAT_START.copy()
    for _ in range(5):
        x = x - 0.2 * design.T @ (design @ x - labels[4:8]) / 4
    update = run(local_sgd(0.2, local_steps=5), 1, equal)
    np.testing.assert_allclose(flat(update.params), x, rtol=2e-5, atol=2e-6)


def momentum(rate):
    velocity = 0.0

    def move(grad):
        nonlocal velocity
        velocity = 0.9 * velocity + grad
        return -rate * velocity

    return move


def adam(rate):
    first = 0.0
    second = 0.0
    count = 0

    def move(grad):
        nonlocal first, second, count
        count += 1
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        scaled = (first / (1 - 0.9**count)) / (
            np.sqrt(second / (1 - 0.999**count)) + 1e-8
        )
        return -rate * scaled

    return move


@pytest.mark.parametrize(
    'by_hand, optimizer',
    [
        pytest.param(
            momentum, functools.partial(optax.sgd, momentum=0.9), marks=pytest.mark.slow
        ),
        pytest.param(momentum, optax.sgd(1.0, momentum=0.9), marks=pytest.mark.slow),
        (adam, optax.adam),
        pytest.param(adam, optax.adam(1.0), marks=pytest.mark.slow),
    ],
    ids=['momentum-factory', 'momentum-unit-rate', 'adam-factory', 'adam-unit-rate'],
)
def test_any_optax_optimizer(by_hand, optimizer):
    program = local_sgd(0.1, local_steps=6, batch_size=3, optimizer=optimizer)
    expected, loss = Reference(1).descend(6, 3, by_hand(0.1))
    for _ in range(2):  # the optimizer's state starts afresh
        update = run(program, 1)
        np.testing.assert_allclose(flat(update.params), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(update.loss, loss, rtol=1e-4)


def test_the_rate_may_be_a_schedule_of_the_round():
    program = local_sgd(lambda t: 0.5 / (t + 1.0), local_steps=3)
    np.testing.assert_allclose(
        program.learning_rate(jnp.int32(ROUND)), 0.5 / 6, rtol=1e-6
    )
    expected, _ = Reference(0).descend(3, None, lambda g: -0.5 / 6 * g)
    np.testing.assert_allclose(
        flat(run(program, 0).params), expected, rtol=2e-5, atol=2e-6
    )


def test_the_rate_can_be_scaled_and_the_gradient_corrected():
    correction = {'w': jnp.array([0.3, -0.1]), 'b': jnp.array(0.6)}
    program = local_sgd(0.2, local_steps=4, batch_size=2)
    update = run(program, 1, lr_scale=0.25, correction=correction)
    shift = flat(correction)
    expected, loss = Reference(1).descend(
        4, 2, lambda g: -0.05 * g, extra=lambda x: shift
    )
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)


@pytest.mark.parametrize(
    'make, proximal',
    [
        (local_sgd, {'proximal': 0.7}),
        (functools.partial(proximal_sgd, mu=0.7), {}),
        (functools.partial(proximal_sgd, mu=0.5), {'proximal': 0.2}),
    ],
    ids=['asked for', 'own', 'both'],
)
def test_the_last_gradient_is_returned_without_what_is_added(make, proximal):
    correction = {'w': jnp.array([0.3, -0.1]), 'b': jnp.array(0.6)}
    adjustments = {'correction': correction, **proximal}

    def added(x):
        return flat(correction) + 0.7 * (x - FLAT_START)

    for client_steps, steps in ((None, 4), ([4, 3, 4, 4], 3)):
        program = make(0.2, local_steps=4, batch_size=2, client_steps=client_steps)
        update = run(program, 1, **adjustments, keep_gradient=True)
        reference = Reference(1)
        end, loss = reference.descend(steps, 2, lambda g: -0.2 * g, extra=added)
        last, _ = reference.descend(steps - 1, 2, lambda g: -0.2 * g, extra=added)
        _, expected = reference.loss_and_grad(last, reference.batch(steps - 1, 2))
        np.testing.assert_allclose(flat(update.params), end, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(
            flat(update.gradient), expected, rtol=2e-5, atol=2e-6
        )
        np.testing.assert_allclose(update.loss, loss, rtol=2e-5)
    assert run(program, 1, **adjustments).gradient is None


def test_proximal_steps_pull_back_to_the_start():
    update = run(proximal_sgd(0.2, mu=0.7, local_steps=6, batch_size=3), 1)
    expected, loss = Reference(1).descend(
        6, 3, lambda g: -0.2 * g, extra=lambda x: 0.7 * (x - FLAT_START)
    )
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)
    free = run(local_sgd(0.2, local_steps=6, batch_size=3), 1)
    assert np.abs(flat(update.params) - flat(free.params)).max() > 1e-3


def test_a_proximal_weight_of_zero_is_plain_sgd():
    zero = run(proximal_sgd(0.2, mu=0.0, local_steps=4, batch_size=3), 3)
    plain = run(local_sgd(0.2, local_steps=4, batch_size=3), 3)
    np.testing.assert_allclose(flat(zero.params), flat(plain.params), rtol=1e-6)


def test_slow_clients_take_fewer_steps():
    steps = np.array([1, 5, 2, 3])
    program = local_sgd(0.2, local_steps=5, batch_size=2, client_steps=steps)
    for client in range(len(COUNTS)):
        update = run(program, client)
        expected, loss = Reference(client).descend(steps[client], 2, lambda g: -0.2 * g)
        assert int(update.num_steps) == steps[client]
        np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(update.loss, loss, rtol=2e-5)


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'learning_rate': -0.1}, r'^`learning_rate` must be positive, got -0\.1\.$'),
        (
            {'learning_rate': float('nan')},
            r'^`learning_rate` must be positive, got nan\.$',
        ),
        ({'local_steps': 0}, r'^`local_steps` must be at least 1, got 0\.$'),
        ({'local_steps': 2.0}, r'^`local_steps` must be a Python integer, got 2\.0\.$'),
        ({'batch_size': 0}, r'^`batch_size` must be at least 1, got 0\.$'),
        ({'chunk_size': 0}, r'^`chunk_size` must be at least 1, got 0\.$'),
        ({'chunk_size': (4, 0)}, r'^`chunk_size` must be at least 1, got 0\.$'),
        (
            {'chunk_size': ()},
            r'^`chunk_size` must have at least one width, got \(\)\.$',
        ),
        ({'chunk_size': '7'}, r"^`chunk_size` must be a Python integer, got '7'\.$"),
        (
            {'optimizer': 'adam'},
            r"^`optimizer` must be an optax transformation .*, got 'adam'\.$",
        ),
        (
            {'resample': 'rounds'},
            r"^`resample` .*'rounds'; did you mean 'round'\?$",
        ),
        (
            {'client_steps': 3},
            r'^`client_steps` must be a vector with one entry per client',
        ),
        ({'client_steps': np.array([1.0, 2.0])}, r'^`client_steps` must hold integers'),
        (
            {'client_steps': np.array([1, 4])},
            r'lie in \[1, 3\], got 4 at client 1\.$',
        ),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    arguments = {'learning_rate': 0.1, 'local_steps': 3, **arguments}
    with pytest.raises(ValueError, match=message):
        local_sgd(arguments.pop('learning_rate'), **arguments)


def test_a_negative_penalty_is_refused():
    with pytest.raises(
        ValueError, match=r'^`mu` must be finite and at least 0, got -1\.$'
    ):
        proximal_sgd(0.1, mu=-1, local_steps=1)


def test_client_steps_must_fit_the_problem():
    with pytest.raises(
        ValueError, match='`client_steps` must have one entry for each of the p'
    ):
        run(local_sgd(0.1, local_steps=2, client_steps=np.array([1, 2])), 0)


def test_rates_may_be_traced():
    problem = regression()

    def end(rate):
        program = local_sgd(rate, local_steps=2)
        return program.run(
            START, jnp.int32(0), jnp.int32(0), client_key(0), problem
        ).params['b']

    eager = run(local_sgd(0.3, local_steps=2), 0).params['b']
    np.testing.assert_allclose(jax.jit(end)(0.3), eager, rtol=1e-6)


def random_loss(params, batch, key):
    """A loss whose gradient is the draw itself: steps add up draws."""
    del batch
    return params * jax.random.normal(key)


@pytest.mark.parametrize('resample', ['step', 'round'])
@pytest.mark.parametrize(
    'counts, batch_size',
    cases([((3, 6), 2), ((3, 6), None), ((4, 4), None)], [((3, 6), 2)]),
)
def test_a_random_loss_draws_by_client_round_and_step(counts, batch_size, resample):
    features, labels, owners = data(counts)
    problem = problems.from_arrays(
        features,
        labels,
        owners,
        init_params=lambda key: jnp.zeros(()),
        loss_fn=lambda params, batch: 0 * params,
        random_loss_fn=random_loss,
    )
    options = {'batch_size': batch_size, 'resample': resample}
    program = local_sgd(1.0, local_steps=4, **options)
    ends = [
        float(run(program, client, problem, jnp.zeros(())).params) for client in (0, 1)
    ]
    for client, end in enumerate(ends):
        stream = jax.random.fold_in(client_key(client), np.uint32(2**32 - 1))
        steps = [0] * 4 if resample == 'round' else range(4)
        keys = [jax.random.fold_in(stream, step) for step in steps]
        if batch_size is None and counts[0] != counts[1]:  # one draw per example
            slots = [
                jax.random.split(key, max(counts))[: counts[client]] for key in keys
            ]
            draws = [
                np.mean([jax.random.normal(key) for key in slot]) for slot in slots
            ]
        else:
            draws = [jax.random.normal(key) for key in keys]
        np.testing.assert_allclose(end, -np.sum(draws), rtol=1e-4, atol=1e-5)


@functools.partial(jax.jit, static_argnums=(1, 3))
def rows_by_key(client, local_steps, key, batch_size):
    (rows, _), _ = client_data(regression(), client, key, local_steps, batch_size)
    return rows


def rows_of(client, local_steps, batch_size):
    return np.asarray(rows_by_key(client, local_steps, client_key(client), batch_size))


@pytest.mark.parametrize('client', range(len(COUNTS)))
def test_a_batch_is_drawn_by_client_round_and_step(client):
    rows = rows_of(client, 6, 5)
    assert rows.shape == (6, 5)
    for step in range(6):
        step_key = jax.random.fold_in(client_key(client), step)
        np.testing.assert_array_equal(
            rows[step], sampled_rows(step_key, 5, COUNTS[client])
        )


def test_a_batch_does_not_depend_on_the_number_of_steps():
    longest = rows_of(1, 9, 4)
    for local_steps in (1, 2, 8):
        np.testing.assert_array_equal(rows_of(1, local_steps, 4), longest[:local_steps])


def test_every_row_of_a_client_is_drawn_equally_often():
    for client, count in enumerate(COUNTS):
        samples = np.bincount(rows_of(client, 500, 40).ravel(), minlength=count)
        assert samples.size == count
        deviations = (samples - 20_000 / count) / np.sqrt(20_000 / count)
        assert np.sum(deviations**2) <= count - 1 + 4 * np.sqrt(2 * (count - 1))
