"""The image benchmarks at a tiny size: proofs without PyTorch, and with it where it is there."""

import builtins
import json

import jax
import numpy as np
import pytest

from benchmarks import cifar, fashion, images, pfl, torch_loop
from fedjax_links import participation
from fedjax_links.problems import models

NETWORK = models.CNN(10, channels=(3, 4), hidden=(5,))
TINY = images.Workload(
    num_clients=10,
    num_examples=4,
    image_shape=(8, 8, 2),
    local_steps=2,
    batch_size=3,
    num_rounds=4,
    proof_rounds=4,
)
RULES = [
    images.Rule('fedavg'),
    images.Rule('fedpbc'),
    images.Rule('amplified_fedavg', period=2, amplification=2.0),
]


def pattern(rule):
    if rule.name == 'amplified_fedavg':
        return fashion.links(TINY, cohort_size=2, active_rounds=2)
    return participation.bernoulli(np.full(TINY.num_clients, 0.3))


def prove(rule, other=None):
    data = images.problem(TINY, NETWORK)

    def plain(params, plan, workload):
        return images.by_hand(params, data, NETWORK, plan, workload, other or rule)

    return images.prove(jax.random.key(3), data, TINY, rule, pattern(rule), plain)


@pytest.mark.parametrize('rule', RULES, ids=lambda rule: rule.name)
def test_the_engine_is_a_plain_loop(rule):
    proof = prove(rule)
    assert proof['largest_difference'] <= proof['tolerance'] < 2e-4


def test_a_proof_tells_the_algorithms_apart():
    with pytest.raises(ValueError, match='amplified_fedavg: results differ'):
        prove(RULES[2], RULES[2]._replace(amplification=1.9))


def test_the_tolerance_grows_with_steps_and_amplification():
    params = {'kernel': np.zeros((2, 2, 4, 7)), 'bias': np.zeros(7)}
    once = TINY._replace(proof_rounds=1, local_steps=1)
    np.testing.assert_allclose(images.tolerance(params, once, RULES[0]), 32 * 2.0**-24)
    assert images.tolerance(params, TINY, RULES[2]) == 16 * images.tolerance(params, once, RULES[0])


def test_a_schedule_is_that_of_the_run():
    plan = images.schedule(jax.random.key(0), pattern(RULES[2]), TINY)
    assert plan.rows.shape == (4, 10, 2, 3)
    np.testing.assert_array_equal(plan.masks.sum(axis=1), 2)
    owners = plan.rows // TINY.num_examples
    assert np.all(owners == np.arange(10)[:, None, None])
    assert images.clients_trained(plan, RULES[2]) == 2
    assert images.clients_trained(plan, RULES[1]) == 10


def test_the_workloads_are_those_of_the_papers():
    for module, workload, size in (
        (fashion.NETWORK, fashion.WORKLOAD, 228_586),
        (cifar.NETWORK, cifar.WORKLOAD, 551_786),
        (pfl.Network(), pfl.WORKLOAD, 1_626_442),
    ):
        image = jax.ShapeDtypeStruct((1, *workload.image_shape), np.float32)
        params = jax.eval_shape(module.init, jax.random.key(0), image)['params']
        assert sum(int(np.prod(a.shape)) for a in jax.tree.leaves(params)) == size
    for workload, clients, batch in (
        (fashion.WORKLOAD, 250, 16),
        (cifar.WORKLOAD, 100, 16),
        (pfl.WORKLOAD, 1000, 10),
    ):
        assert (workload.num_clients, workload.local_steps) == (clients, 5)
        assert workload.batch_size == batch
    assert fashion.links(fashion.WORKLOAD, fashion.COHORT_SIZE).num_clients == 250


def test_probabilities_are_skewed_and_keep_their_mean():
    probs = cifar.probabilities(100)
    np.testing.assert_allclose(probs.mean(), cifar.MEAN)
    np.testing.assert_allclose(probs.min(), cifar.MINIMUM)
    assert probs.max() <= 1
    assert np.mean(probs < 0.05) > 0.5


def test_pfl():
    record = pfl.compare(
        pfl.Network(channels=(2, 3), hidden=4), TINY, cohort_size=3, num_timed=2, repeats=1
    )
    json.dumps(record)
    assert record['largest_difference'] <= record['tolerance']
    assert record['seconds_are_projected']
    assert record['target_met'] is None or jax.default_backend() != 'cpu'


def test_without_pytorch_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name == 'torch':
            raise ModuleNotFoundError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, '__import__', refuse)
    with pytest.raises(
        SystemExit, match=r"^PyTorch is not installed: pip install -e '\.\[bench\]'$"
    ):
        torch_loop.require_torch()


@pytest.mark.parametrize('rule', RULES, ids=lambda rule: rule.name)
def test_the_engine_is_the_pytorch_loop(rule):
    pytest.importorskip('torch')
    record = torch_loop.compare(NETWORK, TINY, rule, pattern(rule), repeats=1, target=1.0)
    json.dumps(record)
    assert record['largest_difference'] <= record['tolerance']
    assert isinstance(record['target_met'], bool)
    assert set(record['programs']) == {'engine', 'torch', 'torch_channels_last'}


def test_pytorch_s_network_is_flax_s():
    torch = pytest.importorskip('torch')
    data = images.problem(TINY, NETWORK)
    params = data.init_params(jax.random.key(0))
    model = torch_loop.network(NETWORK, TINY.image_shape)
    state = torch_loop.state_from_params(params, model, NETWORK)
    model.load_state_dict(state)
    features = np.array(data.data.features[:5])
    outputs = model(torch.from_numpy(features.transpose(0, 3, 1, 2).copy()))
    expected = NETWORK.apply({'params': params}, features)
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    back = torch_loop.params_from_state(state, NETWORK)
    jax.tree.map(np.testing.assert_array_equal, back, dict(params))
