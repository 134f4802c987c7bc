"""Lanes spread over devices: in another process, which is given four before their first use."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

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


def test_the_same_device_twice_is_refused():
    with pytest.raises(ValueError, match='`devices` must hold different devices among'):
        devices.chosen(jax.local_devices()[:1] * 2)
