"""The image benchmarks at a tiny size: proofs without PyTorch, and with it where it is there."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import (
    against_torch,
    cifar,
    fashion,
    images,
    interpreters,
    peers,
    pfl,
    proofs,
    real_images,
    run,
    torch_loop,
)
from fedjax_links import datasets, participation
from fedjax_links.problems import models
from tests.tiers import cases

NETWORK = models.CNN(10, channels=(3, 4), hidden=(5,))
TINY = images.Workload(
    num_clients=10,
    examples_per_client=4,
    image_shape=(8, 8, 2),
    proof_rate=0.05,
    local_steps=2,
    batch_size=3,
    num_rounds=4,
    proof_rounds=4,
)
ALGORITHMS = [
    images.AlgorithmOptions('fedavg'),
    images.AlgorithmOptions('fedpbc'),
    images.AlgorithmOptions('amplified_fedavg', period=2, amplification=2.0),
]


def pattern(algorithm):
    if algorithm.name == 'amplified_fedavg':
        return fashion.links(TINY, cohort_size=2, active_rounds=2)
    return participation.bernoulli(np.full(TINY.num_clients, 0.3))


def by_hand(algorithm, module=NETWORK):
    def program(params, data, plan, workload):
        return images.by_hand(params, data, module, plan, workload, algorithm)

    return program


def prove(algorithm, other=None, twin=None, workload=TINY):
    """The engine with ``algorithm`` against loops with XLA's convolution."""
    xla = NETWORK.clone(convolution=jax.lax.conv_general_dilated)
    reference = by_hand(other or algorithm, xla)
    twin = twin or by_hand(other or algorithm)
    key = jax.random.key(3)
    return proofs.prove(
        key, NETWORK, workload, algorithm, pattern(algorithm), reference, twin
    )['proof']


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ALGORITHMS[1:])
def test_the_engine_is_a_plain_loop(algorithm):
    """So it is with FedAvg, which `test_pfl` proves."""
    proof = prove(algorithm)
    assert proof['one_step']['difference'] <= proof['one_step']['tolerance'] < 1e-5
    assert proof['rounds']['tolerance'] == proofs.FEW_UNITS
    assert proof['rounds']['difference'] < 1e-4  # so small a network turns no unit


@pytest.mark.slow
def test_a_proof_tells_the_algorithms_apart():
    with pytest.raises(ValueError, match='amplified_fedavg, rounds: results differ'):
        prove(ALGORITHMS[2], ALGORITHMS[2]._replace(amplification=1.99))


@pytest.mark.slow
def test_a_proof_notices_one_example_of_one_step():
    """The first step of one client takes another of its examples."""

    def swapped(params, data, plan, workload):
        rows = plan.rows.copy()
        client = np.flatnonzero(plan.masks[0])[0]
        client_rows = np.arange(client * 4, client * 4 + 4)
        other_rows = np.setdiff1d(client_rows, rows[0, client, 0, 0])
        rows[0, client, 0, 0] = other_rows[0]
        return by_hand(ALGORITHMS[0])(params, data, plan._replace(rows=rows), workload)

    key = jax.random.key(3)
    links = pattern(ALGORITHMS[0])
    with pytest.raises(ValueError, match='fedavg, a step: results differ'):
        proofs.prove(key, NETWORK, TINY, ALGORITHMS[0], links, swapped, swapped)


@pytest.mark.slow
def test_a_reference_that_parts_from_its_twin_proves_nothing():
    other_rate = TINY._replace(learning_rate=0.06)

    def twin(params, data, plan, _):
        return by_hand(ALGORITHMS[0])(params, data, plan, other_rate)

    with pytest.raises(
        ValueError, match='fedavg: two orders of the same sums differ by'
    ):
        prove(ALGORITHMS[0], twin=twin)


def test_rounding_grows_with_the_steps():
    params = {'kernel': np.zeros((2, 2, 4, 7)), 'bias': np.zeros(7)}
    once = TINY._replace(num_rounds=1, local_steps=1)
    np.testing.assert_allclose(proofs.rounding(params, once), 32 * 2.0**-24)
    assert proofs.rounding(params, TINY) == 8 * proofs.rounding(params, once)


def test_differences_are_relative_to_the_distance_moved():
    start = {'a': np.zeros(2), 'b': np.ones(2)}
    expected = (
        {'a': np.array([3.0, 4.0]), 'b': np.array([1.0, 3.0])},
        np.array([2.0, 4.0]),
    )
    actual = (
        {'a': np.array([3.0, 4.5]), 'b': np.array([1.0, 3.1])},
        np.array([2.0, 4.0]),
    )
    np.testing.assert_allclose(proofs.difference(actual, expected, start), 0.1)
    actual = expected[0], np.array([3.0, 4.0])
    np.testing.assert_allclose(proofs.difference(actual, expected, start), 0.25)


@pytest.mark.parametrize('leaf', ['a', 'b', 'losses'])
def test_a_difference_with_an_undefined_entry_is_undefined(leaf):
    start = {'a': np.zeros(2), 'b': np.zeros(2)}
    ones = {'a': np.ones(2), 'b': np.ones(2), 'losses': np.ones(2)}
    entries = {**ones, leaf: np.array([1.0, np.nan])}
    expected = {'a': ones['a'], 'b': ones['b']}, ones['losses']
    actual = {'a': entries['a'], 'b': entries['b']}, entries['losses']
    assert np.isnan(proofs.difference(actual, expected, start))


def is_clear(image):
    """Whether an image is clear of the thresholds of a network that passes it on unchanged."""
    module = models.CNN(1, channels=(1,), kernel_size=1, hidden=())
    params = {
        'Conv_0': {
            'kernel': np.ones((1, 1, 1, 1), np.float32),
            'bias': np.zeros(1, np.float32),
        },
        'Dense_0': {
            'kernel': np.ones((1, 1), np.float32),
            'bias': np.zeros(1, np.float32),
        },
    }
    pixels = jnp.array(image, jnp.float32).reshape(2, 2, 1)
    return bool(proofs.is_clear(module, params, pixels))


@pytest.mark.parametrize(
    'image, expected',
    [
        ([1.0, 2.0, 3.0, 4.0], True),
        ([1.0, 2.0, 1e-7, 4.0], False),
        ([1.0, 2.0, -1e-7, 4.0], False),
        ([1.0, 4.0, 3.0, 4.0], False),
        ([1.0, 4.0 - 5e-7, 3.0, 4.0], False),
        ([1.0, 4.0 - 1e-4, 3.0, 4.0], True),
        ([1.0, 1.0, 3.0, 4.0], True),
        ([-1.0, -1.0, -3.0, -4.0], True),
    ],
)
def test_images_are_clear_of_thresholds_by_more_than_rounding(image, expected):
    assert is_clear(image) == expected


@pytest.mark.slow
def test_the_images_of_the_first_step_are_clear():
    key = jax.random.key(3)
    links = pattern(ALGORITHMS[0])
    data = images.problem(TINY, NETWORK)
    clear = proofs.clear_of_thresholds(key, data, NETWORK, TINY, links)
    plan = images.schedule(key, links, TINY)
    used = np.unique(plan.rows[0][plan.masks[0]])
    params = images.initial_params(key, data)
    for row in used:
        assert proofs.is_clear(NETWORK, params, clear.data.features[row])
    changed = np.any(clear.data.features != data.data.features, axis=(1, 2, 3))
    np.testing.assert_array_equal(np.flatnonzero(changed), used)
    np.testing.assert_array_equal(clear.data.labels, data.data.labels)


def test_a_schedule_is_that_of_the_run():
    plan = images.schedule(jax.random.key(0), pattern(ALGORITHMS[2]), TINY)
    assert plan.rows.shape == (4, 10, 2, 3)
    np.testing.assert_array_equal(plan.masks.sum(axis=1), 2)
    owners = plan.rows // TINY.examples_per_client
    assert np.all(owners == np.arange(10)[:, None, None])
    assert images.clients_trained(plan, ALGORITHMS[2]) == 2
    assert images.clients_trained(plan, ALGORITHMS[1]) == 10


def test_networks_have_as_many_parameters_as_those_of_the_papers():
    for module, workload, size in (
        (fashion.NETWORK, fashion.WORKLOAD, 228_586),
        (cifar.NETWORK, cifar.WORKLOAD, 551_786),
        (pfl.Network(), pfl.WORKLOAD, 1_626_442),
    ):
        image = jax.ShapeDtypeStruct((1, *workload.image_shape), np.float32)
        params = jax.eval_shape(module.init, jax.random.key(0), image)['params']
        assert sum(int(np.prod(a.shape)) for a in jax.tree.leaves(params)) == size


def test_probabilities_are_skewed_and_keep_their_mean():
    probs = cifar.probabilities(100)
    np.testing.assert_allclose(probs.mean(), cifar.MEAN)
    np.testing.assert_allclose(probs.min(), cifar.MINIMUM)
    assert probs.max() <= 1
    assert np.mean(probs < 0.05) > 0.5


@pytest.mark.slow
def test_pfl():
    record = pfl.compare(
        pfl.Network(channels=(2, 3), hidden=4),
        TINY._replace(proof_rounds=1),
        cohort_size=3,
        num_timed=2,
        repeats=1,
    )
    json.dumps(record)
    for part in record['proof'].values():
        assert part['difference'] <= part['tolerance']
    assert record['seconds_are_projected']


@pytest.fixture
def torch_session():
    if interpreters.missing('torch'):
        pytest.skip('PyTorch is not installed')
    with interpreters.Session('torch') as session:
        yield session


@pytest.mark.parametrize(
    'algorithm', cases([(algorithm,) for algorithm in ALGORITHMS], [(ALGORITHMS[2],)])
)
def test_the_engine_is_the_pytorch_loop(algorithm, torch_session):
    record = against_torch.compare(
        NETWORK, TINY, algorithm, pattern(algorithm), repeats=1, targets=(1.0, 1.0)
    )
    json.dumps(record)
    for part in record['proof'].values():
        assert part['difference'] <= part['tolerance']
    assert set(record['programs']) == {'engine', 'torch', 'torch_channels_last'}
    assert all(
        record['programs'][name]['rounds_per_second'] > 0 for name in record['programs']
    )


@pytest.mark.slow
def test_the_engine_is_the_pytorch_loop_compiled(torch_session):
    algorithm = ALGORITHMS[0]
    record = against_torch.compare(
        NETWORK,
        TINY,
        algorithm,
        pattern(algorithm),
        repeats=1,
        targets=[None],
        loops=peers.COMPILED,
    )
    for part in record['proof'].values():
        assert part['difference'] <= part['tolerance']
    assert set(record['programs']) == {'engine', 'torch_compiled'}
    assert record['rows'][0]['target'] is None


def test_a_job_at_rate_zero_returns_the_model_and_flaxs_losses(torch_session):
    """At rate zero the model stays, and the losses are those of the network."""
    key = jax.random.key(0)
    links = pattern(ALGORITHMS[0])
    still = TINY._replace(num_rounds=1, local_steps=1, learning_rate=0.0)
    data = images.problem(still, NETWORK)
    params = images.initial_params(key, data)
    plan = images.schedule(key, links, still)
    job = against_torch.write_job(
        torch_session, params, data, plan, still, ALGORITHMS[0]
    )
    model, losses = against_torch.run_job(torch_session, job)
    jax.tree.map(np.testing.assert_array_equal, model, dict(params))
    _, expected = by_hand(ALGORITHMS[0])(params, data, plan, still)
    assert expected[0] > 0
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_layers_are_in_the_order_of_their_numbers():
    params = {
        f'{kind}_{i}/kernel': None for kind in ('Dense', 'Conv') for i in range(11)
    }
    assert torch_loop.layers(params, 'Conv')[9:] == ['Conv_9', 'Conv_10']


def test_clients_share_the_first_published_images(monkeypatch, tmp_path):
    """Standardised pixels, labels in their order, equally many per client."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (50, 8, 8, 2), np.uint8)
    labels = rng.integers(0, 10, 50)
    data = datasets.Dataset(pixels, labels, test_features=pixels, test_labels=labels)
    datasets.save_npz(data, tmp_path / 'fashion_mnist.npz')
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    problem = images.problem(TINY._replace(dataset='fashion_mnist'), NETWORK)
    features = np.asarray(problem.data.features, np.float64)
    np.testing.assert_allclose(features.mean(), 0, atol=1e-6)
    np.testing.assert_allclose(features.std(), 1, rtol=1e-6)
    first = pixels[:40].astype(np.float64)
    np.testing.assert_allclose(
        features, (first - first.mean()) / first.std(), atol=1e-5
    )
    assert np.asarray(problem.data.labels).tolist() == labels[:40].tolist()
    assert real_images.missing() == 'cifar10'
    assert run.lack('real_images') in (
        'torch is not installed',
        'cifar10 has not been fetched',
    )
