"""Kills real runs at random moments, and checks that they end as if nothing had happened.

python -m tests.attacks.kills --count=60

Each case starts the command, kills it (SIGKILL) at a random moment of the stage that it is after,
starts it again until it ends by itself, and compares what is in the folder with an unbroken run's,
byte for byte: metrics, config, links, final states, report and its pictures.
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
SEED = flags.DEFINE_integer('seed', 0, 'Of the moments.')
STAGE = flags.DEFINE_enum('stage', None, STAGES, 'The only one that is struck.')
PLAIN = """
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
    """What a user types."""
    config = folder.parent / 'config.py'
    config.write_text(PLAIN)
    flags_ = [f'--config={config}', f'--workdir={folder}']
    return [sys.executable, '-m', 'fedjax_links', 'simulate', *flags_]


def moment(stage: str, folder: Path, rng: random.Random) -> Callable[[], bool]:
    """Whether it is time to strike: some luck, once the stage has begun."""
    metrics = folder / 'metrics.jsonl'
    checkpoints = folder / 'checkpoints'
    expected = rng.randrange(1, 60)
    after = time.monotonic() + rng.uniform(0, 6)

    def lines() -> list[bytes]:
        return metrics.read_bytes().splitlines() if metrics.exists() else []

    def due() -> bool:
        if stage == 'start':
            return time.monotonic() > after
        if stage == 'tuning':
            return len(lines()) >= expected
        if stage == 'main':
            return sum(b'"stage"' not in line for line in lines()) >= 3 * expected
        if stage == 'checkpoint':
            partial = (
                any(checkpoints.glob('*.partial')) if checkpoints.exists() else False
            )
            return partial and len(lines()) >= expected
        return any(folder.glob('*.png*')) or any(folder.glob('report.md*'))

    return due


def contents(folder: Path) -> dict[str, bytes]:
    """What must not depend on interruptions."""
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


def survives(
    stage: str, unbroken: dict[str, bytes], rng: random.Random
) -> tuple[str, int]:
    """Kills one run once or more; what is wrong with how it ended, and how often it was killed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / 'run'
        wrong, kills = killing.run_with_kills(
            [command(folder)],
            lambda _: moment(stage, folder, rng),
            pause=0.0005 if stage == 'checkpoint' else 0.005,
        )
        if wrong:
            return wrong, kills
        here = contents(folder)
        names = [
            name
            for name in {**unbroken, **here}
            if unbroken.get(name) != here.get(name)
        ]
        return ', '.join(names), kills


def main(argv: list[str]) -> None:
    """Runs all cases and prints the count."""
    del argv
    rng = random.Random(SEED.value)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / 'run'
        wrong, _ = killing.run_with_kills([command(folder)], lambda _: lambda: False)
        if wrong:
            raise SystemExit(f'the unbroken run failed: {wrong}')
        full = contents(folder)
        shutil.rmtree(folder)
    num_equal = killed = 0
    for case in range(COUNT.value):
        stage = STAGE.value or STAGES[case % len(STAGES)]
        wrong, kills = survives(stage, full, rng)
        num_equal = num_equal + (not wrong)
        killed = killed + kills
        ended = f'DIFFERENT: {wrong}' if wrong else 'same'
        print(f'{case + 1:3d} {stage:10s} killed {kills} times: {ended}', flush=True)
    print(
        f'{num_equal} of {COUNT.value} runs ended like the unbroken one ({killed} kills)'
    )
    sys.exit(num_equal != COUNT.value)


if __name__ == '__main__':
    app.run(main)
