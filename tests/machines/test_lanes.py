"""Lanes over slots: which runs what, one compilation for all, and as many together as fit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core import memory
from fedjax_links.machines import devices, lanes
from tests.machines.four_devices import in_a_process
from tests.machines.xla_messages import OUT_OF_MEMORY


def test_lanes_in_turn_have_the_results_of_lanes_together():
    keys = jax.random.split(jax.random.key(0), 4)
    rows = {'shift': np.arange(4.0, dtype=np.float32), 'key': keys}

    def fn(lane, shared):
        key = jax.random.fold_in(lane['key'], 1)
        other = jax.random.fold_in(lane['key'], 2)
        return {
            'shifted': lane['shift'] + 1,
            'key': key,
            'noise': jax.random.normal(other),
        }

    expected = jax.vmap(fn, in_axes=(0, None))(rows, None)
    for count in (0, 3, 4):
        run = functools.partial(lanes.in_one_program, fn, side_by_side=False)
        result = jax.jit(run)(rows, None, count)
        for name in ('shifted', 'noise'):
            np.testing.assert_allclose(
                result[name][:count], expected[name][:count], rtol=1e-6
            )
            np.testing.assert_array_equal(result[name][count:], 0)
        data = jax.random.key_data(result['key'])[:count]
        expected_data = jax.random.key_data(expected['key'])[:count]
        np.testing.assert_array_equal(data, expected_data)


TABLE = np.random.default_rng(0).normal(size=50_000).astype(np.float32)


def top(inputs, table):
    """A lane that sorts a row of its own: together, lanes need memory for all rows."""
    return jnp.sort(table * inputs['scale'])[::-1][:3], inputs['scale']


def widths_of(monkeypatch, *, side_by_side):
    """Runs five lanes, checks their results and returns the widths of their programs."""
    widths = []
    in_one_program = lanes.in_one_program

    def record_width(fn, rows, *arguments, **options):
        widths.append(len(rows['scale']))
        return in_one_program(fn, rows, *arguments, **options)

    monkeypatch.setattr(lanes, 'in_one_program', record_width)
    rows = {'scale': np.arange(1, 6, dtype=np.float32)}
    run = lanes.spread(
        top, rows, TABLE, devices.device_slots(1), (5,), side_by_side=side_by_side
    )
    tops, scales = run()
    np.testing.assert_array_equal(
        tops, -np.sort(-np.outer(rows['scale'], TABLE))[:, :3]
    )
    np.testing.assert_array_equal(scales, rows['scale'])
    return widths


def bytes_of(width):
    """Returns the memory that a program of so many lanes needs."""
    rows = {'scale': np.ones(width, np.float32)}
    run = jax.jit(jax.vmap(top, in_axes=(0, None)))
    result = run.lower(rows, TABLE).compile().memory_analysis()
    return sum(
        getattr(result, f'{part}_size_in_bytes')
        for part in ('argument', 'output', 'temp')
    )


@pytest.mark.parametrize(
    'fitting, widths',
    [(5, [5]), (4, [5, 3]), (2, [5, 3, 2]), (0, [5, 3, 2, 1]), (None, [5])],
)
def test_lanes_beyond_memory_run_in_groups_of_one_width(monkeypatch, fitting, widths):
    """A lane that does not fit alone is left to the device."""
    free = None
    if fitting == 0:
        free = 1
    elif fitting is not None:
        free = (bytes_of(fitting) + bytes_of(fitting + 1)) // 2
    monkeypatch.setattr(memory, 'available_bytes', lambda: free)
    assert widths_of(monkeypatch, side_by_side=True) == widths


@pytest.mark.parametrize('side_by_side', [True, False])
def test_a_compiler_that_runs_out_of_memory_gets_fewer_lanes(monkeypatch, side_by_side):
    compile_all = lanes._compile

    def compile_few(lowered):
        scales, *_ = jax.tree.leaves(lowered[0].args_info)
        if scales.shape[0] > 2:
            raise jax.errors.JaxRuntimeError(OUT_OF_MEMORY)
        return compile_all(lowered)

    monkeypatch.setattr(memory, 'available_bytes', lambda: None)
    monkeypatch.setattr(lanes, '_compile', compile_few)
    if side_by_side:
        assert widths_of(monkeypatch, side_by_side=True) == [5, 3, 2]
        return
    with pytest.raises(jax.errors.JaxRuntimeError, match='RESOURCE_EXHAUSTED'):
        widths_of(monkeypatch, side_by_side=False)


def test_lanes_in_turn_need_the_memory_of_one(monkeypatch):
    monkeypatch.setattr(memory, 'available_bytes', lambda: 1)
    assert widths_of(monkeypatch, side_by_side=False) == [5]


SPREAD = """
import logging, re
import numpy as np
from fedjax_links.machines import devices, lanes

names = []

class Names(logging.Handler):
    def emit(self, record):
        names.extend(re.findall(r'^Finished XLA compilation of (\\S+)', record.getMessage()))

def lane(inputs, start):
    step = lambda _, x: jax.numpy.cos(x) + inputs['shift']
    key = jax.random.fold_in(jax.random.key(3), inputs['name'])
    return {'end': jax.lax.fori_loop(0, 40, step, start), 'key': key}

start = np.linspace(0, 1, 1000, dtype=np.float32)
rows = {'shift': np.linspace(0, 1, 6, dtype=np.float32), 'name': np.arange(6)}
for count in (1, 2, 4):
    run = lanes.spread(lane, rows, start, devices.device_slots(count), (2, 3), side_by_side=False)
    result = run()
    if count == 1:
        alone = result
        logging.getLogger('jax').addHandler(Names())
        jax.config.update('jax_log_compiles', True)
        continue
    same = np.asarray(result['end']).tobytes() == np.asarray(alone['end']).tobytes()
    data, expected_data = (
        np.asarray(jax.random.key_data(output['key'])).tolist() for output in (result, alone)
    )
    devices_of_result = {str(d) for a in jax.tree.leaves(result) for d in a.devices()}
    print(count, same, data == expected_data, result['end'].shape, result['key'].shape,
          len(devices_of_result), names.count('jit(run)'), sorted(set(names) - {'jit(run)'}))
    names.clear()
"""


def test_one_compilation_serves_all_slots_of_a_cpu():
    result = in_a_process(SPREAD)
    assert result == [
        f'{count} True True (2, 3, 1000) (2, 3) 1 1 []' for count in (2, 4)
    ]
