"""Metrics of clients on their own evaluation data, and their summaries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import evaluation, problems

OWNERS = np.repeat([0, 1, 2], [5, 3, 4])
TESTED = np.array([3, 0, 4, 0, 1, 3, 3, 0, 4])
"""Of three clients that train, the last has nothing to test on; 3 and 4 do not train."""


def owned_problem(loss='cross_entropy', metrics=None):
    """Returns a problem with owners of evaluation data, and its features and labels."""
    rng = np.random.default_rng(3)
    tokens = loss == 'token_cross_entropy'
    shape = (4,) if tokens else ()
    labels = rng.integers(-1 if tokens else 0, 3, (len(TESTED), *shape))
    features = rng.normal(size=(len(TESTED), *shape, 2)).astype(np.float32)
    if loss == 'squared_error':
        labels = rng.normal(size=(len(TESTED), 3)).astype(np.float32)
    problem = problems.from_flax(
        np.concatenate([features, features[:3]]),
        np.concatenate([labels, labels[:3]]),
        OWNERS,
        module=nn.Dense(3),
        loss=loss,
        metrics=metrics,
        eval_data=(features, labels, TESTED),
    )
    return problem, features, labels


def models_of(problem):
    """Returns a model for each client that trains, and the first of them."""
    keys = jax.random.split(jax.random.key(0), 3)
    models = jax.vmap(problem.init_params)(keys)
    return models, jax.tree.map(lambda a: a[0], models)


@pytest.mark.slow
@pytest.mark.parametrize(
    'loss, metrics',
    [
        ('cross_entropy', None),
        ('token_cross_entropy', None),
        ('squared_error', ('rmse', 'mae')),
    ],
)
def test_every_client_is_measured_on_its_own(loss, metrics):
    """Against the problem's metrics on the examples of one client, one client at a time."""
    problem, features, labels = owned_problem(loss, metrics)
    models, first = models_of(problem)
    result = jax.jit(evaluation.by_client)(first, problem)
    personal = evaluation.personal_model_metrics(models, problem)
    expected_names = {'loss', *(metrics or ('accuracy',))}
    if loss == 'token_cross_entropy':
        expected_names.add('perplexity')
    assert result.keys() == personal.keys() == expected_names
    for name in result:
        assert result[name].shape == (5,)
        assert personal[name].shape == (3,)
        assert np.isnan(result[name][2])
        assert np.isnan(personal[name][2])
    for client in (0, 1, 3, 4):
        is_tested = client == TESTED
        batch = problems.Batch(
            jnp.asarray(features[is_tested]), jnp.asarray(labels[is_tested])
        )
        for name, value in problem.metrics(first, batch).items():
            np.testing.assert_allclose(result[name][client], value, rtol=1e-5)
        if client < 3:
            model = jax.tree.map(lambda a, client=client: a[client], models)
            for name, value in problem.metrics(model, batch).items():
                np.testing.assert_allclose(personal[name][client], value, rtol=1e-5)
    summary = evaluation.over_clients(result, problem)
    for name, values in result.items():
        worst = 10 if name == 'accuracy' else 90
        values = np.delete(values, 2).astype(np.float64)
        expected = values.mean(), np.percentile(values, worst), values.std()
        for ending, value in zip(
            ('clients', f'p{worst}', 'spread'), expected, strict=True
        ):
            np.testing.assert_allclose(summary[f'{name}_{ending}'], value, rtol=1e-5)
    measured = evaluation.train_and_eval(first, None, problem)
    np.testing.assert_array_equal(measured['eval_loss_p90'], summary['loss_p90'])


@pytest.mark.slow
def test_clients_weighed_by_examples_give_the_pooled_metric():
    problem, *_ = owned_problem()
    _, first = models_of(problem)
    accuracies = evaluation.by_client(first, problem)['accuracy']
    counts = np.bincount(TESTED)
    pooled = problem.metrics(first, problem.eval_data)['accuracy']
    np.testing.assert_allclose(
        np.nansum(accuracies * counts) / counts.sum(), pooled, rtol=1e-6
    )


def test_a_model_that_is_not_finite_for_a_client_has_no_summary():
    problem, *_ = owned_problem()
    over_clients = jax.jit(evaluation.over_clients)
    losses = jnp.array([0.5, 0.75, np.nan, 0.25, 0.5])  # the third has no examples
    finite = over_clients({'loss': losses}, problem)
    assert finite['loss_clients'] == 0.5
    not_finite = over_clients({'loss': losses.at[3].set(np.nan)}, problem)
    assert not_finite.keys() == finite.keys()
    assert np.isnan([*not_finite.values()]).all()


def test_what_has_no_owners_has_no_clients():
    problem = problems.digits(num_clients=3)
    params = problem.init_params(jax.random.key(0))
    with pytest.raises(
        ValueError, match='`problem` must have evaluation data with owners'
    ):
        evaluation.by_client(params, problem)


@pytest.mark.parametrize(
    'metric, way',
    [
        ('eval_accuracy_p10', 'max'),
        ('accuracy_clients', 'max'),
        ('eval_loss_p90', 'min'),
        ('eval_accuracy_spread', 'min'),
    ],
)
def test_summaries_are_better_the_way_their_metric_is(metric, way):
    problem, *_ = owned_problem()
    assert evaluation.direction(problem, metric) == way
