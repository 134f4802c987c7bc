"""Predicted limits and accuracies: from statements that hold, and against runs of the engine."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from matplotlib.figure import Figure

import fedjax_links as fl
from fedjax_links import (
    analysis,
    experiment,
    local_training,
    participation,
    problems,
    runs,
)
from fedjax_links.analysis.linear_models import linear_loss
from fedjax_links.preview import predicted_lines, prediction
from fedjax_links.preview.configured_links import from_experiment
from fedjax_links.problems import models
from fedjax_links.report import client_stats
from fedjax_links.report.layouts import overview
from fedjax_links.report.run_view import from_run
from tests.report import plans

CLIENTS = 12
EACH = 25
CLASSES = 3
DIM = 2


def sample(rng):
    """Draws overlapping Gaussian classes, skewed over clients: features, labels, owners."""
    mix = rng.dirichlet(np.full(CLASSES, 0.3), size=CLIENTS)
    labels = np.stack([rng.choice(CLASSES, size=EACH, p=q) for q in mix]).ravel()
    features = rng.normal(size=(CLASSES, DIM))[labels]
    features = features + rng.normal(size=features.shape)
    return features.astype(np.float32), labels, np.repeat(np.arange(CLIENTS), EACH)


MODULES = {
    'softmax': (models.Softmax(CLASSES), 'cross_entropy'),
    'dense': (nn.Dense(CLASSES), 'cross_entropy'),
    'squares': (nn.Dense(DIM), 'squared_error'),
}


@pytest.mark.parametrize('name', MODULES)
def test_what_is_stated_is_the_loss_that_clients_train(name, rng):
    features, labels, owners = sample(rng)
    module, loss = MODULES[name]
    if loss == 'squared_error':
        labels = rng.normal(size=(len(labels), DIM)).astype(np.float32)
    problem = problems.from_flax(
        features, labels, owners, module=module, loss=loss, preprocess=lambda x: 2 * x
    )
    stated = problem.objective
    params = jax.jit(problem.init_params)(jax.random.key(3))
    model = analysis.LinearModel(*map(np.asarray, stated.coefficients(params)))
    inputs, targets = map(np.asarray, stated.inputs(problem.data))
    loss = jax.jit(problem.loss_fn)(params, problem.data)
    np.testing.assert_allclose(
        linear_loss(model, inputs, targets, loss=stated.loss), loss, 1e-5
    )
    back = stated.params(*map(jnp.asarray, model))
    jax.tree.map(np.testing.assert_array_equal, back, params)


@pytest.mark.parametrize(
    'module, changes',
    [
        (models.MLP(CLASSES), {}),
        (nn.Dense(CLASSES, use_bias=False), {}),
        (models.Softmax(CLASSES), {'loss': lambda outputs, labels: jnp.mean(outputs)}),
        (models.Softmax(CLASSES), {'augment': lambda key, features: features}),
    ],
)
def test_other_problems_state_nothing(module, changes, rng):
    features, labels, owners = sample(rng)
    problem = problems.from_flax(features, labels, owners, module=module, **changes)
    assert problem.objective is None
    with pytest.raises(
        ValueError, match=r'^`problem` must state an `objective` to be predicted'
    ):
        prediction.predictions(problem, np.full(CLIENTS, 1 / CLIENTS))


def test_a_statement_that_does_not_hold_is_not_believed(rng):
    features, labels, owners = sample(rng)
    honest = problems.from_flax(
        features, labels, owners, module=models.Softmax(CLASSES)
    )
    problem = problems.from_arrays(
        features,
        labels,
        owners,
        init_params=honest.init_params,
        loss_fn=lambda params, batch: 1.1 * honest.loss_fn(params, batch),
        objective=honest.objective,
    )
    assert prediction.predictions(problem, np.full(CLIENTS, 1 / CLIENTS)) is None


def test_limits_are_metrics_where_the_weighted_gradient_vanishes(rng):
    features, labels, owners = sample(rng)
    problem = problems.from_flax(
        features, labels, owners, module=models.Softmax(CLASSES)
    )
    weights = rng.dirichlet(np.ones(CLIENTS))
    result = prediction.predictions(problem, weights)
    model = analysis.weighted_minimiser(features, labels, owners, weights).model
    params = problem.objective.params(
        *(jnp.asarray(part, jnp.float32) for part in model)
    )

    by_client = jax.tree.map(
        lambda a: a.reshape(CLIENTS, EACH, *a.shape[1:]), problem.data
    )

    def objective(params):
        losses = jax.vmap(lambda data: problem.loss_fn(params, data))(by_client)
        return jnp.dot(jnp.asarray(weights, jnp.float32), losses)

    slopes = jax.tree.leaves(jax.jit(jax.grad(objective))(params))
    assert np.max([np.abs(slope).max() for slope in slopes]) < 1e-6
    hits = np.argmax(model.scores(features), axis=1) == labels
    assert result.fedavg.limit['accuracy'] == pytest.approx(hits.mean(), abs=1e-6)
    assert not result.fedavg.reached


@pytest.mark.slow
def test_small_steps_end_where_predicted(rng):
    """FedAvg and FedPBC's client mean: their error is of the order of the step and falls with it.

    Links depend on labels, so that both limits are far apart. Full local data leave only the noise
    of the links, averaged over 3600 rounds.
    """
    features, labels, owners = sample(rng)
    problem = problems.from_flax(
        features, labels, owners, module=models.Softmax(CLASSES)
    )
    probs = 0.15 + 0.7 * np.mean((labels == 0).reshape(CLIENTS, EACH), axis=1)
    pattern = participation.bernoulli(probs.astype(np.float32))
    arguments = (features, labels, owners)
    biased = analysis.weighted_minimiser(
        *arguments, analysis.fedavg_weights(probs)
    ).model
    fair = analysis.weighted_minimiser(*arguments, np.full(CLIENTS, 1 / CLIENTS)).model
    apart = np.abs(biased.intercept - fair.intercept).max()
    assert apart > 0.2

    def end(name, model, rate):
        @jax.jit
        def run(rate):
            algorithm = fl.ALGORITHMS[name](
                local_training.local_sgd(rate, local_steps=2)
            )
            biases = fl.simulate(
                jax.random.key(0),
                algorithm,
                pattern,
                problem,
                num_rounds=4000,
                eval_every=10,
                eval_fn=lambda params, key, problem: problem.objective.coefficients(
                    params
                )[1],
            ).evals[model]
            return jnp.mean(biases[40:], axis=0)

        return np.asarray(run(rate), np.float64)

    for name, model, limit in (
        ('fedavg', 'server', biased),
        ('fedpbc', 'client_mean', fair),
    ):
        off = [
            np.abs(end(name, model, rate) - limit.intercept).max()
            for rate in (0.4, 0.1)
        ]
        assert off[1] < 0.1 * apart, (name, off, apart)
        assert off[1] < max(0.6 * off[0], 0.02 * apart), (name, off, apart)


DIGITS = {'name': 'digits', 'num_clients': 12, 'alpha': 0.2, 'seed': 3}
CLIENT = {'learning_rate': 0.1, 'local_steps': 5, 'batch_size': 16}


def test_separable_digits_are_predicted_to_the_last_round():
    config = {'links': plans.KNOWN['bernoulli'], 'problem': DIGITS, 'client': CLIENT}
    config['num_rounds'] = 200
    lines = plans.summary_lines(config)
    assert lines[2].startswith('         FedAvg is expected to end at ')
    assert lines[3].strip() == 'after 200 rounds of small steps'
    assert (
        lines[4].strip()
        == 'no limit in the long run: a linear model separates some labels'
    )
    plan = plans.plan(**config)
    assert plan.flow_time == pytest.approx(100)
    config['client'] = {**CLIENT, 'chunk_size': (2, 5)}  # changes no prediction
    assert plans.plan(**config).flow_time == pytest.approx(100)
    tuning = {'server_lrs': [1.0], 'num_rounds': 200}
    assert plans.plan(**config, tuning=tuning).flow_time is None


@pytest.mark.slow
@pytest.mark.parametrize(
    'rate, num_rounds, time',
    [
        (1e8, 20, '1e+10'),
        (0.5, 1_000_000, '2.5e+06'),
        (1e-9, 10**9, None),  # too many rounds to add up their rates
    ],
)
def test_what_would_take_too_long_to_predict_is_not(rate, num_rounds, time):
    """The limit in the long run does not depend on the time."""
    client = {**CLIENT, 'learning_rate': rate}
    config = {'problem': DIGITS, 'links': plans.KNOWN['bernoulli'], 'client': client}
    lines = plans.summary_lines({**config, 'num_rounds': num_rounds})
    expected = ['no limit in the long run: a linear model separates some labels']
    if time is not None:
        work = f'rate x steps x rounds = {time}'
        expected = [f'no end predicted: {work} takes too long', *expected]
    assert [line.strip() for line in lines[2:]] == expected


@pytest.mark.parametrize(
    'changes',
    [
        {'algorithms': {'fedavg': {'weights': 'examples'}}},
        {
            'algorithms': {
                'fedavg': {},
                'mine': {'name': 'fedavg', 'weights': 'examples'},
            }
        },
        {'client': {'learning_rate': 0.1, 'local_epochs': 1, 'batch_size': 16}},
        {'client': {**CLIENT, 'client_steps': [1, 2, 3, 4] * 3}},
        {'grid': {'client': {'client_steps': [[1, 2, 3] * 4, [3, 2, 1] * 4]}}},
    ],
)
def test_nothing_is_predicted_of_clients_that_count_unequally(changes):
    """A prediction is for the mean of the clients' losses and equally many steps."""
    unequal = {**DIGITS, 'partition': 'dirichlet_unequal'}
    config = {
        'links': plans.KNOWN['bernoulli'],
        'problem': unequal,
        'client': CLIENT,
        **changes,
    }
    (line,) = plans.summary_lines({**config, 'num_rounds': 20})[2:]
    assert line.strip() == (
        'no end predicted: clients weigh or step unequally, by more than their links'
    )


def test_clients_of_equal_size_are_predicted_under_any_weights():
    algorithms = {'fedavg': {'weights': 'examples'}}
    halves = {**DIGITS, 'num_clients': 2}  # of 1,438 images
    config = {'links': plans.KNOWN['bernoulli'], 'problem': halves, 'client': CLIENT}
    lines = plans.summary_lines({**config, 'algorithms': algorithms, 'num_rounds': 20})
    assert not any('unequally' in line for line in lines)


def test_decaying_rates_are_added_up():
    client = {**CLIENT, 'decay': 'inverse_sqrt'}
    rates = 0.1 / np.sqrt(np.arange(300) / 10 + 1)
    plan = plans.plan(plans.KNOWN['bernoulli'], DIGITS, client=client, num_rounds=300)
    assert plan.flow_time == pytest.approx(5 * rates.sum(), rel=1e-5)


def test_large_problems_are_left_alone():
    plan = plans.plan(plans.KNOWN['bernoulli'], DIGITS)
    assert prediction.hessian_work(plan.problem) == 1438 * 650**2
    (line,) = predicted_lines.describe(plan, prediction.Budget(hessian=1e6, flow=1e6))
    assert line == 'no accuracy predicted: examples x parameters^2 above 1e+06'
    assert predicted_lines.describe(plans.plan(plans.KNOWN['bernoulli'])) == []
    # Whatever the size, nothing is predicted for clients that are never active.
    never = plans.plan({'name': 'bernoulli', 'probs': 0.0}, DIGITS)
    assert predicted_lines.describe(never, prediction.QUICK._replace(hessian=1)) == []


def test_a_flow_is_followed_where_no_hessian_is_affordable():
    """Gradients of many examples are cheap beside their Hessian."""
    plan = plans.plan(
        plans.KNOWN['bernoulli'], DIGITS, client={**CLIENT, 'local_steps': 1}
    )
    both = predicted_lines.describe(plan)
    without = prediction.Budget(hessian=1e6, flow=prediction.QUICK.flow)
    lines = predicted_lines.describe(plan, without)
    assert lines[:2] == both[:2]
    assert 'small steps' in lines[1]
    assert lines[2:] == [
        'no limit in the long run: examples x parameters^2 above 1e+06'
    ]


def test_links_without_known_weights_are_simulated():
    plan = plans.plan(plans.UNKNOWN['cyclic'], DIGITS, client=CLIENT, num_rounds=50)
    text = predicted_lines.describe(plan)
    assert text[0].endswith(' %')
    assert text[1].endswith(' rounds of small steps, simulated links')


def own_data_alone():
    """A problem without evaluation data, for a config."""
    features, labels, owners = sample(np.random.default_rng(0))
    return problems.from_flax(features, labels, owners, module=nn.Dense(CLASSES))


@pytest.mark.slow
@pytest.mark.parametrize(
    'problem, predicted',
    [
        (
            {'name': 'digits', 'num_clients': 8, 'model': 'softmax', 'alpha': 0.5},
            ('accuracy', None),  # on held-out data, not on the clients'
        ),
        (
            {'name': 'tests.preview.test_prediction:own_data_alone'},
            ('accuracy', 'loss'),
        ),
    ],
)
def test_predictions_are_saved_with_a_run_and_drawn(
    problem, predicted, tmp_path, monkeypatch
):
    """The line of each algorithm shows what is predicted before the run, once."""
    predictions = []
    predict = prediction.predictions

    def predict_and_record(*args, **kwargs):
        predictions.append(predict(*args, **kwargs))
        return predictions[-1]

    monkeypatch.setattr(prediction, 'predictions', predict_and_record)
    config = {
        'title': 'expected',
        'problem': problem,
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4},
        'algorithms': {'fedavg': {}, 'mifa': {}},
        'num_rounds': 4,
        'eval_every': 2,
    }
    planned = experiment.build(config)
    run = planned.run(tmp_path)
    client_stats.save(planned, run)
    result = prediction.for_links(from_experiment(planned))
    assert predictions == [result]
    saved = from_run(runs.read(tmp_path))
    expected = saved.clients['links'].expected
    assert expected == {'fedavg': result.fedavg.reached}
    figure = Figure()
    overview(saved).draw(figure)
    for axes, metric in zip(figure.axes, predicted, strict=False):
        lines = [
            x.get_ydata() for x in axes.lines if x.get_label() == 'fedavg, predicted'
        ]
        assert [set(line) for line in lines] == (
            [{expected['fedavg'][metric]}] if metric else []
        )


def test_an_equal_config_of_a_changed_module_is_predicted_again(monkeypatch):
    module = types.ModuleType('module_of_ones_own')
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = {
        'title': 'Mine',
        'problem': {'name': f'{module.__name__}:make'},
        'links': {'name': 'always'},
        'client': {'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 0},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'num_rounds': 40,
        'eval_every': 20,
    }
    results = []
    for accuracy in (0.6, 0.9):
        module.make = lambda accuracy=accuracy: problems.gaussians(
            num_clients=4,
            examples_per_client=50,
            num_classes=3,
            bayes_accuracy=accuracy,
            alpha=10.0,
        )
        planned = experiment.build(config)
        (label,) = planned.patterns
        results.append((planned, prediction.for_links(from_experiment(planned, label))))
    (first, low), (second, high) = results
    assert first == second
    assert high.fedpbc.limit['accuracy'] - low.fedpbc.limit['accuracy'] > 0.2
