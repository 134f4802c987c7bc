"""Run independent lanes at several places, in groups of one width.

Nothing is exchanged. One compiled program serves all groups of a device, and all threads of a CPU.
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
from fedjax_links.core import memory
from fedjax_links.machines.devices import Place

_Lane = Callable[[PyTree, PyTree], PyTree]


def scan_first(
    step: Callable[[PyTree, Array], tuple[PyTree, PyTree]],
    carry: PyTree,
    count: Array | int,
    most: int,
) -> tuple[PyTree, PyTree]:
    """Takes the first steps of a scan, whose number the compiler does not know.

    So any number of them is one program, and a single one is compiled as many are.

    Args:
      step: ``(carry, index) -> (carry, output)``.
      carry: before the first step.
      count: how many steps to take.
      most: K, at least as many.

    Returns:
      The carry after them, and the outputs, leaves [K, ...]; zero where no step was taken.
    """
    _, shapes = jax.eval_shape(step, carry, jnp.int32(0))
    outputs = jax.tree.map(lambda a: jnp.zeros((most, *a.shape), a.dtype), shapes)

    def body(index: Array, loop: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        carry, outputs = loop
        carry, output = step(carry, index)
        return carry, jax.tree.map(lambda a, new: a.at[index].set(new), outputs, output)

    end: tuple[PyTree, PyTree] = jax.lax.fori_loop(0, count, body, (carry, outputs))
    return end


def row_of(rows: PyTree, index: Array) -> PyTree:
    """Returns one row of leaves [K, ...]."""
    return jax.tree.map(
        lambda a: jax.lax.dynamic_index_in_dim(a, index, 0, False), rows
    )


def in_one_program(
    fn: _Lane, lanes: PyTree, shared: PyTree, count: Array | int, *, side_by_side: bool
) -> PyTree:
    """Runs lanes side by side, all of them, or the first of them one after the other.

    Args:
      fn: ``(a lane's inputs, shared) -> outputs``.
      lanes: leaves [W, ...].
      shared: what all lanes take.
      count: how many of the W matter.
      side_by_side: which of the two.

    Returns:
      Leaves [W, ...]; those of lanes that did not run are zero.
    """
    if side_by_side:
        return jax.vmap(fn, in_axes=(0, None))(lanes, shared)

    def step(carry: PyTree, index: Array) -> tuple[PyTree, PyTree]:
        return carry, fn(row_of(lanes, index), shared)

    num_lanes = len(jax.tree.leaves(lanes)[0])
    _, outputs = scan_first(step, (), count, num_lanes)
    return outputs


def spread(
    fn: _Lane,
    lanes: PyTree,
    shared: PyTree,
    places: Sequence[Place],
    shape: tuple[int, ...],
    *,
    side_by_side: bool,
) -> Callable[[], PyTree]:
    """Compiles lanes for the places that they run at.

    Args:
      fn: as in `in_one_program`.
      lanes: NumPy leaves [L, ...].
      shared: what all lanes take; every device gets it once.
      places: at least one; none is a mesh.
      shape: of the L lanes.
      side_by_side: whether the lanes of a group are; then groups, one for each place, are halved
        until they fit into memory.

    Returns:
      What runs the lanes, at all places at the same time: a function without arguments. It gives
      leaves [*shape, ...] on the first device, and waits for them if there are several groups.
    """
    num_lanes = math.prod(shape)
    free = memory.available_bytes()
    width = math.ceil(num_lanes / len(places))
    places = places[: math.ceil(num_lanes / width)]
    homes = list(dict.fromkeys(place.home for place in places))
    shared_at = {home: jax.device_put(shared, home) for home in homes}

    def inputs(home: jax.Device, first: int, width: int) -> tuple[Any, ...]:
        # The last lane fills up a group.
        rows = np.minimum(first + np.arange(width), num_lanes - 1)
        group = jax.tree.map(lambda a: a[rows], lanes)
        count = np.int32(min(width, num_lanes - first))
        group, count = jax.device_put((group, count), home)
        return group, shared_at[home], count

    def compiled(width: int) -> tuple[Any, dict[jax.Device, Any]]:
        lead = shape if width == num_lanes else (width,)

        @jax.jit
        def run(*arguments: Any) -> PyTree:
            outputs = in_one_program(fn, *arguments, side_by_side=side_by_side)
            return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), outputs)

        lowered = [run.lower(*inputs(home, 0, width)) for home in homes]
        return run, dict(zip(homes, _compile(lowered), strict=True))

    def fits(program: Any) -> bool:
        groups_per_place = math.ceil(math.ceil(num_lanes / width) / len(places))
        needed = memory.peak_bytes(
            program, len(places) // len(homes), num_outputs=groups_per_place
        )
        return free is None or needed is None or needed <= free

    run, programs = compiled(width)
    while side_by_side and width > 1 and not fits(programs[homes[0]]):
        width = math.ceil(width / 2)
        run, programs = compiled(width)

    def run_all() -> PyTree:
        outputs = []
        for first, place in zip(range(0, num_lanes, width), itertools.cycle(places)):
            # What is jitted finds the program again, and where a NaN arose if JAX is to say so.
            program = run if place.thread is None else programs[place.home]
            outputs.append(place.start(program, *inputs(place.home, first, width)))
        if len(outputs) == 1:
            return outputs[0]
        return jax.tree.map(
            lambda *rows: jax.device_put(_join(rows, shape), homes[0]), *outputs
        )

    return run_all


def _compile(lowered: Sequence[Any]) -> list[Any]:
    """Compiles programs at the same time; a single one in this thread."""
    if len(lowered) == 1:
        return [lowered[0].compile()]
    with ThreadPoolExecutor(len(lowered)) as pool:
        return list(pool.map(lambda program: program.compile(), lowered))


def _join(pieces: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """Puts rows of several arrays together on the host: nothing is compiled for it."""
    first = pieces[0]
    if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        data = _join([jax.random.key_data(a) for a in pieces], shape)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(first))
    rows = np.concatenate(pieces)[: math.prod(shape)]
    return rows.reshape(*shape, *first.shape[1:])
