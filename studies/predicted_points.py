"""Predicted accuracies beside those of runs at 42 points of the map, over all six patterns.

python -m studies.predicted_points          # the table of studies/prediction.md
python -m studies.predicted_points --draw   # its picture, from the table as the page has it

Seven settings of overlap, heterogeneity and link inequality, six patterns of links each. Data,
partition and link qualities of a setting are one draw, as a prediction is for one; links, batches
and initial models follow the seed. Three quarters of an hour on a CPU core.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from fedjax_links import experiment
from fedjax_links.papers.xiang2024 import presets
from fedjax_links.preview import configured_links, prediction

SETTINGS = (
    # Bayes accuracy, alpha, sigma, seed of the draw
    (0.5, 0.1, 10.0, 0),
    (0.6, 0.05, 2.0, 1),
    (0.64, 0.1, 10.0, 2),
    (0.7, 1.0, 10.0, 3),
    (0.8, 0.05, 5.0, 4),
    (0.9, 0.1, 2.0, 5),
    (0.98, 0.05, 10.0, 6),
)
MODELS = (('fedavg', 'server'), ('fedpbc', 'client_mean'))
PERIOD = 93  # coprime to the cycle of 100 rounds, so that all of it is seen
LAST = 0.25
NEAR = 0.3
ERRORS = 3.0

RATE = 0.01
ROUNDS = 86 * PERIOD
SEEDS = 3


class Point(NamedTuple):
    """Describes an algorithm at a setting and a pattern, accuracies in per cent.

    Attributes:
      setting: Bayes accuracy, alpha, sigma, seed of the draw.
      pattern: label of the pattern.
      algorithm: label of the algorithm.
      predicted: before the run.
      simulated: mean over the last quarter of the evaluations and over the runs.
      error: standard error of that, from the runs' own means.
      exact: whether FedAvg's weights are exact, not those of simulated links.
    """

    setting: tuple[float, float, float, int]
    pattern: str
    algorithm: str
    predicted: float
    simulated: float
    error: float
    exact: bool

    @property
    def is_near(self) -> bool:
        """Returns whether the prediction is within 0.3 points or three standard errors."""
        return abs(self.simulated - self.predicted) <= max(NEAR, ERRORS * self.error)


def config(setting: tuple[float, float, float, int]) -> dict[str, Any]:
    """Returns the runs of a setting: Bayes accuracy, alpha, sigma, seed of the draw."""
    bayes, alpha, sigma, seed = setting
    patterns = {}
    for label, section in presets.patterns('paper').items():
        patterns[label] = {
            **section,
            'probs': {**presets.probs(sigma=sigma), 'seed': seed},
        }
    return {
        'title': 'Predicted and simulated',
        'problem': {
            'name': 'gaussians',
            'num_clients': 100,
            'examples_per_client': 200,
            'bayes_accuracy': bayes,
            'alpha': alpha,
            'seed': seed,
        },
        'patterns': patterns,
        'client': {'learning_rate': RATE, 'local_steps': 5, 'batch_size': 16},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'redraw': dict.fromkeys(('data', 'partition', 'links_quality'), 'fixed'),
        'num_rounds': ROUNDS,
        'eval_every': PERIOD,
        'num_seeds': SEEDS,
    }


def points(
    values: dict[str, Any], setting: tuple[float, float, float, int]
) -> Iterator[Point]:
    """Yields predictions and runs of a setting."""
    planned = experiment.build(values)
    columns = planned.run().columns
    for pattern in values['patterns']:
        predicted = prediction.for_links(
            configured_links.from_experiment(planned, pattern)
        )
        assert predicted is not None
        for (algorithm, model), expected in zip(MODELS, predicted[:2], strict=True):
            rows = (columns['pattern'] == pattern) & (columns['algorithm'] == algorithm)
            late = rows & (columns['round'] > (1 - LAST) * values['num_rounds'])
            accuracies = 100 * columns[f'{model}/eval_accuracy'][late]
            seeds = columns['seed'][late]
            means = np.array(
                [accuracies[seeds == seed].mean() for seed in np.unique(seeds)]
            )
            yield Point(
                setting=setting,
                pattern=pattern,
                algorithm=algorithm,
                predicted=100 * (expected.reached or expected.limit)['accuracy'],
                simulated=float(means.mean()),
                error=float(means.std(ddof=1) / len(means) ** 0.5),
                exact=predicted.exact,
            )


def recorded() -> dict[str, np.ndarray]:
    """Returns the page's table, float[42, 3] by algorithm: predicted, simulated, its error."""
    page = (Path(__file__).parent / 'prediction.md').read_text()
    numbers = r'(\d+\.\d+) \| (\d+\.\d+) ± (\d+\.\d+) \|'
    rows = re.findall(
        rf'^\| [\d., ]+ \| \w+ \| {numbers} {numbers}$', page, flags=re.MULTILINE
    )
    numbers_of_rows = np.array(rows, float)
    return {
        'FedAvg': numbers_of_rows[:, :3],
        'FedPBC, client mean': numbers_of_rows[:, 3:],
    }


def draw() -> None:
    """Draws predicted against simulated values, and what is left of it."""
    full_axes, zoom_axes = plt.subplots(1, 2, figsize=(9, 4.2), layout='constrained')[1]
    marks = {'FedAvg': 'o', 'FedPBC, client mean': 's'}
    for label, rows in recorded().items():
        mark = marks[label]
        x, y, error = rows.T
        full_axes.plot(x, y, mark, ms=5, alpha=0.7, label=f'{label}: {len(x)} points')
        zoom_axes.errorbar(x, y - x, 2 * error, fmt=mark, ms=4, lw=0.8, alpha=0.7)
    full_axes.axline((50, 50), slope=1, color='0.6', lw=1, zorder=0)
    full_axes.set(xlabel='predicted accuracy, %', ylabel='simulated, %', aspect='equal')
    full_axes.legend(frameon=False)
    zoom_axes.axhline(0, color='0.6', lw=1, zorder=0)
    zoom_axes.set(
        xlabel='predicted accuracy, %', ylabel='simulated - predicted, points'
    )
    zoom_axes.set_title('bars: two standard errors of three runs', fontsize=9)
    plt.savefig(Path(__file__).parent / 'prediction.png', dpi=110)


def main() -> None:
    """Prints the table, or draws it."""
    if '--draw' in sys.argv:
        draw()
        return
    titles = 'Bayes, alpha, sigma', 'pattern', 'FedAvg predicted', 'simulated'
    titles += 'FedPBC predicted', 'client mean simulated'
    print(f'| {" | ".join(titles)} |\n{"| --- " * len(titles)}|')
    near = {algorithm: 0 for algorithm, _ in MODELS}
    for setting in SETTINGS:
        values = config(setting)
        pairs = list(points(values, setting))
        for first, second in zip(pairs[::2], pairs[1::2], strict=True):
            cells = [', '.join(f'{value:g}' for value in setting[:3]), first.pattern]
            for point in (first, second):
                near[point.algorithm] += point.is_near
                mark = '' if point.is_near else ' **off**'
                cells.append(f'{point.predicted:.2f}')
                cells.append(f'{point.simulated:.2f} ± {point.error:.2f}{mark}')
            print(f'| {" | ".join(cells)} |', flush=True)
    total = len(SETTINGS) * len(presets.patterns('paper'))
    print(f'within {NEAR} points or {ERRORS:g} standard errors of {total}: {near}')


if __name__ == '__main__':
    main()
