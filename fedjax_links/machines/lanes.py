"""Independent lanes over several places, in groups of one width.

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
    """The first turns of a scan, whose number the compiler does not know.

    So any number of them is one program, and a single one is compiled as many are.

    Args:
      step: ``(carry, place) -> (carry, output)``.
      carry: before the first.
      count: how many to take.
      most: K, at least as many.

    Returns:
      The carry after them, and the outputs, leaves [K, ...]; zero where none was taken.
    """
    _, shapes = jax.eval_shape(step, carry, jnp.int32(0))
    outputs = jax.tree.map(lambda a: jnp.zeros((most, *a.shape), a.dtype), shapes)

    def turn(place: Array, so_far: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        carry, output = step(so_far[0], place)
        return carry, jax.tree.map(
            lambda a, new: a.at[place].set(new), so_far[1], output
        )

    done: tuple[PyTree, PyTree] = jax.lax.fori_loop(0, count, turn, (carry, outputs))
    return done


def row_of(rows: PyTree, place: Array) -> PyTree:
    """Of leaves [K, ...] those of one place."""
    return jax.tree.map(
        lambda a: jax.lax.dynamic_index_in_dim(a, place, 0, False), rows
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

    def turn(carry: PyTree, place: Array) -> tuple[PyTree, PyTree]:
        return carry, fn(row_of(lanes, place), shared)

    return scan_first(turn, (), count, len(jax.tree.leaves(lanes)[0]))[1]


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
    num_lanes, free = math.prod(shape), memory.available_bytes()
    width = math.ceil(num_lanes / len(places))
    places = places[: math.ceil(num_lanes / width)]
    homes = list(dict.fromkeys(place.home for place in places))
    shared_at = {home: jax.device_put(shared, home) for home in homes}

    def inputs(home: jax.Device, first: int, width: int) -> tuple[Any, ...]:
        rows = np.minimum(first + np.arange(width), num_lanes - 1)
        own = (
            jax.tree.map(lambda a: a[rows], lanes),
            np.int32(min(width, num_lanes - first)),
        )
        own, count = jax.device_put(own, home)
        return own, shared_at[home], count

    def compiled(width: int) -> tuple[Any, dict[jax.Device, Any]]:
        lead = shape if width == num_lanes else (width,)

        @jax.jit
        def run(*given: Any) -> PyTree:
            outputs = in_one_program(fn, *given, side_by_side=side_by_side)
            return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), outputs)

        lowered = [run.lower(*inputs(home, 0, width)) for home in homes]
        with ThreadPoolExecutor(
            len(homes)
        ) as pool:  # at the same time; a single one right here
            over = pool.map if len(homes) > 1 else map
            found = list(over(lambda program: program.compile(), lowered))
        return run, dict(zip(homes, found, strict=True))

    def fits(program: Any) -> bool:
        turns = math.ceil(math.ceil(num_lanes / width) / len(places))
        needed = memory.peak_bytes(
            program, len(places) // len(homes), num_outputs=turns
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


def _join(pieces: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """The rows of several arrays, put together by the host: nothing is compiled for it."""
    first = pieces[0]
    if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        data = _join([jax.random.key_data(a) for a in pieces], shape)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(first))
    rows = np.concatenate(pieces)[: math.prod(shape)]
    return rows.reshape(*shape, *first.shape[1:])
