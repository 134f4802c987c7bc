"""Linear models: minimisers against losses written out example by example, and flows."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis import linear_models
from tests.refusals import refuses

CLIENTS = 6
EACH = 30
CLASSES = 4
DIM = 3


@pytest.fixture
def data(rng):
    """Overlapping classes: features, labels, owners and weights."""
    labels = rng.integers(CLASSES, size=CLIENTS * EACH)
    features = rng.normal(size=(CLASSES, DIM))[labels] + rng.normal(
        size=(len(labels), DIM)
    )
    owners = rng.permutation(np.repeat(np.arange(CLIENTS), EACH))
    return features, labels, owners, rng.dirichlet(np.ones(CLIENTS))


def by_client(weights, owners, losses):
    """``sum_i w_i mean of client i's losses``, client by client."""
    return sum(w * np.mean(losses[owners == i]) for i, w in enumerate(weights) if w)


def softmax_losses(features, labels, coefficients, intercept):
    scores = features @ coefficients + intercept
    return np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]


def numerical_gradient(function, point, step=1e-5):
    steps = step * np.eye(point.size)
    return np.array(
        [(function(point + h) - function(point - h)) / (2 * step) for h in steps]
    )


@pytest.mark.parametrize('l2', [0.0, 0.03])
def test_softmax_is_stationary_by_differences(data, l2):
    features, labels, owners, weights = data
    result = analysis.weighted_minimiser(features, labels, owners, weights, l2=l2)

    def objective(flat):
        table = flat.reshape(DIM + 1, CLASSES)
        losses = softmax_losses(features, labels, table[:-1], table[-1])
        return by_client(weights, owners, losses) + l2 / 2 * np.sum(table[:-1] ** 2)

    flat = np.concatenate(
        [result.model.coefficients, result.model.intercept[None]]
    ).ravel()
    assert np.abs(numerical_gradient(objective, flat)).max() < 1e-9
    assert result.gradient_norm < 1e-8
    assert result.loss == pytest.approx(objective(flat), rel=1e-12)
    np.testing.assert_allclose(result.model.coefficients.sum(axis=1), 0, atol=1e-7)


def test_logistic_is_softmax_of_two_classes(data):
    features, labels, owners, weights = data
    labels = labels % 2
    one = analysis.weighted_minimiser(
        features, labels, owners, weights, loss='logistic'
    ).model
    two = analysis.weighted_minimiser(features, labels, owners, weights).model
    scores = two.scores(features)
    np.testing.assert_allclose(
        one.scores(features)[:, 0], scores[:, 1] - scores[:, 0], rtol=1e-6, atol=1e-7
    )


def test_least_squares_are_the_normal_equations(data, rng):
    features, _, owners, weights = data
    targets = rng.normal(size=(len(owners), 2))
    result = analysis.weighted_minimiser(
        features, targets, owners, weights, loss='least_squares'
    )
    scale = np.sqrt(weights[owners] / EACH)[:, None]
    design = np.c_[features, np.ones(len(features))]
    expected = np.linalg.lstsq(scale * design, scale * targets, rcond=None)[0]
    np.testing.assert_allclose(result.model.coefficients, expected[:-1], atol=1e-10)
    np.testing.assert_allclose(result.model.intercept, expected[-1], atol=1e-10)


def test_repeated_or_constant_features_change_no_score(data):
    features, labels, owners, weights = data
    constants = np.tile([3.0, 0.0], (len(features), 1))
    more = np.concatenate([features, constants, features[:, :1]], axis=1)
    one = analysis.weighted_minimiser(features, labels, owners, weights)
    two = analysis.weighted_minimiser(more, labels, owners, weights)
    np.testing.assert_allclose(
        two.model.scores(more), one.model.scores(features), atol=1e-6
    )
    assert two.loss == pytest.approx(one.loss, rel=1e-12)


def test_clients_without_weight_do_not_count(data):
    features, labels, owners, weights = data
    weights[2] = 0
    selected = owners != 2
    one = analysis.weighted_minimiser(features, labels, owners, weights)
    two = analysis.weighted_minimiser(
        features[selected], labels[selected], owners[selected], weights
    )
    np.testing.assert_array_equal(one.model.coefficients, two.model.coefficients)


LINE = np.arange(8.0)[:, None]
OWNERS = np.zeros(8, int)
MESSAGE = (
    '`labels` must overlap or `l2` be positive for a minimiser to exist, got {} separated by a '
    'linear model.'
)


@pytest.mark.parametrize(
    'labels, separable',
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], 'all labels are'),
        ([0, 1, 0, 1, 0, 1, 2, 2], 'some labels are'),
    ],
)
def test_separable_labels_have_no_minimiser(labels, separable):
    labels = np.array(labels)
    with refuses(MESSAGE.format(separable)):
        analysis.weighted_minimiser(LINE, labels, OWNERS, [1.0])
    penalised = analysis.weighted_minimiser(LINE, labels, OWNERS, [1.0], l2=0.1)
    assert penalised.gradient_norm < 1e-8


@pytest.mark.parametrize('l2', [0.0, 0.1])
def test_a_class_without_an_example_has_no_minimiser(l2):
    labels = np.array([0, 1, 1, 0, 0, 1, 0, 1])
    with refuses(MESSAGE.format('some labels are')):
        analysis.weighted_minimiser(LINE, labels, OWNERS, [1.0], num_classes=3, l2=l2)


def test_labels_that_overlap_in_one_example_have_a_minimiser():
    labels = np.array([0, 0, 1, 0, 1, 1, 1, 1])
    result = analysis.weighted_minimiser(LINE, labels, OWNERS, [1.0])
    losses = softmax_losses(LINE, labels, *result.model)
    assert result.loss == pytest.approx(losses.mean(), rel=1e-12)
    flat = np.concatenate([result.model.coefficients[0], result.model.intercept])
    slope = numerical_gradient(
        lambda v: softmax_losses(LINE, labels, v[None, :2], v[2:]).mean(), flat
    )
    assert np.abs(slope).max() < 1e-8


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'loss': 'hinge'},
            "`loss` must be one of 'softmax', 'logistic', 'least_squares', got 'hinge'.",
        ),
        (
            {'labels': np.full(len(LINE), np.nan), 'loss': 'least_squares'},
            '`labels` must be finite, got nan.',
        ),
        (
            {'features': np.full((len(LINE), 1), np.inf)},
            '`features` must be finite, got inf.',
        ),
        ({'l2': -1.0}, '`l2` must be finite and at least 0, got -1.0.'),
        ({'weights': [-1.0]}, '`weights` must be at least 0, got -1.0 at client 0.'),
        ({'weights': [0.0]}, '`weights` must hold a positive weight, got only zeros.'),
        ({'clients': OWNERS + 1}, '`clients` must hold ids from 0 to 0, got 1.'),
        ({'labels': OWNERS - 1}, '`labels` must be at least 0, got -1.'),
        (
            {'labels': OWNERS + 2, 'num_classes': 2},
            '`labels` must lie in 0 to 1, got 2.',
        ),
        (
            {'weights': [1.0, 1.0]},
            '`clients` must give every client with a weight an example, got none for client 1.',
        ),
    ],
)
def test_refusals(changes, message):
    options = {
        'features': LINE,
        'labels': OWNERS,
        'clients': OWNERS,
        'weights': [1.0],
        **changes,
    }
    with refuses(message):
        analysis.weighted_minimiser(**options)


def test_the_flow_is_that_of_small_explicit_steps(data):
    features, labels, owners, weights = data
    start = analysis.LinearModel(np.full((DIM, CLASSES), 0.1), np.arange(4.0))
    result = analysis.weighted_gradient_flow(
        features, labels, owners, weights, time=3.0, start=start, num_steps=160
    )
    design = np.c_[features, np.ones(len(features))]
    shares = weights[owners] / EACH
    point = np.concatenate([start.coefficients, start.intercept[None]])

    def slope(at):
        chances = np.exp(design @ at)
        chances /= chances.sum(axis=1, keepdims=True)
        return design.T @ (shares[:, None] * (np.eye(CLASSES)[labels] - chances))

    for _ in range(3000):
        point = point + 1e-3 * slope(point + 5e-4 * slope(point))
    np.testing.assert_allclose(result.coefficients, point[:-1], atol=3e-5)
    np.testing.assert_allclose(result.intercept, point[-1], atol=3e-5)


def test_the_flow_ends_at_the_minimiser(data):
    features, labels, owners, weights = data
    result = analysis.weighted_gradient_flow(
        features, labels, owners, weights, time=1e5
    )
    limit = analysis.weighted_minimiser(features, labels, owners, weights).model
    np.testing.assert_allclose(result.coefficients, limit.coefficients, atol=1e-6)


def test_a_least_squares_flow_is_an_exponential(data, rng):
    features, _, owners, weights = data
    targets = rng.normal(size=len(owners))
    result = analysis.weighted_gradient_flow(
        features,
        targets,
        owners,
        weights,
        time=0.7,
        loss='least_squares',
        num_steps=400,
    )
    design = np.c_[features, np.ones(len(features))]
    shares = 2 * weights[owners] / EACH
    gram = design.T @ (shares[:, None] * design)
    pull = design.T @ (shares * targets)
    rates, basis = np.linalg.eigh(gram)
    expected = basis @ (-np.expm1(-0.7 * rates) / rates * (basis.T @ pull))
    np.testing.assert_allclose(result.coefficients[:, 0], expected[:-1], atol=2e-6)


def test_no_time_is_the_start(data):
    features, labels, owners, weights = data
    result = analysis.weighted_gradient_flow(
        features, labels, owners, weights, time=0.0
    )
    assert not np.any(result.coefficients)
    with refuses('`time` must be finite and at least 0, got -1.0.'):
        analysis.weighted_gradient_flow(features, labels, owners, weights, time=-1.0)


def test_a_flow_takes_no_more_gradients_than_it_may(data, monkeypatch):
    features, labels, owners, weights = data
    computed = []
    plain = linear_models.WeightedLoss.value_and_gradient

    def counted(objective, parameters):
        computed.append(parameters)
        return plain(objective, parameters)

    monkeypatch.setattr(linear_models.WeightedLoss, 'value_and_gradient', counted)

    def follow(most):
        inputs = features, labels, owners, weights
        return analysis.weighted_gradient_flow(*inputs, time=50.0, max_gradients=most)

    free = follow(None)
    needed = len(computed)
    np.testing.assert_array_equal(follow(needed).coefficients, free.coefficients)
    computed.clear()
    limit = f'take at most {needed - 1} gradients'
    with refuses(f'`time` must {limit}, got 50, which takes {needed}.'):
        follow(needed - 1)
    with refuses('`max_gradients` must be at least 0, got -1.'):
        follow(-1)
    with refuses('`max_gradients` must be at least 0, got nan.'):
        follow(np.nan)
    assert not computed


def test_gaussian_classes_need_no_minimisation(rng):
    """At the population's minimiser the loss of a Gauss-Hermite rule is stationary."""
    means = rng.normal(size=(3, 2))
    proportions = rng.dirichlet(np.ones(3), size=5)
    weights = rng.dirichlet(np.ones(5))
    exact = analysis.gaussian_minimiser(means, proportions, weights)
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    masses /= masses.sum()
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    mass = np.outer(masses, masses).ravel()

    def objective(flat):
        table = flat.reshape(3, 3)
        class_losses = []
        for c, mean in enumerate(means):
            labels = np.full(len(grid), c)
            losses = softmax_losses(grid + mean, labels, table[:2], table[2])
            class_losses.append(mass @ losses)
        return weights @ proportions @ class_losses

    flat = np.concatenate([exact.coefficients, exact.intercept[None]]).ravel()
    assert np.abs(numerical_gradient(objective, flat)).max() < 1e-8


def test_a_class_without_share_has_no_minimiser():
    with refuses('`proportions` must give every class a share, got 0 for class 1.'):
        analysis.gaussian_minimiser(
            [[0.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]
        )


def test_fits_refuse_weights_out_of_range():
    with refuses('`weights` must hold a positive weight, got only zeros.'):
        analysis.best_linear_fit(
            [[0.0], [1.0]], [[1.0], [0.0]], sigma=1.0, weights=[0.0, 0.0]
        )
    with refuses('`weights` must have one entry per client (2), got 3.'):
        analysis.best_linear_fit(
            [[0.0], [1.0]], [[1.0], [0.0]], sigma=1.0, weights=[1.0] * 3
        )
    with refuses('`weights` must be at least 0, got -1.0 at client 1.'):
        analysis.gaussian_minimiser([[0.0], [1.0]], np.full((2, 2), 0.5), [1.0, -1.0])
