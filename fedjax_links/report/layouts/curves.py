"""Learning curves: mean over seeds with a band, one panel per pattern or per algorithm."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks, plot
from fedjax_links.plot.curves import BANDS
from fedjax_links.plot.panels import legend_columns, named
from fedjax_links.plot.reading import ALL
from fedjax_links.report.layouts.page import Page, metric_of, told_apart
from fedjax_links.report.results import Results

_LINES = ('algorithms', 'patterns')

_NARROWEST = 6.4  # inches, for titles and legends


class Axis(NamedTuple):
    """What curves are drawn against in the round's place.

    Attributes:
      label: of the axis.
      values: float[E], one for each evaluation, by series and pattern.
    """

    label: str
    values: Mapping[tuple[str, str], np.ndarray]


def curves(
    results: Results,
    *,
    metrics: Sequence[str] = (),
    lines: str = 'algorithms',
    all_models: bool = False,
    smoothing: float = 0.0,
    band: str = 'interval',
    above: float = 0.0,
    log: bool = False,
    log_rounds: bool = False,
    from_round: int = 0,
    columns: int = 3,
    tail: float = 0.1,
    against: Axis | None = None,
) -> Page:
    """Curves against the round, or what it cost.

    Args:
      results: what ran.
      metrics: which ones, one block of panels each; that of the results by default.
      lines: ``'algorithms'`` (one panel per pattern) or ``'patterns'`` (one per algorithm).
      all_models: draw every candidate model, not only the one that the papers evaluate.
      smoothing: share of the evaluations that a moving average spans; 0 for none.
      band: ``'interval'`` of the mean over seeds (95 %), or standard ``'deviation'`` of everything
        that the mean is taken over: seeds, and the evaluations that a moving average spans.
      above: what is subtracted from the metrics, such as a known minimum.
      log: logarithmic axis of values.
      log_rounds: logarithmic axis of rounds, which shows the first ones; round 0 is left out.
      from_round: first round drawn.
      columns: panels side by side.
      tail: share of the evaluations, the last ones, by whose mean in the first metric a point is
        best.
      against: another horizontal axis, as `price` makes it.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown choice or metric, or numbers out of range.
    """
    checks.choice('lines', lines, _LINES)
    checks.choice('band', band, BANDS)
    checks.within('smoothing', smoothing, 0, 1)
    checks.static_int('columns', columns)
    checks.static_int('from_round', from_round, minimum=0, maximum=int(results.rounds[-1]))
    metrics = [metric_of(results, metric, 'metrics') for metric in metrics or (None,)]
    checks.within('tail', tail, 0, 1)
    results, heading = told_apart(results, f'Learning curves of {lines}', metrics[0], tail)
    panels = [
        (metric, panel)
        for metric in metrics
        for panel in (results.patterns if lines == 'algorithms' else results.curves)
    ]
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    window = results.count(smoothing)
    names = list(
        dict.fromkeys(
            name
            for _, panel in panels
            for label, pattern in _members(results, lines, panel)
            for name in _names(results, lines, label, pattern, all_models)
        )
    )
    width = max(3.6 * columns + 0.6, _NARROWEST)
    side_by_side = legend_columns(names, width)
    size = (width, 2.6 * rows + 0.7 + 0.22 * -(-len(names) // side_by_side))

    def draw(figure: Any) -> None:
        one_scale = len(metrics) == 1
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=one_scale)
        for axes, (metric, panel) in zip(grid.flat, panels, strict=False):
            shown, places = {}, {}
            for label, pattern in _members(results, lines, panel):
                row = list(results.patterns).index(pattern)
                key = label if lines == 'algorithms' else pattern
                shown[key] = {
                    look: results.curves[label][model][metric][row]
                    for model, look in _models(results, lines, label, all_models).items()
                }
                if against:
                    places[key] = against.values[label, pattern]
            plot.learning_curves(
                shown,
                metric,
                model=ALL,
                rounds=results.rounds,
                names={label: results.name(label) for label in shown},
                band=band,
                window=window,
                above=above,
                log=log,
                log_rounds=log_rounds,
                from_round=from_round,
                against=places or None,
                legend=False,
                ax=axes,
            )
            title = results.name(panel)
            if lines == 'patterns' and not all_models:
                title = named(title, results.main_model(panel))
            axes.set_title(title, fontsize=10)
            axes.set_xlabel('')
            if one_scale and not axes.get_subplotspec().is_first_col():
                axes.set_ylabel('')
        for column in grid.T:
            last = [axes for axes in column if axes.lines][-1]
            last.set_xlabel(against.label if against else 'round')
            last.tick_params(labelbottom=True)
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        handles: dict[str, Any] = {}
        for line in (line for axes in grid.flat for line in axes.lines):
            handles.setdefault(line.get_label(), line)
        figure.legend(
            [handles[name] for name in names],
            names,
            loc='outside lower center',
            ncols=side_by_side,
            frameon=False,
        )

    return Page(heading, [], draw, size)


def _members(results: Results, lines: str, panel: str) -> list[tuple[str, str]]:
    """(algorithm, pattern) of each line of a panel."""
    if lines == 'algorithms':
        return [(label, panel) for label in results.curves]
    return [(panel, pattern) for pattern in results.patterns]


def _models(results: Results, lines: str, label: str, all_models: bool) -> dict[str, str]:
    """The candidate models of an algorithm that are drawn, and as which.

    A panel of an algorithm that shows one has it in its title, and lines like all other panels.
    """
    if all_models and len(results.curves[label]) > 1:
        return {model: model for model in results.curves[label]}
    model = results.main_model(label)
    return {model: model if lines == 'algorithms' else 'server'}


def _names(results: Results, lines: str, label: str, pattern: str, all_models: bool) -> list[str]:
    """What the lines of an algorithm under a pattern are called."""
    name = results.name(label if lines == 'algorithms' else pattern)
    drawn = _models(results, lines, label, all_models).values()
    return [named(name, look, always=len(drawn) > 1) for look in drawn]
