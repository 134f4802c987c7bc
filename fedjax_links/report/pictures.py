"""Pictures of a run: learning curves, and who could deliver when."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report.history import History

_COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#7F7F7F')
_STYLES = {'server': '-', 'client_mean': '--'}
_MAP_ROUNDS = 200


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    return pyplot


def draw_curves(axes: Any, runs: History, metric: str, *, level: float = 0.95) -> None:
    """Mean over seeds with its interval as a band, one line per algorithm and candidate model.

    Args:
      axes: matplotlib axes.
      runs: the metrics.
      metric: which one.
      level: coverage of the band.
    """
    for index, (label, models) in enumerate(runs.items()):
        colour = _COLOURS[index % len(_COLOURS)]
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


def draw_link_map(axes: Any, mask: np.ndarray, order: Sequence[int] | None = None) -> None:
    """Client x round map of the first rounds: dark where the uplink delivers.

    Args:
      axes: matplotlib axes.
      mask: bool[T, N].
      order: clients from top to bottom; by how often they deliver by default.
    """
    by_rate = np.argsort(-mask.mean(axis=0), kind='stable')
    shown = mask[:_MAP_ROUNDS, by_rate if order is None else order].T
    axes.imshow(shown, aspect='auto', cmap='Greys', interpolation='nearest', vmin=0, vmax=1.2)
    axes.set_xlabel('round')
    axes.set_ylabel('client, best link first')


def draw_rates(axes: Any, mask: np.ndarray, probs: np.ndarray) -> None:
    """Share of rounds in which each client delivered, against its nominal probability.

    Args:
      axes: matplotlib axes.
      mask: bool[T, N].
      probs: float[N], nominal mean probability; NaN where unknown.
    """
    order = np.argsort(-mask.mean(axis=0), kind='stable')
    clients = np.arange(mask.shape[1])
    axes.barh(clients, mask.mean(axis=0)[order], color='#9a9a9a', label='realised')
    axes.plot(probs[order], clients, '.', color=_COLOURS[4], markersize=4, label='nominal')
    axes.set_xlim(0, 1)
    axes.set_ylim(len(clients) - 0.5, -0.5)
    axes.set_xlabel('share of rounds')
    axes.legend(frameon=False, fontsize=8)


def overview(path: Path, title: str, runs: History, mask: np.ndarray, probs: np.ndarray) -> None:
    """One picture of a run: curves of every evaluation metric, and its links.

    Args:
      path: where the PNG goes.
      title: above everything.
      runs: the metrics.
      mask: bool[T, N], realised links of the first seed.
      probs: float[N], nominal probabilities.
    """
    pyplot = _pyplot()
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
