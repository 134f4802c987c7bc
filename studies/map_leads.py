"""All rules of the maps of studies/records/ in one picture, FedPBC beside each, and what it took.

python -m studies.map_leads

Tables by map: every rule against FedAvg and FedPBC against every rule, as one number, the mean over
all points, by seed, with its interval over seeds and, in brackets, with tuning; and how many lanes
the verdicts took beside the least number of seeds that is the same for all pairs and gives as many.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from fedjax_links import evaluation, plot, runs
from fedjax_links.report import cells, run_view

FOLDER = Path(__file__).parent / 'records' / 'maps'
MAPS = 'space', 'rounds', 'correlation'
TITLES = ('map', 'algorithm', 'minus FedAvg', 'level, %', 'FedPBC minus it')


def read(name: str) -> tuple[run_view.RunView, cells.Cells]:
    """A recorded map, and its cells."""
    run = runs.read(FOLDER / name)
    options = {'best_over': (), **run.facts['reports']['map']}
    del options['name']
    found = run_view.of_run(run)
    return found, cells.map_cells(found, metric='eval_accuracy', **options)


def of_all(found: cells.Cells, algorithm: str, other: str) -> str:
    """One number, by seed over all cells."""
    choice = found.minus(algorithm, other)
    assert choice is not None
    return choice.text(found.metric, signed=True)


def rows(name: str) -> Iterator[str]:
    """Lines of the table."""
    origin, found = read(name)
    for label in origin.algorithms:
        beside = [
            '' if label == 'fedavg' else of_all(found, label, 'fedavg'),
            f'{100 * found.levels(label).mean():.1f}',
            '' if label == 'fedpbc' else of_all(found, 'fedpbc', label),
        ]
        yield f'| {" | ".join((name, origin.name(label), *beside))} |'


def lanes(name: str) -> tuple[int, int, int, int]:
    """What verdicts took.

    Returns:
      Pairs that were decided, of how many; lanes of the main stage; and how many there would be if
      all had the seeds that the slowest decided pair needed.
    """
    origin, found = read(name)
    decided = 0
    total = 0
    most = 0
    for label, own in found.choices.items():
        total += sum(choice.values.shape[1] for choice in own.flat)
        if label != 'fedavg':
            for one, base in zip(own.flat, found.choices['fedavg'].flat, strict=True):
                word = origin.difference(found.metric, one, base).word
                if word != evaluation.UNDECIDED:
                    decided = decided + 1
                    most = max(most, one.values.shape[1])
    pairs = sum(own.size for label, own in found.choices.items() if label != 'fedavg')
    return decided, pairs, total, most * sum(own.size for own in found.choices.values())


def draw() -> None:
    """Differences to FedAvg of every rule at every point, and their mean over all of them."""
    figure, axes = plt.subplots(
        1,
        len(MAPS),
        figsize=(1 + 5 * len(MAPS), 4.6),
        sharey=True,
        layout='constrained',
        squeeze=False,
    )
    every = {name: read(name) for name in MAPS}
    labels = [label for label in every['space'][0].algorithms if label != 'fedavg']
    looks = plot.looks(every['space'][0].algorithms)
    names = [every['space'][0].name(label) for label in labels]
    for ax, (name, (_, found)) in zip(axes[0], every.items(), strict=True):
        base = found.levels('fedavg')
        for place, label in enumerate(labels):
            if label not in found.choices:
                continue
            own = found.levels(label)
            count = min(own.shape[-1], base.shape[-1])
            gained = 100 * (own[..., :count] - base[..., :count]).mean(axis=-1).ravel()
            ax.plot(gained, np.full(gained.size, place), '|', ms=9, color='0.6')
            choice = found.minus(label, 'fedavg')
            assert choice is not None
            level = choice.level()
            own_look = looks[label]
            look = {'fmt': own_look.marker, 'capsize': 3, 'color': own_look.colour}
            ax.errorbar(100 * level.mean, place, xerr=100 * level.half_width, **look)
        ax.axvline(0, color='0.4', lw=0.8)
        ax.set_title(f'{name}: {gained.size} points', fontsize=10)
        ax.set_xlabel('minus FedAvg, points of accuracy')
        ax.set_yticks(range(len(labels)), names)
    axes[0, 0].invert_yaxis()
    figure.savefig(Path(__file__).parent / 'map_leads.png', dpi=110)


def main() -> None:
    """Prints the tables and draws."""
    print(f'| {" | ".join(TITLES)} |\n{"| --- " * len(TITLES)}|')
    for name in MAPS:
        print('\n'.join(rows(name)))
    for name in (name for name in MAPS if read(name)[0].until):
        decided, pairs, used, fixed = lanes(name)
        print(
            f'{name}: {decided} of {pairs} pairs decided; {used:,} lanes, not {fixed:,}'
        )
    draw()


if __name__ == '__main__':
    main()
