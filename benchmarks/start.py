"""Times how soon something happens: help, an error, the first program, the quickstart twice.

Commands run in processes of their own. Every first run of the quickstart has an empty compilation
cache, and the next one that of the first.
"""

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import commands, common, micro, summary
from fedjax_links import participation

NINE = micro.Settings(num_clients=9, num_samples=8, cohort_size=3, num_rounds=20)
QUICKSTART = '--config=configs/quickstart.py'
TARGETS = {'help': 1.0, 'error': 1.0, 'compile': 0.9, 'first': 12.0, 'cached': 7.0}
PREVIOUS_GIBIBYTES = 0.670
"""Of the first run at commit 5540510 on an x86-64 CPU, jax 0.10.2, Python 3.11."""


def simulate(*arguments: str, cache: Path, status: int = 0) -> commands.CommandCost:
    """Runs the command ``simulate`` with its programs in a cache."""
    environment = {'JAX_COMPILATION_CACHE_DIR': str(cache)}
    command = ['-m', 'fedjax_links', 'simulate', *arguments]
    return commands.run(command, environment, status=status)


def compile_seconds(repeats: int) -> list[float]:
    """Times tracing, lowering and compiling FedAvg of nine clients, each with empty caches."""
    links = participation.bernoulli(np.full(NINE.num_clients, 0.5))
    arguments = jax.random.key(0), micro.problem(NINE)
    times = []
    for _ in range(repeats):
        jax.clear_caches()
        _, seconds = common.compile_program(
            lambda key, data: micro.engine(key, data, NINE, links), *arguments
        )
        times.append(seconds)
    return times


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    repeats = 1 if quick else 5
    size = ['--config.num_rounds=20'] if quick else []
    first = []
    cached = []
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        # After its help, absl exits with status 1.
        helps = [simulate('--help', cache=base, status=1) for _ in range(repeats)]
        mistake = [QUICKSTART, '--config.num_rounds=-1', f'--workdir={base / "none"}']
        errors = [simulate(*mistake, cache=base, status=2) for _ in range(repeats)]
        for repeat in range(1 if quick else 3):
            for runs, workdir in (
                (first, f'first{repeat}'),
                (cached, f'cached{repeat}'),
            ):
                arguments = [QUICKSTART, *size, f'--workdir={base / workdir}']
                runs.append(simulate(*arguments, cache=base / f'cache{repeat}'))
    rows = [
        summary.values_row(what, seconds, 's', TARGETS[name])
        for name, what, seconds in (
            ('help', '`simulate --help`', [done.seconds for done in helps]),
            ('error', 'an error in a config', [done.seconds for done in errors]),
            ('compile', 'compiling FedAvg with nine clients', compile_seconds(repeats)),
            ('first', 'the first command, installed', [done.seconds for done in first]),
            (
                'cached',
                'the same command with its programs cached',
                [done.seconds for done in cached],
            ),
        )
    ]
    peaks = [done.gibibytes for done in first]
    what = 'the first command: peak of the process'
    return {
        'rows': [
            *rows,
            summary.values_row(what, peaks, 'GiB', previous=PREVIOUS_GIBIBYTES),
        ]
    }


if __name__ == '__main__':
    common.main('start', 'Help, the first program, the quickstart.', measure)
