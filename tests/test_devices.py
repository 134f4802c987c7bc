"""Lanes and rounds over devices: in another process, given four of them before their first use."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import devices

ROOT = Path(__file__).parent.parent
FOUR_DEVICES = "import jax\njax.config.update('jax_num_cpu_devices', 4)\n"


def in_a_process(program, *arguments, as_users_compile=True):
    """What a program prints that has four devices."""
    environment = dict(os.environ)
    if as_users_compile:
        environment.pop('XLA_FLAGS', None)
    if cache := jax.config.jax_compilation_cache_dir:
        environment['JAX_COMPILATION_CACHE_DIR'] = cache
        environment['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.05'
    done = subprocess.run(
        [sys.executable, '-c', FOUR_DEVICES + program, *map(str, arguments)],
        cwd=ROOT,
        env={**environment, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SWEEPS = """
import numpy as np
import fedjax_links as fl

targets = np.random.default_rng(4).normal(size=(6, 3))

def fedavg(learning_rate):
    return fl.ALGORITHMS['fedavg'](fl.local_training.local_sgd(learning_rate, local_steps=2))

def bernoulli():
    return fl.participation.bernoulli(np.linspace(0.2, 0.9, 6))

def swept(devices):
    grid = {'algorithm': {'learning_rate': np.float32([0.3, 0.2])}}
    return fl.sweep(
        fedavg, bernoulli, fl.problems.quadratic(targets), seeds=(5, 1), grid=grid, num_rounds=20,
        batching='map', devices=devices,
    )

def bits(result):
    return [np.asarray(a).tobytes() for a in jax.tree.leaves(result)]

results = {n: swept(n) for n in (1, 2, 3, 4)}
for n, result in results.items():
    print(n, bits(result) == bits(results[1]), result.rounds.loss_sum.shape)
print('by default', bits(swept(None)) == bits(results[1]))
"""


@pytest.mark.slow
@pytest.mark.optimised
def test_the_number_of_devices_changes_no_bit_of_a_sweep():
    """Four lanes on one to four devices, which three do not divide."""
    assert in_a_process(SWEEPS) == [
        *(f'{count} True (2, 2, 20)' for count in (1, 2, 3, 4)),
        'by default True',
    ]


@pytest.mark.parametrize('num_lanes', [1, 2, 5, 8, 9])
@pytest.mark.parametrize('num_devices', [1, 2, 3, 8])
def test_shares_are_contiguous_whole_and_equal(num_lanes, num_devices):
    shares = devices.shares(num_lanes, num_devices)
    assert [lane for share in shares for lane in share] == list(range(num_lanes))
    assert len(shares) == min(num_lanes, num_devices)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_lanes_in_turn_are_those_asked_for():
    keys = jax.random.split(jax.random.key(0), 4)
    lanes = {'shift': np.arange(4.0, dtype=np.float32), 'key': keys}

    def fn(lane):
        key, other = (jax.random.fold_in(lane['key'], place) for place in (1, 2))
        return {'shifted': lane['shift'] + 1, 'key': key, 'drawn': jax.random.normal(other)}

    expected = jax.vmap(fn)(lanes)
    for count in (0, 3, 4):
        found = jax.jit(lambda lanes, count: devices.in_turn(fn, lanes, count))(lanes, count)
        for name in ('shifted', 'drawn'):
            np.testing.assert_allclose(found[name][:count], expected[name][:count], rtol=1e-6)
            np.testing.assert_array_equal(found[name][count:], 0)
        data, same = (jax.random.key_data(r['key'])[:count] for r in (found, expected))
        np.testing.assert_array_equal(data, same)


@pytest.mark.parametrize(
    'given, message',
    [
        (0, r'^`devices` must be at least 1, got 0\.$'),
        (5000, r'^`devices` must be at most \d+, all there are, got 5000\.$'),
        ([], r'^`devices` must hold different devices among \[.*\], got \[\]\.$'),
        (['cpu'], r"^`devices` must hold different devices among \[.*\], got \['cpu'\]\.$"),
        ([jax.Device] * 2, '^`devices` must hold different devices among'),
        (True, '`devices` must be'),
    ],
)
def test_devices_that_are_none_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        devices.chosen(given)


@pytest.mark.parametrize(
    'count, mesh_size, message',
    [
        (None, 5000, r'^`mesh` must have at most \d+ devices, all there are, got 5000\.$'),
        (1, 2, r'^`mesh` must have a number of devices that divides `devices` = 1, got 2\.$'),
        (1, 0, r'^`mesh` must be at least 1, got 0\.$'),
    ],
)
def test_meshes_that_do_not_fill_the_devices_are_refused(count, mesh_size, message):
    with pytest.raises(ValueError, match=message):
        devices.places(count, mesh_size)


def test_the_same_device_twice_is_refused():
    with pytest.raises(ValueError, match='`devices` must hold different devices among'):
        devices.chosen(jax.local_devices()[:1] * 2)


MESHES = """
import re
import numpy as np
import flax.linen as nn
import fedjax_links as fl

clients = 20
rng = np.random.default_rng(0)
features = np.float32(rng.normal(size=(10 * clients, 8)))

class Small(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(nn.relu(nn.Dense(16)(x)))

problem = fl.problems.from_flax(
    features, rng.integers(0, 4, 10 * clients), np.repeat(np.arange(clients), 10), module=Small()
)
client = fl.local_training.local_sgd(0.1, local_steps=2, batch_size=4)
links = fl.participation.bernoulli(np.linspace(0.2, 0.9, clients))

def result(name, num_devices):
    mesh = fl.devices.mesh(num_devices) if num_devices else None
    algorithm = fl.ALGORITHMS[name](client)
    run = jax.jit(lambda key, problem: fl.simulate(
        key, algorithm, links, problem, num_rounds=4, eval_every=2, mesh=mesh
    ))
    compiled = run.lower(jax.random.key(0), problem).compile()
    return jax.tree.map(np.asarray, compiled(jax.random.key(0), problem))

def bits(result):
    return [a.tobytes() for a in jax.tree.leaves(result)]

for name in ('fedavg', 'fedpbc'):
    results = {n: result(name, n) for n in (None, 1, 2, 4)}
    print(name, [bits(results[n]) == bits(results[1]) for n in (2, 4)], all(
        np.allclose(a, b, rtol=1e-4, atol=1e-6)
        for a, b in zip(jax.tree.leaves(results[None]), jax.tree.leaves(results[1]))
    ))
"""


@pytest.mark.slow
def test_meshes_of_any_size_give_the_same_bits_and_those_of_none_up_to_rounding():
    assert in_a_process(MESHES, as_users_compile=True) == [
        'fedavg [True, True] True',
        'fedpbc [True, True] True',
    ]


COUNTS = """
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from fedjax_links import cohorts, devices

def turns(num_devices):
    '''Clients that each device trains, counted while the program runs.'''
    counted = []
    def body(table):
        def fn(i, row):
            jax.debug.callback(lambda i: counted.append(int(i)), i)
            return row, row + i
        return cohorts.map_reduce(fn, cohorts.everyone(32), table, chunk_size=16)
    whole = PartitionSpec()
    run = jax.shard_map(
        body, mesh=devices.mesh(num_devices), in_specs=whole, out_specs=whole, check_vma=False
    )
    total, table = jax.block_until_ready(jax.jit(run)(jnp.arange(32.0)))
    jax.effects_barrier()
    return counted, float(total), np.array_equal(table, 2 * np.arange(32.0))

for n in (1, 2, 4):
    counted, total, stored = turns(n)
    print(n, sorted(counted) == list(range(32)), total, stored)
"""


def test_every_client_is_trained_on_one_device_of_a_mesh_alone():
    """So a device does its share of the work, and no more."""
    assert in_a_process(COUNTS, as_users_compile=False) == [
        f'{count} True {sum(range(32))}.0 True' for count in (1, 2, 4)
    ]


@pytest.mark.parametrize('axes', [('runs',), ('clients', 'runs')])
def test_a_mesh_with_other_axes_is_refused(axes):
    shape = (1,) * len(axes)
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()[:1]).reshape(shape), axes)
    problem = fl.problems.quadratic(np.zeros((2, 1)))
    algorithm = fl.ALGORITHMS['fedavg'](fl.local_training.local_sgd(0.1, local_steps=1))
    with pytest.raises(ValueError, match="`mesh` must have the one axis 'clients', got"):
        fl.simulate(
            jax.random.key(0),
            algorithm,
            fl.participation.always(2),
            problem,
            num_rounds=1,
            mesh=mesh,
        )
