"""Functions refuse other kinds of objects by the argument's name."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    choices,
    cost_model,
    local_training,
    mixing,
    participation,
    problems,
    report,
    simulation,
    sweeps,
    testing,
)
from fedjax_links.results import conversion
from tests import refusals

PATTERN = participation.bernoulli([0.5, 0.3])
PROBLEM = problems.quadratic([[0.0], [4.0]])
TABLES = {
    'PROBS': {
        'equal': {'value': 0.5},
        'halves': {'first': 0.5, 'second': 0.2},
        'label_dependent': {},
        'listed': {'values': [0.5, 0.2]},
    },
    'WEIGHTS': {'power': {'exponent': 1.0}},
    'GROUPS': {'contiguous': {'num_groups': 2}},
    'PACKETS': {'of_model': {}},
    'TIMES': {
        'devices': {'step': 0.1, 'uplink': 1e5, 'downlink': 1e5, 'local_steps': 2}
    },
}


@pytest.mark.parametrize('table', TABLES)
@pytest.mark.parametrize('value', [None, 'a', 0.5, [0.5], {}])
def test_tables_of_configs_need_a_problem(table, value):
    for name, options in TABLES[table].items():
        with refusals.names('problem', 'problem'):
            getattr(choices, table)[name](value, **options)


@pytest.mark.parametrize('shape, dtype', [((4,), float), ((4, 3), int)])
def test_probabilities_by_label_need_a_class_per_example(shape, dtype):
    labels = np.zeros(shape, dtype)
    problem = dataclasses.replace(
        problems.gaussian_regression(num_clients=2, examples_per_client=2),
        data=problems.Batch(jnp.zeros((4, 1)), jnp.asarray(labels)),
    )
    with refusals.names('name', 'a class for each example'):
        choices.PROBS['label_dependent'](problem)


OPTIMIZER_OPTIONS = {
    'centered': ('rmsprop', ['a', None, 1]),
    'nesterov': ('sgd', ['a', None, 1]),
    'mu_dtype': ('adam', ['', 'a', 'int32', 'longdouble', 3, [1], {}]),
    'accumulator_dtype': ('sgd', ['a', 3, bool]),
    'learning_rate': ('adam', [None, 'a', -1.0, {}, [0.1, 0.2]]),
    'b1': ('adam', [None, 'a', 1.5, True, np.add]),
}


@pytest.mark.parametrize('option', OPTIMIZER_OPTIONS)
def test_options_of_optimizers_have_kinds(option):
    name, values = OPTIMIZER_OPTIONS[option]
    for value in values:
        with refusals.names(option):
            choices.OPTIMIZERS[name](**{'learning_rate': 0.1, option: value})
    with refusals.names('learning_rate'):
        choices.OPTIMIZERS[name](None)


@pytest.mark.parametrize(
    'name, option, others',
    [
        ('adam', 'b1', {}),
        ('adam', 'b2', {}),
        ('rmsprop', 'decay', {'bias_correction': True}),
    ],
)
def test_a_corrected_mean_forgets(name, option, others):
    """Its bias is divided by ``1 - decay**t``."""
    with refusals.names(option, 'be below 1'):
        choices.OPTIMIZERS[name](0.1, **{option: 1.0}, **others)


def test_valid_options_of_optimizers_pass():
    choices.OPTIMIZERS['rmsprop'](0.1, decay=1.0)
    choices.OPTIMIZERS['rmsprop'](0.1, decay=0.9, bias_correction=True)
    choices.OPTIMIZERS['adam'](0.1, mu_dtype='bfloat16')
    choices.OPTIMIZERS['sgd'](lambda step: 0.1, momentum=None, nesterov=False)
    choices.OPTIMIZERS['adamw'](0.1, weight_decay=lambda step: 0.1)


@pytest.mark.parametrize('value', ['a', '', len])
def test_what_is_no_number_is_no_initial_parameter(value):
    with refusals.names('params'):
        problems.with_initial_params(PROBLEM, value)


MASK = jnp.array([True, False])
NEIGHBOURS = jnp.array([[1], [0]])
TRAFFIC = cost_model.TRAFFIC['fedavg']
SPEEDS = cost_model.devices(2, step=0.1, uplink=1e6, downlink=1e6)
ROUNDS = np.ones((3, 2), bool)


def round_costs(
    mask=ROUNDS, traffic=TRAFFIC, table=SPEEDS, model_bytes=100.0, **options
):
    """Calls `cost_model.round_costs` with defaults."""
    return cost_model.round_costs(
        mask, traffic, table, model_bytes=model_bytes, **options
    )


OBJECTS = {
    'key': lambda v: problems.label_noise(v, [0, 1], num_classes=2, rate=0.1),
    'mask': lambda v: mixing.mix(v, jnp.zeros(2)),
    'mask of a matrix': lambda v: mixing.mixing_matrix(v),
    'client_tree': lambda v: mixing.active_mean(MASK, [v]),
    'neighbours': lambda v: mixing.metropolis_weights(v, jnp.ones((2, 1), bool)),
    'edges': lambda v: mixing.metropolis_weights(NEIGHBOURS, v),
    'traffic': lambda v: round_costs(traffic=v),
    'table': lambda v: round_costs(table=v),
    'mask of costs': lambda v: round_costs(mask=v),
    'options': lambda v: round_costs(options=v),
    'durations': lambda v: round_costs(durations=v),
    'edges of costs': lambda v: round_costs(edges=v),
    'model_bytes': lambda v: round_costs(model_bytes=v),
    'grid': lambda v: sweep(grid=v),
    'grid.algorithm': lambda v: sweep(grid={'algorithm': v}),
    'batching': lambda v: sweep(batching=v),
    'values': lambda v: sweeps.product(v),
    'grid of results': lambda v: RESULT.to_pandas(grid=v),
    'grid of a maker': lambda v: RESULT.to_dataset(grid={'algorithm': v}),
    'make_algorithm': lambda v: testing.check_algorithm(v if v is not len else 3),
    'participation': lambda v: testing.check_participation(v),
    'entry': lambda v: testing.algorithm_facts(v),
    'traits': lambda v: testing.Runs(v),
    'added': lambda v: report.write(None, added=v),
}


FEDAVG = algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))
RESULT = simulation.simulate(
    jax.random.key(0), FEDAVG, PATTERN, PROBLEM, num_rounds=2, eval_every=1
)


def sweep(**options):
    """Sweeps nothing."""
    return sweeps.sweep(
        lambda: None, lambda: PATTERN, PROBLEM, seeds=[0], num_rounds=1, **options
    )


@pytest.mark.parametrize('argument', OBJECTS)
@pytest.mark.parametrize('value', ['a', 'ab', [[0.5], [0.5, 0.1]], ['a', 'b'], len])
def test_another_kind_of_object_costs_one_line(argument, value):
    if argument == 'client_tree' and isinstance(value, list) and value != ['a', 'b']:
        value = 0.5  # lists of numbers are pytrees
    with refusals.names(argument.partition(' ')[0]):
        OBJECTS[argument](value)


@pytest.mark.parametrize('value', [np.array(0), 0.5, None])
def test_what_cannot_be_iterated_is_no_list(value):
    with refusals.names('seeds'):
        sweeps.sweep(lambda: None, lambda: PATTERN, PROBLEM, seeds=value, num_rounds=1)
    if value is not None:
        with refusals.names('seeds'):
            RESULT.to_pandas(seeds=value)
    if value is not None:
        with refusals.names('devices'):
            sweep(devices=value)


@pytest.mark.parametrize('value', [None, 'a', 0.5, [0.5], {}])
def test_rounds_need_a_problem(value):
    key = jax.random.key(0)
    links = simulation.realised_links(key, PATTERN, num_rounds=2)
    with refusals.names('problem', 'problem'):
        simulation.advance(RESULT.state, key, links, FEDAVG, value)


def test_a_state_needs_a_pattern_of_the_clients_of_the_problem():
    pattern = participation.bernoulli([0.5, 0.3, 0.1])
    with refusals.names('participation', '2'):
        simulation.init(jax.random.key(0), FEDAVG, pattern, PROBLEM)


def test_bare_parameters_have_no_name():
    with refusals.names('params', 'be one array, got leaves a'):
        problems.with_initial_params(PROBLEM, {'a': 1})


def test_labels_that_are_one_text_lose_no_curve():
    with refusals.names('data', "[1, '1']"):
        conversion.to_dataset({1: [0.1], '1': [0.2]})
