"""Several devices: which ones, and independent lanes spread over them.

Lanes are spread by running the same program once per device, each on its own contiguous share of
the lanes. Dispatch does not wait, so the devices work at the same time. Nothing is exchanged and
nothing is rounded differently: a lane does not know on which device it runs, or beside which.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from fedjax_links.base import Array, PyTree
from fedjax_links.core import checks, errors, meshes
from fedjax_links.machines import environment

Devices = int | Sequence[jax.Device] | None
"""The number of devices of this process to use, or the devices themselves; None for all of them."""


def prepare(count: int | None = None) -> None:
    """Gives a CPU several devices, which takes place before JAX is first used.

    What the environment says (``JAX_NUM_CPU_DEVICES``, ``XLA_FLAGS``) is left as it is, and so are
    the devices of a process that has them already.

    Args:
      count: how many; one for each core of this process by default.
    """
    is_set = 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', '')
    if is_set or 'JAX_NUM_CPU_DEVICES' in os.environ:
        return
    if count is not None:
        checks.static_int('devices', count)
    with contextlib.suppress(RuntimeError):  # JAX has been used, and has its devices
        jax.config.update('jax_num_cpu_devices', count or environment.num_cores() or 1)


def choose(devices: Devices = None) -> list[jax.Device]:
    """The devices that were asked for.

    Args:
      devices: a number of them, or themselves; all devices of this process by default.

    Returns:
      At least one device of this process.

    Raises:
      ValueError: for a number that is not there, or anything that is no device of this process.
    """
    here: list[jax.Device] = jax.local_devices()
    if devices is None:
        return here
    if isinstance(devices, int):
        checks.static_int('devices', devices)
        if devices > len(here):
            raise errors.invalid('devices', f'be at most {len(here)}, all there are', devices)
        return here[:devices]
    found = list(devices)
    wrong = [device for device in found if device not in here]
    if wrong or not found or len(set(found)) < len(found):
        requirement = f'hold different devices among {errors.text_of(here)}'
        raise errors.invalid('devices', requirement, errors.text_of(wrong or found))
    return found


def mesh(devices: Devices = None) -> jax.sharding.Mesh:
    """A mesh for `simulation.simulate`: devices share each round's work and what clients keep.

    Args:
      devices: how many devices of this process, or which; all by default.

    Returns:
      A mesh with the axis ``'clients'``.

    Raises:
      ValueError: as `choose`.
    """
    return jax.sharding.Mesh(np.array(choose(devices)), (meshes.AXIS,))


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a lane runs: a device, or a mesh of several.

    Attributes:
      devices: at least one; of other processes, too.
      is_mesh: whether they share the clients of each round; one device may be a mesh.
    """

    devices: tuple[jax.Device, ...]
    is_mesh: bool = False

    @functools.cached_property
    def home(self) -> jax.Device:
        """The first device of this process."""
        here = jax.process_index()
        return next(device for device in self.devices if device.process_index == here)

    @property
    def num_copies(self) -> int:
        """How often the memory of this process holds what is put here."""
        if self.home.platform != 'cpu':
            return 1
        return sum(device.process_index == self.home.process_index for device in self.devices)

    @functools.cached_property
    def mesh(self) -> jax.sharding.Mesh | None:
        """The mesh, for `simulation.simulate`; None where there is none."""
        if not self.is_mesh:
            return None
        return jax.sharding.Mesh(np.array(self.devices), (meshes.AXIS,))

    @functools.cached_property
    def sharding(self) -> jax.sharding.NamedSharding | None:
        """Of arrays on a mesh, whole on each device; None where there is no mesh."""
        if self.mesh is None:
            return None
        return jax.sharding.NamedSharding(self.mesh, PartitionSpec())

    def put(self, values: PyTree, shardings: PyTree | None = None) -> PyTree:
        """Arrays of this process, the same in all, on the devices of the place.

        Args:
          values: the arrays.
          shardings: how each lies on the mesh; whole on each device by default.
        """
        if self.sharding is None:
            return jax.device_put(values, self.home)
        if shardings is None:
            shardings = jax.tree.map(lambda _: self.sharding, values)

        def lay(a: Any, sharding: jax.sharding.NamedSharding) -> Array:
            def part(place: Any) -> Any:
                return a if sharding.is_fully_replicated else np.asarray(a)[place]

            return jax.make_array_from_callback(np.shape(a), sharding, part)

        return jax.tree.map(lay, values, shardings)


def mesh_size(text: str | None) -> int | None:
    """How many devices a mesh has, as the command line says it.

    Args:
      text: such as ``'clients:4'``; None for no mesh.

    Returns:
      At least 1; None for no mesh.

    Raises:
      ValueError: for another axis, or what is no number.
    """
    if text is None:
        return None
    axis, _, size = text.partition(':')
    if axis != meshes.AXIS or not size.isdecimal() or int(size) < 1:
        raise errors.invalid('mesh', f'read {meshes.AXIS}:N, N at least 1', text)
    return int(size)


def places(devices: Devices = None, mesh_size: int | None = None) -> list[Place]:
    """Where lanes run at the same time: devices, or meshes of several.

    Args:
      devices: a number of them, or themselves; by default as many as one mesh has, or all of this
        process.
      mesh_size: devices of a mesh, a divisor of their number; None for no mesh. Where processes
        have joined, all of them share one mesh.

    Returns:
      At least one.

    Raises:
      ValueError: as `choose`, or if meshes of this size do not fill the devices.
    """
    if mesh_size is None:
        return [Place((device,)) for device in choose(devices)]
    checks.static_int('mesh', mesh_size)
    if jax.process_count() > 1:
        return [_across_processes(mesh_size)]
    if devices is None and mesh_size > len(jax.local_devices()):
        most = len(jax.local_devices())
        raise errors.invalid('mesh', f'have at most {most} devices, all there are', mesh_size)
    found = choose(mesh_size if devices is None else devices)
    if len(found) % mesh_size:
        requirement = f'have a number of devices that divides `devices` = {len(found)}'
        raise errors.invalid('mesh', requirement, mesh_size)
    starts = range(0, len(found), mesh_size)
    return [Place(tuple(found[i : i + mesh_size]), is_mesh=True) for i in starts]


def _across_processes(mesh_size: int) -> Place:
    """One mesh with as many devices of every process that has joined."""
    count = jax.process_count()
    if mesh_size % count:
        requirement = f'have a number of devices that the {count} processes divide'
        raise errors.invalid('mesh', requirement, mesh_size)
    found: list[jax.Device] = []
    for process in range(count):
        own = jax.local_devices(process)
        if len(own) < mesh_size // count:
            requirement = f'have at most {len(own)} devices of process {process}, all it has'
            raise errors.invalid('mesh', requirement, mesh_size // count)
        found += own[: mesh_size // count]
    return Place(tuple(found), is_mesh=True)


def shares(num_lanes: int, num_devices: int) -> list[range]:
    """Contiguous shares of lanes, as equal as can be; devices without a lane are left out.

    Args:
      num_lanes: at least 1.
      num_devices: at least 1.

    Returns:
      Of each device, its lanes.
    """
    used = min(num_lanes, num_devices)
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


def spread(run: Any, lanes: PyTree, shared: PyTree, devices: Sequence[jax.Device]) -> PyTree:
    """Runs shares of lanes on several devices at the same time.

    Every device has a program of its own; they are compiled at the same time, too.

    Args:
      run: jitted ``(lanes, shared, count) -> outputs`` of the first ``count`` of W lanes; inputs
        and outputs have leaves [W, ...].
      lanes: NumPy leaves [L, ...].
      shared: what all lanes take; it is copied to every device.
      devices: at least one.

    Returns:
      The outputs, leaves [L, ...], on the first device. Nothing is waited for.
    """
    parts = shares(len(jax.tree.leaves(lanes)[0]), len(devices))
    width = max(map(len, parts))
    inputs = []
    for part, device in zip(parts, devices, strict=False):
        rows = np.minimum(part.start + np.arange(width), part.stop - 1)
        own = jax.tree.map(lambda a, rows=rows: a[rows], lanes)
        inputs.append(jax.device_put((own, shared, np.int32(len(part))), device))
    programs = compile_all([run.lower(*given) for given in inputs])
    outputs = [program(*given) for program, given in zip(programs, inputs, strict=True)]

    def join(*leaves: Array) -> Array:
        return jnp.concatenate([a[: len(part)] for a, part in zip(leaves, parts, strict=True)])

    gathered = jax.device_put(outputs, devices[0])
    return jax.jit(lambda outputs: jax.tree.map(join, *outputs))(gathered)


def compile_all(lowered: Sequence[Any]) -> list[Any]:
    """Compiles programs at the same time, each in a thread of its own."""
    if len(lowered) < 2:
        return [program.compile() for program in lowered]
    with ThreadPoolExecutor(len(lowered)) as pool:
        return list(pool.map(lambda program: program.compile(), lowered))
