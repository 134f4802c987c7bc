"""Independent lanes over several places, in groups of one width.

Nothing is exchanged. One compiled program serves all groups of a device, and all threads of a CPU.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import memory
from fedjax_links.machines import devices
from fedjax_links.machines.devices import Place

_Lane = Callable[[PyTree, PyTree], PyTree]


def in_turn(fn: Callable[[PyTree], PyTree], lanes: PyTree, count: Array | int) -> PyTree:
    """Runs the first lanes one after the other.

    As `jax.lax.map`, but the compiler does not know how many there are: shares of different sizes
    are one program, and a single lane is compiled as many are.

    Args:
      fn: of one lane's inputs.
      lanes: leaves [W, ...].
      count: how many of the W to run.

    Returns:
      Leaves [W, ...]; those of lanes that did not run are zero.
    """
    width = len(jax.tree.leaves(lanes)[0])

    def turn(place: Array) -> PyTree:
        row = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, place, keepdims=False), lanes)
        return fn(row)

    def advance(place: Array, outputs: PyTree) -> PyTree:
        return jax.tree.map(lambda a, row: a.at[place].set(row), outputs, turn(place))

    shapes = jax.eval_shape(turn, jnp.int32(0))
    start = jax.tree.map(lambda a: jnp.zeros((width, *a.shape), a.dtype), shapes)
    return jax.lax.fori_loop(0, count, advance, start)


def in_one_program(
    fn: _Lane, lanes: PyTree, shared: PyTree, count: Array | int, *, side_by_side: bool
) -> PyTree:
    """Runs lanes side by side, all of them, or the first `in_turn`.

    Args:
      fn: ``(a lane's inputs, shared) -> outputs``.
      lanes: leaves [W, ...].
      shared: what all lanes take.
      count: how many of the W matter.
      side_by_side: which of the two.

    Returns:
      Leaves [W, ...].
    """
    if side_by_side:
        return jax.vmap(fn, in_axes=(0, None))(lanes, shared)
    return in_turn(lambda inputs: fn(inputs, shared), lanes, count)


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
        own = jax.tree.map(lambda a: a[rows], lanes), np.int32(min(width, num_lanes - first))
        own, count = jax.device_put(own, home)
        return own, shared_at[home], count

    def compiled(width: int) -> tuple[Any, dict[jax.Device, Any]]:
        lead = shape if width == num_lanes else (width,)

        @jax.jit
        def run(*given: Any) -> PyTree:
            outputs = in_one_program(fn, *given, side_by_side=side_by_side)
            return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), outputs)

        lowered = [run.lower(*inputs(home, 0, width)) for home in homes]
        return run, dict(zip(homes, devices.compile_all(lowered), strict=True))

    def fits(program: Any) -> bool:
        turns = math.ceil(math.ceil(num_lanes / width) / len(places))
        needed = memory.peak_bytes(program, len(places) // len(homes), num_outputs=turns)
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
        return jax.tree.map(lambda *rows: jax.device_put(_join(rows, shape), homes[0]), *outputs)

    return run_all


def _join(pieces: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """The rows of several arrays, put together by the host: nothing is compiled for it."""
    first = pieces[0]
    if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        data = _join([jax.random.key_data(a) for a in pieces], shape)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(first))
    rows = np.concatenate(pieces)[: math.prod(shape)]
    return rows.reshape(*shape, *first.shape[1:])
