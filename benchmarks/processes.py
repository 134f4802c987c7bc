"""Times processes of one machine: seeds as shards of a run, and clients of a round on a mesh.

Weak scaling: K processes run K seeds. Strong scaling: K processes share the clients of every round
of one seed. Both run the command ``simulate``. Their metrics must be those of one process, to the
byte. The time of a long run minus that of a short one leaves out start and compilation.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import common, summary

ROOT = Path(__file__).parent.parent
COUNTS = 1, 2, 4, 8
QUICK_COUNTS = 1, 2
SHORT = 10
"""Rounds of the run that is subtracted."""
REPEATS = 3
"""How often all runs are repeated."""
CONFIG = {
    'title': 'Processes',
    'problem': {
        'name': 'images',
        'dataset': 'synthetic_images',
        'num_clients': 32,
        'model': {'name': 'cnn', 'channels': [4, 8], 'hidden': [32]},
        'partition': 'iid',
    },
    'links': {'name': 'uniform_cohort', 'cohort_size': 8},
    'client': {'learning_rate': 0.05, 'local_steps': 10, 'batch_size': 16},
    'algorithms': {'fedavg': {}},
    'eval_every': SHORT,
}


def run(folder: Path, num_rounds: int, num_seeds: int, flags: list[list[str]]) -> float:
    """Runs a command for each list of flags at the same time, and returns the seconds of all.

    Raises:
      RuntimeError: if one of them fails.
    """
    config = folder.with_suffix('.json')
    config.write_text(
        json.dumps({**CONFIG, 'num_rounds': num_rounds, 'num_seeds': num_seeds})
    )
    command = [sys.executable, '-m', 'fedjax_links', 'simulate', f'--config={config}']
    begin = time.perf_counter()
    started = [
        subprocess.Popen(
            [*command, f'--workdir={folder}', *more],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for more in flags
    ]
    outputs = [process.communicate()[1] for process in started]
    seconds = time.perf_counter() - begin
    for process, output in zip(started, outputs, strict=True):
        if process.returncode:
            raise RuntimeError(output[-500:])
    return seconds


def shard_flags(count: int) -> list[list[str]]:
    """Returns the flags of processes that run a seed each, on one thread each."""
    if count == 1:
        return [['--devices=1']]
    return [[f'--shard={index}/{count}', '--devices=1'] for index in range(count)]


def mesh_flags(count: int) -> list[list[str]]:
    """Returns the flags of processes that share the clients of each round."""
    mesh = f'--mesh=clients:{count}'
    if count == 1:
        return [[mesh]]
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    common_flags = [mesh, f'--coordinator=127.0.0.1:{port}', f'--num_processes={count}']
    return [[*common_flags, f'--process_id={index}'] for index in range(count)]


def metrics_of_first_seed(folder: Path) -> list[str]:
    """Returns the lines of metrics of seed 0, after the shards of a run have been merged."""
    metrics = folder / 'metrics.jsonl'
    if not metrics.exists():
        merge = [sys.executable, '-m', 'fedjax_links', 'merge', f'--workdir={folder}']
        subprocess.run(merge, cwd=ROOT, check=True, capture_output=True)
    lines = metrics.read_text().splitlines()
    return [line for line in lines if json.loads(line)['seed'] == 0]


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    counts = QUICK_COUNTS if quick else COUNTS
    num_rounds = 2 * SHORT if quick else 20 * SHORT
    repeats = 1 if quick else REPEATS
    steady: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for repeat in range(repeats):
            for kind in ('weak', 'strong'):
                results: dict[int, list[str]] = {}
                for count in counts:
                    folder = Path(scratch, f'{kind}{count}-{repeat}')
                    seconds, metrics = _steady_seconds(kind, count, num_rounds, folder)
                    steady.setdefault((kind, count), []).append(seconds)
                    results[count] = metrics
                _prove(kind, results)
    return {
        'settings': {**CONFIG, 'num_rounds': num_rounds},
        'rows': [*_rows('weak', counts, steady), *_rows('strong', counts, steady)],
    }


def _steady_seconds(
    kind: str, count: int, num_rounds: int, folder: Path
) -> tuple[float, list[str]]:
    """Times the rounds of a run beyond `SHORT`.

    Args:
      kind: ``'weak'`` or ``'strong'``.
      count: number of processes.
      num_rounds: rounds of the long run.
      folder: names of the run folders start with it.

    Returns:
      The seconds, and the metrics of seed 0 of the long run.
    """
    num_seeds = count if kind == 'weak' else 1
    flags_of = shard_flags if kind == 'weak' else mesh_flags
    short_folder = folder.with_name(f'{folder.name}-{SHORT}')
    long_folder = folder.with_name(f'{folder.name}-{num_rounds}')
    short_seconds = run(short_folder, SHORT, num_seeds, flags_of(count))
    long_seconds = run(long_folder, num_rounds, num_seeds, flags_of(count))
    print(kind, count, short_seconds, long_seconds, file=sys.stderr, flush=True)
    return long_seconds - short_seconds, metrics_of_first_seed(long_folder)


def _prove(kind: str, results: dict[int, list[str]]) -> None:
    """Raises unless seed 0 has the metrics that it has in one process."""
    for count, lines in results.items():
        if lines != results[1]:
            raise ValueError(f'{kind}: {count} processes have other metrics than one.')


def _rows(
    kind: str, counts: tuple[int, ...], steady: dict[tuple[str, int], list[float]]
) -> list[dict[str, Any]]:
    """Returns a row for each number of processes above one."""
    rows = []
    for count in counts[1:]:
        work = count if kind == 'weak' else 1
        what = f'{count} processes that share the clients of a round: speed relative to one'
        if kind == 'weak':
            what = (
                f'{count} processes with a seed each: rounds per second relative to one'
            )
        one_process = [work * seconds for seconds in steady[kind, 1]]
        rows.append(summary.ratio_row(what, one_process, steady[kind, count]))
    return rows


if __name__ == '__main__':
    common.main('processes', 'Several processes of one machine against one.', measure)
