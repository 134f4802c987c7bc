"""Chooses devices, and the device slots that programs run on.

A slot is one device, or a mesh of several devices that share each round's clients. On a CPU, slots
are threads that start programs on its first device. So cores work at the same time on one compiled
program and one copy of the data.

Each slot runs whole lanes, all by the same program. A lane is one simulation. A program partitioned
over the slots would round differently, so results would depend on the number of slots.
"""

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from fedjax_links.base import Array, PyTree
from fedjax_links.core import checks, errors, mesh_layouts, meshes
from fedjax_links.machines import cpus

Devices = int | Sequence[jax.Device] | None
"""The number of devices of this process to use, or the devices themselves; None for all of them."""


def split_cpu(count: int) -> None:
    """Makes JAX show a CPU as several devices, for a mesh; to be called before JAX is used.

    If the environment sets the number (``JAX_NUM_CPU_DEVICES``, ``XLA_FLAGS``), or if the process
    has used JAX, nothing changes.

    Args:
      count: how many devices.
    """
    is_set = 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', '')
    if is_set or 'JAX_NUM_CPU_DEVICES' in os.environ:
        return
    checks.static_int('devices', count)
    with contextlib.suppress(RuntimeError):  # JAX has been used.
        jax.config.update('jax_num_cpu_devices', count)


def local() -> list[jax.Device]:
    """Returns the devices of this process.

    Raises:
      ValueError: if JAX finds no device of the platform that it is told to use.
    """
    try:
        devices: list[jax.Device] = jax.local_devices()
    except (RuntimeError, AssertionError) as error:  # JAX raises the latter for CUDA.
        platforms = getattr(jax.config, 'jax_platforms', None)
        if not platforms:
            raise
        reason = f' ({errors.describe(error)})' if str(error) else ''
        requirement = f'name a platform whose devices JAX finds here{reason}'
        raise errors.invalid('JAX_PLATFORMS', requirement, platforms) from error
    return devices


def choose(devices: Devices = None) -> list[jax.Device]:
    """Returns the chosen devices of this process, at least one.

    Args:
      devices: devices, or their number; all devices of this process by default.

    Raises:
      ValueError: for more devices than there are, or for anything but devices of this process.
    """
    available = local()
    if devices is None:
        return available
    if isinstance(devices, int | np.integer):
        checks.static_int('devices', devices)
        if devices > len(available):
            requirement = f'be at most {len(available)}, all there are'
            raise errors.invalid('devices', requirement, devices)
        return available[:devices]
    if not np.iterable(devices):
        raise errors.invalid(
            'devices', 'be devices or their number', errors.text_of(devices)
        )
    chosen = list(devices)
    wrong = [device for device in chosen if device not in available]
    if wrong or not chosen or len(set(chosen)) < len(chosen):
        requirement = f'hold different devices among {errors.text_of(available)}'
        raise errors.invalid('devices', requirement, errors.text_of(wrong or chosen))
    return chosen


def mesh(devices: Devices = None) -> jax.sharding.Mesh:
    """Makes a mesh for `simulation.simulate`. Its devices share the work and the client tables.

    Args:
      devices: devices of this process, or their number; all by default.

    Returns:
      A mesh with the axis ``'clients'``.

    Raises:
      ValueError: as `choose`.
    """
    return jax.sharding.Mesh(np.array(choose(devices)), (meshes.AXIS,))


@dataclasses.dataclass(frozen=True)
class DeviceSlot:
    """Describes what a lane runs on: a device, a thread of a CPU, or a mesh of several devices.

    Attributes:
      devices: at least one device. A mesh may have devices of other processes, too.
      is_mesh: whether the devices share the clients of each round; one device may be a mesh.
      thread: the number of the thread that starts programs, if several slots are on one device;
        None for the thread of the caller.
    """

    devices: tuple[jax.Device, ...]
    is_mesh: bool = False
    thread: int | None = None

    @functools.cached_property
    def first_device(self) -> jax.Device:
        """Returns the first device of this process."""
        here = jax.process_index()
        return next(device for device in self.devices if device.process_index == here)

    @property
    def num_copies(self) -> int:
        """Returns how many copies of data lie in one memory after `put`."""
        if self.first_device.platform != 'cpu':
            return 1
        return sum(
            device.process_index == self.first_device.process_index
            for device in self.devices
        )

    @functools.cached_property
    def mesh(self) -> jax.sharding.Mesh | None:
        """Returns the mesh, for `simulation.simulate`; None for a slot without one."""
        if not self.is_mesh:
            return None
        return jax.sharding.Mesh(np.array(self.devices), (meshes.AXIS,))

    @functools.cached_property
    def sharding(self) -> jax.sharding.NamedSharding | None:
        """Returns the sharding of arrays that all devices of a mesh hold; None without a mesh."""
        if self.mesh is None:
            return None
        return jax.sharding.NamedSharding(self.mesh, PartitionSpec())

    def local_rows(self, num_clients: int) -> tuple[int, int]:
        """Returns the rows of a client table that a mesh stores in this process, at least one.

        Args:
          num_clients: N, of the table.

        Returns:
          The first row, and one past the last.
        """
        process = jax.process_index()
        is_local = [device.process_index == process for device in self.devices]
        rows_per_device = math.ceil(num_clients / len(is_local))
        first = min(is_local.index(True) * rows_per_device, num_clients - 1)
        return first, min(first + sum(is_local) * rows_per_device, num_clients)

    def start(self, program: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
        """Starts a compiled program, and does not wait for its end.

        A CPU runs programs that one thread starts one after the other. Programs that several
        threads start run at the same time.
        """
        if self.thread is None:
            return program(*arguments)
        return _thread(self.thread).submit(program, *arguments).result()

    def put(self, values: PyTree, shardings: PyTree | None = None) -> PyTree:
        """Puts arrays on the devices of the slot.

        Args:
          values: the arrays. If a mesh has several processes, each of them has the arrays.
          shardings: how a mesh divides each array; by default, each device holds the whole array.
        """
        if self.sharding is None:
            return jax.device_put(values, self.first_device)
        if shardings is None:
            shardings = jax.tree.map(lambda _: self.sharding, values)
        return jax.tree.map(_put_on_mesh, values, shardings)


def _put_on_mesh(a: Any, sharding: jax.sharding.NamedSharding) -> Array:
    """Puts an array, or this process's rows of the array, on the devices of a mesh."""

    def shard_of(index: Any) -> Any:
        if sharding.is_fully_replicated:
            return a
        rows = a if isinstance(a, mesh_layouts.LocalRows) else np.asarray(a)
        return rows[index]

    return jax.make_array_from_callback(np.shape(a), sharding, shard_of)


@functools.cache
def _thread(number: int) -> ThreadPoolExecutor:
    """Returns the thread of a CPU's slot."""
    return ThreadPoolExecutor(1, f'device_slot_{number}')


def mesh_size(text: str | None) -> int | None:
    """Returns how many devices the flag ``--mesh`` asks for.

    Args:
      text: such as ``'clients:4'``; None for no mesh.

    Returns:
      At least 1; None for no mesh.

    Raises:
      ValueError: for another axis, or if the size is no number.
    """
    if text is None:
        return None
    axis, _, size = text.partition(':')
    if axis != meshes.AXIS or not size.isdecimal() or int(size) < 1:
        raise errors.invalid('mesh', f'read {meshes.AXIS}:N, N at least 1', text)
    return int(size)


def device_slots(
    devices: Devices = None, mesh_size: int | None = None, *, one_thread: bool = False
) -> list[DeviceSlot]:
    """Returns the slots on which lanes run at the same time: devices, CPU threads or meshes.

    Args:
      devices: devices of this process, or a number. By default all devices, or with a mesh as many
        as it has. On a CPU without a mesh, the number of threads, by default one for each core.
      mesh_size: how many devices each mesh has, a divisor of their number; None for no mesh.
        Processes that have joined share one mesh.
      one_thread: whether a CPU has one thread by default. For callers whose other processes use
        the cores, or whose programs run several lanes side by side.

    Returns:
      The slots, at least one.

    Raises:
      ValueError: as `choose`, or if meshes of this size do not fill the devices.
    """
    if mesh_size is None:
        return _single_slots(devices, one_thread=one_thread)
    checks.static_int('mesh', mesh_size)
    if jax.process_count() > 1:
        return [_across_processes(mesh_size)]
    num_devices = len(local())
    if devices is None and mesh_size > num_devices:
        requirement = f'have at most {num_devices} devices, all there are'
        raise errors.invalid('mesh', requirement, mesh_size)
    chosen = choose(mesh_size if devices is None else devices)
    if len(chosen) % mesh_size:
        requirement = f'have a number of devices that divides `devices` = {len(chosen)}'
        raise errors.invalid('mesh', requirement, mesh_size)
    starts = range(0, len(chosen), mesh_size)
    return [DeviceSlot(tuple(chosen[i : i + mesh_size]), is_mesh=True) for i in starts]


def _single_slots(devices: Devices, *, one_thread: bool) -> list[DeviceSlot]:
    """Returns slots without a mesh: devices, or threads of a CPU."""
    first = local()[0]
    if first.platform != 'cpu':
        return [DeviceSlot((device,)) for device in choose(devices)]
    if devices is None:
        count = 1 if one_thread else cpus.num_cores() or 1
    elif isinstance(devices, int | np.integer):
        checks.static_int('devices', devices)
        count = int(devices)
    else:
        count = len(choose(devices))
    if count == 1:
        return [DeviceSlot((first,))]
    return [DeviceSlot((first,), thread=index) for index in range(count)]


def _across_processes(mesh_size: int) -> DeviceSlot:
    """Returns one mesh with equally many devices of each process that has joined."""
    count = jax.process_count()
    if mesh_size % count:
        requirement = f'have a number of devices that the {count} processes divide'
        raise errors.invalid('mesh', requirement, mesh_size)
    devices_per_process = mesh_size // count
    chosen: list[jax.Device] = []
    for process in range(count):
        devices = jax.local_devices(process)
        if len(devices) < devices_per_process:
            requirement = (
                f'have at most {len(devices)} devices of process {process}, all it has'
            )
            raise errors.invalid('mesh', requirement, devices_per_process)
        chosen += devices[:devices_per_process]
    return DeviceSlot(tuple(chosen), is_mesh=True)
