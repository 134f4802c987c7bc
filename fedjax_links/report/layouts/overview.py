"""One picture of a run: learning curves of its metrics, and the links that it met."""

from typing import Any

from fedjax_links import checks, plot
from fedjax_links.plot.panels import legend_columns
from fedjax_links.plot.reading import ALL
from fedjax_links.report.layouts.page import Page, metric_of, told_apart
from fedjax_links.report.results import Results

_WIDTH = 10.0  # inches


def overview(results: Results, *, pattern: str | None = None, tail: float = 0.1) -> Page:
    """Curves of the main metric and of a training loss, with all candidate models; links below.

    Args:
      results: what ran.
      pattern: which links; the first by default.
      tail: share of the evaluations, the last ones, by whose mean a point is best.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown pattern or a share that is none.
    """
    checks.within('tail', tail, 0, 1)
    place = results.place_of(pattern)
    metrics = [metric_of(results, None)]
    results, heading = told_apart(results, 'Overview', metrics[0], tail, [place])
    label = results.patterns[place]
    metrics += [name for name in ('train_loss', 'loss') if name in results.metrics][:1]
    kept = results.links.get(label)

    def draw(figure: Any) -> None:
        grid = figure.add_gridspec(2 if kept else 1, 6)
        width = 6 // len(metrics)
        for panel, metric in enumerate(dict.fromkeys(metrics)):
            axes = figure.add_subplot(grid[0, panel * width : (panel + 1) * width])
            _draw_curves(axes, results, place, metric)
            if panel == 0:
                handles, names = axes.get_legend_handles_labels()
        columns = legend_columns(names, _WIDTH)
        figure.legend(handles, names, loc='outside lower center', ncols=columns, frameon=False)
        if kept:
            plot.link_map(kept.mask, ax=figure.add_subplot(grid[1, :4]))
            rate_axes = figure.add_subplot(grid[1, 4:])
            plot.participation_rates(kept.mask, kept.mean_prob, ax=rate_axes)

    return Page(heading, [], draw, (_WIDTH, 7.0 if kept else 4.0))


def _draw_curves(axes: Any, results: Results, place: int, metric: str) -> None:
    """Mean over seeds with its interval as a band, one line per series and candidate model."""
    plot.learning_curves(
        {
            label: {model: named[metric][place] for model, named in models.items()}
            for label, models in results.curves.items()
        },
        metric,
        model=ALL,
        rounds=results.rounds,
        names={label: results.name(label) for label in results.curves},
        levels=_expected(results, results.patterns[place], metric),
        legend=False,
        ax=axes,
    )


def _expected(results: Results, pattern: str, metric: str) -> dict[str, float]:
    """Where algorithms were expected to end, before the run."""
    kept = results.clients.get(pattern)
    held_out = any(name.startswith('eval_') for name in results.metrics)
    if kept is None or (held_out and metric.startswith('train_')):
        return {}
    known = metric.removeprefix('eval_' if held_out else 'train_')
    found = {}
    for label in results.curves:
        algorithm, _ = results.members[label]
        value = kept.expected.get(algorithm, {}).get(known)
        if value is not None:
            found[label] = value
    return found
