"""Draws learning curves of runs, with bands over seeds."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import evaluation
from fedjax_links.core import checks, errors
from fedjax_links.plot import arguments, panels, styles
from fedjax_links.plot.panels import Axes
from fedjax_links.results import conversion, dataset
from fedjax_links.results.metric import Metric

BANDS = ('interval', 'deviation')

_MAX_LEGEND_NAMES = 60
"""Short names that fit beside a picture in columns of `panels.legend`."""


class _Options(NamedTuple):
    """Describes how values become curves: see `learning_curves`.

    Attributes:
      window: evaluations that a moving average spans.
      band: one of `BANDS`.
      above: what is subtracted from the values.
      log: whether the axis of values is logarithmic.
      log_rounds: whether the horizontal axis is logarithmic.
      limits: values that the metric cannot leave.
    """

    window: int
    band: str
    above: float
    log: bool
    log_rounds: bool
    limits: tuple[float, float]


def learning_curves(
    data: Any,
    metric: str | None = None,
    *,
    model: str | None = None,
    rounds: ArrayLike | None = None,
    names: Mapping[str, str] | None = None,
    levels: Mapping[str, float] | None = None,
    exact: Mapping[str, Mapping[str, ArrayLike]] | None = None,
    band: str = 'interval',
    window: int = 1,
    above: float = 0.0,
    log: bool = False,
    log_rounds: bool = False,
    against: Mapping[str, ArrayLike] | None = None,
    x_name: str = 'round',
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes | np.ndarray:
    """Draws a metric against the round, one line per algorithm and candidate model.

    ::

      fl.plot.learning_curves(fl.runs.read('runs/quickstart'))
      fl.plot.learning_curves({'fedavg': first, 'fedpbc': second}, 'eval_accuracy', ax=axes)

    Args:
      data: ``runs.read(...)``, one panel per pattern, or a part of it (``run.select(...)``). Or a
        `simulation.SimulationResult` of one simulation, of seeds [S] or of a sweep [G, S]. Or an
        array float[E] or float[S, E]. Or a mapping from labels to simulations or arrays, or to
        arrays by candidate model. A label that begins with a registered algorithm's name has its
        colour.
      metric: the metric's name. By default the run's metric; for simulations an accuracy, else a
        loss. For arrays the name labels the axis. A metric with the word ``accuracy`` is shown in
        per cent.
      model: a candidate model, ``'all'``, or None for the model that the papers evaluate: the
        clients' mean where clients keep models.
      rounds: float[E], rounds completed at each evaluation, for arrays; 1, 2, ... by default.
      names: names to show for labels and patterns.
      levels: by label, the predicted final value, drawn as a dotted horizontal line.
      exact: by label and candidate model, float[3, E]: a curve known from theory, and the lower and
        upper end of its band. For example the mean, mean - 2 sd and mean + 2 sd of
        `analysis.linear_curve`. The curve is drawn as black dashes, its band between thin dots.
      band: ``'interval'``, the 95 % interval of the mean over seeds (Student t), or
        ``'deviation'``, the standard deviation over seeds and window. The interval of two seeds is
        too wide to draw: with two seeds the band ``'interval'`` goes from one seed to the other.
      window: evaluations that a moving average spans.
      above: what is subtracted from the values, such as a known minimum.
      log: whether the axis of values is logarithmic.
      log_rounds: whether the horizontal axis is logarithmic. Such an axis leaves out points at
        zero, such as an evaluation of the start.
      against: by label, float[E], the horizontal positions in place of rounds, such as hours.
      x_name: name of the horizontal axis, with its unit.
      legend: whether to draw a legend.
      ax: matplotlib axes, as many as there are panels; a new figure by default.

    Returns:
      The axes; an array of them where there are several panels.

    Raises:
      ValueError: for an unknown metric, model or band, arrays of the wrong shape, or a legend
        with more names than fit beside a picture.
    """
    checks.choice('band', band, BANDS)
    checks.static_int('window', window)
    arguments.finite_number('above', above)
    arguments.titles(x_name=x_name)
    checks.flags(log=log, log_rounds=log_rounds, legend=legend)
    results = conversion.to_dataset(data, metric, rounds, names)
    num_evals = results.sizes['round']
    labels = results['series'].values.tolist()
    models = results['model'].values.tolist()
    predictions = arguments.check_by_label('levels', levels, (), labels)
    positions = arguments.check_by_label('against', against, (num_evals,), labels)
    exact_curves = arguments.check_by_label(
        'exact', exact, (3, num_evals), labels, models
    )
    shown_metric = Metric(results.attrs['metric'])
    shown_names = dataset.names(results)
    curves_of_patterns = dataset.curves(results, model)
    if legend:
        _check_legend(curves_of_patterns.values(), predictions)
    curve_labels = [label for curves in curves_of_patterns.values() for label in curves]
    style_of = styles.assign_styles(dict.fromkeys(curve_labels))
    is_bounded = shown_metric.is_fraction and not above
    limits = (0, 1) if is_bounded else (-np.inf, np.inf)
    options = _Options(window, band, above, log, log_rounds, limits)
    axes_of_panels = panels.panel_axes(ax, len(curves_of_patterns))
    for axes, (pattern, curves) in zip(
        axes_of_panels, curves_of_patterns.items(), strict=True
    ):
        num_curves = sum(map(len, curves.values()))
        curve_index = 0
        for label, by_model in curves.items():
            style = style_of[label]
            x_values = np.asarray(positions.get(label, results['round']))
            for model_name, values in by_model.items():
                curve_name = panels.name_of(
                    shown_names[label], model_name, always=len(by_model) > 1
                )
                _draw_curve(
                    axes,
                    x_values,
                    values,
                    options,
                    style,
                    linestyle=style.line(model_name),
                    name=curve_name,
                    curve_index=curve_index,
                    num_curves=num_curves,
                )
                curve_index += 1
                theory = exact_curves.get(label, {}).get(model_name)
                _draw_exact(axes, x_values, theory, options, style.colour)
            _draw_prediction(axes, predictions, label, above, style, shown_names[label])
        panels.name_panel(axes, results, pattern)
        _name_axes(axes, x_name, shown_metric.words, above)
        _scale_axes(axes, log, log_rounds, shown_metric.is_fraction)
    if legend:
        panels.legend(axes_of_panels[-1], panels=axes_of_panels, widens=ax is None)
    return panels.as_returned(axes_of_panels)


def _draw_curve(
    axes: Axes,
    x_values: np.ndarray,
    values: np.ndarray,
    options: _Options,
    style: styles.LabelStyle,
    *,
    linestyle: Any,
    name: str,
    curve_index: int,
    num_curves: int,
) -> None:
    """Draws the mean over seeds, and the band around it unless it has no width anywhere.

    Args:
      axes: matplotlib axes.
      x_values: float[E].
      values: float[S, E].
      options: how to draw them.
      style: the style of the label.
      linestyle: the line style of the candidate model.
      name: the curve's name in the legend.
      curve_index: which of the panel's curves it is.
      num_curves: how many curves the panel has.
    """
    mean, half_width = _band(values - options.above, options.window, options.band)
    if options.log_rounds:
        # A logarithmic axis has no zero.
        is_positive = x_values > 0
        x_values = x_values[is_positive]
        mean = mean[is_positive]
        half_width = half_width[is_positive]
    marked = styles.marked(
        x_values, mean, curve_index, num_curves, log=options.log_rounds
    )
    axes.plot(
        x_values,
        mean,
        label=name,
        color=style.colour,
        linestyle=linestyle,
        linewidth=1.3,
        marker=style.marker if marked else '',
        markersize=4,
        markevery=marked,
    )
    if not np.isfinite(half_width).any():
        return
    low = np.clip(mean - half_width, *options.limits)
    high = np.clip(mean + half_width, *options.limits)
    if options.log:
        # A logarithmic axis has no zero: the band ends at a tenth of the mean.
        low = np.maximum(low, mean / 10)
    axes.fill_between(x_values, low, high, alpha=0.15, linewidth=0, color=style.colour)


def _draw_exact(
    axes: Axes,
    x_values: np.ndarray,
    theory: ArrayLike | None,
    options: _Options,
    colour: str,
) -> None:
    """Draws an exact curve, and its band behind everything.

    Args:
      axes: matplotlib axes.
      x_values: float[E].
      theory: float[3, E], the curve, and both ends of its band; None draws nothing.
      options: how to draw them.
      colour: the colour of the simulated curve.
    """
    if theory is None:
        return
    spans, sizes = _spans(np.asarray(theory, float) - options.above, options.window)
    line, low, high = np.clip(spans.sum(axis=2) / sizes, *options.limits)
    is_shown = x_values > 0 if options.log_rounds else np.ones(len(x_values), bool)
    if options.log:
        # A logarithmic axis has no zero: the band ends at a tenth of the curve.
        low = np.maximum(low, line / 10)
    x_values = x_values[is_shown]
    ends = [low[is_shown], high[is_shown]]
    axes.fill_between(
        x_values, *ends, facecolor=colour, alpha=0.06, linewidth=0, zorder=0.5
    )
    for end in ends:
        axes.plot(x_values, end, color=colour, linestyle=':', linewidth=0.7, zorder=0.6)
    axes.plot(
        x_values, line[is_shown], color=styles.EXACT, linestyle='--', linewidth=0.7
    )


def _draw_prediction(
    axes: Axes,
    predictions: Mapping[str, float],
    label: str,
    above: float,
    style: styles.LabelStyle,
    name: str,
) -> None:
    """Draws a dotted line at the predicted final value of a label, if there is one.

    Args:
      axes: matplotlib axes.
      predictions: final values by label.
      label: the label of the line.
      above: what is subtracted from the values.
      style: the style of the label.
      name: the label's name in the legend.
    """
    if label not in predictions:
        return
    index = list(predictions).index(label)
    axes.axhline(
        predictions[label] - above,
        color=style.colour,
        linestyle=_dots(index, len(predictions)),
        linewidth=1.2,
        label=panels.literal(f'{name}, predicted'),
    )


def _check_legend(
    curves_of_panels: Iterable[dataset.Curves], predictions: Mapping[str, float]
) -> None:
    """Raises for a legend with more names of curves and predictions than fit beside a picture."""
    names: set[tuple[str, str | None]] = set()
    for curves in curves_of_panels:
        for label, by_model in curves.items():
            names.update((label, model_name) for model_name in by_model)
            if label in predictions:
                names.add((label, None))
    if len(names) > _MAX_LEGEND_NAMES:
        limit = f'more than {_MAX_LEGEND_NAMES} names'
        requirement = f'be False for {limit} (`run.select` takes a part)'
        raise errors.invalid('legend', requirement, f'True for {len(names):,}')


def _name_axes(axes: Axes, x_name: str, words: str, above: float) -> None:
    """Names both axes; the vertical one also says what is subtracted from the values."""
    subtracted = f' minus {above:g}' if above else ''
    integer_axes = 'x' if x_name == 'round' else ''
    panels.label_axes(
        axes, x_name, f'{words}{subtracted}', integers=integer_axes, grid=True
    )
    axes.yaxis.label.set_fontsize('small')


def _scale_axes(axes: Axes, log: bool, log_rounds: bool, is_fraction: bool) -> None:
    """Makes axes logarithmic, and chooses how their ticks are written."""
    if log:
        panels.logarithmic(axes.yaxis, per_cent=is_fraction)
    elif is_fraction:
        panels.in_per_cent(axes.yaxis)
    if log_rounds:
        panels.logarithmic(axes.xaxis)
    elif axes.get_xlim()[1] >= 1e5:
        axes.xaxis.set_major_formatter(lambda value, _: f'{value / 1000:g}k')


def _dots(index: int, count: int) -> str | tuple[int, tuple[int, int]]:
    """Returns the line style of one of several dotted lines, which may lie on each other."""
    if count == 1:
        return ':'
    # All lines have dots of length 1 with the same period, shifted against each other.
    period = 3 * count
    return 3 * index, (1, period - 1)


def _spans(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns each evaluation with the evaluations before it.

    Args:
      values: float[S, E].
      window: evaluations that a moving average spans.

    Returns:
      float[S, E, window], the first windows padded by zeros; and int[E], how many evaluations each
      window has.
    """
    padded = np.pad(values, ((0, 0), (window - 1, 0)))
    spans = np.lib.stride_tricks.sliding_window_view(padded, window, axis=1)
    return spans, np.minimum(np.arange(1, values.shape[1] + 1), window)


def _band(values: np.ndarray, window: int, band: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean over seeds of a moving average, and the half width of its band.

    Args:
      values: float[S, E].
      window: evaluations that the average spans.
      band: one of `BANDS`.
    """
    spans, sizes = _spans(values, window)
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
    # The standard deviation over the seeds and the evaluations of a window, without padding.
    in_window = np.arange(window) >= window - sizes[:, None]
    count = num_seeds * sizes
    deviations = np.where(in_window, spans - mean[:, None], 0.0)
    variance = (deviations**2).sum(axis=(0, 2)) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, np.sqrt(variance), np.nan)
