"""Networks that normalise by the batch are evaluated in batches of all clients, not of one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from fedjax_links import evaluation, problems
from fedjax_links.papers import architectures
from tests import refusals
from tests.tiers import cases

CLASSES = 4
WIDTH = 3


def skewed(size, seed=0):
    """Examples whose features say the label; every client has one label, as stored."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, CLASSES, size))
    features = rng.normal(size=(size, WIDTH)) + 3 * np.eye(CLASSES)[labels][:, :WIDTH]
    return features.astype(np.float32), labels, labels.copy()


def outputs_in_float64(params, features):
    """The network by hand, with the statistics of all these features."""
    layers = jax.tree.map(lambda a: np.asarray(a, float), params)
    hidden = features @ layers['Dense_0']['kernel'] + layers['Dense_0']['bias']
    hidden = (hidden - hidden.mean(0)) / np.sqrt(hidden.var(0) + 1e-5)
    hidden = hidden * layers['BatchNorm_0']['scale'] + layers['BatchNorm_0']['bias']
    return (
        np.maximum(hidden, 0) @ layers['Dense_1']['kernel'] + layers['Dense_1']['bias']
    )


def metrics_in_float64(outputs, labels):
    log_probs = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
    losses = -log_probs[np.arange(len(labels)), labels]
    return {'loss': losses, 'accuracy': outputs.argmax(axis=1) == labels}


NETWORK = architectures.BatchNormMLP(CLASSES, hidden=(8,))


def params_of(problem):
    params = jax.jit(problem.init_params)(jax.random.key(1))
    return jax.tree.map(lambda a: 3 * np.asarray(a), params)  # so that losses differ


@pytest.mark.slow
@pytest.mark.parametrize(
    'size, tolerance', [(900, 1e-5), (1500, 1e-5), (2049, 0.03), (5000, 0.03)]
)
def test_what_is_measured_is_near_what_all_statistics_give(size, tolerance):
    """To rounding where one batch holds all, and nearly so in several batches of mixed labels.

    Sorted batches of one label are far off.
    """
    features, labels, owners = skewed(size)
    problem = problems.from_flax(features, labels, owners, module=NETWORK)
    params = params_of(problem)
    measured = jax.jit(problem.metrics)(params, problem.data)
    expected = metrics_in_float64(outputs_in_float64(params, features), labels)
    for name, values in expected.items():
        np.testing.assert_allclose(
            measured[name], values.mean(), rtol=tolerance, atol=tolerance / 5
        )
    alone = [outputs_in_float64(params, features[labels == c]) for c in range(CLASSES)]
    apart = metrics_in_float64(np.concatenate(alone), labels)['loss'].mean()
    assert abs(apart - expected['loss'].mean()) > 0.2 * expected['loss'].mean()


@pytest.mark.parametrize('loss', ['cross_entropy', 'own'])
@pytest.mark.parametrize('size', cases([1500, 3100], [1500]))
def test_every_client_is_measured_by_the_statistics_of_all(size, loss):
    def own(outputs, labels):
        return jnp.mean(
            optax.softmax_cross_entropy_with_integer_labels(outputs, labels)
        )

    features, labels, owners = skewed(size)
    problem = problems.from_flax(
        features[:40],
        labels[:40],
        np.arange(40) % CLASSES,
        module=NETWORK,
        loss=own if loss == 'own' else loss,
        eval_data=(features, labels, owners),
    )
    params = params_of(problem)

    @jax.jit
    def measure(params):
        pooled = evaluation.train_and_eval(params, jax.random.key(0), problem)
        return pooled, evaluation.by_client(params, problem)

    result, each = measure(params)
    expected = metrics_in_float64(outputs_in_float64(params, features), labels)
    tolerance = 1e-5 if size == 1500 else 0.05
    counts = np.bincount(owners)
    for name in each:
        own_means = np.bincount(owners, expected[name]) / counts
        np.testing.assert_allclose(
            each[name], own_means, rtol=tolerance, atol=tolerance / 5
        )
        pooled = np.average(each[name], weights=counts)
        np.testing.assert_allclose(result[f'eval_{name}'], pooled, rtol=1e-5)
    assert set(each) == ({'loss'} if loss == 'own' else {'loss', 'accuracy'})


def test_examples_held_out_of_such_a_problem_can_be_evaluated():
    held_out = {'holdout_examples': 0.2, 'holdout_clients': 2}
    problem = problems.digits(
        num_clients=10,
        model=lambda c: architectures.BatchNormMLP(c, hidden=(4,)),
        **held_out,
    )
    params = jax.jit(problem.init_params)(jax.random.key(0))
    result = jax.jit(
        lambda p: evaluation.train_and_eval(p, jax.random.key(0), problem)
    )(params)
    assert np.isfinite(result['eval_accuracy_p10'])
    client_models = jax.tree.map(lambda a: np.stack([a] * problem.num_clients), params)
    with refusals.names('problem', 'normalise by the batch'):
        evaluation.personal_model_metrics(client_models, problem)


def test_a_layer_of_a_user_s_own_says_so_itself():
    class Centred(nn.Module):
        normalises_by_batch = True

        @nn.compact
        def __call__(self, x):
            return nn.Dense(CLASSES)(x - x.mean(axis=0, keepdims=True))

    features, labels, owners = skewed(1500)
    problem = problems.from_flax(
        features, labels, owners, module=nn.Sequential([Centred()])
    )
    assert problem.metrics.by_batch
    plain = problems.from_flax(features, labels, owners, module=nn.Dense(CLASSES))
    assert not plain.metrics.by_batch
