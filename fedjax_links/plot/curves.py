"""Draws learning curves of runs, with bands over seeds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels, styles
from fedjax_links.plot.panels import Axes
from fedjax_links.results import conversion, dataset
from fedjax_links.results.metric import Metric

BANDS = ('interval', 'deviation')

_MAX_LEGEND_NAMES = 60
_MARKERS_PER_LINE = 7


def learning_curves(
    data: Any,
    metric: str | None = None,
    *,
    model: str | None = None,
    rounds: Any = None,
    names: Mapping[str, str] | None = None,
    levels: Mapping[str, float] | None = None,
    band: str = 'interval',
    window: int = 1,
    above: float = 0.0,
    log: bool = False,
    log_rounds: bool = False,
    against: Mapping[str, Any] | None = None,
    x_name: str = 'round',
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draws a metric against the round, one line per algorithm and candidate model.

    ::

      fl.plot.learning_curves(fl.runs.read('runs/quickstart'))
      fl.plot.learning_curves({'fedavg': first, 'fedpbc': second}, 'eval_accuracy', ax=axes)

    Args:
      data: ``runs.read(...)``, one panel per pattern, or a part of it (``run.select(...)``); a
        `simulation.SimulationResult` of one lane, of seeds [S] or of a sweep [G, S]; an array
        float[E] or float[S, E]; or a mapping from labels to such results or arrays, or to arrays by
        candidate model. Algorithms keep their colours where labels begin with their names in the
        registry.
      metric: its name; by default that of the run, or the first usual one of a result. Of arrays it
        is the label of the axis; names that end in ``accuracy`` are read in per cent.
      model: a candidate model, ``'all'``, or None for the one that the papers evaluate: the
        clients' mean where clients keep models.
      rounds: float[E], rounds completed at each evaluation, for arrays; 1, 2, ... by default.
      names: what to call labels and patterns.
      levels: by label, values drawn as dotted horizontal lines: where it was predicted to end.
      band: ``'interval'``, of the mean over seeds (95 %, Student t; of two seeds, of which it is
        wider than most pictures, the band lies between them), or ``'deviation'``, the standard
        deviation of all that the mean is taken over.
      window: evaluations that a moving average spans.
      above: what is subtracted from the values, such as a known minimum.
      log: logarithmic axis of values.
      log_rounds: logarithmic axis of rounds, or of what is drawn in their place; what lies at zero,
        such as an evaluation of the start, is left out.
      against: by label, float[E], what is drawn in the round's place, such as hours (``x_name``).
      x_name: of the horizontal axis, with its unit.
      legend: whether to draw one.
      ax: matplotlib axes, as many as there are panels; a new figure by default.

    Returns:
      The axes; an array of them where there are several panels.

    Raises:
      ValueError: for an unknown metric, model or band, arrays of the wrong shape, or a legend of
        more names than fit beside a picture.
    """
    checks.choice('band', band, BANDS)
    checks.static_int('window', window)
    results = conversion.to_dataset(data, metric, rounds, names)
    shown_metric = Metric(results.attrs['metric'])
    shown_names = dataset.names(results)
    curves_of_patterns = dataset.curves(results, model)
    if legend:
        _check_legend(max(map(_num_curves, curves_of_patterns.values())))
    labels = [label for curves in curves_of_patterns.values() for label in curves]
    look_of = styles.looks(dict.fromkeys(labels))
    limits = (0, 1) if shown_metric.is_share and not above else (-np.inf, np.inf)
    predictions = levels or {}
    axes_of_panels = panels.several(ax, len(curves_of_patterns))
    for axes, (pattern, curves) in zip(
        axes_of_panels, curves_of_patterns.items(), strict=True
    ):
        num_curves = _num_curves(curves)
        line_index = 0
        for label, models in curves.items():
            look = look_of[label]
            x_values = np.asarray((against or {}).get(label, results['round']))
            # A logarithmic axis has no zero.
            shown = x_values > 0 if log_rounds else slice(None)
            x_values = x_values[shown]
            for kind, values in models.items():
                mean, half_width = _band(values - above, window, band)
                is_named = len(models) > 1
                axes.plot(
                    x_values,
                    mean[shown],
                    label=panels.name_of(shown_names[label], kind, always=is_named),
                    color=look.colour,
                    linestyle=look.line(kind),
                    linewidth=1.3,
                    marker=look.marker if num_curves > 1 else '',
                    markersize=4,
                    markevery=_marked(x_values, log_rounds, line_index, num_curves),
                )
                _fill_band(
                    axes,
                    x_values,
                    mean[shown],
                    half_width[shown],
                    limits,
                    log,
                    look.colour,
                )
                line_index += 1
            _draw_prediction(axes, predictions, label, above, look, shown_names[label])
        panels.name_panel(axes, results, pattern)
        _name_axes(axes, x_name, shown_metric.words, above)
        _scale_axes(axes, log, log_rounds, shown_metric.is_share)
    if legend:
        panels.legend(axes_of_panels[-1])
    return panels.as_returned(axes_of_panels)


def _draw_prediction(
    axes: Axes,
    predictions: Mapping[str, float],
    label: str,
    above: float,
    look: styles.Look,
    name: str,
) -> None:
    """Draws a dotted line where a label was predicted to end, if it was.

    Args:
      axes: matplotlib axes.
      predictions: of all labels.
      label: of the line.
      above: what is subtracted from the values.
      look: of the label.
      name: of the label.
    """
    if label not in predictions:
        return
    index = list(predictions).index(label)
    axes.axhline(
        predictions[label] - above,
        color=look.colour,
        linestyle=_dots(index, len(predictions)),
        linewidth=1.2,
        label=panels.literal(f'{name}, predicted'),
    )


def _num_curves(curves: Mapping[str, Mapping[str, np.ndarray]]) -> int:
    """Counts the candidate models of all labels of a panel."""
    return sum(map(len, curves.values()))


def _check_legend(num_curves: int) -> None:
    """Raises for a legend of more names than fit beside a picture."""
    if num_curves > _MAX_LEGEND_NAMES:
        limit = f'more than {_MAX_LEGEND_NAMES} curves'
        requirement = f'be False for {limit} (`run.select` takes a part)'
        raise errors.invalid('legend', requirement, f'True for {num_curves:,}')


def _fill_band(
    axes: Axes,
    x_values: np.ndarray,
    mean: np.ndarray,
    half_width: np.ndarray,
    limits: tuple[float, float],
    log: bool,
    colour: str,
) -> None:
    """Fills the area around a mean curve, if there is one.

    Args:
      axes: matplotlib axes.
      x_values: float[E].
      mean: float[E].
      half_width: float[E], NaN where there is none.
      limits: values that the metric cannot leave.
      log: whether the axis of values is logarithmic.
      colour: of the curve.
    """
    if not np.isfinite(half_width).any():
        return
    low, high = np.clip([mean - half_width, mean + half_width], *limits)
    if log:
        # A logarithmic axis has no zero: the band ends at a tenth of the mean.
        low = np.maximum(low, mean / 10)
    axes.fill_between(x_values, low, high, alpha=0.15, linewidth=0, color=colour)


def _name_axes(axes: Axes, x_name: str, words: str, above: float) -> None:
    """Names both axes, with what is subtracted from the values."""
    minus = f' minus {above:g}' if above else ''
    whole = 'x' if x_name == 'round' else ''
    panels.finish(axes, x_name, f'{words}{minus}', whole=whole, grid=True)
    axes.yaxis.label.set_size(9)


def _scale_axes(axes: Axes, log: bool, log_rounds: bool, is_fraction: bool) -> None:
    """Chooses logarithmic axes and the way that ticks are written."""
    if log:
        panels.logarithmic(axes.yaxis, per_cent=is_fraction)
    elif is_fraction:
        panels.in_per_cent(axes.yaxis)
    if log_rounds:
        panels.logarithmic(axes.xaxis)
    elif axes.get_xlim()[1] >= 1e5:
        axes.xaxis.set_major_formatter(lambda value, _: f'{value / 1000:g}k')


def _dots(index: int, count: int) -> str | tuple[int, tuple[int, int]]:
    """Returns the dots of one of several horizontal lines, so that equal ones show each other."""
    return ':' if count == 1 else (3 * index, (1, 3 * count - 1))


def _marked(x_values: np.ndarray, log: bool, line: int, count: int) -> list[int]:
    """Chooses the points of a line that have markers, so that lines below others are seen.

    Args:
      x_values: float[E], ascending: of the points along the axis.
      log: whether the axis is logarithmic.
      line: which of the lines of a panel; markers of different lines stand beside each other.
      count: how many lines there are.
    """
    if not len(x_values):
        return []
    along = np.log(x_values) if log else x_values
    positions = np.linspace(along[0], along[-1], _MARKERS_PER_LINE * count)
    nearest = np.searchsorted(along, positions[line::count])
    return list(np.unique(nearest.clip(max=len(along) - 1)))


def _band(values: np.ndarray, window: int, band: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and half width over seeds of a moving average.

    Args:
      values: float[S, E].
      window: evaluations that the average spans.
      band: one of `BANDS`.
    """
    padded = np.pad(values, ((0, 0), (window - 1, 0)))
    # [S, E, window]
    spans = np.lib.stride_tricks.sliding_window_view(padded, window, axis=1)
    sizes = np.minimum(np.arange(1, values.shape[1] + 1), window)
    averages = spans.sum(axis=2) / sizes
    mean, half_width, _ = evaluation.seed_interval(averages)
    num_seeds = len(values)
    if band == 'interval':
        spread = np.ptp(averages, axis=0)
        if num_seeds == 2:
            return mean, spread / 2
        if num_seeds > 2:
            # A band has no width where all seeds agree, as at the start.
            half_width = np.where(spread == 0, 0.0, half_width)
        return mean, half_width
    in_window = np.arange(window) >= window - sizes[:, None]
    count = num_seeds * sizes
    deviations = np.where(in_window, spans - mean[:, None], 0.0)
    variance = (deviations**2).sum(axis=(0, 2)) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, np.sqrt(variance), np.nan)
