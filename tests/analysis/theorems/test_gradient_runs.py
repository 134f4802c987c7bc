"""Runs with full gradients against the papers' listings, with gradients written by hand."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import gradient_runs
from tests import refusals
from tests.refusals import refuses


class Case(NamedTuple):
    """Clients, their rates and number of local steps, and a function with their gradients."""

    clients: gradient_runs.TrainedClients
    rates: np.ndarray
    local_steps: int
    gradient: Callable[[int, np.ndarray], np.ndarray]


LOSSES = ('softmax', 'logistic', 'least_squares')


def quadratics(rng):
    """Clients of unequal curvature and rate."""
    targets = rng.normal(size=(3, 2))
    curvatures = rng.uniform(0.5, 2, size=3)
    rates = np.array([0.1, 0.05, 0.2])
    clients = gradient_runs.quadratic_clients(
        targets, rates, 4, curvatures=curvatures, initial_point=[1.0, -2.0]
    )

    def gradient(i, model):
        return curvatures[i] * (model - targets[i])

    return Case(clients, rates, 4, gradient)


def linear(rng, loss):
    """Three clients of 4, 6 and 2 examples, whose gradients follow by the chain rule."""
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

    return Case(clients, np.full(3, 0.2), 3, gradient)


def problems():
    rng = np.random.default_rng(1)
    yield 'quadratics', quadratics(rng)
    for loss in LOSSES:
        yield loss, linear(rng, loss)


PROBLEMS = dict(problems())


def descend(case, i, model):
    for _ in range(case.local_steps):
        model = model - case.rates[i] * case.gradient(i, model)
    return model


def squared_gradient_norm(case, model):
    gradients = [case.gradient(i, model) for i in range(3)]
    return np.sum(np.mean(gradients, axis=0) ** 2)


@pytest.mark.parametrize('period', [1, 3])
@pytest.mark.parametrize('name', PROBLEMS)
def test_amplified_runs_equal_the_listing(name, period):
    case = PROBLEMS[name]
    rng = np.random.default_rng(2)
    masks = rng.uniform(size=(9, 3)) < 0.5
    masks[4] = False
    result = gradient_runs.amplified_fedavg_gradient_squares(
        masks, case.clients, period=period, amplification=1.5
    )
    model = case.clients.initial_point
    total = np.zeros_like(model)
    for t in range(9):
        np.testing.assert_allclose(
            result[t], squared_gradient_norm(case, model), rtol=1e-12
        )
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
    result = gradient_runs.fedpbc_gradient_squares(masks, case.clients)
    clients = [case.clients.initial_point.copy() for _ in range(3)]
    for t in range(9):
        exact = squared_gradient_norm(case, np.mean(clients, axis=0))
        np.testing.assert_allclose(result[t], exact, rtol=1e-12)
        clients = [descend(case, i, clients[i]) for i in range(3)]
        uploads = [i for i in range(3) if masks[t, i]]
        if uploads:
            server = np.mean([clients[i] for i in uploads], axis=0)
            for i in uploads:
                clients[i] = server


def test_arguments_are_checked():
    requirement = 'have a product with `curvatures` in (0, 2)'
    with refuses(f'`learning_rate` must {requirement}, got 1.5.'):
        gradient_runs.quadratic_clients([0.0, 1.0], 1.5, 2, curvatures=[1.0, 2.0])
    with refuses('`learning_rate` must be finite, got inf.'):
        gradient_runs.quadratic_clients([0.0, 1.0], np.inf, 2)
    with refuses('`owners` must name every client from 0 to 2, got none of client 1.'):
        gradient_runs.linear_clients(np.ones((2, 1)), [0, 1], [0, 2], 0.1, 1)
    with refusals.names('owners', 'to 1000000000000', 'none of client 1'):
        gradient_runs.linear_clients(np.ones((2, 1)), [0, 1], [0, 10**12], 0.1, 1)
    with refuses('`features` must be a non-empty [E, ...], got shape (0, 1).'):
        gradient_runs.linear_clients(np.ones((0, 1)), [], [], 0.1, 1)
    with refuses('`labels` must be at least 0, got -1.'):
        gradient_runs.linear_clients(np.ones((2, 1)), [-1, 0], [0, 1], 0.1, 1)
    clients = gradient_runs.quadratic_clients([0.0, 1.0], 0.5, 2)
    with refuses('`masks` must have 2 clients, got 3.'):
        gradient_runs.fedpbc_gradient_squares(np.ones((4, 3)), clients)
