"""How much memory there is, and how to say so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from fedjax_links.core import errors


def platform() -> str:
    """That of the device which programs are traced for, as JAX's settings say: ``'cpu'``, ..."""
    chosen = getattr(jax.config, 'jax_default_device', None)
    if chosen is None:
        return jax.default_backend()
    return chosen if isinstance(chosen, str) else str(chosen.platform)


def available_bytes() -> int | None:
    """Free device memory; on a CPU `host_bytes`; None where nothing says."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and 'bytes_limit' in stats:
        return int(stats['bytes_limit'] - stats.get('bytes_in_use', 0))
    return host_bytes()


def device_bytes() -> int | None:
    """All memory of an accelerator that JAX may use, taken or free; None where nothing says."""
    stats = jax.local_devices()[0].memory_stats()
    return int(stats['bytes_limit']) if stats and 'bytes_limit' in stats else None


def host_bytes(root: Path = Path('/')) -> int | None:
    """Free memory of the machine, or of what its control groups leave this process.

    Args:
      root: where ``proc`` and ``sys`` are.

    Returns:
      Bytes; None where nothing says, as on systems other than Linux.
    """
    found = [*_left_in_groups(root)]
    meminfo = root / 'proc/meminfo'
    if meminfo.exists():
        fields = dict(line.split(':', 1) for line in meminfo.read_text().splitlines())
        found.append(int(fields['MemAvailable'].split()[0]) * 1024)
    return min(found, default=None)


_GROUP_FILES = (  # limit, what is taken, what of that can be dropped: of version 2, of version 1
    ('memory.max', 'memory.current', 'inactive_file'),
    ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file'),
)


def _left_in_groups(root: Path) -> Iterator[int]:
    """What each control group with a limit, of either version, leaves to the process in it."""
    table = root / 'proc/self/cgroup'
    for line in table.read_text().splitlines() if table.exists() else ():
        _, controllers, path = line.split(':', 2)
        if 'memory' not in (controllers or 'memory').split(','):
            continue
        mount = root / 'sys/fs/cgroup' / ('memory' if controllers else '')
        limit, usage, cached = _GROUP_FILES[bool(controllers)]
        group = mount / path.lstrip('/')
        for folder in (group, *group.parents):
            inside = folder.is_relative_to(mount) and (folder / limit).is_file()
            if inside and (most := (folder / limit).read_text()) != 'max\n':
                rows = (folder / 'memory.stat').read_text().splitlines()
                dropped = int(dict(row.split() for row in rows).get(cached, 0))
                yield max(0, int(most) - int((folder / usage).read_text()) + dropped)


def peak_bytes(compiled: Any, num_copies: int, *, num_outputs: int = 1) -> int | None:
    """What a program needs at once: states, data and work space; None where nothing says.

    Args:
      compiled: the program, as one device runs it.
      num_copies: how many run it at the same time in one memory.
      num_outputs: how many times each of them does, where all outputs are kept.

    Returns:
      Bytes of that memory.
    """
    found = compiled.memory_analysis()
    if not found:
        return None
    outputs = num_outputs * found.output_size_in_bytes - found.alias_size_in_bytes
    return num_copies * int(
        found.argument_size_in_bytes + outputs + found.temp_size_in_bytes
    )


def size(num_bytes: float) -> str:
    """``2.5 KiB`` below one MiB, ``1,024.0 MiB`` above."""
    if num_bytes < 2**20:
        return f'{num_bytes / 2**10:.1f} KiB'
    return f'{num_bytes / 2**20:,.1f} MiB'


def refuse_if_above(available: int | None, needed: int, whose: str) -> None:
    """Raises if what is needed is known not to fit.

    Args:
      available: free bytes; None if unknown.
      needed: bytes.
      whose: who needs them, for the error.

    Raises:
      ValueError: naming both numbers.
    """
    if available and needed > available:
        said = (
            f'must fit into memory: {whose} needs {size(needed)}, {size(available)} are free; '
            'fewer clients or a smaller model would fit'
        )
        raise errors.InvalidError('config', 'fit into memory', size(needed), said)


def lanes_that_fit(lane_bytes: int, wanted: int) -> int:
    """How many lanes of a size may run side by side, at least one.

    Args:
      lane_bytes: what a lane keeps; a round is taken to need as much again, twice.
      wanted: the number of lanes there are.

    Returns:
      As many of them as the free memory holds.
    """
    free = available_bytes()
    return (
        wanted
        if free is None
        else max(1, min(wanted, free // (3 * max(lane_bytes, 1))))
    )
