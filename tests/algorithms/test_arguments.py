"""Every factory refuses what cannot work, by name, and takes traced hyper-parameters."""

import inspect
import types
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import algorithms, local_training
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.core import factory_options
from tests import refusals

PROGRAM = local_training.local_sgd(0.1, local_steps=1)


def algorithms_with(argument):
    """The names of the algorithms whose factories have this argument."""
    return [
        name
        for name, entry in ALGORITHMS.items()
        if argument in inspect.signature(entry.factory).parameters
    ]


CASTING = {'fedbuff', 'fedpbc'}  # They cast rows before they use them.
POSITIVE = [
    ('amplified_fedavg', 'amplification'),
    ('amplified_scaffold', 'amplification'),
    ('fedawe', 'innovation_clip'),
    ('feddyn', 'alpha'),
    *((name, 'server_lr') for name in algorithms_with('server_lr')),
]
COUNTS = [
    ('amplified_fedavg', 'period', 1),
    ('amplified_fedavg', 'start_round', 0),
    ('amplified_scaffold', 'period', 1),
    ('ca2fl', 'buffer_size', 1),
    ('f3ast', 'budget', 1),
    ('fedau', 'cutoff', 1),
    ('fedbuff', 'buffer_size', 1),
    ('fedstale_async', 'cutoff', 1),
    ('wait_for_all', 'period', 1),
    ('wait_for_all', 'start_round', 0),
]


def make(name, **options):
    entry = ALGORITHMS[name]
    return entry(PROGRAM, **{**entry.example, **options})


def numbers():
    """The names of algorithms and of their arguments that are numbers."""
    pairs = [('colrel', 'weights')]
    for name, entry in ALGORITHMS.items():
        annotations = factory_options.annotations(entry.factory)
        for argument, annotation in annotations.items():
            is_union = isinstance(annotation, types.UnionType)
            if is_union and float in typing.get_args(annotation):
                pairs.append((name, argument))
    return pairs


MAY_BE_INFINITE = {('ca_fed', 'tolerance')}
"""With an infinite tolerance no client is dropped."""


@pytest.mark.parametrize('name, argument', numbers())
def test_what_is_a_number_is_finite(name, argument):
    values = [float('nan'), [0.5, float('nan')], 'a', True, 1j]
    if (name, argument) not in MAY_BE_INFINITE:
        values += [float('inf'), -float('inf'), np.array([0.5, np.inf])]
    for value in values:
        with refusals.names(argument):
            make(name, **{argument: value})


@pytest.mark.parametrize('name, argument', POSITIVE)
def test_what_must_be_positive(name, argument):
    for value in (0.0, -1.0, float('nan'), float('inf')):
        with refusals.names(argument):
            make(name, **{argument: value})


@pytest.mark.parametrize(
    'name, argument', [*POSITIVE, ('fedstale', 'stale_weight'), ('f3ast', 'beta')]
)
def test_what_is_one_number(name, argument):
    """A vector would be one of coordinates, where a model has as many."""
    for value in ([0.1, 0.9], jnp.array([0.1]), np.array([[0.5]])):
        with refusals.names(argument, 'one number'):
            make(name, **{argument: value})

    def traced(value):
        return make(name, **{argument: value}).num_clients

    with refusals.names(argument, 'one number', '[2]'):
        jax.eval_shape(traced, jnp.ones(2))


@pytest.mark.parametrize(
    'field, call',
    {
        'learning_rate': lambda: local_training.local_sgd([0.1, 0.9], local_steps=1),
        'eta': lambda: fl.learning_rates.inverse([0.1, 0.9]),
        'initial': lambda: fl.learning_rates.warmup(0.1, initial=[0.1, 0.9], rounds=1),
        'mu': lambda: local_training.proximal_sgd(0.1, mu=[0.1, 0.9], local_steps=1),
    }.items(),
)
def test_what_is_one_number_of_a_client_program(field, call):
    with refusals.names(field, 'one number', '[0.1, 0.9]'):
        call()


@pytest.mark.parametrize('name, argument, minimum', COUNTS)
def test_what_must_be_a_count(name, argument, minimum):
    for value in (minimum - 1, 2.5):
        with refusals.names(argument):
            make(name, **{argument: value})
    make(name, **{argument: minimum})


@pytest.mark.parametrize(
    'name, registered',
    {
        'fedlaavg': 'mifa',
        'UPGA-PL': 'fedavg_known',
        'FedAdam': 'fedopt',
        'fedyogi': 'fedopt',
        'fedadagrad': 'fedopt',
        'fedavgm': 'fedopt',
    }.items(),
)
def test_another_name_of_an_algorithm_leads_to_it(name, registered):
    with pytest.raises(KeyError, match=f'did you mean {registered!r}'):
        ALGORITHMS[name]


def test_no_other_name_is_an_algorithm_or_that_of_two():
    others = [name for entry in ALGORITHMS.values() for name in entry.also_known_as]
    assert len(set(others) | set(ALGORITHMS)) == len(others) + len(ALGORITHMS)


@pytest.mark.parametrize('beta', [0.0, -0.1, 1.5, float('nan')])
def test_the_rate_of_forgetting_lies_in_0_1(beta):
    with pytest.raises(
        ValueError, match=rf'^`beta` must lie in \(0, 1\], got {beta}\.$'
    ):
        algorithms.f3ast(PROGRAM, beta=beta)


def test_an_unknown_memory_is_refused():
    with refusals.names('memory'):
        make('mifa', memory='deltas')


@pytest.mark.parametrize('name', algorithms_with('table_dtype'))
@pytest.mark.parametrize('dtype, shown', [(jnp.int8, 'int8'), (1, '1')])
def test_a_table_of_integers_or_of_no_dtype_is_refused(name, dtype, shown):
    with refusals.names('table_dtype', 'be a floating-point dtype', f'got {shown}.'):
        make(name, table_dtype=dtype)


@pytest.mark.parametrize('name', sorted({*algorithms_with('table_dtype')} - CASTING))
def test_floats_that_cannot_be_added_to_others_are_refused(name):
    with refusals.names('table_dtype', 'at least 16 bits', 'got float8_e4m3fn.'):
        make(name, table_dtype=jnp.float8_e4m3fn)


@pytest.mark.parametrize(
    'name, argument, value',
    [(name, argument, 0.5) for name, argument in POSITIVE]
    + [('f3ast', 'beta', 0.5), ('fedstale', 'stale_weight', 0.5)]
    + [(name, argument, 2) for name, argument, _ in COUNTS if argument != 'budget'],
)
def test_traced_values_pass_unread(name, argument, value):
    def build(traced):
        make(name, **{argument: traced})
        return traced

    jax.make_jaxpr(build)(value)
