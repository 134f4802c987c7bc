"""Flips single bits in the files of a run, and checks that none changes a result.

python -m tests.attacks.flips --count=200

A run is cut in its main part. Each case copies its folder, flips one bit of one file, and lets the
run go on: either that is refused in one line, or what is there in the end is byte for byte what an
unbroken run leaves; but for the state of a lane that was done, which whoever reads it refuses. Then
one bit of a finished folder is flipped, and its report either is refused or is the same.
"""

import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import jax
from absl import app, flags

from fedjax_links import experiment, report, runs
from fedjax_links.experiment import Callback, Stop
from fedjax_links.experiment.running import stores
from fedjax_links.report import exporting

COUNT = flags.DEFINE_integer('count', 200, 'Bits to flip.', lower_bound=2)
SEED = flags.DEFINE_integer('seed', 0, 'Of the places.')
CONFIG = {
    'title': 'To be damaged',
    'problem': {'name': 'counterexample', 'num_clients': 6, 'dimension': 4},
    'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
    'client': {'local_steps': 2},
    'algorithms': {'fedpbc': {}},
    'tuning': {
        'learning_rates': (0.05, 0.1),
        'pattern': 'links',
        'num_rounds': 8,
        'num_seeds': 1,
    },
    'metric': 'loss',
    'num_rounds': 16,
    'eval_every': 4,
    'num_seeds': 2,
}
DERIVED = (runs.ENVIRONMENT, '.lock')
"""Files that are written anew at every start and say nothing of results."""


class CutAt(Callback):
    """Stops in the second lane of the main part, with two saves behind it."""

    def on_period(self, lane, record):
        """Stops there."""
        if (lane.stage, lane.seed, record['round']) == ('main', 1, 12):
            raise Stop


def contents(folder: Path) -> dict[str, bytes]:
    """What must not depend on damage that was overcome."""
    names = (runs.METRICS, runs.CONFIG, runs.EXPERIMENT, runs.LINKS)
    paths = [*(folder / name for name in names), *sorted(folder.glob('checkpoints/*@16.npz'))]
    return {path.name: path.read_bytes() for path in paths}


def flip(folder: Path, rng: random.Random) -> str:
    """Flips a bit somewhere; says where."""
    paths = [p for p in sorted(folder.rglob('*')) if p.is_file() and p.name not in DERIVED]
    path = rng.choice([p for p in paths if p.stat().st_size])
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(bytes(content))
    return f'{path.relative_to(folder)} byte {place} bit {bit}'


def outcome(folder: Path, whole: dict[str, bytes]) -> str:
    """What became of a damaged run that went on."""
    try:
        experiment.build(CONFIG).run(folder)
    except ValueError as error:
        return 'refused' if '\n' not in str(error) else 'MORE THAN A LINE'
    found = contents(folder)
    changed = [name for name in whole if found[name] != whole[name]]
    if not changed:
        return 'harmless'
    if not all(name.endswith('.npz') and '@' in name for name in changed):
        return 'CHANGED'
    try:  # the state of a lane that was done is not looked at until somebody wants it
        exporting.export(folder, folder.with_name('exported'))
    except ValueError as error:
        return 'refused when read' if '\n' not in str(error) else 'MORE THAN A LINE'
    return 'CHANGED'


def reading(folder: Path, whole: str) -> str:
    """What became of the report of a damaged folder."""
    try:
        text = report.write(runs.read(folder))
        runs.links(folder)
    except ValueError as error:
        return 'refused' if '\n' not in str(error) else 'MORE THAN A LINE'
    return 'harmless' if text.split('Wrote')[0] == whole else 'CHANGED'


def main(argv: list[str]) -> None:
    """Runs all cases and prints the counts."""
    del argv
    rng, found = random.Random(SEED.value), Counter()
    with tempfile.TemporaryDirectory() as scratch:
        jax.config.update('jax_compilation_cache_dir', f'{scratch}/programs')
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
        base = Path(scratch)
        experiment.build(CONFIG).run(base / 'whole')
        whole = contents(base / 'whole')
        text = report.write(runs.read(base / 'whole')).split('Wrote')[0]
        stores.SaveClock.is_due = lambda clock: True
        with contextlib.suppress(Stop):
            experiment.build(CONFIG).run(base / 'cut', [CutAt()])
        for case in range(COUNT.value):
            going_on = case % 2 == 0
            folder = base / 'case'
            shutil.copytree(base / ('cut' if going_on else 'whole'), folder)
            where = flip(folder, rng)
            kind = outcome(folder, whole) if going_on else reading(folder, text)
            found[kind] += 1
            if kind.isupper():
                print(f'{kind}: {where}')
            shutil.rmtree(folder)
    print(', '.join(f'{kind} {count}' for kind, count in sorted(found.items())))
    sys.exit(any(kind.isupper() for kind in found))


if __name__ == '__main__':
    app.run(main)
