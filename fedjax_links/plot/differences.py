"""Draws differences of final metrics to a baseline, paired over seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors, student
from fedjax_links.core.records import Section
from fedjax_links.plot import arguments, panels, styles
from fedjax_links.plot.panels import Axes
from fedjax_links.results import conversion, dataset
from fedjax_links.results.metric import Metric


def paired_differences(
    data: Any,
    baseline: str | None = None,
    metric: str | None = None,
    *,
    model: str | None = None,
    tail: float = 0.1,
    names: Mapping[str, str] | None = None,
    wide: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Axes | np.ndarray:
    """Draws differences to a baseline with the same seeds, and their 95 % intervals.

    A point is filled where all its intervals exclude zero. Differences of fractions, such as
    accuracies, are in percentage points. If the run added seeds until decided, intervals are from
    `evaluation.decide` at the run's level, as in the run's tables. A dashed line through the panel
    stands for an infinite interval.

    ::

      fl.plot.paired_differences({'fedavg': [0.71, 0.74], 'mifa': [0.75, 0.76]}, 'fedavg')

    Args:
      data: as in `learning_curves`, one panel per pattern; arrays may also be float[S], one final
        value per seed. Row s of every label has the same seed.
      baseline: the label to compare with; by default the run's baseline, or else the first label.
        In a run over a grid, or a sweep, each series is compared with the baseline at the same
        point, in the columns that both have. Series without such a point are left out.
      metric: as in `learning_curves`.
      model: as in `learning_curves`.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over, in [0, 1].
      names: titles of labels and patterns.
      wide: by label, half width of a second interval, such as the interval including tuning. A thin
        line shows it.
      ax: matplotlib axes, as many as there are panels; a new figure by default.

    Returns:
      The axes; an array of them where there are several panels.

    Raises:
      ValueError: for an unknown baseline, metric or model, a ``tail`` out of range, or seeds that
        are not paired.
    """
    checks.number_within('tail', tail, 0, 1)
    results = conversion.to_dataset(_with_evaluations(data), metric, names=names)
    shown_names = dataset.names(results)
    shown_metric = Metric(results.attrs['metric'])
    until = dataset.read_attribute(results, 'until') or {}
    members = dataset.points(results)
    baseline = _baseline(members, baseline, results.attrs.get('baseline'))
    baseline_of = _baseline_of_rows(members, baseline)

    wide = _check_wide(wide, members)
    curves_of_patterns = dataset.curves(results, model)
    model_of: dict[str, str] = {}
    differences_of: dict[str, dict[str, evaluation.Interval]] = {}
    for pattern, curves in curves_of_patterns.items():
        final = {}
        for label, values_of_models in curves.items():
            shown_model, values = next(iter(values_of_models.items()))
            model_of[label] = shown_model
            final[label] = dataset.tail(values, tail)
        differences_of[pattern] = _differences(final, baseline_of, until)
    titles = [panels.name_of(shown_names[k], model_of[k]) for k in baseline_of]
    longest_title = max(map(len, titles), default=0)
    axes_of_panels = panels.panel_axes(
        ax, len(differences_of), len(titles), longest_title
    )
    style_of = styles.assign_styles(model_of)
    for axes, (pattern, differences) in zip(
        axes_of_panels, differences_of.items(), strict=True
    ):
        for row, label in enumerate(baseline_of):
            if label in differences:
                _draw_difference(
                    axes,
                    row,
                    differences[label],
                    wide.get(label, 0.0),
                    colour=style_of[label].colour,
                    scale=shown_metric.scale,
                )
        _name_rows(axes, titles)
        panels.name_panel(axes, results, pattern)
    base_model = 'server'
    if baseline_of:
        base_model = model_of[next(iter(baseline_of.values()))]
    base_title = panels.name_of(shown_names[baseline], base_model)
    words = shown_metric.words or 'value'
    x_label = shown_metric.difference_title(f'{words} minus that of {base_title}')
    _name_x_axes(axes_of_panels, x_label, is_new_figure=ax is None)
    return panels.as_returned(axes_of_panels)


def _check_wide(
    wide: Mapping[str, float] | None, members: dataset.Members
) -> Mapping[str, float]:
    """Returns the half widths of second intervals by label, and raises for a negative one."""
    half_widths = arguments.check_by_label('wide', wide, (), list(members))
    for label, half_width in half_widths.items():
        if half_width < 0:
            value = f'{half_width} for {label!r}'
            raise errors.invalid('wide', 'be at least 0', value)
    return half_widths


def _name_rows(axes: Axes, titles: Sequence[str]) -> None:
    """Names the rows, the first one at the top, around a line at zero."""
    axes.axvline(0, color='#888888', linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(max(len(titles), 1) - 0.5, -0.5)
    axes.grid(axis='x', alpha=0.25)


def _with_evaluations(data: Any) -> Any:
    """Converts arrays float[S] in the data to one evaluation per seed, float[S, 1]."""
    if not isinstance(data, Mapping) or hasattr(data, 'data_vars'):
        return data
    return {
        label: np.asarray(entry)[:, None] if _is_vector(entry) else entry
        for label, entry in data.items()
    }


def _is_vector(entry: Any) -> bool:
    """Returns whether an entry is an array with one axis."""
    return not isinstance(entry, Mapping | tuple) and np.ndim(entry) == 1


def _baseline(
    members: dataset.Members, baseline: str | None, of_run: str | None
) -> str:
    """Returns the label to compare with: the run's baseline, or the first algorithm or series.

    Args:
      members: algorithm and point by series.
      baseline: the chosen label; None for the default.
      of_run: the run's; empty or None without one.

    Raises:
      ValueError: for a label that is neither an algorithm nor a series.
    """
    if baseline is None:
        baseline = of_run or None
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in members.values()))
    if baseline is None:
        baseline = algorithms[0] if len(algorithms) > 1 else next(iter(members))
    checks.choice('baseline', baseline, [*algorithms, *members])
    return baseline


def _baseline_of_rows(members: dataset.Members, baseline: str) -> dict[str, str]:
    """Returns the series that each series is compared with.

    Series that have no counterpart, and the baseline's series, are left out.
    """
    baseline_of = {}
    for label in members:
        if baseline in members:
            base: str | None = baseline
        else:
            base = dataset.counterpart(members, label, baseline)
        if base is not None and base != label:
            baseline_of[label] = base
    return baseline_of


def _name_x_axes(axes_of_panels: list[Any], name: str, *, is_new_figure: bool) -> None:
    """Names the horizontal axes, or all of a new figure at once.

    Panels of a new figure share the names of their rows, which stand at its left side.
    """
    if is_new_figure and len(axes_of_panels) > 1:
        axes_of_panels[0].figure.supxlabel(name, fontsize='medium')
        for axes in axes_of_panels:
            axes.set_xlabel('')
            axes.tick_params(labelleft=axes.get_subplotspec().is_first_col())
        return
    for axes in axes_of_panels:
        axes.set_xlabel(name)
        axes.tick_params(labelleft=True)


def _differences(
    final: Mapping[str, np.ndarray], baseline_of: Mapping[str, str], until: Section
) -> dict[str, evaluation.Interval]:
    """Returns the paired differences under a pattern, of labels that ran there with their baseline.

    A label that diverged is left out: a difference of NaN would leave the axis without zero.

    Args:
      final: float[S] by label, the final metric of each seed.
      baseline_of: the label that each label is compared with.
      until: as in `_difference`.
    """
    differences: dict[str, evaluation.Interval] = {}
    for label, base in baseline_of.items():
        if label in final and base in final:
            difference = _difference(label, final[label], final[base], until)
            if not math.isnan(difference.mean):
                differences[label] = difference
    return differences


def _difference(
    label: str, final: np.ndarray, base: np.ndarray, until: Section
) -> evaluation.Interval:
    """Returns the paired difference of final metrics.

    Args:
      label: whose metrics these are, for the error.
      final: float[S], by seed.
      base: float[S'], of the baseline.
      until: how seeds were added until decided; empty if their number was fixed. With it, only
        the first seeds that both have count, and the interval holds at any number of seeds.

    Raises:
      ValueError: for unequal numbers of seeds.
    """
    if until:
        num_seeds = min(len(final), len(base))
        final = final[:num_seeds]
        base = base[:num_seeds]
    if len(final) != len(base):
        requirement = f'have as many seeds for each label as the baseline, {len(base)}'
        raise errors.invalid('data', requirement, f'{len(final)} for {label!r}')
    difference = evaluation.paired_interval(final, base)
    if 'level' not in until:
        return difference
    verdict = evaluation.decide(student.paired(final, base), level=until['level'])
    return difference._replace(half_width=np.asarray(verdict.half_width))


def _draw_difference(
    axes: Axes,
    row: int,
    difference: evaluation.Interval,
    wide_half_width: float,
    *,
    colour: str,
    scale: float,
) -> None:
    """Draws a point with its bar, and a thin bar for the wider interval if there is one.

    Args:
      axes: matplotlib axes.
      row: where to draw it.
      difference: with its interval.
      wide_half_width: half width of the wider interval; 0 without one.
      colour: the colour of point and bars.
      scale: the factor of mean and half widths.
    """
    mean = scale * float(difference.mean)
    half_width = scale * float(difference.half_width)
    wide_half_width = scale * wide_half_width
    look: dict[str, Any] = {'fmt': 'o', 'markersize': 6, 'capsize': 3}
    is_clear = difference.excludes_zero and wide_half_width < abs(mean)
    if not is_clear:
        look['markerfacecolor'] = 'white'
    if math.isinf(half_width) or math.isinf(wide_half_width):
        axes.axhline(row, linestyle='--', linewidth=0.7, color=colour)
    elif wide_half_width > half_width:
        axes.errorbar(
            mean, row, xerr=wide_half_width, fmt='none', elinewidth=0.7, color=colour
        )
    error = half_width if math.isfinite(half_width) else None
    axes.errorbar(mean, row, xerr=error, color=colour, **look)
