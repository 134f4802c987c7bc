"""Kills real runs at random moments, and checks that they end as if nothing had happened.

python -m tests.attacks.kills --count=60

Each case starts the command, kills it (SIGKILL) at a random moment of a stage, and starts it again
until it ends by itself. Then the folder must equal that of an unbroken run, byte for byte: metrics,
config, links, final states, report and its pictures.
"""

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from absl import app, flags

from tests.attacks import killing

STAGES = ('start', 'tuning', 'main', 'checkpoint', 'report')
COUNT = flags.DEFINE_integer('count', 60, 'Runs to kill.', lower_bound=1)
SEED = flags.DEFINE_integer('seed', 0, 'Seed of the random moments.')
STAGE = flags.DEFINE_enum('stage', None, STAGES, 'Kill in this stage only.')
CONFIG = """
from ml_collections import ConfigDict


def get_config():
    return ConfigDict({
        'title': 'To be killed',
        'problem': {'name': 'counterexample', 'num_clients': 20, 'dimension': 400},
        'patterns': {
            'often': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
            'bursts': {'name': 'markov', 'probs': {'name': 'halves', 'first': 0.1, 'second': 0.6}},
        },
        'client': {'local_steps': 3},
        'algorithms': {'fedavg': {}, 'fedpbc': {}, 'mifa': {}},
        'tuning': {
            'learning_rates': (0.05, 0.1), 'pattern': 'often', 'num_rounds': 600, 'num_seeds': 2
        },
        'num_rounds': 1200,
        'eval_every': 20,
        'num_seeds': 2,
        'metric': 'loss',
    })
"""


def command(folder: Path) -> list[str]:
    """Returns the command that a user types for a run in a folder."""
    config = folder.parent / 'config.py'
    config.write_text(CONFIG)
    flags_ = [f'--config={config}', f'--workdir={folder}']
    return [sys.executable, '-m', 'fedjax_links', 'simulate', *flags_]


def random_moment(stage: str, folder: Path, rng: random.Random) -> Callable[[], bool]:
    """Draws a moment of a stage, and returns a function that tells whether it has come.

    Args:
      stage: one of `STAGES`.
      folder: of the run.
      rng: draws a time in `start`, and a number of lines of metrics in the other stages.
    """
    metrics = folder / 'metrics.jsonl'
    checkpoints = folder / 'checkpoints'
    num_lines = rng.randrange(1, 60)
    start_time = time.monotonic() + rng.uniform(0, 6)

    def lines() -> list[bytes]:
        return metrics.read_bytes().splitlines() if metrics.exists() else []

    def has_come() -> bool:
        if stage == 'start':
            return time.monotonic() > start_time
        if stage == 'tuning':
            return len(lines()) >= num_lines
        if stage == 'main':
            # Only lines of tuning have a stage.
            main_lines = [line for line in lines() if b'"stage"' not in line]
            return len(main_lines) >= 3 * num_lines
        if stage == 'checkpoint':
            is_writing = checkpoints.exists() and any(checkpoints.glob('*.partial'))
            return is_writing and len(lines()) >= num_lines
        return any(folder.glob('*.png*')) or any(folder.glob('report.md*'))

    return has_come


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the content of all files that must not depend on interruptions, by name."""
    names = [
        'metrics.jsonl',
        'config.json',
        'experiment.json',
        'links.npz',
        'report.md',
    ]
    paths = [folder / name for name in names]
    paths += [
        *sorted(folder.glob('*.png')),
        *sorted(folder.glob('checkpoints/*@1200.npz')),
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def kill_a_run(
    stage: str, unbroken: dict[str, bytes], rng: random.Random
) -> tuple[str, int]:
    """Runs the command with kills, and compares the folder with that of an unbroken run.

    Returns:
      The error of the command, or the names of the files that differ, or nothing; and the number of
      kills.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / 'run'
        error, num_kills = killing.run_with_kills(
            [command(folder)],
            lambda _: random_moment(stage, folder, rng),
            pause=0.0005 if stage == 'checkpoint' else 0.005,
        )
        if error:
            return error, num_kills
        files = contents(folder)
        names = {**unbroken, **files}
        different = [name for name in names if unbroken.get(name) != files.get(name)]
        return ', '.join(different), num_kills


def main(argv: list[str]) -> None:
    """Runs all cases and prints the count."""
    del argv
    rng = random.Random(SEED.value)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / 'run'
        error, _ = killing.run_with_kills([command(folder)], lambda _: lambda: False)
        if error:
            sys.exit(f'the unbroken run failed: {error}')
        unbroken = contents(folder)
        shutil.rmtree(folder)
    num_equal = 0
    total_kills = 0
    for case in range(COUNT.value):
        stage = STAGE.value or STAGES[case % len(STAGES)]
        error, num_kills = kill_a_run(stage, unbroken, rng)
        total_kills += num_kills
        result = f'DIFFERENT: {error}'
        if not error:
            num_equal += 1
            result = 'same'
        print(
            f'{case + 1:3d} {stage:10s} killed {num_kills} times: {result}', flush=True
        )
    print(
        f'{num_equal} of {COUNT.value} runs ended like the unbroken one '
        f'({total_kills} kills)'
    )
    sys.exit(num_equal != COUNT.value)


if __name__ == '__main__':
    app.run(main)
