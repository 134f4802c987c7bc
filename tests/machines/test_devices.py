"""Lanes and rounds over devices, in another process that has four of them."""

import functools

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links.machines import devices
from tests import refusals
from tests.machines.four_devices import in_a_process

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


@pytest.mark.parametrize(
    'devices_, message',
    [
        (0, r'^`devices` must be at least 1, got 0\.$'),
        (5000, r'^`devices` must be at most \d+, all there are, got 5000\.$'),
        ([], r'^`devices` must hold different devices among \[.*\], got \[\]\.$'),
        (
            ['cpu'],
            r"^`devices` must hold different devices among \[.*\], got \['cpu'\]\.$",
        ),
        (True, '`devices` must be'),
    ],
)
def test_devices_that_are_none_are_refused(devices_, message):
    with pytest.raises(ValueError, match=message):
        devices.choose(devices_)


def test_the_number_of_devices_may_be_an_integer_of_numpy():
    assert devices.choose(np.int64(1)) == devices.choose(1)
    assert devices.device_slots(np.int64(2)) == devices.device_slots(2)
    with refusals.names('devices'):
        devices.device_slots(True)


@pytest.mark.parametrize(
    'count, mesh_size, message',
    [
        (
            None,
            5000,
            r'^`mesh` must have at most \d+ devices, all there are, got 5000\.$',
        ),
        (
            1,
            2,
            r'^`mesh` must have a number of devices that divides `devices` = 1, got 2\.$',
        ),
        (1, 0, r'^`mesh` must be at least 1, got 0\.$'),
    ],
)
def test_meshes_that_do_not_fill_the_devices_are_refused(count, mesh_size, message):
    with pytest.raises(ValueError, match=message):
        devices.device_slots(count, mesh_size)


def test_the_same_device_twice_is_refused():
    with pytest.raises(ValueError, match='`devices` must hold different devices among'):
        devices.choose(jax.local_devices()[:1] * 2)


MESHES = """
import sys
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
    algorithm = fl.ALGORITHMS[name](client, **fl.ALGORITHMS[name].example)
    run = jax.jit(lambda key, problem: fl.simulate(
        key, algorithm, links, problem, num_rounds=4, eval_every=2, mesh=mesh
    ))
    compiled = run.lower(jax.random.key(0), problem).compile()
    return jax.tree.map(np.asarray, compiled(jax.random.key(0), problem))

def bits(result):
    return [a.tobytes() for a in jax.tree.leaves(result)]

for name in sys.argv[1:]:
    on_no_mesh, on_one, on_four = (result(name, n) for n in (None, 1, 4))
    print(name, bits(on_four) == bits(on_one), all(
        np.allclose(a, b, rtol=1e-4, atol=1e-6)
        for a, b in zip(jax.tree.leaves(on_no_mesh), jax.tree.leaves(on_one))
    ))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    'names',
    [
        # Models of clients; a clock, and tables of clients.
        (
            'fedpbc',
            'amplified_scaffold',
        ),
        pytest.param(
            ('fedavg', 'fedbuff'),
            marks=pytest.mark.release(
                'test_meshes_agree_to_the_bit_and_with_none_up_to_rounding'
            ),
        ),
    ],
)
def test_meshes_agree_to_the_bit_and_with_none_up_to_rounding(names):
    """Runs on meshes of two and three are compared by `test_divided_saves`."""
    assert in_a_process(MESHES, *names) == [f'{name} True True' for name in names]


REGISTERED = """
from fedjax_links import testing
from fedjax_links.algorithms import ALGORITHMS

for name, entry in ALGORITHMS.items():
    testing.ALGORITHM_CHECKS['meshes_agree'](testing.Runs(entry))
    print(name)
"""


@pytest.mark.slow
@pytest.mark.release('test_meshes_agree_to_the_bit_and_with_none_up_to_rounding')
def test_meshes_give_the_same_bits_of_all_algorithms():
    """Compiled fast; as users compile, two of them do above."""
    assert in_a_process(REGISTERED, as_users_compile=False) == list(fl.ALGORITHMS)


WORK = """
import collections
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from fedjax_links.clients import cohorts
from fedjax_links.core import meshes
from fedjax_links.machines import devices

CLIENTS, SIZE = 32, 64
matrix = jnp.asarray(np.random.default_rng(0).normal(size=(SIZE, SIZE)) / SIZE, jnp.float32)

def counted(num_devices, records):
    # The program; and the clients that each device trained, recorded while it ran.
    trained_on = collections.defaultdict(list)
    def body():
        table = meshes.table(CLIENTS, lambda count: jnp.ones((count, SIZE, SIZE)))
        def fn(i, row):
            if records:
                device = jax.lax.axis_index('clients')
                jax.debug.callback(lambda i, d: trained_on[int(d)].append(int(i)), i, device)
            return i, row + i + matrix @ (matrix @ row)
        everyone = cohorts.all_clients(CLIENTS)
        total, new_table = cohorts.map_reduce(fn, everyone, table, chunk_size=16)
        return total, new_table.rows
    specs = PartitionSpec(), PartitionSpec('clients')
    run = jax.jit(meshes.on_each(body, devices.mesh(num_devices), (), specs)).lower().compile()
    total, table = jax.block_until_ready(run())
    jax.effects_barrier()
    assert int(total) == sum(range(CLIENTS))
    grown = 1 + np.asarray(matrix) @ np.asarray(matrix) @ np.ones((SIZE, SIZE))
    expected = grown + np.arange(CLIENTS)[:, None, None]
    np.testing.assert_allclose(table, expected, rtol=1e-5)
    return run, trained_on

for n in (1, 2, 4):
    run, _ = counted(n, records=False)
    _, trained_on = counted(n, records=True)
    clients_of_all = sorted(i for clients in trained_on.values() for i in clients)
    (steps,) = {len(clients) / 2 for clients in trained_on.values()}  # of two clients each
    products = run.cost_analysis()['flops'] * steps / (CLIENTS * 4 * SIZE**3)
    print(n, clients_of_all == list(range(CLIENTS)), steps, 1 <= products * n < 1.15)
"""


@pytest.mark.slow
def test_the_compiled_work_of_a_device_is_one_nth():
    """Operations of a loop's step as compiled, times the steps of each of n devices."""
    assert in_a_process(WORK) == [
        '1 True 16.0 True',
        '2 True 8.0 True',
        '4 True 4.0 True',
    ]


MEMORY = """
import numpy as np
import fedjax_links as fl

SIZE = 1024
client = fl.local_training.local_sgd(0.1, local_steps=1, chunk_size=8)

def bytes_of(name, clients, num_devices):
    problem = fl.problems.quadratic(np.zeros((clients, SIZE)))
    algorithm = fl.ALGORITHMS[name](client)
    links = fl.participation.always(clients)
    mesh = fl.devices.mesh(num_devices)
    key = jax.random.key(0)
    start = fl.simulation.init(key, algorithm, links, problem, mesh=mesh)
    run = jax.jit(lambda state, problem: fl.simulate(
        key, algorithm, links, problem, num_rounds=2, initial_state=state, mesh=mesh
    ).state, donate_argnums=0).lower(start, problem).compile()
    sizes = run.memory_analysis()
    end = run(start, problem)
    rows = [
        a.addressable_shards[0].data.shape[0]
        for a in jax.tree.leaves(end.algorithm) if a.ndim == 2
    ]
    return rows, sizes.alias_size_in_bytes, sizes.temp_size_in_bytes

for name, n in {'fedpbc': 4, 'scaffold': 2}.items():
    rows, state, work = bytes_of(name, 64, n)
    more_rows, larger_state, larger_work = bytes_of(name, 128, n)
    row = 4 * SIZE
    growth = larger_state - state
    print(
        name, n, rows, more_rows, 64 * row / n <= growth <= 64 * row / n + 1024,
        larger_work - work < row,
    )
print(bytes_of('fedpbc', 6, 4)[0])
"""


@pytest.mark.slow
def test_client_tables_are_divided():
    """64 more clients cost a device one n-th of their rows, and no copy in its work memory."""
    assert in_a_process(MEMORY) == [
        *(
            f'{name} {count} [{64 // count}] [{128 // count}] True True'
            for name, count in (('fedpbc', 4), ('scaffold', 2))
        ),
        '[2]',
    ]


@pytest.mark.parametrize('axes', [('runs',), ('clients', 'runs')])
def test_a_mesh_with_other_axes_is_refused(axes):
    shape = (1,) * len(axes)
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()[:1]).reshape(shape), axes)
    parts = (
        fl.ALGORITHMS['fedavg'](fl.local_training.local_sgd(0.1, local_steps=1)),
        fl.participation.always(2),
        fl.problems.quadratic(np.zeros((2, 1))),
    )
    for run in (functools.partial(fl.simulate, num_rounds=1), fl.simulation.init):
        with pytest.raises(ValueError, match="`mesh` must have the one axis 'clients'"):
            run(jax.random.key(0), *parts, mesh=mesh)


MADE_BY_JAX = """
import numpy as np
import fedjax_links as fl

targets = np.random.default_rng(0).normal(size=(10, 3))
client = fl.local_training.local_sgd(0.1, local_steps=2)
parts = (
    fl.ALGORITHMS['fedpbc'](client),
    fl.participation.bernoulli(np.full(10, 0.4)),
    fl.problems.quadratic(targets),
)
key = jax.random.key(0)

def bits(mesh):
    direct = fl.simulate(key, *parts, num_rounds=6, mesh=mesh)
    state = fl.simulation.init(key, *parts, mesh=mesh)
    resumed = fl.simulate(key, *parts, num_rounds=6, mesh=mesh, initial_state=state)
    models = direct.state.algorithm, resumed.state.algorithm.server
    return [np.asarray(a).tobytes() for a in jax.tree.leaves(models)]

explicit = bits(jax.make_mesh((4,), ('clients',)))
print(explicit == bits(jax.sharding.Mesh(np.array(jax.devices()), ('clients',))))
"""


@pytest.mark.slow
def test_a_mesh_of_explicit_axes_is_like_any_other():
    """Tables of ten clients have padding on four devices."""
    assert in_a_process(MADE_BY_JAX, as_users_compile=False) == ['True']
