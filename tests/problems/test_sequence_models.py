"""Networks over tokens: the equations as float64 loops, what they can see, and that they learn."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

import fedjax_links as fl
from fedjax_links import problems
from fedjax_links.problems import models
from tests import refusals
from tests.machines.four_devices import in_a_process
from tests.problems.drawn_params import draw_params
from tests.tiers import cases

SMALL = {
    'gru': models.GRU(5, embedding=3, hidden=4, layers=2),
    'transformer': models.Transformer(5, hidden=8, heads=2, layers=2),
}


SCORES = {name: jax.jit(module.apply) for name, module in SMALL.items()}
TOKENS = np.random.default_rng(20231).integers(0, 5, (8, 6)).astype(np.uint8)


@functools.cache
def params_of(name):
    return draw_params(SMALL[name].init, TOKENS)


def dense(layer, x):
    """The outputs of a fully connected layer with or without a bias."""
    return x @ layer['kernel'] + layer.get('bias', 0)


def numpy_gru(params, tokens):
    """Two layers, text by text and token by token."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), params)
    scores = []
    for text in tokens:
        inputs = [params['Embed_0']['embedding'][token] for token in text]
        for layer in range(2):
            p = params[f'GRUCell_{layer}']
            h = np.zeros(4)
            outputs = []
            for x in inputs:
                reset = scipy.special.expit(dense(p['ir'], x) + dense(p['hr'], h))
                update = scipy.special.expit(dense(p['iz'], x) + dense(p['hz'], h))
                new = np.tanh(dense(p['in'], x) + reset * dense(p['hn'], h))
                h = (1 - update) * new + update * h
                outputs.append(h)
            inputs = outputs
        scores.append(dense(params['Dense_0'], inputs[-1]))
    return np.array(scores)


def layer_norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return centred / deviation * p['scale'] + p['bias']


def gelu(x):
    """The approximation by a hyperbolic tangent."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def numpy_transformer(params, tokens):
    """Two blocks, text by text, head by head and position by position."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), params)
    scores = []
    for text in tokens:
        x = params['Embed_0']['embedding'][text] + params['places']
        for layer in range(2):
            p = params[f'MultiHeadDotProductAttention_{layer}']
            # Attention: every position reads those up to itself; a head has 8 / 2 features.
            inputs = layer_norm(params[f'LayerNorm_{2 * layer}'], x)
            attention = np.zeros_like(x)
            for head in range(2):
                query = inputs @ p['query']['kernel'][:, head]
                key = inputs @ p['key']['kernel'][:, head]
                value = inputs @ p['value']['kernel'][:, head]
                for index in range(len(text)):
                    logits = key[: index + 1] @ query[index] / np.sqrt(4)
                    mean = scipy.special.softmax(logits) @ value[: index + 1]
                    attention[index] += mean @ p['out']['kernel'][head]
            x = x + attention
            # Two fully connected layers.
            inputs = layer_norm(params[f'LayerNorm_{2 * layer + 1}'], x)
            hidden = gelu(dense(params[f'Dense_{2 * layer}'], inputs))
            x = x + dense(params[f'Dense_{2 * layer + 1}'], hidden)
        last = layer_norm(params['LayerNorm_4'], x)[-1]
        scores.append(dense(params['Dense_4'], last))
    return np.array(scores)


@pytest.mark.parametrize(
    'name, loop', [('gru', numpy_gru), ('transformer', numpy_transformer)]
)
def test_the_network_is_the_loop(name, loop):
    params = params_of(name)
    scores = SCORES[name](params, TOKENS)
    assert (scores.shape, scores.dtype) == ((8, 5), jnp.float32)
    expected = loop(params['params'], TOKENS)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('name', SMALL)
def test_scores_after_every_token_see_no_later_one(name):
    params = params_of(name)
    every_token = jax.jit(SMALL[name].clone(every_token=True).apply)
    tokens = TOKENS.astype(np.int32)
    scores = np.asarray(every_token(params, tokens))
    assert scores.shape == (8, 6, 5)
    last = SCORES[name](params, TOKENS)
    np.testing.assert_allclose(scores[:, -1], last, rtol=1e-5, atol=1e-6)
    later = tokens.copy()
    later[:, 4:] = (later[:, 4:] + 1) % 5
    changed = np.asarray(every_token(params, later))
    np.testing.assert_array_equal(changed[:, :4], scores[:, :4])
    assert np.all(np.abs(changed[:, 4:] - scores[:, 4:]).max(-1) > 1e-4)


@pytest.mark.parametrize('name', cases(SMALL, ['gru']))
def test_in_bfloat16_parameters_gradients_and_scores_are_float32(name):
    params = params_of(name)
    half = SMALL[name].clone(dtype='bfloat16')
    program = jax.jit(half.apply).trace(params, TOKENS)
    assert 'bf16' in str(program.jaxpr)
    ours = program.lower().compile()(params, TOKENS)
    exact = np.asarray(SCORES[name](params, TOKENS))
    assert ours.dtype == jnp.float32
    # A few dozen roundings of 2^-9 each, most of which average out.
    assert 0 < np.abs(ours - exact).max() <= 10 * 2**-9 * np.abs(exact).max()
    start = jax.eval_shape(half.init, jax.random.key(0), TOKENS)
    slopes = jax.eval_shape(
        jax.grad(lambda params: half.apply(params, TOKENS).sum()), params
    )
    assert {leaf.dtype for leaf in jax.tree.leaves((start, slopes))} == {
        jnp.dtype('float32')
    }
    wrong = half.clone(dtype='bfloat61')
    with pytest.raises(
        ValueError, match="`dtype` has no 'bfloat61'; did you mean 'bfloat16'"
    ):
        jax.eval_shape(wrong.init, jax.random.key(0), TOKENS)


def echoes(every_token=False):
    """Clients of unequal size whose texts repeat with a period of two: what follows is known."""
    rng = np.random.default_rng(0)
    texts = np.tile(rng.integers(0, 5, (120, 2)), 4).astype(np.uint8)
    labels = texts[:, 1:] if every_token else texts[:, -1]
    owners = np.repeat(np.arange(4), [20, 40, 25, 35])
    return texts[:, :-1], labels.astype(np.int32), owners


@pytest.mark.slow
@pytest.mark.parametrize('name, every_token', [('gru', True), ('transformer', False)])
def test_a_federation_learns_what_follows(name, every_token):
    module = SMALL[name].clone(every_token=every_token, hidden=16)
    problem = problems.from_flax(
        *echoes(every_token),
        module=module,
        loss='token_cross_entropy' if every_token else 'cross_entropy',
    )
    program = fl.local_training.local_sgd(
        0.01, local_steps=5, batch_size=16, optimizer=optax.adam
    )
    algorithm = fl.ALGORITHMS['fedpbc'](program)
    links = fl.participation.bernoulli(np.array([0.9, 0.5, 0.5, 0.9]))
    run = jax.jit(
        lambda key: fl.simulate(
            key, algorithm, links, problem, num_rounds=60, eval_every=60
        )
    )
    accuracy = float(run(jax.random.key(0)).evals['server']['accuracy'][-1])
    assert accuracy > (0.8 if every_token else 0.95)  # nothing tells the second token


ON_MESHES = """
import numpy as np
import fedjax_links as fl
from tests.problems.test_sequence_models import SMALL, echoes

program = fl.local_training.local_sgd(0.1, local_steps=2, batch_size=4)
algorithm = fl.ALGORITHMS['fedavg'](program)
links = fl.participation.bernoulli(np.full(4, 0.6))

def bits(problem, size):
    mesh = fl.devices.mesh(size)
    run = jax.jit(lambda key, problem: fl.simulate(
        key, algorithm, links, problem, num_rounds=2, mesh=mesh
    ))
    return [np.asarray(a).tobytes() for a in jax.tree.leaves(run(jax.random.key(0), problem))]

for name, module in SMALL.items():
    problem = fl.problems.from_flax(*echoes(), module=module)
    found = {size: bits(problem, size) for size in (1, 2, 4)}
    print(name, [found[size] == found[1] for size in (2, 4)])
"""


@pytest.mark.slow
@pytest.mark.release('test_meshes_give_the_same_bits_of_all_algorithms')
def test_meshes_of_any_size_give_the_same_bits():
    assert in_a_process(ON_MESHES) == ['gru [True, True]', 'transformer [True, True]']


def test_mistakes_are_named(rng):
    images = rng.normal(size=(6, 8, 8, 1)).astype(np.float32)
    message = r'`module.features` must be tokens, integers \[examples, length\], got float32\[1, 8'
    for module in SMALL.values():
        with pytest.raises(ValueError, match=message):
            problems.from_flax(images, np.arange(6) % 5, np.arange(6), module=module)
    tokens = np.array([[0, 7]] * 6)
    with pytest.raises(
        ValueError, match='`features` must lie below 5, the ids that the module'
    ):
        problems.from_flax(tokens, np.arange(6) % 5, np.arange(6), module=SMALL['gru'])
    wide = models.Transformer(5, hidden=10, heads=4)
    with pytest.raises(
        ValueError, match=r'`module.hidden` must be a multiple of heads \(4\), got'
    ):
        problems.from_flax(tokens % 5, np.arange(6) % 5, np.arange(6), module=wide)
    for module, field in (
        (models.Transformer(5, hidden=0), 'hidden'),
        (models.Transformer(5, hidden='8'), 'hidden'),
        (models.Transformer(5, num_tokens=0), 'num_tokens'),
        (models.GRU(5, embedding=0), 'embedding'),
        (models.GRU(5, num_tokens=-1), 'num_tokens'),
    ):
        with refusals.names(f'module.{field}'):
            problems.from_flax(
                tokens % 5, np.arange(6) % 5, np.arange(6), module=module
            )
    more = SMALL['gru'].clone(num_tokens=8)
    assert (
        problems.from_flax(
            tokens, np.arange(6) % 5, np.arange(6), module=more
        ).num_clients
        == 6
    )
