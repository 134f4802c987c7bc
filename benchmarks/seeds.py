"""Four seeds of `micro` on two devices of a CPU against one; a lane has the same bits on both."""

from typing import Any

import jax
import numpy as np

from benchmarks import common, micro, summary
from fedjax_links import participation, sweeps
from fedjax_links.base import Problem
from fedjax_links.machines import devices

TARGET = 1.9
NUM_SEEDS = 4
NUM_DEVICES = 2


def measure(quick: bool) -> dict[str, Any]:
    """The record of this benchmark."""
    settings = micro.QUICK if quick else micro.Settings(num_rounds=5_000)
    links = participation.uniform_cohort(settings.num_clients, settings.cohort_size)
    data = micro.problem(settings)

    def lane(seed: jax.Array, data: Problem) -> Any:
        return micro.engine(jax.random.key(seed), data, settings, links)

    run = jax.jit(sweeps.over_lanes(lane, 'map'))
    seeds = np.arange(NUM_SEEDS, dtype=np.uint32)

    def on(count: int) -> Any:
        """Dispatches a program on each of the first devices, all compiled before."""
        calls = []
        for device, share in zip(jax.devices(), devices.shares(NUM_SEEDS, count), strict=False):
            given = jax.device_put((seeds[share.start : share.stop], data), device)
            calls.append((run.lower(*given).compile(), given))

        def call() -> Any:
            return jax.block_until_ready([program(*given) for program, given in calls])

        return call

    calls = {'one': on(1), 'two': on(NUM_DEVICES)}
    results = {
        name: [np.concatenate(rows) for rows in zip(*map(jax.tree.leaves, call()), strict=True)]
        for name, call in calls.items()
    }
    for ours, theirs in zip(results['one'], results['two'], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    seconds = common.take_turns(calls, repeats=3 if quick else 7)
    rounds = NUM_SEEDS * settings.num_rounds
    row = summary.ratio_row(
        f'{NUM_SEEDS} seeds of micro: speed on two devices relative to one, equal bits',
        seconds['one'],
        seconds['two'],
        TARGET,
        detail=f'{rounds / float(np.median(seconds["two"])):,.0f} rounds/s in all',
    )
    return {'settings': settings._asdict(), 'rows': [row]}


if __name__ == '__main__':
    devices.prepare(NUM_DEVICES)
    common.main('seeds', 'Several seeds on two devices against one.', measure)
