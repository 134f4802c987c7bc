"""Which rules are ahead of FedAvg, and FedPBC of them, over the recorded maps of docs/maps/.

python -m benchmarks.map_leads

A line per map and algorithm: at how many points it is clearly ahead or behind (the paired 95 %
interval over seeds excludes zero), and the least and largest difference, in points of accuracy.
Every algorithm has its best rate at every point, by the same seeds, as in the maps.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.report import cells, results

FOLDER = Path(__file__).parents[1] / 'docs' / 'maps'
MAPS = ('space', 'rounds', 'correlation')
TITLES = ('map', 'algorithm', 'minus FedAvg: ahead, behind', 'from, to')
TITLES += ('FedPBC minus it: ahead, behind', 'from, to')


def levels(name: str) -> cells.Cells:
    """Final levels of a recorded map, float[K, Y, X, S] by algorithm, each at its best rates."""
    run = runs.read(FOLDER / name)
    options = dict(run.facts['reports']['map'])
    del options['name']
    return cells.of_results(results.of_run(run), metric='eval_accuracy', **options)


def both(which: str) -> dict[str, dict[str, np.ndarray]]:
    """Levels of every rule, of FedAvg and of FedPBC at the same points, over the same draws.

    Returns:
      ``'own'``, ``'fedavg'`` and ``'fedpbc'`` by rule: the six first ones and, where recorded, the
      newer ones, which may have fewer panels.

    Raises:
      ValueError: if FedAvg is not the same in both.
    """
    first = levels(which)
    found = {name: _beside(values, first.values) for name, values in first.values.items()}
    if not (FOLDER / f'{which}_newer').is_dir():
        return found
    newer = levels(f'{which}_newer')
    kept = [list(first.panels).index(panel) for panel in newer.panels]
    there = {name: values[kept] for name, values in first.values.items()}
    if not np.array_equal(newer.values['fedavg'], there['fedavg']):
        raise ValueError(f'`{which}` must be two maps of the same draws, got different FedAvg.')
    return found | {
        name: _beside(values, there) for name, values in newer.values.items() if name != 'fedavg'
    }


def _beside(own: np.ndarray, others: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {'own': own, 'fedavg': others['fedavg'], 'fedpbc': others['fedpbc']}


def summary(ahead: np.ndarray, behind: np.ndarray) -> tuple[str, str]:
    """At how many points one is ahead, and the least and largest difference."""
    found = evaluation.paired_interval(*(np.moveaxis(v, -1, 0) for v in (ahead, behind)))
    mean, half = (100 * np.ravel(part) for part in (found.mean, found.half_width))
    least, most = np.argmin(mean), np.argmax(mean)
    count = f'{np.sum(mean > half)}, {np.sum(-mean > half)} of {mean.size}'
    return count, ' to '.join(f'{mean[k]:+.1f} ± {half[k]:.1f}' for k in (least, most))


def rows(which: str, found: Mapping[str, Mapping[str, np.ndarray]]) -> Iterator[str]:
    """Lines of the table."""
    for name, values in found.items():
        if name == 'fedavg':
            continue
        ahead = summary(values['own'], values['fedavg'])
        other = ('', '') if name == 'fedpbc' else summary(values['fedpbc'], values['own'])
        yield f'| {" | ".join([which, name, *ahead, *other])} |'


def main() -> None:
    """Prints the table."""
    print(f'| {" | ".join(TITLES)} |\n{"| --- " * len(TITLES)}|')
    for which in MAPS:
        print('\n'.join(rows(which, both(which))))


if __name__ == '__main__':
    main()
