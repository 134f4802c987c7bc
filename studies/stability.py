"""Where algorithms with a memory of clients settle, for few clients: studies/stability.md.

  python -m studies.stability [FOLDER]

Prints the tables, and draws the picture into the folder that is named. A minute on a CPU core.
N clients with curvature one have equal two-state links.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis import link_chains

ALGORITHMS = {
    'MIFA': 'mifa',
    'FOCUS': 'focus',
    'FedVARP': 'fedvarp',
    'SCAFFOLD': 'scaffold',
}
SILO_ALGORITHMS = {
    'FedAvg': 'fedavg',
    'FedAvg known': 'fedavg_known',
    'MIFA': 'mifa',
    'FedVARP': 'fedvarp',
}
CLIENTS = (2, 3, 4, 5, 6, 8, 10, 20)
OUTAGES = (10, 30, 100, 300)
PROBS = (0.5, 0.2)
STEPS = 5
# Local progress: the part of the way to its minimiser that a client goes in a round.
PROGRESS = (0.05, 0.1, 0.2, 0.4, 0.7, 0.95)


class Rates(NamedTuple):
    """Holds rates per round.

    Attributes:
      mean: by which the expected model comes closer to its end.
      second: the same of the second moment; above one the variance grows without bound.
    """

    mean: float
    second: float


def rates(
    algorithm: str, num_clients: int, prob: float, outage: float, progress: float
) -> Rates:
    """Computes the rates at a local progress.

    Args:
      algorithm: its name on the page. FOCUS sums gradients of clients, so its learning rate
        is divided by N.
      num_clients: N.
      prob: p, of every link.
      outage: mean rounds that a link is down, at least 1.
      progress: ``1 - (1 - eta)^s``, of a round of local steps.
    """
    rate = 1.0 - (1.0 - progress) ** (1.0 / STEPS)
    if algorithm == 'FOCUS':
        rate = rate / num_clients
    links = link_chains.markov(np.full(num_clients, prob), up_rate=1.0 / outage)
    targets = np.zeros(num_clients)
    limit = analysis.linear_limit(ALGORITHMS[algorithm], links, targets, rate, STEPS)
    return Rates(limit.rate, limit.second_moment_rate)


def largest_progress(
    algorithm: str, num_clients: int, prob: float, outage: float
) -> float:
    """Finds the local progress up to which the variance settles, to 2 %.

    Returns:
      The progress; one where it settles at all of `PROGRESS`, and zero where it does not at
      the smallest of these.
    """

    def settles(progress: float) -> bool:
        return rates(algorithm, num_clients, prob, outage, progress).second < 1.0

    low = 0.0
    high = 1.0
    for progress in PROGRESS:
        if not settles(progress):
            high = progress
            break
        low = progress
    if high == 1.0:
        return 1.0
    if low == 0.0:
        return 0.0
    while high > 1.02 * low:
        middle = np.sqrt(low * high)
        if settles(middle):
            low = middle
        else:
            high = middle
    return float(low)


def _cell(progress: float) -> str:
    """Says up to which local progress the variance settles."""
    if progress == 1.0:
        return 'any'
    return 'below 0.05' if progress == 0.0 else f'{progress:.2f}'


StabilityMap = dict[tuple[str, float, int], list[float]]


def stability_map(algorithms: tuple[str, ...] = ('MIFA', 'FOCUS')) -> StabilityMap:
    """Finds the largest local progress by outage, for each algorithm, p and N."""
    bounds = {}
    for algorithm in algorithms:
        for prob in PROBS:
            for num_clients in CLIENTS:
                bounds[algorithm, prob, num_clients] = [
                    largest_progress(algorithm, num_clients, prob, outage)
                    for outage in OUTAGES
                ]
    return bounds


def map_rows(bounds: StabilityMap) -> list[str]:
    """Formats the map as rows of Markdown."""
    rows = []
    for (algorithm, prob, num_clients), progress in bounds.items():
        cells = ' | '.join(_cell(value) for value in progress)
        rows.append(f'| {algorithm} | {prob} | {num_clients} | {cells} |')
    return rows


def largest_second_rate(algorithm: str) -> float:
    """Returns the largest rate of the second moment over the map."""
    largest = 0.0
    for prob in PROBS:
        for num_clients in CLIENTS:
            for outage in OUTAGES:
                for progress in PROGRESS[::2]:
                    result = rates(algorithm, num_clients, prob, outage, progress)
                    largest = max(largest, result.second)
    return largest


def silo_rows(sizes: tuple[int, ...] = (2, 4, 10, 20)) -> list[str]:
    """Formats ends for a few clients with long outages as rows of Markdown.

    Half of the clients have target 0 and p = .5, the others have target 10 and p = .2. All are
    down for 30 rounds on average; the local progress is 0.1, and gradients have noise 1.
    """
    rate = 1.0 - 0.9 ** (1.0 / STEPS)
    rows = []
    for name in SILO_ALGORITHMS:
        for num_clients in sizes:
            half = num_clients // 2
            links = link_chains.markov(np.repeat([0.5, 0.2], half), up_rate=1.0 / 30)
            targets = np.repeat([0.0, 10.0], half)
            limit = analysis.linear_limit(
                SILO_ALGORITHMS[name], links, targets, rate, STEPS, noise=1.0
            )
            bias = limit.means['server'][0] - limit.optimum[0]
            deviation = np.sqrt(limit.covariances['server'][0, 0])
            cell = f'{bias:.2f}'.replace('-0.00', '0.00')
            rows.append(f'| {name} | {num_clients} | {cell} | {deviation:.2f} |')
    return rows


def draw(bounds: StabilityMap, path: Path) -> None:
    """Draws the largest local progress over the number of clients."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, 2, figsize=(10, 3.8), sharex=True, sharey=True, layout='constrained'
    )
    for panel, prob in zip(axes, PROBS, strict=True):
        for algorithm, line in (('MIFA', '-'), ('FOCUS', '--')):
            for number, outage in enumerate(OUTAGES):
                heights = [bounds[algorithm, prob, n][number] for n in CLIENTS]
                panel.plot(
                    CLIENTS,
                    np.clip(heights, PROGRESS[0], 1.0),
                    line,
                    color=f'C{number}',
                    marker='o',
                    markersize=4,
                    label=f'{algorithm}, {outage} rounds down',
                )
        panel.set(xscale='log', yscale='log', xlabel='clients', title=f'p = {prob}')
        panel.set_xticks(CLIENTS, [str(n) for n in CLIENTS])
        panel.set_xticks([], minor=True)
        panel.set_yticks(PROGRESS, [f'{progress:g}' for progress in PROGRESS])
        panel.set_yticks([], minor=True)
    axes[0].set_ylabel('largest local progress')
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside right center')
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Prints the tables, and draws the picture into the folder that is named."""
    bounds = stability_map()
    print(*map_rows(bounds), *silo_rows(), sep='\n')
    for algorithm in ('FedVARP', 'SCAFFOLD'):
        print(f'{algorithm}: largest rate {largest_second_rate(algorithm):.4f}')
    if len(sys.argv) > 1:
        draw(bounds, Path(sys.argv[1]) / 'stability.png')


if __name__ == '__main__':
    main()
