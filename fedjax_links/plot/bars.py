"""Draws final metrics as grouped bars."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import evaluation
from fedjax_links.core import checks, errors
from fedjax_links.plot import arguments, panels, styles
from fedjax_links.plot.panels import Axes
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

LETTERS_PER_INCH = 9
"""Letters of size `panels.FONT`, about."""


def metric_bars(
    values: Mapping[str, ArrayLike | Sequence[ArrayLike]],
    groups: Sequence[str],
    metric: str | None = None,
    *,
    names: Mapping[str, str] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draws final metrics as bars with 95 % intervals over seeds: in each group a bar per label.

    The interval of two seeds is wider than most pictures, so both seeds are drawn as dots. A cross
    at the bottom stands for a label that diverged, with a mean of NaN.

    Args:
      values: final metrics float[P, S] by label, one row per group, one entry per seed; or a list
        of P rows, which may have different numbers of seeds.
      groups: what the P groups are called.
      metric: the metric's name, which labels the axis; None for no label. Fractions, such as
        ``accuracy``, are shown in per cent.
      names: what to call labels.
      legend: whether to draw a legend.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.

    Raises:
      ValueError: for values of the wrong shape.
    """
    from matplotlib import rcParams

    checks.flags(legend=legend)
    arguments.titles(metric=metric)
    values = arguments.by_label('values', values)
    groups = arguments.ordered_names('groups', groups)
    checks.not_empty('groups', groups)
    names = {} if names is None else names
    dataset.check_names(names, values)
    heights = {
        label: _checked_values(label, values_of_label, len(groups))
        for label, values_of_label in values.items()
    }
    width = 0.84 / len(values)
    axes = panels.axes_of(ax)
    # The constrained layout of a new figure later widens its axes by about a quarter. Axes of the
    # user count as if they were widened, too.
    inches = 1.25 * axes.bbox.width / axes.figure.dpi
    letters_per_inch = LETTERS_PER_INCH * panels.FONT / rcParams['font.size']
    group_centres = np.arange(len(groups))
    middle_bar = (len(values) - 1) / 2
    for bar_index, (label, style) in enumerate(styles.assign_styles(values).items()):
        centres = group_centres + (bar_index - middle_bar) * width
        name = panels.literal(names.get(label, label))
        _draw_bars(axes, centres, heights[label], width, name, style)
    letters = max(8, int(letters_per_inch * inches / len(groups)))
    _name_groups(axes, groups, letters)
    shown_metric = Metric(metric or '')
    axes.set_ylabel(shown_metric.words)
    if shown_metric.is_fraction:
        axes.set_ylim(0, min(axes.get_ylim()[1], 1))
        panels.in_per_cent(axes.yaxis)
    axes.grid(axis='y', alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        panels.legend(axes, outside=True, widens=ax is None)
    return axes


def _draw_bars(
    axes: Axes,
    centres: np.ndarray,
    rows: Sequence[np.ndarray],
    width: float,
    name: str,
    style: styles.LabelStyle,
) -> None:
    """Draws the bars of one label, with intervals of three seeds or more, or dots of two.

    Args:
      axes: matplotlib axes.
      centres: float[P], positions of the bars.
      rows: for each bar its final metrics, float64[S].
      width: the width of a bar.
      name: what the legend calls them.
      style: how they look.
    """
    num_seeds = np.array([row.size for row in rows])
    intervals = [evaluation.seed_interval(row) for row in rows]
    means = [float(interval.mean) for interval in intervals]
    options: dict[str, Any] = {
        'label': name,
        'color': style.colour,
        'edgecolor': 'white',
        'linewidth': 0,
        'hatch': style.hatch,
    }
    has_whisker = num_seeds > 2
    if has_whisker.any():
        half_widths = [float(interval.half_width) for interval in intervals]
        options['yerr'] = np.where(has_whisker, np.nan_to_num(half_widths), np.nan)
        options['error_kw'] = {'linewidth': 0.8, 'capsize': 2}
    axes.bar(centres, means, width, **options)
    _draw_crosses(axes, centres[np.isnan(means)], width, style.colour)
    for centre, row in zip(centres, rows, strict=True):
        if row.size == 2:
            axes.plot([centre, centre], row, '.', color='black', markersize=3)


def _draw_crosses(axes: Axes, centres: np.ndarray, width: float, colour: str) -> None:
    """Draws a cross at the bottom for each bar that diverged.

    Args:
      axes: matplotlib axes.
      centres: float[], the centres of the bars.
      width: the width of a bar; the axis has room for crosses as for bars.
      colour: of the label.
    """
    if not centres.size:
        return
    look: dict[str, Any] = {'color': colour, 'markersize': 6, 'clip_on': False}
    height = np.full(centres.size, 0.03)  # of the axes
    axes.plot(centres, height, 'x', transform=axes.get_xaxis_transform(), **look)
    ends = np.array([centres.min() - width / 2, centres.max() + width / 2])
    axes.update_datalim(np.stack([ends, [0, 0]], axis=1), updatey=False)
    axes.autoscale_view()


def _checked_values(label: str, values: Any, num_groups: int) -> list[np.ndarray]:
    """Returns the values of a label, P of float64[S]; raises for another shape, or no seeds."""
    is_list = isinstance(values, list | tuple)
    unchecked = values if is_list else np.atleast_1d(checks.numbers('values', values))
    rows = [checks.numbers('values', row).astype(np.float64) for row in unchecked]
    has_seeds = [row.ndim == 1 and row.size > 0 for row in rows]
    if len(rows) != num_groups or not all(has_seeds):
        shapes = [list(row.shape) for row in rows]
        value = f'rows of shapes {shapes} for {label!r}'
        raise errors.invalid('values', f'be of shape [{num_groups}, S]', value)
    return rows


def _name_groups(axes: Axes, groups: Sequence[str], letters: int) -> None:
    """Writes the names of groups below them, slanted if a word is too long for its group.

    Args:
      axes: matplotlib axes; group k is centred at k.
      groups: the names.
      letters: how many fit below a group.
    """
    centres = np.arange(len(groups))
    longest_word = max(map(len, ' '.join(groups).split()), default=0)
    if longest_word > letters:
        names = [panels.literal(name) for name in groups]
        axes.set_xticks(centres, names, rotation=30, ha='right', va='top')
    else:
        names = [panels.literal(textwrap.fill(name, letters)) for name in groups]
        axes.set_xticks(centres, names)
