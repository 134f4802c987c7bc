"""Losses and metrics by name, against NumPy and scikit-learn in float64."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics
from flax import linen as nn

from fedjax_links import problems
from fedjax_links.problems import losses
from tests.problems.drawn_params import draw_params
from tests.problems.regressions import regression

REGRESSION = ('mse', 'rmse', 'mae', 'r2')


class Tokens(nn.Module):
    """Scores of the next token from the last one alone."""

    @nn.compact
    def __call__(self, tokens):  # noqa: D102
        return nn.Embed(5, 5)(tokens)


def measured(problem, params, data):
    """Metrics from a compiled program, in their own order, which `jit` does not keep."""
    names = []

    @jax.jit
    def values(params, data):
        result = problem.metrics(params, data)
        names[:] = result
        return list(result.values())

    result = values(params, data)
    return dict(zip(names, result, strict=True))


def outputs_of(params, features):
    return features @ np.asarray(params['kernel'], float) + np.asarray(
        params['bias'], float
    )


@pytest.mark.parametrize('num_examples', [20, 2_500])
def test_metrics_of_regression_are_those_of_all_examples(num_examples):
    problem, features, labels = regression(
        num_examples, loss='squared_error', metrics=REGRESSION
    )
    params = draw_params(problem.init_params)
    result = measured(problem, params, problem.eval_data)
    outputs = outputs_of(params, features)
    assert problem.larger_is_better == ('r2',)
    assert list(result) == ['loss', *REGRESSION]
    mse = np.mean((outputs - labels) ** 2)
    r2 = sklearn.metrics.r2_score(labels, outputs, multioutput='variance_weighted')
    expected = [mse, mse, np.sqrt(mse), np.abs(outputs - labels).mean(), r2]
    np.testing.assert_allclose(list(result.values()), expected, rtol=2e-5)


def from_module(labels, *, outputs, loss, metrics, eval_data=None):
    return problems.from_flax(
        INPUTS,
        labels,
        np.arange(4) % 2,
        module=nn.Dense(outputs),
        loss=loss,
        metrics=metrics,
        eval_data=eval_data,
    )


def from_function(labels, *, outputs, loss, metrics, eval_data=None):
    """A linear model whose outputs are [B, 1], or [B] for none."""

    def predict(params, features):
        result = features @ params['kernel'] + params['bias'][None]
        return result if outputs else result[:, 0]

    return problems.from_arrays(
        INPUTS,
        labels,
        np.arange(4) % 2,
        init_params=lambda key: {'kernel': jnp.zeros((2, 1)), 'bias': jnp.zeros(1)},
        predict=predict,
        loss_fn=loss,
        metrics=metrics,
        eval_data=eval_data,
    )


INPUTS = np.float32([[0, 1], [1, 3], [2, 0], [4, 1]])
EXACT = {'kernel': np.float32([[2], [-1]]), 'bias': np.float32([3])}
EXACT_OUTPUTS = np.float32([2, 2, 7, 10])


@pytest.fixture
def rank_promotion():
    """Lets shapes of different ranks broadcast, as users' JAX does and the suite does not."""
    with jax.numpy_rank_promotion('allow'):
        yield


@pytest.mark.parametrize(
    'loss, make, outputs, shape',
    [
        ('squared_error', from_module, 1, (-1,)),
        ('absolute_error', from_function, 1, (-1,)),
        ('huber', from_function, 0, (-1, 1)),
    ],
)
@pytest.mark.usefixtures('rank_promotion')
def test_a_vector_of_labels_and_a_column_of_outputs_go_together(
    loss, make, outputs, shape
):
    labels = EXACT_OUTPUTS.reshape(shape)
    held_out = INPUTS[1:], labels[1:] + 1
    problem = make(
        labels, outputs=outputs, loss=loss, metrics=REGRESSION, eval_data=held_out
    )
    loss_of = jax.jit(problem.loss_fn)
    assert loss_of(EXACT, problem.data) == 0
    assert loss_of(EXACT, problems.Batch(INPUTS, labels)) == 0  # as given by hand
    result = measured(problem, EXACT, problem.data)
    np.testing.assert_array_equal(list(result.values()), [0, 0, 0, 0, 1])
    result = measured(problem, EXACT, problem.eval_data)  # off by one
    expected = [
        0.5 if loss == 'huber' else 1,
        1,
        1,
        1,
        1 - 3 / np.sum((labels[1:] - 19 / 3) ** 2),
    ]
    np.testing.assert_allclose(list(result.values()), expected, rtol=1e-6)
    slope = jax.jit(jax.grad(problem.loss_fn))(EXACT, problem.eval_data)['bias']
    np.testing.assert_allclose(
        slope, {'squared_error': [-2]}.get(loss, [-1]), rtol=1e-6
    )


@pytest.mark.usefixtures('rank_promotion')
def test_a_column_of_classes_is_a_vector_of_them():
    classes = np.array([1, 0, 1, 1])
    column = from_module(
        classes[:, None], outputs=2, loss='cross_entropy', metrics=None
    )
    vector = from_module(classes, outputs=2, loss='cross_entropy', metrics=None)
    np.testing.assert_array_equal(column.data.labels, vector.data.labels)
    params = draw_params(vector.init_params)
    by_hand = problems.Batch(vector.data.features, vector.data.labels[:, None])
    expected = measured(vector, params, vector.eval_data)
    for problem, data in ((column, column.eval_data), (vector, by_hand)):
        result = measured(problem, params, data)
        assert {name: float(value) for name, value in result.items()} == expected


def pairing(outputs, labels):
    return jnp.mean(jnp.square(outputs - labels))


def one_by_one(outputs, labels):
    return jnp.mean(jnp.square(outputs[:, 0] - labels))


def over_pairs(outputs, labels):
    """A loss over all pairs of examples on purpose, which is no mean over examples."""
    scores = outputs[:, 0]
    off = (scores[:, None] - scores[None]) - (labels[:, None] - labels[None])
    return (
        jnp.mean(jnp.square(off))
        + jnp.mean(jnp.abs(scores - labels) * labels) / labels.mean()
    )


@pytest.mark.usefixtures('rank_promotion')
def test_a_user_loss_may_read_a_column_but_not_all_pairs():
    for loss in (one_by_one, over_pairs):
        problem = from_module(EXACT_OUTPUTS, outputs=1, loss=loss, metrics=None)
        assert jax.jit(problem.loss_fn)(EXACT, problem.data) == 0
    from_module(EXACT_OUTPUTS[:, None], outputs=1, loss=pairing, metrics=None)
    message = (
        r'^`labels` must have shape \[E, 1\], that of the outputs, for this loss, '
        r'got \[E\]\.$'
    )
    with pytest.raises(ValueError, match=message):
        from_module(EXACT_OUTPUTS, outputs=1, loss=pairing, metrics=None)


@pytest.mark.parametrize(
    'labels, options, message',
    [
        (
            np.arange(4),
            {'outputs': 3},
            '`labels` must have shape [E, 3], that of the outputs, got [E].',
        ),
        (
            np.zeros((4, 3)),
            {'outputs': 1, 'eval_data': (INPUTS, np.zeros(4))},
            '`labels` must have shape [E, 1], that of the outputs, got [E, 3].',
        ),
        (
            np.zeros((4, 3)),
            {'outputs': 3, 'eval_data': (INPUTS, np.zeros(4))},
            '`eval_data` must have shape [E, 3], that of the outputs, got [E].',
        ),
        (
            np.eye(4, 3, dtype=int),
            {'outputs': 3, 'loss': 'cross_entropy'},
            '`labels` must have shape [E], one class for logits [E, 3], got [E, 3].',
        ),
        (
            np.array(['ann', 'bob', 'ann', 'eve']),
            {'outputs': 3, 'loss': 'cross_entropy'},
            '`labels` must hold numbers, as np.unique(..., return_inverse=True)[1] makes of names, '
            'got <U3.',
        ),
        (
            5,
            {'outputs': 1},
            '`labels` must have one row per entry of `clients` (4), got 5.',
        ),
        (
            np.zeros(4),
            {'outputs': 1, 'eval_data': (INPUTS, np.zeros(3))},
            '`eval_data` must have one row per label (3), got 4.',
        ),
        (
            np.zeros(4),
            {'outputs': 1, 'eval_data': (INPUTS, np.array(list('abcd')))},
            '`eval_data` must hold numbers, as np.unique',
        ),
    ],
)
@pytest.mark.usefixtures('rank_promotion')
def test_labels_that_do_not_go_with_outputs_are_refused(labels, options, message):
    with pytest.raises(ValueError, match=f'^{re.escape(message)}'):
        from_module(labels, **{'loss': 'squared_error', 'metrics': None, **options})


def test_a_vocabulary_that_is_too_small_is_refused():
    tokens = np.array([[0, 3], [4, 1]])
    labels = np.array([[3, -1], [4, 0]])

    def problem(tokens, labels, **options):
        options = {'module': Tokens(), 'loss': 'token_cross_entropy', **options}
        return problems.from_flax(tokens, labels, [0, 1], **options)

    result = problem(tokens, labels)
    assert np.isfinite(
        jax.jit(result.loss_fn)(draw_params(result.init_params), result.data)
    )
    for arguments, message in (
        (
            (tokens, labels + 1),
            r'`labels` must lie in \[-inf, 5\), .* got 5 at example 1\.',
        ),
        (
            (tokens + 1, labels),
            '`features` must lie below 5, the ids that the module embeds, got 5',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            problem(*arguments)
    with pytest.raises(ValueError, match='`eval_data` must lie below 5, the ids'):
        problem(tokens, labels, eval_data=(tokens + 1, labels))
    problem(tokens + 1, labels, preprocess=lambda ids: ids % 5)  # not what it embeds


def test_losses_of_regression_by_hand():
    @jax.jit
    def values(outputs, labels):
        of_regression = losses.absolute_error, losses.squared_error, losses.huber
        return [loss(outputs, labels) for loss in of_regression]

    @jax.jit
    def metrics(outputs, labels):
        of_huber = losses.LOSSES['huber'].metrics
        return [
            metric.finish(metric.means(outputs, labels), labels)
            for metric in (of_huber['r2'], of_huber['mae'])
        ]

    outputs = np.float32([1.0, 4.0, -2.0])
    labels = np.float32([1.5, 1.0, -2.0])
    by_hand = [3.5 / 3, 9.25 / 3, (0.125 + 2.5) / 3]
    np.testing.assert_allclose(values(outputs, labels), by_hand, rtol=1e-6)
    assert metrics(labels, labels) == [1, 0]
    same = np.ones(3, np.float32)  # labels that do not vary
    assert metrics(outputs, same)[0] == 0


@pytest.mark.parametrize('num_examples', [7, 1_500])
def test_tokens_are_counted_where_their_labels_are(num_examples, rng):
    tokens = rng.integers(0, 5, (num_examples, 6))
    is_padding = rng.random(tokens.shape) < 0.3
    labels = np.where(is_padding, -1, rng.integers(0, 5, tokens.shape))
    labels[2] = -1  # nothing of this sequence counts
    clients = np.arange(num_examples) % 3
    problem = problems.from_flax(
        tokens, labels, clients, module=Tokens(), loss='token_cross_entropy'
    )
    params = draw_params(problem.init_params)
    result = measured(problem, params, problem.eval_data)
    tokens = np.asarray(problem.data.features)
    labels = np.asarray(problem.data.labels)
    scores = np.asarray(params['Embed_0']['embedding'], float)[tokens]
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    sequence_losses = []
    total = 0.0
    correct = 0
    count = 0
    for row, sequence in zip(logs, labels, strict=True):
        token_losses = []
        for scores_of_token, label in zip(row, sequence, strict=True):
            if label >= 0:
                token_losses.append(-scores_of_token[label])
                correct += int(np.argmax(scores_of_token) == label)
        sequence_losses.append(np.mean(token_losses) if token_losses else 0.0)
        total += sum(token_losses)
        count += len(token_losses)
    assert problem.larger_is_better == ('accuracy',)
    assert result['loss'] == pytest.approx(np.mean(sequence_losses), rel=1e-5)
    assert result['perplexity'] == pytest.approx(np.exp(total / count), rel=1e-5)
    assert result['accuracy'] == pytest.approx(correct / count, rel=1e-6)


def test_masked_tokens_and_empty_sequences_have_no_gradient():
    labels = jnp.array([[-1, -1], [0, -1]])
    slope = jax.jit(jax.grad(losses.token_cross_entropy))(jnp.zeros((2, 2, 3)), labels)
    np.testing.assert_allclose(slope[0], 0)
    np.testing.assert_allclose(slope[1, 1], 0)
    np.testing.assert_allclose(slope[1, 0], [-1 / 3, 1 / 6, 1 / 6], rtol=1e-6)


def test_arrays_take_a_loss_by_name_too():
    flax, features, labels = regression(40, loss='squared_error', metrics=('mae', 'r2'))
    plain = problems.from_arrays(
        features.astype(np.float32),
        labels.astype(np.float32),
        np.repeat(np.arange(4), 10),
        init_params=flax.init_params,
        predict=lambda params, x: x @ params['kernel'] + params['bias'][None],
        loss_fn='squared_error',
        metrics=('mae', 'r2'),
    )
    params = draw_params(flax.init_params)
    assert plain.larger_is_better == ('r2',)
    result = measured(plain, params, plain.eval_data)
    other = measured(flax, params, flax.eval_data)
    np.testing.assert_allclose(list(result.values()), list(other.values()), rtol=1e-5)
    loss = jax.jit(plain.loss_fn)(params, plain.data)
    assert loss == pytest.approx(float(other['loss']), rel=1e-6)
