"""Independent lanes over several places: each runs a contiguous share of them.

Nothing is exchanged. One compiled program serves all shares of a device, and all threads of a CPU;
lanes that do not fit into its memory side by side run in groups of equal width.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import memory
from fedjax_links.machines import devices
from fedjax_links.machines.devices import Place


def shares(num_lanes: int, num_places: int) -> list[range]:
    """Contiguous shares of lanes, as equal as can be; places without a lane are left out.

    Args:
      num_lanes: at least 1.
      num_places: at least 1.

    Returns:
      Of each place, its lanes.
    """
    used = min(num_lanes, num_places)
    ends = [num_lanes * place // used for place in range(used + 1)]
    return [range(first, end) for first, end in itertools.pairwise(ends)]


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


def spread(
    run_lanes: Callable[..., PyTree],
    lanes: PyTree,
    shared: PyTree,
    places: Sequence[Place],
    shape: tuple[int, ...],
    *,
    side_by_side: bool,
) -> Callable[[], PyTree]:
    """Compiles lanes for the places that they run at.

    Args:
      run_lanes: ``(lanes, shared, count) -> outputs`` of the first ``count`` of W lanes; inputs and
        outputs have leaves [W, ...].
      lanes: NumPy leaves [L, ...].
      shared: what all lanes take; every device gets it once.
      places: at least one; none is a mesh.
      shape: of the L lanes.
      side_by_side: whether the lanes of a group take memory at the same time. If a share does not
        fit, it is halved until it does.

    Returns:
      What runs the lanes, at all places at the same time: a function without arguments. It gives
      leaves [*shape, ...] on the first device, and waits for them if there are several groups.
    """
    parts = shares(len(jax.tree.leaves(lanes)[0]), len(places))
    share, used = max(map(len, parts)), places[: len(parts)]
    homes = list(dict.fromkeys(place.home for place in used))
    free = memory.available_bytes()
    shared_at = {home: jax.device_put(shared, home) for home in homes}

    def inputs(home: jax.Device, group: range, width: int) -> tuple[Any, ...]:
        rows = np.minimum(group.start + np.arange(width), group.stop - 1)
        own = jax.tree.map(lambda a: a[rows], lanes), np.int32(len(group))
        own, count = jax.device_put(own, home)
        return own, shared_at[home], count

    def compiled(width: int) -> dict[jax.Device, Any]:
        lead = shape if width == math.prod(shape) else (width,)

        @jax.jit
        def run(*given: Any) -> PyTree:
            return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), run_lanes(*given))

        lowered = [run.lower(*inputs(home, parts[0][:width], width)) for home in homes]
        return dict(zip(homes, devices.compile_all(lowered), strict=True))

    def is_too_large(program: Any, width: int) -> bool:
        copies = sum(place.home == homes[0] for place in used)
        needed = memory.peak_bytes(program, copies, num_outputs=math.ceil(share / width))
        return free is not None and needed is not None and needed > free

    width, programs = share, compiled(share)
    while side_by_side and width > 1 and is_too_large(programs[homes[0]], width):
        width = math.ceil(width / 2)
        programs = compiled(width)
    groups = [
        (place, part[first : first + width])
        for place, part in zip(used, parts, strict=True)
        for first in range(0, len(part), width)
    ]

    def run_all() -> PyTree:
        outputs = [
            place.start(programs[place.home], *inputs(place.home, group, width))
            for place, group in groups
        ]
        if len(groups) == 1:
            return outputs[0]
        kind = jax.tree.structure(outputs[0])
        columns = deque(zip(*map(jax.tree.leaves, outputs), strict=True))
        del outputs  # of what is joined, the pieces go
        sizes = [len(group) for _, group in groups]
        joined = [_join(columns.popleft(), sizes, shape) for _ in range(len(columns))]
        return jax.device_put(jax.tree.unflatten(kind, joined), homes[0])

    return run_all


def _join(pieces: Sequence[Array], sizes: Sequence[int], shape: tuple[int, ...]) -> Any:
    """The first rows of several arrays, put together by the host: nothing is compiled for it."""
    first = pieces[0]
    if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        data = _join([jax.random.key_data(a) for a in pieces], sizes, shape)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(first))
    rows = [np.asarray(a)[:size] for a, size in zip(pieces, sizes, strict=True)]
    return np.concatenate(rows).reshape(*shape, *first.shape[1:])
