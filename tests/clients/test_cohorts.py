"""Compaction of masks, and the loop over the members."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import base
from fedjax_links.clients import cohorts

N = 7
MASKS = {
    'none': np.zeros(N, bool),
    'first': np.arange(N) == 0,
    'last': np.arange(N) == N - 1,
    'some': np.array([False, True, True, False, False, True, False]),
    'all': np.ones(N, bool),
}


def table(rng):
    return {
        'a': rng.normal(size=(N, 3)).astype(np.float32),
        'b': np.arange(N, dtype=np.int32),
    }


@pytest.mark.parametrize('name', MASKS)
def test_members_come_first_and_empty_slots_point_past_the_end(name):
    mask = MASKS[name]
    cohort = jax.jit(cohorts.make_cohort)(mask)
    members = np.flatnonzero(mask)
    assert cohort.ids.dtype == jnp.int32
    np.testing.assert_array_equal(
        cohort.ids, np.append(members, np.full(N - len(members), N))
    )
    assert int(cohort.size) == cohorts.num_members(cohort) == len(members)


def test_everyone_has_a_size_known_to_the_compiler():
    cohort = cohorts.all_clients(N)
    np.testing.assert_array_equal(cohort.ids, np.arange(N))
    assert isinstance(cohort.size, int)
    assert cohorts.num_members(cohort).dtype == jnp.int32


def test_computing_clients_follow_the_links():
    mask = MASKS['some']
    prob = np.full(N, np.nan, np.float32)
    assert cohorts.computing(base.LinkSample(mask, prob)).size == N
    links = base.DuplexLinkSample(mask, prob, downlink=mask, compute=MASKS['last'])
    ids = jax.jit(lambda links: cohorts.computing(links).ids)(links)
    assert ids[:2].tolist() == [N - 1, N]


@jax.jit
def gather_and_scatter(mask, rows, new):
    cohort = cohorts.make_cohort(mask)
    return cohorts.gather(cohort, rows), cohorts.scatter(cohort, rows, new)


@pytest.mark.parametrize('name', MASKS)
def test_gather_and_scatter_touch_the_members_rows_only(rng, name):
    mask = MASKS[name]
    rows = table(rng)
    new = {'a': -np.ones((N, 3), np.float32), 'b': np.full(N, 99, np.int32)}
    new['a'][mask.sum() :] = np.nan  # whatever the empty slots computed
    gathered, scattered = gather_and_scatter(mask, rows, new)
    members_rows = np.asarray(gathered['a'])[: mask.sum()]
    np.testing.assert_array_equal(members_rows, rows['a'][mask])
    np.testing.assert_array_equal(
        scattered['a'], np.where(mask[:, None], -1, rows['a'])
    )
    np.testing.assert_array_equal(scattered['b'], np.where(mask, 99, rows['b']))


@jax.jit
def weighted_sum(mask, values, weights=None):
    return cohorts.weighted_sum(cohorts.make_cohort(mask), {'v': values}, weights)


@pytest.mark.parametrize('name', MASKS)
def test_weighted_sum_counts_members_and_never_reads_empty_slots(rng, name):
    mask = MASKS[name]
    size = mask.sum()
    values = rng.normal(size=(N, 2)).astype(np.float32)
    weights = rng.random(N).astype(np.float32)
    expected = (weights[:size, None] * values[:size]).sum(axis=0)
    values[size:] = np.nan
    weights[size:] = np.nan
    total = weighted_sum(mask, values, weights)
    np.testing.assert_allclose(total['v'], expected, rtol=1e-6, atol=1e-7)
    plain = weighted_sum(mask, values)
    np.testing.assert_allclose(
        plain['v'], values[:size].sum(axis=0), rtol=1e-6, atol=1e-7
    )


def body(i, row):
    """Returns a contribution and a new row; both depend on the client and on its old row."""
    contribution = {'sum': row['a'] * (i + 1), 'count': jnp.int32(1)}
    return contribution, {'a': row['a'] + i, 'b': row['b'] - 10}


def expected_of(mask, rows):
    """Sum of contributions, number of members and new rows of `body`, by a loop."""
    members = np.flatnonzero(mask)
    total = np.zeros(3)
    new = {name: leaf.copy() for name, leaf in rows.items()}
    for i in members:
        total += rows['a'][i].astype(float) * (i + 1)
        new['a'][i] = rows['a'][i] + i
        new['b'][i] = rows['b'][i] - 10
    return total, len(members), new


# One by one; all chunks full or not, for three members or seven; all at once; several widths.
@pytest.mark.parametrize('chunk_size', [1, 3, 4, N, (1, 2), (2, 3, N)])
def test_every_chunk_size_gives_the_same_sums_and_the_same_table(rng, chunk_size):
    rows = table(rng)
    run = jax.jit(
        lambda mask, rows: cohorts.map_reduce(
            body, cohorts.make_cohort(mask), rows, chunk_size=chunk_size
        )
    )
    for name, mask in MASKS.items():
        total, new = run(mask, rows)
        expected, count, expected_rows = expected_of(mask, rows)
        np.testing.assert_allclose(
            total['sum'], expected, rtol=1e-5, atol=1e-5, err_msg=name
        )
        assert int(total['count']) == count
        np.testing.assert_array_equal(new['a'], expected_rows['a'])
        np.testing.assert_array_equal(new['b'], expected_rows['b'])


@pytest.mark.parametrize('chunk_size', [1, 3, 4, 7, 20, (2, 3)])
def test_everyone_in_chunks_of_any_size(rng, chunk_size):
    rows = table(rng)
    total, new = jax.jit(
        lambda rows: cohorts.map_reduce(
            body, cohorts.all_clients(N), rows, chunk_size=chunk_size
        )
    )(rows)
    expected, count, expected_rows = expected_of(np.ones(N, bool), rows)
    np.testing.assert_allclose(total['sum'], expected, rtol=1e-5, atol=1e-5)
    assert int(total['count']) == count
    np.testing.assert_array_equal(new['a'], expected_rows['a'])
    np.testing.assert_array_equal(new['b'], expected_rows['b'])


@pytest.mark.parametrize('everyone', [True, False])
@pytest.mark.parametrize('chunk_size', [1, 16, 1000])
def test_sums_over_clients_of_narrow_values_are_of_float32(chunk_size, everyone):
    """Added up in bfloat16, a thousand ones stay at 256; a sum of float16 may not fit into it."""
    ones = np.ones((1000, 2), jnp.bfloat16)
    large = np.full((1000, 2), 100, np.float16)

    @jax.jit
    def run(mask, rows):
        if everyone:
            cohort = cohorts.all_clients(1000)
        else:
            cohort = cohorts.make_cohort(mask)
        return cohorts.map_reduce(
            lambda i, row: (row, row), cohort, rows, chunk_size=chunk_size
        )

    total, rows = run(np.ones(1000, bool), (ones, large))
    np.testing.assert_array_equal(total[0], np.full(2, 1000, np.float32))
    np.testing.assert_array_equal(total[1], np.full(2, 100_000, np.float32))
    assert [leaf.dtype for leaf in total] == [np.float32, np.float32]
    assert [leaf.dtype for leaf in rows] == [jnp.bfloat16, np.float16]


@pytest.mark.parametrize('chunk_size', [1, 4, 7, (2, 3)])
def test_nan_of_absent_clients_never_leaks(chunk_size):
    """An empty slot repeats the last client's row, whose NaN must stay there."""

    @jax.jit
    def run(mask, rows):
        return cohorts.map_reduce(
            lambda i, row: ({'x': row['a'], 'y': jnp.log(row['a'][0])}, row),
            cohorts.make_cohort(mask),
            rows,
            chunk_size=chunk_size,
        )

    for name, mask in MASKS.items():
        rows = {'a': np.where(mask[:, None], np.ones(3), np.nan).astype(np.float32)}
        total, new = run(mask, rows)
        np.testing.assert_array_equal(total['x'], np.full(3, mask.sum()), err_msg=name)
        assert total['y'] == 0
        np.testing.assert_array_equal(new['a'], rows['a'])


def test_clients_without_rows_contribute(rng):
    values = rng.normal(size=N).astype(np.float32)
    mask = MASKS['some']

    @jax.jit
    def run(mask):
        return cohorts.map_reduce(
            lambda i, row: (jnp.asarray(values)[i], row),
            cohorts.make_cohort(mask),
            (),
            chunk_size=2,
        )

    total, nothing = run(mask)
    np.testing.assert_allclose(total, values[mask].sum(), rtol=1e-6)
    assert nothing == ()


def test_integer_and_low_precision_rows_keep_their_dtypes():
    rows = {'a': jnp.zeros((N, 2), jnp.bfloat16), 'b': jnp.zeros(N, jnp.int8)}

    def add(i, row):
        return (), {'a': row['a'] + jnp.float32(0.5), 'b': row['b'] + 1}

    for make_cohort in (cohorts.make_cohort, lambda mask: cohorts.all_clients(N)):
        for chunk_size in (3, N):

            def new_rows(mask, rows, make_cohort=make_cohort, chunk_size=chunk_size):
                cohort = make_cohort(mask)
                return cohorts.map_reduce(add, cohort, rows, chunk_size=chunk_size)[1]

            new = jax.eval_shape(new_rows, MASKS['some'], rows)
            assert new['a'].dtype == jnp.bfloat16
            assert new['b'].dtype == jnp.int8


@pytest.mark.parametrize('chunk_size', [2, 16])
def test_assign_writes_one_value_to_the_members(rng, chunk_size, monkeypatch):
    monkeypatch.setattr(cohorts, 'ROWS_AT_ONCE', chunk_size)
    rows = table(rng)
    value = {'a': jnp.full(3, 2.5), 'b': jnp.int32(-1)}
    run = jax.jit(lambda mask: cohorts.assign(cohorts.make_cohort(mask), rows, value))
    for name, mask in MASKS.items():
        new = run(mask)
        expected = np.where(mask[:, None], 2.5, rows['a'])
        np.testing.assert_array_equal(new['a'], expected, err_msg=name)
        np.testing.assert_array_equal(new['b'], np.where(mask, -1, rows['b']))


class Counter:
    """A client body that counts on the host how many slots were computed."""

    def __init__(self):
        """Starts at zero."""
        self.slots = 0

    def __call__(self, i, row):
        """Counts one slot."""
        jax.debug.callback(self._count, i)
        return jnp.float32(1), row

    def _count(self, i):
        self.slots += 1

    def slots_of(self, run, *args):
        """Returns the number of slots that one call computes."""
        self.slots = 0
        jax.block_until_ready(run(*args))
        jax.effects_barrier()
        return self.slots


@pytest.mark.parametrize('chunk_size', [1, 3, 5])
def test_cost_follows_the_active_clients(chunk_size):
    num_clients = 40
    counter = Counter()
    run = jax.jit(
        lambda mask: cohorts.map_reduce(
            counter, cohorts.make_cohort(mask), (), chunk_size=chunk_size
        )[0]
    )
    for active in (0, 1, 3, 4, 17, 40):
        mask = np.arange(num_clients) < active
        slots = counter.slots_of(run, mask[::-1].copy())
        assert slots == math.ceil(active / chunk_size) * chunk_size, active


def test_under_vmap_cost_follows_the_busiest_lane():
    counter = Counter()
    run = jax.jit(
        jax.vmap(
            lambda mask: cohorts.map_reduce(
                counter, cohorts.make_cohort(mask), (), chunk_size=2
            )[0]
        )
    )
    masks = np.stack([np.arange(40) < active for active in (1, 6, 0)])
    np.testing.assert_array_equal(run(masks), [1, 6, 0])
    assert counter.slots_of(run, masks) == len(masks) * 6


@pytest.mark.parametrize('chunk_size', [3, (2, 3)])
def test_vmapped_lanes_equal_single_runs(rng, chunk_size):
    rows = table(rng)
    masks = np.stack(list(MASKS.values()))

    @jax.jit
    def run(mask):
        cohort = cohorts.make_cohort(mask)
        return cohorts.map_reduce(body, cohort, rows, chunk_size=chunk_size)

    totals, tables = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(masks))
    for lane, mask in enumerate(masks):
        total, new = run(mask)
        np.testing.assert_allclose(
            totals['sum'][lane], total['sum'], rtol=1e-6, atol=1e-6
        )
        np.testing.assert_array_equal(tables['a'][lane], new['a'])
        np.testing.assert_array_equal(tables['b'][lane], new['b'])
