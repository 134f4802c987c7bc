"""Shares what benchmarks need: timing by alternation, a named device, one JSON record."""

import argparse
import datetime
import functools
import json
import os
import pathlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import fedjax_links


class Timing(NamedTuple):
    """Holds how long a program took.

    Attributes:
      compile_seconds: tracing, lowering and compiling, once.
      seconds: one entry per timed call.
    """

    compile_seconds: float
    seconds: list[float]

    @property
    def median(self) -> float:
        """Returns the median seconds of a call."""
        return float(np.median(self.seconds))


def compile_program(
    fn: Callable[..., Any], *args: Any
) -> tuple[Callable[..., Any], float]:
    """Compiles ahead of time.

    Args:
      fn: a pure function.
      *args: its arguments; data among them stay arguments.

    Returns:
      The compiled program and the seconds it took.
    """
    start = time.perf_counter()
    program = jax.jit(fn).lower(*args).compile()
    return program, time.perf_counter() - start


def alternate(
    functions: Mapping[str, Callable[..., Any]], args: Sequence[Any], *, repeats: int
) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Times programs in turns, so that a slow spell of the machine hits all of them.

    Args:
      functions: pure functions by name, all of the same arguments.
      args: those arguments.
      repeats: timed calls of each, after one that is not timed.

    Returns:
      Timings and results by name.
    """
    programs = {name: compile_program(fn, *args) for name, fn in functions.items()}
    results = {
        name: jax.block_until_ready(run(*args)) for name, (run, _) in programs.items()
    }
    calls = {
        name: functools.partial(lambda run: jax.block_until_ready(run(*args)), run)
        for name, (run, _) in programs.items()
    }
    seconds = take_turns(calls, repeats=repeats)
    timings = {name: Timing(programs[name][1], seconds[name]) for name in programs}
    return timings, results


def take_turns(
    calls: Mapping[str, Callable[[], Any]], *, repeats: int
) -> dict[str, list[float]]:
    """Returns the seconds of every call: all of them once, then all again, ``repeats`` times.

    What runs in another process returns the seconds that it took there, as a float.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            output = call()
            elapsed = time.perf_counter() - start
            seconds[name].append(output if isinstance(output, float) else elapsed)
    return seconds


def require_close(actual: Any, expected: Any, *, tolerance: float, what: str) -> float:
    """Proves that two programs compute the same result.

    Args:
      actual: pytree.
      expected: pytree of the same structure.
      tolerance: largest difference allowed, relative to entries above one and absolute below.
      what: named if the proof fails.

    Returns:
      The largest difference met, in the same sense.

    Raises:
      ValueError: if the results differ by more, or are not finite.
    """
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    gaps = [_difference(np.asarray(a), np.asarray(b)) for a, b in pairs]
    gap = float(np.max(gaps))  # NaN if any is; Python's maximum may drop it
    if not gap <= tolerance:
        raise ValueError(
            f'{what}: results differ by {gap:.3g}, more than {tolerance:.3g}.'
        )
    return gap


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected) / np.maximum(np.abs(expected), 1)))


def rates(
    timings: Mapping[str, Timing], num_rounds: int, *, digits: int = 1
) -> dict[str, dict[str, float]]:
    """Returns compile seconds and steady rounds per second by program."""
    return {
        name: {
            'compile_seconds': round(timing.compile_seconds, 3),
            'rounds_per_second': round(num_rounds / timing.median, digits),
            'fastest_rounds_per_second': round(
                num_rounds / min(timing.seconds), digits
            ),
        }
        for name, timing in timings.items()
    }


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_cores(seconds: float = 1.0) -> float:
    """Returns how many cores others keep busy; the load where the system does not count them."""
    counts = pathlib.Path('/proc/stat')
    if not counts.exists():
        return os.getloadavg()[0]

    def busy() -> float:
        user, nice, system, _, _, *rest = map(
            int, counts.read_text().split('\n')[0].split()[1:9]
        )
        return (user + nice + system + sum(rest)) / os.sysconf('SC_CLK_TCK')

    before = busy()
    begin = time.perf_counter()
    time.sleep(seconds)
    return (busy() - before) / (time.perf_counter() - begin)


def device() -> dict[str, Any]:
    """Returns the device that the programs ran on, and what else their speed depends on."""
    first = jax.devices()[0]
    return {
        'platform': first.platform,
        'kind': first.device_kind if first.platform != 'cpu' else _cpu_model(),
        'cores': os.cpu_count(),
        'busy_cores': round(busy_cores(), 2),
        'jax': jax.__version__,
        'python': platform.python_version(),
        'fedjax_links': fedjax_links.__version__,
    }


def _cpu_model() -> str:
    cpuinfo = pathlib.Path('/proc/cpuinfo')
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [
        line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')
    ]
    return names[0] if names else platform.machine()


def main(
    name: str, description: str, measure: Callable[[bool], dict[str, Any]]
) -> None:
    """Runs one benchmark from the command line.

    Args:
      name: of the benchmark.
      description: one line for ``--help``.
      measure: ``quick -> record``.
    """
    parser = argparse.ArgumentParser(
        prog=f'python -m benchmarks.{name}', description=description
    )
    parser.add_argument(
        '--quick', action='store_true', help='a smaller workload, in seconds'
    )
    parser.add_argument(
        '--out', type=pathlib.Path, help='also write the record to this file'
    )
    args = parser.parse_args()
    begin = time.perf_counter()
    record = {
        'benchmark': name,
        'date': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
        'quick': args.quick,
        'device': device(),
        **measure(args.quick),
        'took_seconds': round(time.perf_counter() - begin, 1),
    }
    text = json.dumps(record, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + '\n')
