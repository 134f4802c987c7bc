"""Draws all algorithms of the maps of studies/records/, FedPBC beside each, and what it took.

python -m studies.map_leads

It also prints tables by map. The first compares every algorithm with FedAvg, and FedPBC with every
algorithm. Each comparison is one number, the mean over all points, with its interval over seeds
and, in brackets, including tuning. The second has the number of lanes that the verdicts took,
beside the least equal number of seeds for all pairs that gives as many verdicts.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from fedjax_links import evaluation, plot, runs
from fedjax_links.report import cells, run_view

FOLDER = Path(__file__).parent / 'records' / 'maps'
MAPS = 'space', 'rounds', 'correlation'
TITLES = ('map', 'algorithm', 'minus FedAvg', 'accuracy, %', 'FedPBC minus it')


@functools.cache
def read(name: str) -> tuple[run_view.RunView, cells.Cells]:
    """Reads a recorded map and its cells."""
    run = runs.read(FOLDER / name)
    options = {'best_over': (), **run.facts['reports']['map']}
    del options['name']
    view = run_view.from_run(run)
    return view, cells.map_cells(view, metric='eval_accuracy', **options)


def lead_over_all_cells(map_cells: cells.Cells, algorithm: str, other: str) -> str:
    """Writes a difference over all cells, by seed."""
    choice = map_cells.paired_difference(algorithm, other)
    assert choice is not None
    return choice.text(map_cells.metric, signed=True)


def rows(name: str) -> Iterator[str]:
    """Yields the lines of the table."""
    view, map_cells = read(name)
    for label in view.algorithms:
        accuracy = f'{100 * map_cells.by_seed(label).mean():.1f}'
        lead = ''
        if label != 'fedavg':
            lead = lead_over_all_cells(map_cells, label, 'fedavg')
        lead_of_fedpbc = ''
        if label != 'fedpbc':
            lead_of_fedpbc = lead_over_all_cells(map_cells, 'fedpbc', label)
        line = (name, view.name(label), lead, accuracy, lead_of_fedpbc)
        yield f'| {" | ".join(line)} |'


def lanes(name: str) -> tuple[int, int, int, int]:
    """Counts what verdicts took.

    Returns:
      Pairs that were decided, of how many; lanes of the main stage; and how many there would be if
      all had the seeds that the slowest decided pair needed.
    """
    view, map_cells = read(name)
    num_decided = 0
    num_pairs = 0
    num_lanes = 0
    num_choices = 0
    most_seeds = 0
    baseline = map_cells.choices['fedavg']
    for label, choices in map_cells.choices.items():
        num_choices += choices.size
        num_lanes += sum(choice.values.shape[1] for choice in choices.flat)
        if label == 'fedavg':
            continue
        num_pairs += choices.size
        for choice, base in zip(choices.flat, baseline.flat, strict=True):
            word = view.difference(map_cells.metric, choice, base).word
            if word != evaluation.UNDECIDED:
                num_decided += 1
                most_seeds = max(most_seeds, choice.values.shape[1])
    return num_decided, num_pairs, num_lanes, most_seeds * num_choices


def draw() -> None:
    """Draws each algorithm's lead over FedAvg at each point, and its mean over all points."""
    figure, axes = plt.subplots(
        1,
        len(MAPS),
        figsize=(1 + 5 * len(MAPS), 4.6),
        sharey=True,
        layout='constrained',
        squeeze=False,
    )
    maps = {name: read(name) for name in MAPS}
    view, _ = maps['space']
    labels = [label for label in view.algorithms if label != 'fedavg']
    style_of = plot.assign_styles(view.algorithms)
    names = [view.name(label) for label in labels]
    for ax, (name, (_, map_cells)) in zip(axes[0], maps.items(), strict=True):
        base = map_cells.by_seed('fedavg')
        for column, label in enumerate(labels):
            if label not in map_cells.choices:
                continue
            accuracy = map_cells.by_seed(label)
            count = min(accuracy.shape[-1], base.shape[-1])
            leads = accuracy[..., :count] - base[..., :count]
            points = 100 * leads.mean(axis=-1).ravel()
            ax.plot(points, np.full(points.size, column), '|', ms=9, color='0.6')
            choice = map_cells.paired_difference(label, 'fedavg')
            assert choice is not None
            interval = choice.interval_with_tuning()
            ax.errorbar(
                100 * interval.mean,
                column,
                xerr=100 * interval.half_width,
                fmt=style_of[label].marker,
                capsize=3,
                color=style_of[label].colour,
            )
        ax.axvline(0, color='0.4', lw=0.8)
        ax.set_title(f'{name}: {points.size} points', fontsize=10)
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
