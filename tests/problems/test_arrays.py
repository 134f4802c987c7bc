"""Problems from arrays: who owns what, how it is evaluated, what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import problems
from fedjax_links.core import errors, memory
from fedjax_links.problems import arrays, losses
from tests.problems.drawn_params import draw_params

OWNERS = np.array([2, 0, 1, 0, 2, 2, 1, 2])


def loss_fn(params, batch):
    return jnp.mean(jnp.square(batch.features @ params - batch.labels))


def build(features=None, labels=None, clients=OWNERS, **kwargs):
    rng = np.random.default_rng(0)
    size = np.size(clients)
    features = (
        rng.normal(size=(size, 3)).astype(np.float32) if features is None else features
    )
    labels = rng.normal(size=size).astype(np.float32) if labels is None else labels
    arguments = {'init_params': lambda key: jnp.zeros(3), 'loss_fn': loss_fn, **kwargs}
    return problems.from_arrays(features, labels, clients, **arguments)


def test_examples_are_stored_by_owner_in_their_own_order():
    labels = np.arange(8.0)
    features = np.c_[labels, -labels, labels**2]
    problem = build(features, labels)
    assert problem.num_clients == 3
    np.testing.assert_array_equal(problem.counts, [2, 2, 4])
    np.testing.assert_array_equal(problem.offsets, [0, 2, 4])
    np.testing.assert_array_equal(problem.data.labels, [1, 3, 2, 6, 0, 4, 5, 7])
    np.testing.assert_array_equal(
        problem.data.features, features[[1, 3, 2, 6, 0, 4, 5, 7]]
    )
    assert (problem.min_examples, problem.max_examples) == (2, 4)
    np.testing.assert_array_equal(problems.owners(problem), np.sort(OWNERS))


def test_the_clients_data_evaluate_unless_other_data_are_given():
    problem = build()
    assert problem.eval_data is problem.data
    held_out = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
    other = build(eval_data=held_out)
    np.testing.assert_array_equal(other.eval_data.features, held_out[0])
    np.testing.assert_allclose(other.metrics(jnp.ones(3), other.eval_data)['loss'], 9.0)


@pytest.mark.parametrize('size', [1, 1023, 1024, 1025, 2048, 3000])
def test_evaluation_in_chunks_is_the_plain_mean(size):
    rng = np.random.default_rng(size)
    features = rng.normal(size=(size, 3)).astype(np.float32)
    labels = rng.normal(size=size).astype(np.float32)
    problem = build(
        features,
        labels,
        np.zeros(size, int),
        metrics=lambda params, batch: {
            'loss': loss_fn(params, batch),
            'positive': jnp.mean(batch.features @ params > 0),
        },
    )
    params = np.array([0.3, -1.0, 0.5])
    measured = jax.jit(problem.metrics)(jnp.float32(params), problem.eval_data)
    outputs = features.astype(float) @ params
    np.testing.assert_allclose(
        measured['loss'], np.mean((outputs - labels) ** 2), rtol=1e-5
    )
    np.testing.assert_allclose(measured['positive'], np.mean(outputs > 0), rtol=1e-6)


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            {'features': np.ones((5, 3))},
            r'^`features` must have one row per entry of `clients` \(8\), got 5\.$',
        ),
        (
            {'labels': np.ones(9)},
            r'^`labels` must have one row per entry of `clients` \(8\), got 9\.$',
        ),
        (
            {'clients': OWNERS.astype(float)},
            r'^`clients` must have an integer dtype, got float64\.$',
        ),
        (
            {'clients': OWNERS == 2},
            r'^`clients` must have an integer dtype, got bool\.$',
        ),
        (
            {'clients': OWNERS[:, None]},
            r'^`clients` must be a non-empty vector, got shape \(8, 1\)\.$',
        ),
        ({'clients': OWNERS - 1}, r'^`clients` must be at least 0, got -1 at \d\.$'),
        (
            {'clients': OWNERS[:0]},
            r'^`clients` must be a non-empty vector, got shape \(0,\)\.$',
        ),
        (
            {'clients': np.where(OWNERS == 1, 3, OWNERS)},
            r'^`clients` must give every client an example, got none for client 1\.$',
        ),
        (
            {'features': np.where(np.arange(8)[:, None] == 5, np.nan, 1.0)},
            r'^`features` must be finite, got not so in row 5\.$',
        ),
        (
            {'labels': np.where(np.arange(8) == 2, np.inf, 1.0)},
            r'^`labels` must be finite, got not so in row 2\.$',
        ),
        (
            {'predict': lambda params, features: features @ params},
            '^`predict` must go with a loss by name, got <function',
        ),
        ({'random_loss_fn': 3}, r'^`random_loss_fn` must be a function, got 3\.$'),
        (
            {'client_names': frozenset('abc')},
            '^`client_names` must name each of the 3 clients, got frozenset',
        ),
        (
            {'eval_data': (np.ones((2, 3)),)},
            r'^`eval_data` must be a pair \(features, labels\), or a triple with owners, got 1\.$',
        ),
        (
            {'eval_data': (np.ones((2, 3)), np.ones((2, 1)))},
            r'^`eval_data` must have labels of shape \[\], got \[1\]\.$',
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(**arguments)


@pytest.mark.parametrize(
    'num_examples, requirement',
    [
        (0, '`clients` must be a non-empty vector'),
        (8, '`labels` must have one row per entry'),
    ],
)
@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_networks_refuse_data_without_examples(num_examples, requirement, dtype):
    with pytest.raises(errors.InvalidError, match=f'^{requirement}'):
        problems.from_flax(
            np.zeros((num_examples, 3), dtype),
            np.zeros(0),
            OWNERS[:num_examples],
            module=nn.Dense(1),
            loss=lambda outputs, labels: jnp.mean((outputs - labels) ** 2),
        )


class Linear(nn.Module):
    """One layer, optionally with batch statistics."""

    outputs: int
    normalise: bool = False

    @nn.compact
    def __call__(self, x):
        """Outputs [B, outputs]."""
        if self.normalise:
            x = nn.BatchNorm(use_running_average=False)(x)
        return nn.Dense(self.outputs)(x)


def flax_problem(labels, **kwargs):
    features = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    return features, problems.from_flax(features, labels, OWNERS, **kwargs)


def dense(params, features):
    layer = params['Dense_0']
    return features @ np.asarray(layer['kernel'], float) + np.asarray(
        layer['bias'], float
    )


def test_a_flax_module_with_cross_entropy():
    labels = np.arange(8) % 4
    features, problem = flax_problem(labels, module=Linear(4))
    params = draw_params(problem.init_params)
    logits = dense(params, features)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    measured = jax.jit(problem.metrics)(params, problem.eval_data)
    expected = -log_probs[np.arange(8), labels].mean()
    np.testing.assert_allclose(measured['loss'], expected, rtol=1e-5)
    np.testing.assert_allclose(
        measured['accuracy'], np.mean(logits.argmax(axis=1) == labels)
    )
    loss = jax.jit(problem.loss_fn)(params, problem.data)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_flax_module_with_squared_error_or_any_loss():
    labels = np.random.default_rng(2).normal(size=(8, 2)).astype(np.float32)
    features, problem = flax_problem(labels, module=Linear(2), loss='squared_error')
    params = draw_params(problem.init_params)
    error = dense(params, features) - labels
    measured = jax.jit(problem.metrics)(params, problem.eval_data)
    assert set(measured) == {'loss'}
    np.testing.assert_allclose(measured['loss'], np.mean(error**2), rtol=1e-5)
    _, other = flax_problem(
        labels,
        module=Linear(2),
        loss=lambda outputs, labels: jnp.mean(jnp.abs(outputs - labels)),
    )
    loss = jax.jit(other.loss_fn)(params, other.data)
    np.testing.assert_allclose(loss, np.mean(np.abs(error)), rtol=1e-5)


def test_modules_and_losses_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"`module` must have parameters only, got also \['batch"
    ):
        flax_problem(np.arange(8) % 2, module=Linear(2, normalise=True))
    with pytest.raises(
        ValueError, match="`loss` has no 'cross-entropy'; did you mean 'cross_ent"
    ):
        flax_problem(np.arange(8) % 2, module=Linear(2), loss='cross-entropy')


@pytest.mark.parametrize(
    'loss, stated, expected',
    [
        ('cross_entropy', None, ('accuracy',)),
        ('cross_entropy', (), ()),
        ('squared_error', None, ()),
        (lambda outputs, labels: jnp.mean(outputs), None, ()),
        (lambda outputs, labels: jnp.mean(outputs), ['loss'], ('loss',)),
    ],
)
def test_a_flax_problem_knows_that_larger_accuracies_are_better(loss, stated, expected):
    labels = (
        np.arange(8) % 2 if loss == 'cross_entropy' else np.zeros((8, 2), np.float32)
    )
    _, problem = flax_problem(
        labels, module=Linear(2), loss=loss, larger_is_better=stated
    )
    assert problem.larger_is_better == expected


def test_a_flax_problem_refuses_directions_of_unknown_metrics():
    message = "`larger_is_better` has no 'accuracy'; valid names: loss"
    with pytest.raises(ValueError, match=message):
        flax_problem(
            np.zeros((8, 2), np.float32),
            module=Linear(2),
            loss='squared_error',
            larger_is_better=['accuracy'],
        )


@pytest.mark.parametrize(
    'labels, message',
    [
        (
            [0, 1, 3, 2],
            r"`labels` must lie in \[0, 3\), the model's outputs, got 3 at example 2\.",
        ),
        ([0, -1, 1, 2], r'got -1 at example 1\.'),
        ([0.5, 1, 0, 2], r'`labels` must be classes, integers, got float64\.'),
    ],
)
def test_labels_without_an_output_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        problems.from_flax(
            np.zeros((4, 2), np.float32),
            np.array(labels),
            [0, 0, 1, 1],
            module=nn.Dense(3),
        )


def test_an_evaluation_copies_no_data():
    """The program needs less room for its work than the examples take."""
    examples = arrays.Batch(jnp.ones((50_000, 64)), jnp.zeros(50_000, jnp.int32))
    measure = jax.jit(
        lambda params, examples: losses.measure(
            lambda params, batch: {'loss': jnp.mean((batch.features @ params) ** 2)},
            params,
            examples,
        )
    )
    program = measure.lower(jnp.ones(64), examples).compile()
    assert program.memory_analysis().temp_size_in_bytes < examples.features.nbytes / 4
    assert program(jnp.ones(64), examples)['loss'] == 64**2


def test_off_the_cpu_several_groups_are_measured_at_once(monkeypatch):
    """The groups are the same, so a loss that looks at a whole group is, too."""
    rows = np.random.default_rng(0).normal(size=(5_000, 3)).astype(np.float32)
    examples = arrays.Batch(rows, np.zeros(5_000, np.int32))

    def spread(params, batch):
        return {'spread': jnp.std(batch.features @ params)}

    def measure():
        run = jax.jit(functools.partial(losses.measure, spread))
        return run(np.ones(3, np.float32), examples)['spread']

    expected = measure()
    monkeypatch.setattr(memory, 'platform', lambda: 'gpu')
    result = measure()
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    groups = np.split(rows.sum(axis=1), range(1024, 5_000, 1024))
    sizes = np.array([len(group) for group in groups])
    assert result == pytest.approx(
        np.sum([g.std() for g in groups] * sizes) / 5_000, rel=1e-6
    )
