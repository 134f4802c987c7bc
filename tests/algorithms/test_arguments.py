"""Every factory refuses what cannot work, in one line, and takes traced hyper-parameters."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_links import algorithms, local_training
from fedjax_links.algorithms import ALGORITHMS

PROGRAM = local_training.local_sgd(0.1, local_steps=1)
NOT_POSITIVE = [
    ('amplified_fedavg', 'amplification'),
    ('amplified_scaffold', 'amplification'),
    ('f3ast', 'server_lr'),
    ('fedau', 'server_lr'),
    ('fedavg_known', 'server_lr'),
    ('fedawe', 'innovation_clip'),
    ('fedawe', 'server_lr'),
    ('fedbuff', 'server_lr'),
    ('feddyn', 'alpha'),
    ('fednova', 'server_lr'),
    ('fedstale', 'server_lr'),
    ('fedvarp', 'server_lr'),
    ('focus', 'server_lr'),
    ('mifa', 'server_lr'),
    ('mifa_waiting', 'server_lr'),
    ('scaffold', 'server_lr'),
]
COUNTS = [
    ('amplified_fedavg', 'period', 1),
    ('amplified_fedavg', 'start_round', 0),
    ('amplified_scaffold', 'period', 1),
    ('f3ast', 'budget', 1),
    ('fedau', 'cutoff', 1),
    ('fedbuff', 'buffer_size', 1),
    ('wait_for_all', 'period', 1),
    ('wait_for_all', 'start_round', 0),
]


def make(name, **kwargs):
    entry = ALGORITHMS[name]
    return entry(PROGRAM, **{**entry.example, **kwargs})


@pytest.mark.parametrize('name, argument', NOT_POSITIVE)
@pytest.mark.parametrize('value', ['0.0', '-1.0', 'nan', 'inf'])
def test_what_must_be_positive(name, argument, value):
    with pytest.raises(ValueError, match=rf'^`{argument}` must be positive, got {value}\.$'):
        make(name, **{argument: float(value)})


@pytest.mark.parametrize('name, argument, minimum', COUNTS)
def test_what_must_be_a_count(name, argument, minimum):
    too_small = minimum - 1
    message = rf'^`{argument}` must be at least {minimum}, got {too_small}\.$'
    with pytest.raises(ValueError, match=message):
        make(name, **{argument: too_small})
    with pytest.raises(ValueError, match=rf'^`{argument}` must be a Python integer, got 2\.5\.$'):
        make(name, **{argument: 2.5})
    assert make(name, **{argument: minimum}).round_step is not None


@pytest.mark.parametrize('beta', [0.0, -0.1, 1.5, float('nan')])
def test_the_rate_of_forgetting_lies_in_0_1(beta):
    with pytest.raises(ValueError, match=rf'^`beta` must lie in \(0, 1\], got {beta}\.$'):
        algorithms.f3ast(PROGRAM, beta=beta)


@pytest.mark.parametrize('name', ['mifa', 'mifa_waiting'])
def test_an_unknown_memory_is_refused_with_the_nearest(name):
    with pytest.raises(ValueError, match="`memory` has no 'deltas'; did you mean 'delta'"):
        make(name, memory='deltas')


@pytest.mark.parametrize(
    'name',
    [
        *('amplified_scaffold', 'fedbuff', 'feddyn', 'fedstale', 'fedvarp', 'focus', 'mifa'),
        *('mifa_waiting', 'scaffold'),
    ],
)
def test_a_table_of_integers_or_of_no_dtype_is_refused(name):
    for given, said in ((jnp.int8, 'int8'), (1, '1')):
        message = rf'^`table_dtype` must be a floating-point dtype, got {said}\.$'
        with pytest.raises(ValueError, match=message):
            make(name, table_dtype=given)


@pytest.mark.parametrize(
    'name, argument, value',
    [(name, argument, 0.5) for name, argument in NOT_POSITIVE]
    + [('f3ast', 'beta', 0.5), ('fedstale', 'stale_weight', 0.5)]
    + [(name, argument, 2) for name, argument, _ in COUNTS if argument != 'budget'],
)
def test_traced_values_pass_unread(name, argument, value):
    jax.make_jaxpr(lambda v: make(name, **{argument: v}) and v)(value)
