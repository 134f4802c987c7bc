"""Runs lanes, which are independent simulations, on several device slots.

Lanes are divided into groups of equally many lanes. One compiled program serves all groups of a
device, and all threads of a CPU.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import errors, memory
from fedjax_links.machines.devices import DeviceSlot

_LaneFunction = Callable[[PyTree, PyTree], PyTree]


def scan_first(
    step: Callable[[PyTree, Array], tuple[PyTree, PyTree]],
    carry: PyTree,
    count: Array | int,
    max_count: int,
) -> tuple[PyTree, PyTree]:
    """Runs the first ``count`` steps of a scan over ``max_count``.

    The count may be traced, so one program serves all counts. A step computes the same bits in a
    loop of one as in a loop of several.

    Args:
      step: ``(carry, index) -> (carry, output)``.
      carry: before the first step.
      count: how many steps to run, at most K.
      max_count: K.

    Returns:
      The carry after the last step that ran; and the outputs, leaves [K, ...], zero for steps that
      did not run.
    """
    # Both calls have the same types, so that the step is traced once.
    step = jax.jit(step, inline=True)
    first = jax.ShapeDtypeStruct((), jnp.int32, weak_type=True)
    _, shapes = jax.eval_shape(step, carry, first)
    outputs = jax.tree.map(lambda a: jnp.zeros((max_count, *a.shape), a.dtype), shapes)

    def body(index: Array, loop: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        carry, outputs = loop
        carry, output = step(carry, index)
        outputs = jax.tree.map(lambda a, new: a.at[index].set(new), outputs, output)
        return carry, outputs

    result: tuple[PyTree, PyTree] = jax.lax.fori_loop(0, count, body, (carry, outputs))
    return result


def row_of(rows: PyTree, index: Array) -> PyTree:
    """Returns one row of leaves [K, ...]."""
    return jax.tree.map(
        lambda a: jax.lax.dynamic_index_in_dim(a, index, 0, False), rows
    )


def in_one_program(
    fn: _LaneFunction,
    lanes: PyTree,
    shared: PyTree,
    count: Array | int,
    *,
    side_by_side: bool,
) -> PyTree:
    """Runs lanes in one program, side by side or one after the other.

    Args:
      fn: ``(a lane's inputs, shared) -> outputs``.
      lanes: leaves [W, ...].
      shared: the argument that all lanes share.
      count: how many of the W lanes to run. Side by side, all W lanes run.
      side_by_side: whether the lanes run side by side.

    Returns:
      The outputs, leaves [W, ...], zero for lanes that did not run.
    """
    if side_by_side:
        return jax.vmap(fn, in_axes=(0, None))(lanes, shared)

    def step(carry: PyTree, index: Array) -> tuple[PyTree, PyTree]:
        return carry, fn(row_of(lanes, index), shared)

    num_lanes = len(jax.tree.leaves(lanes)[0])
    _, outputs = scan_first(step, (), count, num_lanes)
    return outputs


def spread(
    fn: _LaneFunction,
    lanes: PyTree,
    shared: PyTree,
    slots: Sequence[DeviceSlot],
    shape: tuple[int, ...],
    *,
    side_by_side: bool,
) -> Callable[[], PyTree]:
    """Compiles a program of lanes for the device slots that the lanes run on.

    Args:
      fn: as in `in_one_program`.
      lanes: NumPy leaves [L, ...].
      shared: the argument that all lanes share; each device gets one copy.
      slots: device slots, at least one, none of them a mesh.
      shape: leading axes of the outputs, with L entries in all.
      side_by_side: whether the lanes of a group run side by side. There is a group for each slot.
        If lanes run side by side, groups are halved until they fit into memory.

    Returns:
      A function without arguments that runs the lanes, on all slots at the same time. It returns
      leaves [*shape, ...] on the first device. If there are several groups, it waits for them.
    """
    num_lanes = math.prod(shape)
    free = memory.available_bytes()
    width = math.ceil(num_lanes / len(slots))
    slots = slots[: math.ceil(num_lanes / width)]
    homes = list(dict.fromkeys(slot.first_device for slot in slots))
    shared_at = {home: jax.device_put(shared, home) for home in homes}

    def group_inputs(home: jax.Device, first: int) -> tuple[PyTree, ...]:
        # The last lane is repeated to fill the last group.
        rows = np.minimum(first + np.arange(width), num_lanes - 1)
        group = jax.tree.map(lambda a: a[rows], lanes)
        count = np.int32(min(width, num_lanes - first))
        group, count = jax.device_put((group, count), home)
        return group, shared_at[home], count

    def compile_groups() -> tuple[Any, dict[jax.Device, Any]]:
        # The outputs of several groups are joined before they get their shape.
        lead_axes = shape if width == num_lanes else (width,)

        @jax.jit
        def run(*arguments: PyTree) -> PyTree:
            outputs = in_one_program(fn, *arguments, side_by_side=side_by_side)
            return jax.tree.map(lambda a: a.reshape(*lead_axes, *a.shape[1:]), outputs)

        lowered = [run.lower(*group_inputs(home, 0)) for home in homes]
        return run, dict(zip(homes, _compile(lowered), strict=True))

    def fits(program: jax.stages.Compiled) -> bool:
        num_groups = math.ceil(num_lanes / width)
        groups_per_slot = math.ceil(num_groups / len(slots))
        slots_per_device = len(slots) // len(homes)
        needed = memory.peak_bytes(
            program, slots_per_device, num_outputs=groups_per_slot
        )
        return free is None or needed is None or needed <= free

    # The functions above read the width, which this loop halves.
    while True:
        can_be_halved = side_by_side and width > 1
        try:
            run, programs = compile_groups()
        except jax.errors.JaxRuntimeError as error:
            # A GPU's compiler runs kernels to time them, and may run out of memory.
            if not (can_be_halved and errors.is_out_of_memory(error)):
                raise
        else:
            if not can_be_halved or fits(programs[homes[0]]):
                break
        width = math.ceil(width / 2)

    def run_all() -> PyTree:
        outputs = []
        for first, slot in zip(range(0, num_lanes, width), itertools.cycle(slots)):
            # `run` finds the compiled program, but unlike that it can name the origin of a NaN.
            program = run if slot.thread is None else programs[slot.first_device]
            inputs = group_inputs(slot.first_device, first)
            outputs.append(slot.start(program, *inputs))
        if len(outputs) == 1:
            return outputs[0]

        def join(*rows: Array) -> Array:
            return jax.device_put(_join(rows, shape), homes[0])

        return jax.tree.map(join, *outputs)

    return run_all


def _compile(lowered: Sequence[jax.stages.Lowered]) -> list[jax.stages.Compiled]:
    """Compiles programs at the same time; a single program in this thread."""
    if len(lowered) == 1:
        return [lowered[0].compile()]
    with ThreadPoolExecutor(len(lowered)) as pool:
        return list(pool.map(lambda program: program.compile(), lowered))


def _join(pieces: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """Joins rows of several arrays on the host, which needs no compilation."""
    first = pieces[0]
    if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        data = _join([jax.random.key_data(a) for a in pieces], shape)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(first))
    rows = np.concatenate(pieces)[: math.prod(shape)]
    return rows.reshape(*shape, *first.shape[1:])
