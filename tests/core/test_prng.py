"""The key tree, spelled out by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.core import meshes, prng
from fedjax_links.machines import devices
from tests import refusals
from tests.tiers import cases

fold = jax.random.fold_in
STREAMS = ('init', 'participation', 'client', 'server', 'eval')


def bits(key):
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize('number, name', list(enumerate(STREAMS)))
def test_streams_are_numbered_children_of_the_seed(number, name):
    key = jax.random.key(17)
    np.testing.assert_array_equal(bits(prng.stream(key, name)), bits(fold(key, number)))


def test_keys_descend_from_seed_to_local_step():
    key = jax.random.key(5)
    round_key = prng.round_key(key, 'client', 7)
    client = prng.client_key(round_key, 3)
    steps = prng.step_keys(client, 4)
    for step in range(4):
        by_hand = fold(fold(fold(fold(key, 2), 7), 3), step)
        np.testing.assert_array_equal(bits(steps[step]), bits(by_hand))


def test_model_and_pattern_start_from_different_keys():
    key = jax.random.key(5)
    np.testing.assert_array_equal(
        bits(prng.model_key(key)), bits(fold(fold(key, 0), 0))
    )
    np.testing.assert_array_equal(
        bits(prng.pattern_key(key)), bits(fold(fold(key, 0), 1))
    )


def test_no_two_nodes_of_the_tree_share_a_key():
    key = jax.random.key(0)
    keys = [prng.model_key(key), prng.pattern_key(key)]
    for name in STREAMS:
        keys += [
            prng.stream(key, name),
            *(prng.round_key(key, name, t) for t in range(4)),
        ]
    for client in range(4):
        client_key = prng.client_key(prng.round_key(key, 'client', 2), client)
        keys += [client_key, *prng.step_keys(client_key, 4)]
    distinct = {tuple(bits(k)) for k in keys}
    # The keys of model and pattern are those of rounds 0 and 1 of the stream 'init', by design:
    # nothing draws from that stream by round.
    assert len(distinct) == len(keys) - 2


def test_rounds_and_clients_may_be_traced():
    key = jax.random.key(3)
    traced = jax.jit(lambda t, i: prng.client_key(prng.round_key(key, 'client', t), i))(
        6, 2
    )
    np.testing.assert_array_equal(
        bits(traced), bits(prng.client_key(prng.round_key(key, 'client', 6), 2))
    )


PATTERN = participation.bernoulli([0.5, 0.5])
PROBLEM = problems.quadratic([[0.0], [1.0]])
FEDAVG = algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))


@functools.cache
def federation():
    return simulation.init(jax.random.key(0), FEDAVG, PATTERN, PROBLEM)


@functools.cache
def one_round():
    return simulation.realised_links(jax.random.key(0), PATTERN, num_rounds=1)


TAKE_ONE_KEY = {
    'simulate': lambda key: simulation.simulate(
        key, FEDAVG, PATTERN, PROBLEM, num_rounds=1
    ),
    'init': lambda key: simulation.init(key, FEDAVG, PATTERN, PROBLEM),
    'advance': lambda key: simulation.advance(
        federation(), key, one_round(), FEDAVG, PROBLEM
    ),
    'evaluate': lambda key: simulation.evaluate(federation(), key, FEDAVG, PROBLEM),
    'realised_links': lambda key: simulation.realised_links(key, PATTERN, num_rounds=1),
}


@pytest.mark.parametrize('name', TAKE_ONE_KEY)
def test_a_batch_of_keys_is_no_key(name):
    batches = {
        '[3]': jax.random.split(jax.random.key(0), 3),
        '[2]': jax.random.split(jax.random.PRNGKey(0), 2),
        '[1]': jax.random.key(0)[None],
    }
    for shape, keys in batches.items():
        with refusals.names('key', 'a single key', 'keys[0]', f'shape {shape}'):
            TAKE_ONE_KEY[name](keys)


@pytest.mark.parametrize('name', TAKE_ONE_KEY)
def test_what_is_no_key_is_refused(name):
    for value in (0, None, np.zeros(5, np.uint32), np.uint32(3), [0, 1]):
        with refusals.names('key', 'jax.random.key(0)'):
            TAKE_ONE_KEY[name](value)


def test_raw_keys_and_mapped_keys_are_keys():
    draw = TAKE_ONE_KEY['realised_links']
    draw(jax.random.PRNGKey(0))
    keys = jax.random.split(jax.random.key(0), 3)
    assert jax.vmap(draw)(keys).mask.shape == (3, 1, 2)


def test_an_unknown_stream_is_refused():
    with pytest.raises(
        ValueError, match="`name` has no 'clients'; did you mean 'client'"
    ):
        prng.stream(jax.random.key(0), 'clients')


COUNTS = (1, 2, 3, 7, 64, 1000, 2**16, 2**16 + 1, 10**6 + 3, 2**31 - 1)
EDGES = (0, 1, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 2, 2**32 - 1)


def test_integers_are_exact_products_of_their_bits(rng, monkeypatch):
    monkeypatch.setattr(jax.random, 'bits', lambda key, shape, dtype: key)

    def draw(words, count):
        return prng.integers(words, words.shape, count)

    traced = jax.jit(draw)
    on_a_mesh = jax.jit(meshes.on_each(draw, devices.mesh(1)))
    for count in COUNTS:
        # The words at which the product reaches the next integer, and their neighbours.
        steps = np.array([k * 2**32 // count for k in range(4)])
        neighbours = np.add.outer(steps, [-1, 0, 1]).ravel().clip(0, 2**32 - 1)
        words = np.array([*EDGES, *rng.integers(0, 2**32, 200), *neighbours], np.uint32)
        samples = draw(jnp.asarray(words), count)
        assert samples.dtype == np.int32
        assert samples.tolist() == [b * count // 2**32 for b in words.tolist()]
        np.testing.assert_array_equal(traced(words, np.int32(count)), samples)
        np.testing.assert_array_equal(on_a_mesh(words, np.int32(count)), samples)


@pytest.mark.parametrize('count', [1, 5, 48, 1000])
def test_integers_are_uniform(count):
    number = 200_000
    draw = functools.partial(prng.integers, shape=(number,), count=count)
    samples = np.asarray(jax.jit(draw)(jax.random.key(8)))
    assert samples.min() == 0
    assert samples.max() == count - 1
    expected = number / count
    chi_square = np.sum((np.bincount(samples) - expected) ** 2) / expected
    freedom = count - 1
    # Mean and variance of chi-square are its freedom and twice that: four deviations.
    assert abs(chi_square - freedom) <= 4 * np.sqrt(2 * freedom)


def test_every_client_draws_below_its_own_count():
    """Counts that are traced and vmapped, as clients' are."""
    keys = jax.random.split(jax.random.key(1), len(COUNTS))
    counts = np.asarray(COUNTS, np.int32)
    samples = jax.jit(jax.vmap(lambda key, n: prng.integers(key, (3, 50), n)))(
        keys, counts
    )
    for key, count, ours in zip(keys, COUNTS, np.asarray(samples), strict=True):
        words = np.asarray(jax.random.bits(key, (3, 50), 'uint32')).ravel()
        assert ours.ravel().tolist() == [int(word) * count // 2**32 for word in words]


def test_integers_are_the_same_in_double_precision():
    draw = functools.partial(prng.integers, shape=(20,), count=77)
    samples = jax.jit(draw)(jax.random.key(4))
    with jax.enable_x64(True):
        double = jax.jit(draw)(jax.random.key(4))
    assert double.dtype == np.int32
    np.testing.assert_array_equal(double, samples)


@pytest.mark.parametrize(
    'count, message',
    [
        (0, r'^`count` must be at least 1, got 0\.$'),
        (2**31, r'^`count` must be at most 2147483647, got 2147483648\.$'),
        (2.5, r'^`count` must be a Python integer, got 2\.5\.$'),
    ],
)
def test_an_impossible_count_is_refused(count, message):
    with pytest.raises(ValueError, match=message):
        prng.integers(jax.random.key(0), (3,), count)


def test_seeds_become_a_column():
    column = prng.seed_column([0, np.int64(3), 2**32 - 1])
    assert column.dtype == np.uint32
    np.testing.assert_array_equal(column, [0, 3, 4294967295])


@pytest.mark.parametrize(
    'seeds, message',
    [
        ([2**40], r'^`seeds` must be at most 4294967295, got 1099511627776\.$'),
        ([1, -1], r'^`seeds` must be at least 0, got -1\.$'),
        ([4, 2, 4], r'^`seeds` must hold each seed once, got \[4, 2, 4\]\.$'),
        ([1.5], r'^`seeds` must be a Python integer, got 1\.5\.$'),
        ([True], r'^`seeds` must be a Python integer, got True\.$'),
        ([], r'^`seeds` must name at least one seed, got \[\]\.$'),
    ],
)
def test_a_seed_that_jax_would_misread_is_refused(seeds, message):
    with pytest.raises(ValueError, match=message):
        prng.seed_column(seeds)


def spy(algorithm):
    """The same algorithm, which also remembers the keys of the round."""

    def round_step(state, ctx, problem):
        inner, metrics = algorithm.round_step(state[0], ctx, problem)
        return (
            inner,
            *map(jax.random.key_data, (ctx.client_key, ctx.server_key)),
        ), metrics

    empty = np.zeros(2, np.uint32)
    return algorithm._replace(
        init=lambda params, problem: (algorithm.init(params, problem), empty, empty),
        round_step=round_step,
        models=lambda state: algorithm.models(state[0]),
    )


@pytest.mark.parametrize('name', cases(['fedavg', 'fedpbc', 'mifa'], ['fedavg']))
def test_client_keys_depend_on_seed_and_round_alone(name):
    algorithm = spy(
        algorithms.ALGORITHMS[name](local_training.local_sgd(0.1, local_steps=1))
    )
    key = jax.random.key(23)
    num_rounds = 3
    result = jax.jit(
        lambda key: simulation.simulate(
            key,
            algorithm,
            participation.bernoulli(np.full(4, 0.5)),
            problems.quadratic(np.eye(4)),
            num_rounds=num_rounds,
        )
    )(key)
    _, client_key, server_key = result.state.algorithm
    np.testing.assert_array_equal(client_key, bits(fold(fold(key, 2), num_rounds - 1)))
    np.testing.assert_array_equal(server_key, bits(fold(fold(key, 3), num_rounds - 1)))
