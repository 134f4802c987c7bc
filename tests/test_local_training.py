"""Client programs against NumPy loops on the same batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import base, cohorts, local_training, problems, simulation
from fedjax_links.local_training import Contribution, local_sgd, proximal_sgd

COUNTS = (3, 6, 1, 4)
ROUND, SEED = 5, 2


def data(counts=COUNTS, dimension=2):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(len(counts)), counts)
    features = rng.normal(size=(len(owners), dimension)).astype(np.float32)
    return features, rng.normal(size=len(owners)).astype(np.float32), owners


def regression(counts=COUNTS):
    """Linear regression with a bias: half the mean squared residual."""
    features, labels, owners = data(counts)

    def loss_fn(params, batch):
        residual = batch.features @ params['w'] + params['b'] - batch.labels
        return 0.5 * jnp.mean(jnp.square(residual))

    return problems.from_arrays(
        features,
        labels,
        owners,
        init_params=lambda key: {'w': jnp.zeros(2), 'b': jnp.zeros(())},
        loss_fn=loss_fn,
    )


START = {'w': jnp.array([0.7, -0.4]), 'b': jnp.array(0.2)}
FLAT_START = np.array([0.7, -0.4, 0.2])


def flat(params):
    return np.append(params['w'], params['b'])


def client_key(client):
    fold = jax.random.fold_in
    return fold(fold(fold(jax.random.key(SEED), 2), ROUND), client)


def run(program, client, problem=None, start=START, **adjustments):
    problem = problem or regression()
    return jax.jit(
        lambda start, problem: program.run(
            start, jnp.int32(client), jnp.int32(ROUND), client_key(client), problem, **adjustments
        )
    )(start, problem)


class Reference:
    """Float64 loss and gradient of one client's batch, written out."""

    def __init__(self, client):
        """Takes the client's rows out of the arrays."""
        features, labels, owners = data()
        self.design = np.c_[features, np.ones(len(labels))][owners == client].astype(float)
        self.labels = labels[owners == client].astype(float)
        self.client = client

    def batch(self, step, size):
        """Rows of a batch, from the key tree written out."""
        if size is None:
            return np.arange(len(self.labels))
        key = jax.random.fold_in(client_key(self.client), step)
        return np.asarray(jax.random.randint(key, (size,), 0, len(self.labels)))

    def loss_and_grad(self, x, rows):
        """Half the mean squared residual and its gradient."""
        residual = self.design[rows] @ x - self.labels[rows]
        return 0.5 * np.mean(residual**2), self.design[rows].T @ residual / len(rows)

    def descend(self, steps, batch_size, move, extra=lambda x: 0.0):
        """``x <- x + move(gradient)``; returns the end and the loss at the start."""
        x, losses = FLAT_START.copy(), []
        for step in range(steps):
            loss, grad = self.loss_and_grad(x, self.batch(step, batch_size))
            x = x + move(grad + extra(x))
            losses.append(loss)
        return x, losses[0]


@pytest.mark.parametrize('batch_size', [None, 1, 4])
@pytest.mark.parametrize('client', range(len(COUNTS)))
def test_sgd_follows_the_loop_on_the_batches_of_the_key_tree(client, batch_size):
    update = run(local_sgd(0.2, local_steps=7, batch_size=batch_size), client)
    expected, loss = Reference(client).descend(7, batch_size, lambda g: -0.2 * g)
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(flat(update.delta), expected - FLAT_START, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)
    assert int(update.num_steps) == 7


def test_full_batches_of_equal_clients_take_the_same_steps_as_of_unequal_ones():
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
    first, second, count = 0.0, 0.0, 0

    def move(grad):
        nonlocal first, second, count
        count += 1
        first, second = 0.9 * first + 0.1 * grad, 0.999 * second + 0.001 * grad**2
        scaled = (first / (1 - 0.9**count)) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)
        return -rate * scaled

    return move


@pytest.mark.parametrize(
    'by_hand, optimizer',
    [
        (momentum, functools.partial(optax.sgd, momentum=0.9)),
        (momentum, optax.sgd(1.0, momentum=0.9)),
        (adam, optax.adam),
        (adam, optax.adam(1.0)),
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
    np.testing.assert_allclose(program.learning_rate(jnp.int32(ROUND)), 0.5 / 6, rtol=1e-6)
    expected, _ = Reference(0).descend(3, None, lambda g: -0.5 / 6 * g)
    np.testing.assert_allclose(flat(run(program, 0).params), expected, rtol=2e-5, atol=2e-6)


def test_the_rate_can_be_scaled_and_the_gradient_corrected():
    correction = {'w': jnp.array([0.3, -0.1]), 'b': jnp.array(0.6)}
    program = local_sgd(0.2, local_steps=4, batch_size=2)
    update = run(program, 1, lr_scale=0.25, correction=correction)
    shift = flat(correction)
    expected, loss = Reference(1).descend(4, 2, lambda g: -0.05 * g, extra=lambda x: shift)
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)


def test_proximal_steps_pull_back_to_the_start():
    update = run(proximal_sgd(0.2, mu=0.7, local_steps=6, batch_size=3), 1)
    pull = lambda x: 0.7 * (x - FLAT_START)  # noqa: E731
    expected, loss = Reference(1).descend(6, 3, lambda g: -0.2 * g, extra=pull)
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)
    free = run(local_sgd(0.2, local_steps=6, batch_size=3), 1)
    assert np.abs(flat(update.params) - flat(free.params)).max() > 1e-3


def test_a_proximal_weight_of_zero_is_plain_sgd():
    zero = run(proximal_sgd(0.2, mu=0.0, local_steps=4, batch_size=3), 3)
    plain = run(local_sgd(0.2, local_steps=4, batch_size=3), 3)
    np.testing.assert_allclose(flat(zero.params), flat(plain.params), rtol=1e-6)


@pytest.mark.parametrize('client', range(len(COUNTS)))
def test_slow_clients_take_fewer_steps(client):
    own = np.array([1, 5, 2, 3])
    program = local_sgd(0.2, local_steps=5, batch_size=2, client_steps=own)
    update = run(program, client)
    expected, loss = Reference(client).descend(own[client], 2, lambda g: -0.2 * g)
    assert int(update.num_steps) == own[client]
    np.testing.assert_allclose(flat(update.params), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(update.loss, loss, rtol=2e-5)


def test_a_cohort_trains_each_member_with_its_own_key_and_row():
    problem = regression()
    program = local_sgd(0.2, local_steps=3, batch_size=2, chunk_size=2)
    mask = jnp.array([True, True, False, True])
    links = base.LinkSample(mask=mask, prob=jnp.full(4, jnp.nan))
    ctx = simulation.round_context(jax.random.key(SEED), ROUND, links)
    table = jnp.arange(4.0)

    def body(train, client, row):
        update = train(START, lr_scale=1.0)
        return Contribution(update.delta, update.loss), row + update.loss

    total, new = jax.jit(
        lambda problem: local_training.train_cohort(
            program, cohorts.make_cohort(mask), ctx, problem, body, table
        )
    )(problem)
    ends = {i: Reference(i).descend(3, 2, lambda g: -0.2 * g) for i in (0, 1, 3)}
    expected = sum(end - FLAT_START for end, _ in ends.values())
    np.testing.assert_allclose(flat(total.value), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total.loss, sum(loss for _, loss in ends.values()), rtol=1e-5)
    for i in range(4):
        np.testing.assert_allclose(new[i], i + (ends[i][1] if i in ends else 0), rtol=1e-5)


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'learning_rate': -0.1}, r'^`learning_rate` must be positive, got -0\.1\.$'),
        ({'learning_rate': float('nan')}, r'^`learning_rate` must be positive, got nan\.$'),
        ({'local_steps': 0}, r'^`local_steps` must be at least 1, got 0\.$'),
        ({'local_steps': 2.0}, r'^`local_steps` must be a Python integer, got 2\.0\.$'),
        ({'batch_size': 0}, r'^`batch_size` must be at least 1, got 0\.$'),
        ({'chunk_size': 0}, r'^`chunk_size` must be at least 1, got 0\.$'),
        ({'optimizer': 'adam'}, r"^`optimizer` must be an optax transformation .*, got 'adam'\.$"),
        ({'client_steps': 3}, r'^`client_steps` must be a vector with one entry per client'),
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
    with pytest.raises(ValueError, match=r'^`mu` must be finite and at least 0, got -1\.$'):
        proximal_sgd(0.1, mu=-1, local_steps=1)


def test_client_steps_must_fit_the_problem():
    with pytest.raises(ValueError, match='`client_steps` must have one entry for each of the p'):
        run(local_sgd(0.1, local_steps=2, client_steps=np.array([1, 2])), 0)


def test_rates_may_be_traced():
    problem = regression()

    def end(rate):
        program = local_sgd(rate, local_steps=2)
        return program.run(START, jnp.int32(0), jnp.int32(0), client_key(0), problem).params['b']

    eager = run(local_sgd(0.3, local_steps=2), 0).params['b']
    np.testing.assert_allclose(jax.jit(end)(0.3), eager, rtol=1e-6)


def random_loss(params, batch, key):
    """A loss whose gradient is the draw itself: steps add up draws."""
    del batch
    return params * jax.random.normal(key)


@pytest.mark.parametrize('counts, batch_size', [((3, 6), 2), ((3, 6), None), ((4, 4), None)])
def test_a_random_loss_draws_by_client_round_and_step(counts, batch_size):
    features, labels, owners = data(counts)
    problem = problems.from_arrays(
        features,
        labels,
        owners,
        init_params=lambda key: jnp.zeros(()),
        loss_fn=lambda params, batch: 0 * params,
        random_loss_fn=random_loss,
    )
    program = local_sgd(1.0, local_steps=4, batch_size=batch_size)
    ends = [float(run(program, client, problem, jnp.zeros(())).params) for client in (0, 1)]
    for client, end in enumerate(ends):
        stream = jax.random.fold_in(client_key(client), np.uint32(2**32 - 1))
        keys = [jax.random.fold_in(stream, step) for step in range(4)]
        if batch_size is None and counts[0] != counts[1]:  # one draw per example
            slots = [jax.random.split(key, max(counts))[: counts[client]] for key in keys]
            draws = [np.mean([jax.random.normal(key) for key in own]) for own in slots]
        else:
            draws = [jax.random.normal(key) for key in keys]
        np.testing.assert_allclose(end, -np.sum(draws), rtol=1e-4, atol=1e-5)
