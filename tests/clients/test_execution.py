"""How a cohort is worked off: by device, by what is known of its size, beside other lanes."""

import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, simulation
from fedjax_links.clients import cohorts
from fedjax_links.core import memory
from fedjax_links.testing import federation
from tests.tiers import cases

NUM_CLIENTS = federation.NUM_CLIENTS
KEY = jax.random.key(5)
PROGRAM = local_training.local_sgd(0.2, local_steps=2, batch_size=2)
NAMED = participation.uniform_cohort(NUM_CLIENTS, 3)
ALGORITHMS = 'fedavg', 'fedavg_known', 'mifa', 'scaffold', 'fedawe'


@pytest.fixture
def on_accelerator(monkeypatch):
    """As on an accelerator, of which nothing says how much memory it has."""
    monkeypatch.setattr(memory, 'platform', lambda: 'gpu')
    monkeypatch.setattr(memory, 'device_bytes', lambda: None)


def round_of(name, links):
    algorithm = algorithms.ALGORITHMS[name](PROGRAM)
    problem = federation.problem()
    state = simulation.init(KEY, algorithm, links, problem)
    return lambda: simulation.run_round(state, KEY, algorithm, links, problem)


def primitives(jaxpr):
    """Names of all operations of a program, those of its parts included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for part in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, 'eqns')
        ):
            inside = getattr(part, 'jaxpr', part)
            if hasattr(inside, 'eqns'):
                yield from primitives(inside)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_no_loop_waits_for_its_bound_where_a_cohort_is_named(name, on_accelerator):
    assert 'while' not in set(primitives(jax.make_jaxpr(round_of(name, NAMED))().jaxpr))


@pytest.mark.parametrize('name', ['fedavg', 'mifa'])
def test_without_names_or_on_a_cpu_it_does(name):
    """So the test above can fail."""
    for links in (NAMED, participation.bernoulli(np.full(NUM_CLIENTS, 0.5))):
        assert 'while' in set(primitives(jax.make_jaxpr(round_of(name, links))().jaxpr))


@pytest.mark.parametrize('name', cases(ALGORITHMS, ['mifa']))
def test_devices_of_all_kinds_compute_the_same(name, monkeypatch):
    """Up to the order of sums: wide and narrow, of known size and of unknown."""
    expected = jax.jit(round_of(name, NAMED))()
    monkeypatch.setattr(memory, 'platform', lambda: 'gpu')
    for most in (None, 1):  # all side by side, and one after the other
        monkeypatch.setattr(memory, 'device_bytes', lambda most=most: most)
        result = jax.jit(round_of(name, NAMED))()
        for ours, theirs in zip(
            jax.tree.leaves(result), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_how_many_train_side_by_side():
    on_cpu = local_training._width_on_cpu
    on_accelerator = local_training._width_on_accelerator
    assert [on_cpu(2**14, everyone) for everyone in (False, True)] == [1, 1]
    assert [on_cpu(330, everyone) for everyone in (False, True)] == [10, 128]
    assert on_cpu(2**14 - 1, is_everyone=True) == 16
    varying = jnp.int32(3)
    assert [on_accelerator(1000, size, 100, None) for size in (1000, varying)] == [
        1000,
        125,
    ]
    assert [on_accelerator(40, size, 100, None) for size in (40, varying)] == [40, 10]
    assert on_accelerator(1000, 1000, 100, 8 * 100 * 64) == 64
    assert on_accelerator(1000, 1000, 100, 7) == 1


def test_on_a_busier_card_a_program_is_the_same(monkeypatch):
    """A run that is resumed there adds up in the same order."""
    card = {'bytes_limit': 10**9, 'bytes_in_use': 0}
    device = types.SimpleNamespace(memory_stats=lambda: card)
    monkeypatch.setattr(memory, 'platform', lambda: 'gpu')
    monkeypatch.setattr(jax, 'local_devices', lambda: [device])
    links = participation.bernoulli(np.full(NUM_CLIENTS, 0.5))
    texts = []
    for taken in (0, 10**9 - 100):
        card['bytes_in_use'] = taken
        texts.append(str(jax.make_jaxpr(round_of('fedavg', links))()))
    assert texts[0] == texts[1]
    card['bytes_limit'] = 100  # of a smaller card it is another
    assert str(jax.make_jaxpr(round_of('fedavg', links))()) != texts[0]


def test_the_device_is_the_one_that_settings_name():
    assert memory.platform() == jax.default_backend()
    with jax.default_device(jax.devices('cpu')[0]):
        assert memory.platform() == 'cpu'


@pytest.mark.parametrize(
    'size, chunk_size',
    [
        *((size, 1) for size in (1, 4, 6)),
        *((size, 2) for size in (1, 4)),
        *((size, 4) for size in (1, 4, 6)),
        *((size, 9) for size in (4, 6)),
        *((size, (2, 3)) for size in (1, 4, 6)),
    ],
)
@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
def test_sums_and_rows_are_those_of_the_members(
    size, chunk_size, platform, monkeypatch
):
    """Of a cohort of known size: integers, so that the order of sums does not matter."""
    monkeypatch.setattr(memory, 'platform', lambda: platform)
    ids = np.sort(np.random.default_rng(size).choice(6, size, replace=False))
    table = np.arange(60, 72).reshape(6, 2)

    @jax.jit
    def run(ids, table):
        cohort = cohorts.Cohort(ids, size, 6)
        return cohorts.map_reduce(
            lambda i, row: (i * row, row + 10 * i), cohort, table, chunk_size=chunk_size
        )

    total, rows = run(ids.astype(np.int32), table)
    expected = table.copy()
    expected[ids] += 10 * ids[:, None]
    np.testing.assert_array_equal(total, (ids[:, None] * table[ids]).sum(axis=0))
    np.testing.assert_array_equal(rows, expected)


def test_lanes_side_by_side_copy_no_table():
    """Ten lanes of MIFA: rows are replaced where they lie, in a loop of one bound for all."""
    num_clients = 60
    num_lanes = 10
    table = jnp.zeros((num_lanes, num_clients, 7, 5))
    masks = jax.random.bernoulli(KEY, 0.2, (num_lanes, num_clients))

    def lane(table, mask):
        cohort = cohorts.make_cohort(mask)
        return cohorts.map_reduce(
            lambda i, row: (row.sum(), row + i), cohort, table, chunk_size=4
        )

    program = jax.jit(jax.vmap(lane), donate_argnums=0).lower(table, masks).compile()
    full = re.escape(f'f32[{num_lanes},{num_clients},7,5]')
    text = program.as_text()
    assert re.search(rf'{full}\S* while|{full}\S* fusion|{full}\S* scatter', text)
    assert not re.findall(rf'{full}\S* (?:copy|select)\(', text)
    total, rows = program(table, masks)
    expected = np.where(
        masks[..., None, None], np.arange(num_clients)[:, None, None], 0
    )
    np.testing.assert_array_equal(rows, np.broadcast_to(expected, rows.shape))
    np.testing.assert_array_equal(total, np.zeros(num_lanes))
