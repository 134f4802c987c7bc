"""Times four seeds of `micro` on two CPU devices against one; lanes have the same bits."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks import common, micro, summary
from fedjax_links import participation
from fedjax_links.base import Problem
from fedjax_links.machines import devices, lanes

TARGET = 1.9
TARGET_WITH_COMPILING = 1.3
NUM_SEEDS = 4
NUM_DEVICES = 2


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    settings = micro.QUICK if quick else micro.Settings(num_rounds=5_000)
    shorter = settings if quick else settings._replace(num_rounds=2_000)
    data = micro.problem(settings)
    calls = {}
    results = {}
    for num_devices in (1, NUM_DEVICES):
        run = _compiled(settings, data, num_devices)
        calls[num_devices] = functools.partial(_run, run)
        results[num_devices] = jax.tree.map(np.asarray, run())
    jax.tree.map(np.testing.assert_array_equal, results[1], results[NUM_DEVICES])
    repeats = 3 if quick else 7
    seconds = common.take_turns(calls, repeats=repeats)
    compiling = {
        num_devices: functools.partial(_compile_and_run, shorter, data, num_devices)
        for num_devices in calls
    }
    with_compiling = common.take_turns(compiling, repeats=repeats)
    rounds = NUM_SEEDS * settings.num_rounds
    rows = [
        summary.ratio_row(
            f'{NUM_SEEDS} seeds of micro: speed on two devices relative to one, equal bits',
            seconds[1],
            seconds[NUM_DEVICES],
            TARGET,
            detail=f'{rounds / float(np.median(seconds[NUM_DEVICES])):,.0f} rounds/s in all',
        ),
        summary.ratio_row(
            f'the same, {shorter.num_rounds:,} rounds with their compilation',
            with_compiling[1],
            with_compiling[NUM_DEVICES],
            TARGET_WITH_COMPILING,
        ),
    ]
    return {'settings': settings._asdict(), 'rows': rows}


def _run(run: Callable[[], Any]) -> Any:
    """Runs the seeds to their end."""
    return jax.block_until_ready(run())


def _compile_and_run(settings: micro.Settings, data: Problem, num_devices: int) -> Any:
    """Compiles the program of the seeds, and runs it to its end."""
    return _run(_compiled(settings, data, num_devices))


def _compiled(settings: micro.Settings, data: Problem, num_devices: int) -> Any:
    """Returns a function that runs the seeds on the first devices."""
    links = participation.uniform_cohort(settings.num_clients, settings.cohort_size)

    def lane(seed: jax.Array, data: Problem) -> Any:
        return micro.engine(jax.random.key(seed), data, settings, links)

    seeds = np.arange(NUM_SEEDS, dtype=np.uint32)
    slots = devices.device_slots(num_devices)
    return lanes.spread(lane, seeds, data, slots, (NUM_SEEDS,), side_by_side=False)


if __name__ == '__main__':
    common.main('seeds', 'Several seeds on two devices against one.', measure)
