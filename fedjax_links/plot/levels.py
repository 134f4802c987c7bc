"""Where runs end: paired differences to a baseline, and levels as grouped bars."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels
from fedjax_links.plot.looks import looks
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric

LETTERS_PER_INCH = 9


def paired_differences(
    data: Any,
    baseline: str | None = None,
    metric: str | None = None,
    *,
    model: str | None = None,
    tail: float = 0.1,
    names: Mapping[str, str] | None = None,
    wide: Mapping[str, float] | None = None,
    ax: Any = None,
) -> Any:
    """Differences to a baseline with the same seeds, and their 95 % intervals.

    Filled where the intervals exclude zero. Shares are in points of a per cent.

    ::

      fl.plot.paired_differences({'fedavg': [0.71, 0.74], 'mifa': [0.75, 0.76]}, 'fedavg')

    Args:
      data: as in `learning_curves`, one panel per pattern; arrays may also be float[S], one final
        value per seed. Row s of every label has the same seed.
      baseline: its label; that of the run, or the first label, by default. In a run over a grid, or
        a sweep, everything is compared with the baseline at the same point, in the columns that
        both have; what has no such point is left out.
      metric: as in `learning_curves`.
      model: as in `learning_curves`.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      names: what to call labels and patterns.
      wide: half widths of second intervals by label, such as those that include tuning, as thin
        lines.
      ax: matplotlib axes, as many as there are panels; a new figure by default.

    Returns:
      The axes; an array of them where there are several panels.

    Raises:
      ValueError: for an unknown baseline, metric or model, or seeds that are not paired.
    """
    checks.within('tail', tail, 0, 1)
    if isinstance(data, Mapping) and not hasattr(data, 'data_vars'):  # [S] is one evaluation
        data = {k: np.asarray(v)[:, None] if _is_vector(v) else v for k, v in data.items()}
    results = recorded.of(data, metric, names=names)
    shown, of_metric = dataset.names(results), Metric(results.attrs['metric'])
    members = dataset.points(results)
    baseline = _baseline(members, baseline or results.attrs['baseline'])
    against = {
        label: baseline if baseline in members else dataset.counterpart(members, label, baseline)
        for label in members
    }
    rows = {label: base for label, base in against.items() if base not in (None, label)}
    every = dataset.curves(results, model)
    kinds = {label: next(iter(m)) for found in every.values() for label, m in found.items()}
    titles = {label: panels.name_of(shown[label], kind) for label, kind in kinds.items()}
    look_of = looks(titles)
    longest = max((len(titles[label]) for label in rows), default=0)
    drawn_on = panels.several(ax, len(every), len(rows), longest)
    for axes, (pattern, found) in zip(drawn_on, every.items(), strict=True):
        ends = {k: dataset.tail(models[kinds[k]], tail) for k, models in found.items()}
        for place, (label, base) in enumerate(rows.items()):
            if label not in ends or base not in ends:
                continue  # an empty row
            pair = ends[label], ends[base]
            if results.attrs.get('until'):  # the first seeds, as many as both have
                pair = pair[0][: len(pair[1])], pair[1][: len(pair[0])]
            difference = evaluation.paired_interval(*pair)
            mean, half = of_metric.scale * difference.mean, of_metric.scale * difference.half_width
            colour = look_of[label].colour
            look = {'fmt': 'o', 'markersize': 6, 'capsize': 3, 'color': colour}
            beyond = of_metric.scale * (wide or {}).get(label, 0.0)
            if not difference.excludes_zero or beyond >= abs(mean):
                look['markerfacecolor'] = 'white'
            if math.isfinite(beyond) and beyond > half:
                axes.errorbar(mean, place, xerr=beyond, fmt='none', elinewidth=0.7, color=colour)
            axes.errorbar(mean, place, xerr=None if np.isnan(half) else half, **look)
        axes.axvline(0, color='#888888', linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(rows)), [titles[label] for label in rows])
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.grid(axis='x', alpha=0.25)
        if pattern and results.sizes['pattern'] > 1:
            axes.set_title(shown[pattern], fontsize=10)
    kind = next((kinds[base] for base in rows.values()), 'server')
    whose = panels.name_of(shown[baseline], kind)
    label = of_metric.difference_title(f'{of_metric.words or "value"} minus that of {whose}')
    if ax is None and len(drawn_on) > 1:  # one label, and names at the left alone
        drawn_on[0].figure.supxlabel(label, fontsize=10)
        for axes in drawn_on:
            axes.tick_params(labelleft=axes.get_subplotspec().is_first_col())
    else:
        for axes in drawn_on:
            axes.set_xlabel(label)
    return panels.as_returned(drawn_on)


def _is_vector(entry: Any) -> bool:
    return not isinstance(entry, Mapping | tuple) and np.ndim(entry) == 1


def _baseline(members: Mapping[str, tuple[str, Any]], given: str | None) -> str:
    """An algorithm, at whatever point of a grid, or one series; by default what comes first."""
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in members.values()))
    if given is None:
        return algorithms[0] if len(algorithms) > 1 else next(iter(members))
    checks.choice('baseline', given, [*algorithms, *members])
    return given


def level_bars(
    levels: Mapping[str, Any],
    groups: Sequence[str],
    metric: str = '',
    *,
    names: Mapping[str, str] | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Levels as bars with 95 % intervals over seeds: groups of bars, one per label.

    Args:
      levels: float[P, S] by label, one row per group, one entry per seed.
      groups: what the P groups are called.
      metric: the label of the axis.
      names: what to call labels.
      legend: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.

    Raises:
      ValueError: for levels of the wrong shape.
    """
    width = 0.84 / max(1, len(levels))
    axes = panels.own(ax)
    inches = 1.25 * axes.bbox.width / axes.figure.dpi  # the layout has yet to widen them
    places = np.arange(len(groups))
    for place, (label, look) in enumerate(looks(levels).items()):
        values = np.asarray(levels[label], np.float64)
        if values.ndim != 2 or len(values) != len(groups):
            shape = f'shape {list(values.shape)} for {label!r}'
            raise errors.invalid('levels', f'be of shape [{len(groups)}, S]', shape)
        mean, half, _ = evaluation.seed_interval(values, axis=1)
        style = {'color': look.colour, 'edgecolor': 'white', 'linewidth': 0, 'hatch': look.hatch}
        error = {'yerr': np.nan_to_num(half), 'error_kw': {'linewidth': 0.8, 'capsize': 2}}
        middle = places + (place - (len(levels) - 1) / 2) * width
        axes.bar(middle, mean, width, label=(names or {}).get(label, label), **style, **error)
    letters = max(8, int(LETTERS_PER_INCH * inches / max(1, len(groups))))
    axes.set_xticks(places, [textwrap.fill(group, letters) for group in groups])
    axes.set_ylabel(Metric(metric).words)
    if Metric(metric).is_share:
        axes.set_ylim(0, min(axes.get_ylim()[1], 1))
        panels.in_per_cent(axes.yaxis)
    axes.grid(axis='y', alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        panels.legend(axes, outside=True)
    return axes
