"""How soon something happens: help, the first program, the first run of the quickstart, the second.

Commands run in processes of their own, with a compilation cache that is empty at first.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import common, micro
from fedjax_links import participation

ROOT = Path(__file__).parent.parent
NINE = micro.Settings(num_clients=9, num_samples=8, cohort_size=3, num_rounds=20)
TARGETS = {'help': 1.0, 'compile': 0.9, 'first_run': 12.0}


def seconds_of(arguments: list[str], cache: Path) -> float:
    """Wall seconds of a command of the package.

    Raises:
      RuntimeError: if it fails, with the end of what it said.
    """
    environment = {**os.environ, 'JAX_COMPILATION_CACHE_DIR': str(cache)}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, '-m', 'fedjax_links', *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, 1):  # absl ends --help with 1
        raise RuntimeError(done.stderr[-500:])
    return seconds


def compile_seconds(repeats: int) -> list[float]:
    """Tracing, lowering and compiling a nine-client FedAvg, caches emptied before each."""
    links = participation.bernoulli(np.full(NINE.num_clients, 0.5))
    arguments = jax.random.key(0), micro.problem(NINE)
    found = []
    for _ in range(repeats):
        jax.clear_caches()
        _, seconds = common.compile_program(
            lambda key, data: micro.engine(key, data, NINE, links), *arguments
        )
        found.append(seconds)
    return found


def measure(quick: bool) -> dict[str, Any]:
    """The record of this benchmark."""
    repeats = 1 if quick else 5
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        helps = [seconds_of(['simulate', '--help'], base / 'cache') for _ in range(repeats)]
        size = ['--config.num_rounds=20'] if quick else []
        command = ['simulate', '--config=configs/quickstart.py', *size]
        runs = [
            seconds_of([*command, f'--workdir={base / run}'], base / 'cache')
            for run in ('first', 'second')
        ]
    compiled = compile_seconds(repeats)
    rows = [
        _row('seconds of `simulate --help`', helps, TARGETS['help']),
        _row('seconds to compile FedAvg with nine clients', compiled, TARGETS['compile']),
        _row('seconds of the first command, installed', runs[:1], TARGETS['first_run']),
        _row('seconds of the same command with its programs cached', runs[1:], None),
    ]
    return {'rows': rows}


def _row(what: str, seconds: list[float], target: float | None) -> dict[str, Any]:
    spread = [round(min(seconds), 2), round(max(seconds), 2)] if len(seconds) > 1 else None
    median = round(float(np.median(seconds)), 2)
    bound = {'target': target, 'at_most': True, 'spread': spread}
    return {'what': what, 'measured': median, 'unit': 's', **bound}


if __name__ == '__main__':
    common.main('start', 'Help, the first program, the quickstart.', measure)
