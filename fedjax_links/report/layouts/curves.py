"""Learning curves: mean over seeds with a band, one panel per pattern or per algorithm."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, evaluation
from fedjax_links.report import style
from fedjax_links.report.layouts.page import Page, unit
from fedjax_links.report.results import Results

_STYLES = {'server': '-', 'client_mean': '--'}
_LINES = ('algorithms', 'patterns')
_BANDS = ('interval', 'deviation')


def curves(
    results: Results,
    *,
    metrics: Sequence[str] = (),
    lines: str = 'algorithms',
    all_models: bool = False,
    smoothing: float = 0.0,
    band: str = 'interval',
    log: bool = False,
    from_round: int = 0,
    columns: int = 3,
) -> Page:
    """Curves against the round.

    Args:
      results: what ran.
      metrics: which ones, one block of panels each; that of the results by default.
      lines: ``'algorithms'`` (one panel per pattern) or ``'patterns'`` (one per algorithm).
      all_models: draw every candidate model, not only the one that the papers evaluate.
      smoothing: share of the evaluations that a moving average spans; 0 for none.
      band: ``'interval'`` of the mean over seeds (95 %), or standard ``'deviation'`` over seeds.
      log: logarithmic axis.
      from_round: first round drawn.
      columns: panels side by side.

    Returns:
      A page without tables.

    Raises:
      ValueError: for an unknown choice.
    """
    checks.choice('lines', lines, _LINES)
    checks.choice('band', band, _BANDS)
    checks.within('smoothing', smoothing, 0, 1)
    panels = [
        (metric, panel)
        for metric in metrics or (results.metric,)
        for panel in (results.patterns if lines == 'algorithms' else results.curves)
    ]
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    shown = results.rounds >= from_round
    window = max(1, round(smoothing * len(results.rounds)))

    def draw(figure: Any) -> None:
        one_scale = len({metric for metric, _ in panels}) == 1
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=one_scale)
        for axes, (metric, panel) in zip(grid.flat, panels, strict=False):
            for place, (label, pattern) in enumerate(_members(results, lines, panel)):
                for model, named in results.curves[label].items():
                    if all_models or model == results.main_model(label):
                        colour = style.COLOURS[place % len(style.COLOURS)]
                        values = named[metric][list(results.patterns).index(pattern)]
                        name = results.name(label if lines == 'algorithms' else pattern)
                        if all_models and len(results.curves[label]) > 1:
                            name = f'{name} ({model.replace("_", " ")})'
                        _draw_one(
                            axes,
                            results.rounds[shown],
                            _smooth(values, window)[:, shown],
                            band,
                            color=colour,
                            label=name,
                            linestyle=_line_style(model, place),
                        )
            axes.set_title(results.name(panel), fontsize=10)
            axes.set_ylabel(unit(metric).removesuffix(', %'), fontsize=9)
            axes.grid(alpha=0.25)
            if log:
                axes.set_yscale('log')
        for axes in grid[-1]:
            axes.set_xlabel('round')
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        handles, names = grid.flat[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc='outside lower center', ncols=min(6, len(names)), frameon=False
        )

    return Page('Learning curves', [], draw, (3.6 * columns + 0.6, 2.6 * rows + 0.9))


def _members(results: Results, lines: str, panel: str) -> list[tuple[str, str]]:
    """(algorithm, pattern) of each line of a panel."""
    if lines == 'algorithms':
        return [(label, panel) for label in results.curves]
    return [(panel, pattern) for pattern in results.patterns]


def _line_style(model: str, place: int) -> str:
    """Colours repeat after seven lines, which then are dash-dotted."""
    return _STYLES.get(model, ':') if place < len(style.COLOURS) else '-.'


def _draw_one(axes: Any, rounds: np.ndarray, values: np.ndarray, band: str, **line: Any) -> None:
    """Mean and band of float[S, E]."""
    over_seeds = evaluation.seed_interval(values)
    half = over_seeds.half_width if band == 'interval' else values.std(axis=0)
    axes.plot(rounds, over_seeds.mean, linewidth=1.3, **line)
    if np.isfinite(half).any():
        low, high = over_seeds.mean - half, over_seeds.mean + half
        axes.fill_between(rounds, low, high, color=line['color'], alpha=0.15, linewidth=0)


def _smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Moving average over the last ``window`` evaluations, fewer at the start."""
    if window == 1:
        return values
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    stop = np.arange(1, values.shape[1] + 1)
    start = np.maximum(stop - window, 0)
    return (sums[:, stop] - sums[:, start]) / (stop - start)
