"""One picture of a run: learning curves of its metrics, and the links that it met."""

from typing import Any

from fedjax_links import plot
from fedjax_links.core import checks
from fedjax_links.plot import panels
from fedjax_links.report.layouts.page import Page, limit_series
from fedjax_links.report.source import Source
from fedjax_links.results.dataset import ALL

_WIDTH = 10.0  # inches


def overview(source: Source, *, pattern: str | None = None, tail: float = 0.1) -> Page:
    """Curves of the main metric and of a training loss, with all candidate models; links below.

    Args:
      source: what ran.
      pattern: which links; the first by default.
      tail: share of the evaluations, the last ones, by whose mean a point is best.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown pattern or a share that is none.
    """
    pattern = source.patterns[0] if pattern is None else pattern
    checks.choice('pattern', pattern, source.patterns)
    shown, heading = limit_series(source, 'Overview', source.ends(None, tail), [pattern])
    metrics = [source.metric().name]
    metrics += [name for name in ('train_loss', 'loss') if name in source.metrics][:1]
    metrics, kept = list(dict.fromkeys(metrics)), source.links.get(pattern)

    def draw(figure: Any) -> None:
        grid = figure.add_gridspec(2 if kept else 1, 6)
        width = 6 // len(metrics)
        for panel, metric in enumerate(metrics):
            axes = figure.add_subplot(grid[0, panel * width : (panel + 1) * width])
            plot.learning_curves(
                shown.data.sel(pattern=[pattern]),
                metric,
                model=ALL,
                levels=_expected(shown, pattern, metric),
                legend=False,
                ax=axes,
            )
            if panel == 0:
                names = axes.get_legend_handles_labels()[1]
        panels.legend_below(figure, names, _WIDTH)
        if kept:
            plot.link_map(kept.mask, ax=figure.add_subplot(grid[1, :4]))
            plot.participation_rates(kept.mask, kept.mean_prob, ax=figure.add_subplot(grid[1, 4:]))

    return Page(heading, [], draw, (_WIDTH, 7.0 if kept else 4.0))


def _expected(source: Source, pattern: str, metric: str) -> dict[str, float]:
    """Where algorithms were expected to end, before the run."""
    kept = source.clients.get(pattern)
    held_out = any(name.startswith('eval_') for name in source.metrics)
    if kept is None or (held_out and metric.startswith('train_')):
        return {}
    known = metric.removeprefix('eval_' if held_out else 'train_')
    expected = {
        label: kept.expected.get(algorithm, {}).get(known)
        for label, (algorithm, _) in source.members.items()
    }
    return {label: value for label, value in expected.items() if value is not None}
