"""One picture of a run: learning curves of its metrics, and the links that it met."""

from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report import style
from fedjax_links.report.layouts.page import Page, metric_of
from fedjax_links.report.links import draw_link_map, draw_rates
from fedjax_links.report.results import Results

_STYLES = {'server': '-', 'client_mean': '--'}


def overview(results: Results, *, pattern: str | None = None) -> Page:
    """Curves of the main metric and of a training loss, with all candidate models; links below.

    Args:
      results: what ran.
      pattern: which links; the first by default.

    Returns:
      A page without tables.

    Raises:
      ValueError: for an unknown pattern.
    """
    place = results.place_of(pattern)
    label = results.patterns[place]
    metrics = [metric_of(results, None)]
    metrics += [name for name in ('train_loss', 'loss') if name in results.metrics][:1]
    kept = results.links.get(label)

    def draw(figure: Any) -> None:
        grid = figure.add_gridspec(2 if kept else 1, 6)
        width = 6 // len(metrics)
        for panel, metric in enumerate(dict.fromkeys(metrics)):
            axes = figure.add_subplot(grid[0, panel * width : (panel + 1) * width])
            _draw_curves(axes, results, place, metric)
            _draw_expected(axes, results, label, metric)
            if panel == 0:
                axes.legend(frameon=False, fontsize=9)
        if kept:
            draw_link_map(figure.add_subplot(grid[1, :4]), kept.mask)
            draw_rates(figure.add_subplot(grid[1, 4:]), kept.mask, kept.mean_prob)

    return Page('Overview', [], draw, (10.0, 7.0 if kept else 4.0))


def _draw_curves(axes: Any, results: Results, place: int, metric: str) -> None:
    """Mean over seeds with its interval as a band, one line per series and candidate model."""
    for index, (label, models) in enumerate(results.curves.items()):
        colour = style.COLOURS[index % len(style.COLOURS)]
        for model, named in models.items():
            interval = evaluation.seed_interval(named[metric][place])
            name = results.name(label)
            if len(models) > 1:
                name = f'{name} ({model.replace("_", " ")})'
            look = _STYLES.get(model, ':')
            axes.plot(results.rounds, interval.mean, look, color=colour, label=name)
            low, high = (interval.mean + sign * interval.half_width for sign in (-1, 1))
            if np.isfinite(low).any():
                axes.fill_between(results.rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel('round')
    axes.set_ylabel(metric.replace('_', ' '))
    axes.grid(alpha=0.25)


def _draw_expected(axes: Any, results: Results, pattern: str, metric: str) -> None:
    """A line where an algorithm was expected to end, before the run."""
    kept = results.clients.get(pattern)
    if kept is None:
        return
    for index, label in enumerate(results.curves):
        algorithm, _ = results.members[label]
        value = kept.expected.get(algorithm, {}).get(metric.removeprefix('eval_'))
        if value is not None and not metric.startswith('train_'):
            colour = style.COLOURS[index % len(style.COLOURS)]
            name = f'{results.name(label)}, predicted'
            axes.axhline(value, color=colour, linestyle=':', linewidth=1.2, label=name)
