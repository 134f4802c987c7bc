"""Measures memory: what is free, what programs need, and how sizes are written."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax

from fedjax_links.core import errors


def platform() -> str:
    """Returns the platform of the device that programs are traced for: ``'cpu'``, ``'gpu'``, ..."""
    chosen = getattr(jax.config, 'jax_default_device', None)
    if chosen is None:
        return jax.default_backend()
    return chosen if isinstance(chosen, str) else str(chosen.platform)


def available_bytes() -> int | None:
    """Returns free device memory, on a CPU `host_bytes`; None if unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and 'bytes_limit' in stats:
        return int(stats['bytes_limit'] - stats.get('bytes_in_use', 0))
    return host_bytes()


def device_bytes() -> int | None:
    """Returns all memory of an accelerator that JAX may use, taken or free; None if unknown."""
    stats = jax.local_devices()[0].memory_stats()
    return int(stats['bytes_limit']) if stats and 'bytes_limit' in stats else None


def host_bytes(root: Path = Path('/')) -> int | None:
    """Returns free memory of the machine, or what its control groups leave to this process.

    Args:
      root: where ``proc`` and ``sys`` are.

    Returns:
      Bytes; None if unknown, as on systems other than Linux.
    """
    limits = list(_left_in_groups(root))
    meminfo = root / 'proc/meminfo'
    if meminfo.exists():
        fields = dict(line.split(':', 1) for line in meminfo.read_text().splitlines())
        limits.append(int(fields['MemAvailable'].split()[0]) * 1024)
    return min(limits, default=None)


class _GroupFiles(NamedTuple):
    """Names the files that hold the memory of control groups; the names differ by version.

    Attributes:
      mount: the folder of the groups, below ``sys/fs/cgroup``.
      limit: the file with the limit.
      usage: the file with the memory in use.
      droppable: the field of ``memory.stat`` with the memory in use that can be dropped: caches.
    """

    mount: str
    limit: str
    usage: str
    droppable: str


_VERSION_1 = _GroupFiles(
    'memory', 'memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file'
)
_VERSION_2 = _GroupFiles('', 'memory.max', 'memory.current', 'inactive_file')


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yields what each control group with a limit leaves to this process."""
    table = root / 'proc/self/cgroup'
    if not table.exists():
        return
    for line in table.read_text().splitlines():
        _, controllers, path = line.split(':', 2)
        if controllers and 'memory' not in controllers.split(','):
            continue
        files = _VERSION_1 if controllers else _VERSION_2
        mount = root / 'sys/fs/cgroup' / files.mount
        group = mount / path.lstrip('/')
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount) and (folder / files.limit).is_file():
                yield from _left_in_group(folder, files)


def _left_in_group(group: Path, files: _GroupFiles) -> Iterator[int]:
    """Yields what one control group leaves, if it has a limit."""
    limit = (group / files.limit).read_text()
    if limit == 'max\n':
        return
    rows = (group / 'memory.stat').read_text().splitlines()
    statistics = dict(row.split() for row in rows)
    usage = int((group / files.usage).read_text())
    droppable = int(statistics.get(files.droppable, 0))
    yield max(0, int(limit) - usage + droppable)


def peak_bytes(
    compiled: jax.stages.Compiled, num_copies: int, *, num_outputs: int = 1
) -> int | None:
    """Returns what a program needs at once: states, data and work space; None if unknown.

    Args:
      compiled: the program, as one device runs it.
      num_copies: how many devices or threads run the program at the same time in one memory.
      num_outputs: how many outputs of each copy are in memory at once.

    Returns:
      Bytes, for all copies together.
    """
    sizes = compiled.memory_analysis()
    if not sizes:
        return None
    outputs = num_outputs * sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    return num_copies * int(
        sizes.argument_size_in_bytes + outputs + sizes.temp_size_in_bytes
    )


def size(num_bytes: float) -> str:
    """Formats a size: ``2.5 KiB`` below one MiB, ``1,024.0 MiB`` above."""
    if num_bytes < 2**20:
        return f'{num_bytes / 2**10:.1f} KiB'
    return f'{num_bytes / 2**20:,.1f} MiB'


def refuse_if_above(available: int | None, needed: int, user: str) -> None:
    """Raises if more memory is needed than is free.

    Args:
      available: free bytes; None if unknown, which raises nothing.
      needed: bytes.
      user: what needs the bytes, for the error.

    Raises:
      ValueError: naming both numbers.
    """
    if available is not None and needed > available:
        message = (
            f'must fit into memory: {user} needs {size(needed)}, {size(available)} are free; '
            'fewer clients or a smaller model would fit'
        )
        raise errors.InvalidError('config', 'fit into memory', size(needed), message)


def lanes_that_fit(lane_bytes: int, num_lanes: int) -> int:
    """Returns how many lanes (single simulations) fit into free memory at once, at least one.

    Args:
      lane_bytes: bytes of a lane's state; a round is assumed to need twice as much in addition.
      num_lanes: the largest number to return.
    """
    free = available_bytes()
    if free is None:
        return num_lanes
    return max(1, min(num_lanes, free // (3 * max(lane_bytes, 1))))
