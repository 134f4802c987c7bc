"""Runs with full gradients against the papers' listings, with gradients written by hand."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import gradient_runs
from tests.analysis.refusals import refuses

LOSSES = ('softmax', 'logistic', 'least_squares')


def quadratics(rng):
    """Clients of unequal curvature and rate, and their gradients at their own models."""
    targets = rng.normal(size=(3, 2))
    curves = rng.uniform(0.5, 2, size=3)
    rates = np.array([0.1, 0.05, 0.2])
    clients = gradient_runs.quadratic_clients(
        targets, rates, 4, curvatures=curves, initial_point=[1.0, -2.0]
    )
    return clients, rates, 4, lambda i, x: curves[i] * (x - targets[i])


def linear(rng, loss):
    """Three clients of 4, 6 and 2 examples, and their gradients by the chain rule."""
    owners = np.repeat([0, 1, 2], [4, 6, 2])
    features = rng.normal(size=(12, 2))
    labels = rng.integers(3, size=12)
    columns = 3
    if loss == 'logistic':
        labels = labels % 2
        columns = 1
    if loss == 'least_squares':
        labels = rng.normal(size=(12, 2))
        columns = 2
    start = analysis.LinearModel(rng.normal(size=(2, columns)), np.ones(columns))
    classes = {'num_classes': 3} if loss == 'softmax' else {}
    clients = gradient_runs.linear_clients(
        features, labels, owners, 0.2, 3, start=start, loss=loss, l2=0.3, **classes
    )

    def gradient(i, parameters):
        table = parameters.reshape(3, columns)
        total = np.concatenate([0.3 * table[:2], np.zeros((1, columns))])
        examples = np.flatnonzero(owners == i)
        for e in examples:
            row = np.append(features[e], 1.0)
            scores = row @ table
            if loss == 'softmax':
                slope = np.exp(scores) / np.exp(scores).sum() - np.eye(3)[labels[e]]
            elif loss == 'logistic':
                slope = 1 / (1 + np.exp(-scores)) - labels[e]
            else:
                slope = 2 / columns * (scores - labels[e])
            total = total + np.outer(row, slope) / len(examples)
        return total.ravel()

    return clients, np.full(3, 0.2), 3, gradient


def problems():
    rng = np.random.default_rng(1)
    yield 'quadratics', quadratics(rng)
    for loss in LOSSES:
        yield loss, linear(rng, loss)


PROBLEMS = dict(problems())


def descend(case, i, model):
    _, rates, steps, gradient = case
    for _ in range(steps):
        model = model - rates[i] * gradient(i, model)
    return model


def square(case, model):
    return np.sum(np.mean([case[3](i, model) for i in range(3)], axis=0) ** 2)


@pytest.mark.parametrize('period', [1, 3])
@pytest.mark.parametrize('name', PROBLEMS)
def test_amplified_runs_equal_the_listing(name, period):
    case = PROBLEMS[name]
    rng = np.random.default_rng(2)
    masks = rng.uniform(size=(9, 3)) < 0.5
    masks[4] = False
    result = gradient_runs.amplified_fedavg_gradient_squares(
        masks, case[0], period=period, amplification=1.5
    )
    model = case[0].initial_point
    total = np.zeros_like(model)
    for t in range(9):
        np.testing.assert_allclose(result[t], square(case, model), rtol=1e-12)
        active = np.flatnonzero(masks[t])
        deltas = [descend(case, i, model) - model for i in active]
        update = np.mean(deltas, axis=0) if deltas else np.zeros_like(model)
        model = model + update
        total = total + update
        if (t + 1) % period == 0:
            model = model + 0.5 * total
            total = np.zeros_like(model)


@pytest.mark.parametrize('name', PROBLEMS)
def test_fedpbc_runs_equal_the_listing(name):
    case = PROBLEMS[name]
    rng = np.random.default_rng(3)
    masks = rng.uniform(size=(9, 3)) < 0.5
    result = gradient_runs.fedpbc_gradient_squares(masks, case[0])
    clients = [case[0].initial_point.copy() for _ in range(3)]
    for t in range(9):
        exact = square(case, np.mean(clients, axis=0))
        np.testing.assert_allclose(result[t], exact, rtol=1e-12)
        clients = [descend(case, i, clients[i]) for i in range(3)]
        uploads = [i for i in range(3) if masks[t, i]]
        if uploads:
            server = np.mean([clients[i] for i in uploads], axis=0)
            for i in uploads:
                clients[i] = server


def test_arguments_are_checked():
    with refuses('`learning_rate` must lie in (0, 2), got 1.5.'):
        gradient_runs.quadratic_clients([0.0, 1.0], 1.5, 2, curvatures=[1.0, 2.0])
    with refuses('`owners` must name every client, got 1.'):
        gradient_runs.linear_clients(np.ones((2, 1)), [0, 1], [0, 2], 0.1, 1)
    clients = gradient_runs.quadratic_clients([0.0, 1.0], 0.5, 2)
    with refuses('`masks` must have 2 clients, got 3.'):
        gradient_runs.fedpbc_gradient_squares(np.ones((4, 3)), clients)
