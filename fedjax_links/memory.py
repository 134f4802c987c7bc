"""How much memory there is, and how to say so."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax


def available_bytes() -> int | None:
    """Free device memory; on CPU, the machine's available memory; None where nothing says."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and 'bytes_limit' in stats:
        return int(stats['bytes_limit'] - stats.get('bytes_in_use', 0))
    meminfo = Path('/proc/meminfo')
    if not meminfo.exists():
        return None
    fields = dict(line.split(':', 1) for line in meminfo.read_text().splitlines())
    return int(fields['MemAvailable'].split()[0]) * 1024


def peak_bytes(compiled: Any, num_copies: int) -> int | None:
    """What a program needs at once: states, data and work space; None where nothing says.

    Args:
      compiled: the program, as one device runs it.
      num_copies: devices that run it in one memory.

    Returns:
      Bytes of that memory.
    """
    found = compiled.memory_analysis()
    if not found:
        return None
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return num_copies * int(sizes - found.alias_size_in_bytes)


def size(num_bytes: int) -> str:
    """``2.5 KiB`` below one MiB, ``1,024.0 MiB`` above."""
    if num_bytes < 2**20:
        return f'{num_bytes / 2**10:.1f} KiB'
    return f'{num_bytes / 2**20:,.1f} MiB'


def refuse_if_above(
    available: int | None, needed: int, whose: str, remedies: Sequence[str] = ()
) -> None:
    """Raises if what is needed is known not to fit.

    Args:
      available: free bytes; None if unknown.
      needed: bytes.
      whose: who needs them, for the error.
      remedies: what is known to fit instead.

    Raises:
      ValueError: naming both numbers and the remedies.
    """
    if available and needed > available:
        raise ValueError(
            f'`config` must fit into memory: {whose} needs {size(needed)}, '
            f'{size(available)} are free; {", ".join([*remedies, "fewer clients"])} or a smaller '
            'model would fit.'
        )


def lanes_that_fit(lane_bytes: int, wanted: int) -> int:
    """How many lanes of a size may run side by side, at least one.

    Args:
      lane_bytes: what a lane keeps; a round is taken to need as much again, twice.
      wanted: the number of lanes there are.

    Returns:
      As many of them as the free memory holds.
    """
    free = available_bytes()
    if free is None:
        return wanted
    return max(1, min(wanted, free // (3 * max(lane_bytes, 1))))
