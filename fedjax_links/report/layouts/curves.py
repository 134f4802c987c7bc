"""Learning curves: mean over seeds with a band, one panel per pattern or per algorithm."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import plot
from fedjax_links.core import checks
from fedjax_links.plot import panels
from fedjax_links.plot.curves import BANDS
from fedjax_links.report.layouts.page import Page, limit_series
from fedjax_links.report.source import Source
from fedjax_links.results import dataset

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
    source: Source,
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
      source: what ran.
      metrics: which ones, one block of panels each; that of the run by default.
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
    checks.static_int('from_round', from_round, minimum=0, maximum=int(source.rounds[-1]))
    metrics = [source.metric(metric, 'metrics').name for metric in metrics or (None,)]
    heading = f'Learning curves of {lines}'
    source, heading = limit_series(source, heading, source.ends(metrics[0], tail))
    by_pattern = lines == 'algorithms'
    labels = source.patterns if by_pattern else list(source.members)
    every = [(metric, panel) for metric in metrics for panel in labels]
    columns = min(columns, len(every))
    shown = {panel: _lines(source, panel, by_pattern, all_models) for panel in labels}
    names = list(
        dict.fromkeys(
            panels.named(source.name(label), look, always=len(line.models) > 1)
            for panel in labels
            for label, line in shown[panel].items()
            for look in line.models
        )
    )
    width = max(3.6 * columns + 0.6, _NARROWEST)
    rows, below = -(-len(every) // columns), panels.legend_columns(names, width)
    size = (width, 2.6 * rows + 0.7 + 0.22 * -(-len(names) // below))

    def draw(figure: Any) -> None:
        one_scale = len(metrics) == 1
        grid = panels.grid(figure, len(every), columns, sharex=True, sharey=one_scale)
        for place, (axes, (metric, panel)) in enumerate(zip(grid, every, strict=True)):
            plot.learning_curves(
                {
                    label: {
                        look: source.curve(metric, (line.pattern, line.series, model))
                        for look, model in line.models.items()
                    }
                    for label, line in shown[panel].items()
                },
                metric,
                model=dataset.ALL,
                rounds=source.rounds,
                names={label: source.name(label) for label in shown[panel]},
                band=band,
                window=dataset.num_last(len(source.rounds), smoothing),
                above=above,
                log=log,
                log_rounds=log_rounds,
                from_round=from_round,
                against=against
                and {k: against.values[v.series, v.pattern] for k, v in shown[panel].items()},
                legend=False,
                ax=axes,
            )
            title = source.name(panel)
            if not by_pattern and not all_models:
                title = panels.named(title, source.main_models[panel])
            axes.set_title(title, fontsize=10)
            if one_scale and not axes.get_subplotspec().is_first_col():
                axes.set_ylabel('')
            is_last = place + columns >= len(every)
            axes.set_xlabel((against.label if against else 'round') if is_last else '')
            axes.tick_params(labelbottom=is_last)
        panels.legend_below(figure, names, width)

    return Page(heading, [], draw, size)


class _Line(NamedTuple):
    """What a line of a panel shows: candidate models by the name that they look like."""

    series: str
    pattern: str
    models: Mapping[str, str]


def _lines(source: Source, panel: str, by_pattern: bool, all_models: bool) -> dict[str, _Line]:
    """The lines of a panel by label.

    A panel of an algorithm that shows one model has it in its title, and lines like all others.
    """
    found = {}
    for label in source.members if by_pattern else source.patterns:
        series, pattern = (label, panel) if by_pattern else (panel, label)
        main = source.main_models[series]
        models = {main if by_pattern else 'server': main}
        if all_models and len(source.models[series]) > 1:
            models = {model: model for model in source.models[series]}
        found[label] = _Line(series, pattern, models)
    return found
