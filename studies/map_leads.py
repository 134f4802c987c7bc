"""Which rules are ahead of FedAvg, and FedPBC of them, over the maps of studies/records/.

python -m studies.map_leads

A line per map and algorithm: at how many points it is clearly ahead or behind (the paired 95 %
interval over seeds excludes zero), the least and largest difference, in points of accuracy, and
that of the means over all points, by seed: points share their draws, so that counts say less than
their size. Every algorithm has its best rate at every point, by the same seeds, as in the maps.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.report import cells, source

FOLDER = Path(__file__).parent / 'records' / 'maps'
MAPS = ('space', 'rounds', 'correlation')
TITLES = ('map', 'algorithm', 'minus FedAvg: ahead, behind', 'from, to')
TITLES += ('FedPBC minus it: ahead, behind', 'from, to', 'all points')


def levels(name: str) -> dict[str, np.ndarray]:
    """Final levels float[K, Y, X, S] by algorithm of a recorded map, each at its best rates."""
    run = runs.read(FOLDER / name)
    options = dict(run.facts['reports']['map'])
    del options['name']
    found = source.of_run(run)
    every = cells.of_source(found, metric='eval_accuracy', **options)
    return {label: every.levels(label) for label in every.choices}


def both(which: str) -> dict[str, np.ndarray]:
    """Levels of the six first rules and of the newer ones over the same draws.

    Raises:
      ValueError: if FedAvg is not the same in both.
    """
    first, newer = levels(which), levels(f'{which}_newer')
    if not np.array_equal(newer['fedavg'], first['fedavg']):
        raise ValueError(f'`{which}` must be two maps of the same draws, got different FedAvg.')
    return {**first, **newer}


def summary(ahead: np.ndarray, behind: np.ndarray) -> tuple[str, str, str]:
    """At how many points one is ahead, the least and largest difference, that of all points."""
    ahead, behind = (np.moveaxis(v, -1, 0).reshape(v.shape[-1], -1) for v in (ahead, behind))
    found = evaluation.paired_interval(ahead, behind)
    mean, half = 100 * found.mean, 100 * found.half_width
    least, most = np.argmin(mean), np.argmax(mean)
    count = f'{np.sum(mean > half)}, {np.sum(-mean > half)} of {mean.size}'
    reach = ' to '.join(f'{mean[k]:+.1f} ± {half[k]:.1f}' for k in (least, most))
    of_all = evaluation.paired_interval(ahead.mean(axis=1), behind.mean(axis=1))
    return count, reach, f'{100 * of_all.mean:+.2f} ± {100 * of_all.half_width:.2f}'


def rows(which: str, found: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Lines of the table."""
    for name, values in found.items():
        if name == 'fedavg':
            continue
        other = ('', '', '') if name == 'fedpbc' else summary(found['fedpbc'], values)
        cells_of_row = [which, name, *summary(values, found['fedavg'])[:2], *other]
        yield f'| {" | ".join(cells_of_row)} |'


def main() -> None:
    """Prints the table."""
    print(f'| {" | ".join(TITLES)} |\n{"| --- " * len(TITLES)}|')
    for which in MAPS:
        print('\n'.join(rows(which, both(which))))


if __name__ == '__main__':
    main()
