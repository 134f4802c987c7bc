"""Pictures of a run: learning curves, and who could deliver when."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report import style
from fedjax_links.report.history import History
from fedjax_links.report.links import draw_link_map, draw_rates

_STYLES = {'server': '-', 'client_mean': '--'}


def draw_curves(axes: Any, runs: History, metric: str, *, level: float = 0.95) -> None:
    """Mean over seeds with its interval as a band, one line per algorithm and candidate model.

    Args:
      axes: matplotlib axes.
      runs: the metrics.
      metric: which one.
      level: coverage of the band.
    """
    for index, (label, models) in enumerate(runs.items()):
        colour = style.COLOURS[index % len(style.COLOURS)]
        for model, named in models.items():
            if metric not in named:
                continue
            curve = named[metric]
            interval = evaluation.seed_interval(curve.values, axis=1, level=level)
            name = label if len(models) == 1 else f'{label} ({model.replace("_", " ")})'
            axes.plot(
                curve.rounds, interval.mean, _STYLES.get(model, ':'), color=colour, label=name
            )
            low, high = (interval.mean + sign * interval.half_width for sign in (-1, 1))
            axes.fill_between(curve.rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel('round')
    axes.set_ylabel(metric.replace('_', ' '))
    axes.grid(alpha=0.25)


def overview(path: Path, title: str, runs: History, mask: np.ndarray, probs: np.ndarray) -> None:
    """One picture of a run: curves of every evaluation metric, and its links.

    Args:
      path: where the PNG goes.
      title: above everything.
      runs: the metrics.
      mask: bool[T, N], realised links of the first seed.
      probs: float[N], nominal probabilities.
    """
    pyplot = style.pyplot()
    names = {metric for models in runs.values() for named in models.values() for metric in named}
    metrics = [m for m in ('eval_accuracy', 'train_loss', 'distance', 'loss') if m in names][:2]
    figure = pyplot.figure(figsize=(10, 7), layout='constrained')
    grid = figure.add_gridspec(2, 6)
    width = 6 // max(len(metrics), 1)
    for place, metric in enumerate(metrics):
        axes = figure.add_subplot(grid[0, place * width : (place + 1) * width])
        draw_curves(axes, runs, metric)
        if place == 0:
            axes.legend(frameon=False, fontsize=9)
    draw_link_map(figure.add_subplot(grid[1, :4]), mask)
    draw_rates(figure.add_subplot(grid[1, 4:]), mask, probs)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
