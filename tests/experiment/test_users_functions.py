"""A function of the user that does not fit costs one line that names it."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from tests import refusals
from tests.experiment.configs import values

MINE = 'tests.experiment.users_functions'
CLIENT = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4}


def algorithm(name):
    return {'algorithms': {'mine': {'name': f'{MINE}:{name}'}}}


def links(name):
    return {'links': {'name': f'{MINE}:{name}'}}


def schedule(name):
    probs = {'probs': 0.5, 'schedule': f'{MINE}:{name}'}
    return {'links': {'name': 'bernoulli', **probs}}


def client(**options):
    return {
        'client': CLIENT | {part: f'{MINE}:{name}' for part, name in options.items()}
    }


def problem(name, **options):
    return {'problem': {'name': f'{MINE}:{name}', **options}}


def digits(name):
    return {
        'problem': {'name': 'digits', 'num_clients': 8, 'partition': f'{MINE}:{name}'}
    }


@pytest.mark.parametrize(
    'changes, field, parts',
    [
        (
            algorithm('init_of_params'),
            'algorithms.mine.init',
            ['must take (params, problem), got a function of (params).'],
        ),
        (
            algorithm('step_without_problem'),
            'algorithms.mine.round_step',
            [
                'must take (state, context, problem), got a function of (state, context).'
            ],
        ),
        (
            algorithm('models_of_two'),
            'algorithms.mine.models',
            ['must take (state), got a function of (state, problem).'],
        ),
        (
            algorithm('vector_of_losses'),
            'algorithms.mine',
            ['a number as `RoundMetrics.loss_sum`, got float32[2].'],
        ),
        (
            links('sample_without_carry'),
            'patterns.links.sample',
            ['must take (carry, key, round), got a function of (key, round).'],
        ),
        (
            links('init_without_key'),
            'patterns.links.init',
            ['must take (key), got a function of ().'],
        ),
        (
            links('mask_of_integers'),
            'patterns.links',
            ['must draw `mask` as bool[8], got int32[8].'],
        ),
        (
            schedule('schedule_of_round'),
            'links.schedule',
            ['must take (key, round), got a function of (round).'],
        ),
        (
            client(decay='decay_of_two'),
            'algorithms.fedavg.client.learning_rate',
            ['must take (round), got a function of (key, round).'],
        ),
        (
            client(decay='rate_of_round'),
            'algorithms.fedavg.client.decay',
            ['must name what returns a function, got rate_of_round, 0.0909'],
        ),
        (
            problem('loss_of_params'),
            'problem.loss_fn',
            ['must take (params, batch), got a function of (params).'],
        ),
        (
            problem('loss_by_example'),
            'problem.loss_fn',
            ['must return one number, the mean loss, got float32[8].'],
        ),
        (
            problem('random_loss_without_key'),
            'problem.random_loss_fn',
            ['must take (params, batch, key), got a function of (params, batch).'],
        ),
        (
            problem('metrics_of_params'),
            'problem.metrics',
            ['must take (params, batch), got a function of (params).'],
        ),
        (
            problem('metrics_by_example'),
            'problem.metrics',
            ["must return numbers by name, got float32[8] as 'score'."],
        ),
        (
            problem('metric_without_name'),
            'problem.metrics',
            ['must return numbers by name, got float32[].'],
        ),
        (
            problem('without_options', num_clients=8),
            'problem',
            ["has no 'num_clients'; valid names: none."],
        ),
        (
            digits('negative_owners'),
            'problem.partition',
            ['must number the owners from 0 to 7, got -1 as the lowest.'],
        ),
    ],
)
def test_a_function_that_does_not_fit_is_named(changes, field, parts):
    config = values(**{'client': CLIENT, 'algorithms': {'fedavg': {}}, **changes})
    with refusals.names(f'config.{field}', *parts):
        fl.experiment.build(config).check()


def mine(name, **options):
    return {'name': f'{MINE}:{name}', **options}


def test_functions_get_what_the_page_on_configs_says():
    config = values(
        problem={
            'name': 'images',
            'dataset': 'synthetic_images',
            'data': {'num_train': 80, 'num_test': 8, 'shape': (4, 4, 1)},
            'num_clients': 8,
            'partition': f'{MINE}:owners_of_labels',
            'shift': 1,
            'model': mine('model_of_outputs', bias=False),
            'augment': [f'{MINE}:crop'],
        },
        links=None,
        patterns={
            'own': mine('pattern_of_clients', probs=mine('probs_of_problem', low=0.2)),
            'ramp': {
                'name': 'bernoulli',
                'probs': 0.5,
                'schedule': mine('schedule_of_probs', rounds=1),
            },
        },
        client=CLIENT
        | {
            'decay': mine('decay_of_rate', every=2),
            'optimizer': mine('optimizer_of_rate', momentum=0.5),
        },
        algorithms={
            'own': mine('algorithm_of_program', scale=2.0),
            'fedopt': {'server_optimizer': mine('server_optimizer', rate=0.5)},
        },
        eval_fn=mine('size_of_model', power=2),
        metric='size',
        direction='min',
    )
    fl.experiment.build(config).check()


def test_python_names_a_function_that_does_not_fit():
    client = local_training.local_sgd(0.1, local_steps=1)
    squares = problems.quadratic([[0.0], [1.0]])
    pattern = participation.always(2)._replace(sample=lambda key, round: ((), None))
    with refusals.names('participation.sample', '(carry, key, round)', '(key, round)'):
        fl.simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
    algorithm = fl.ALGORITHMS['fedavg'](client)._replace(models=lambda: {})
    with refusals.names('algorithm.models', '(state)', 'a function of ()'):
        fl.simulate(
            jax.random.key(0),
            algorithm,
            participation.always(2),
            squares,
            num_rounds=2,
        )
    with refusals.names('learning_rate', '(round)', '(key, round)'):
        local_training.local_sgd(lambda key, round: 0.1, local_steps=1)
    with refusals.names('optimizer', '(learning_rate)', 'a function of ()'):
        local_training.local_sgd(0.1, local_steps=1, optimizer=lambda: None)
    with refusals.names('schedule', '(key, round)', '(round)'):
        participation.bernoulli(lambda round: np.full(2, 0.5))
