"""Where runs end: paired differences to a baseline, and levels as grouped bars."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, errors, evaluation
from fedjax_links.plot import panels, reading
from fedjax_links.plot.looks import looks

LETTERS_PER_INCH = 9


def paired_differences(
    data: Any,
    baseline: str | None = None,
    metric: str | None = None,
    *,
    model: str | None = None,
    tail: float = 0.1,
    names: Mapping[str, str] | None = None,
    ax: Any = None,
) -> Any:
    """Differences to a baseline with the same seeds, and their 95 % intervals.

    Filled where the interval excludes zero. Shares are in points of a per cent.

    ::

      fl.plot.paired_differences({'fedavg': [0.71, 0.74], 'mifa': [0.75, 0.76]}, 'fedavg')

    Args:
      data: as in `learning_curves`, one panel per pattern; arrays may also be float[S], one final
        value per seed. Row s of every label has the same seed.
      baseline: its label; that of the run, or the first label, by default. In a run over a grid an
        algorithm is compared at the same point.
      metric: as in `learning_curves`.
      model: as in `learning_curves`.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      names: what to call labels and patterns.
      ax: matplotlib axes, as many as there are panels; a new figure by default.

    Returns:
      The axes; an array of them where there are several panels.

    Raises:
      ValueError: for an unknown baseline, metric or model, or seeds that are not paired.
    """
    checks.within('tail', tail, 0, 1)
    if isinstance(data, Mapping):  # one value per seed is one evaluation
        data = {k: np.asarray(v)[:, None] if _is_vector(v) else v for k, v in data.items()}
    read = reading.read(data, metric, model=model, names=names)
    if baseline is None:
        own = getattr(data, 'facts', {}).get('baseline')
        baseline = own or next(iter(read.panels[0].curves))
    labels = list(dict.fromkeys(label for panel in read.panels for label in panel.curves))
    if not any(_is_of(label, baseline) for label in labels):
        raise errors.unknown_name('baseline', baseline, labels)
    every = looks(labels)
    scale = 100 if panels.is_share(read.metric) else 1
    found = panels.several(ax, len(read.panels), max(len(p.curves) for p in read.panels))
    for axes, panel in zip(found, read.panels, strict=True):
        levels = {
            label: reading.ends(next(iter(models.values())), tail)
            for label, models in panel.curves.items()
        }
        others = [label for label in levels if not _is_of(label, baseline)]
        for place, label in enumerate(others):
            against = levels.get(baseline + label[label.find(' (') :] if ' (' in label else '')
            against = levels.get(baseline) if against is None else against
            if against is None:
                continue
            difference = evaluation.paired_interval(levels[label], against)
            _draw_difference(axes, place, difference, scale, every[label])
        axes.axvline(0, color='#888888', linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(others)), [read.names.get(label, label) for label in others])
        axes.set_ylim(max(len(others), 1) - 0.5, -0.5)
        axes.grid(axis='x', alpha=0.25)
        other = read.names.get(baseline, baseline)
        points = ', points' if scale > 1 else ''
        axes.set_xlabel(f'{panels.words(read.metric) or "value"} minus that of {other}{points}')
        if panel.title:
            axes.set_title(read.names.get(panel.title, panel.title), fontsize=10)
    return panels.as_returned(found)


def _is_vector(entry: Any) -> bool:
    return not isinstance(entry, Mapping | tuple) and np.ndim(entry) == 1


def _is_of(label: str, baseline: str) -> bool:
    """Whether a label is the baseline's, at whatever point of a grid."""
    return label == baseline or label.startswith(f'{baseline} (')


def _draw_difference(
    axes: Any, place: int, difference: evaluation.Interval, scale: float, look: Any
) -> None:
    mean, half = scale * float(difference.mean), scale * float(difference.half_width)
    axes.errorbar(
        mean,
        place,
        xerr=None if np.isnan(half) else half,
        fmt='o',
        markersize=6,
        color=look.colour,
        markerfacecolor=look.colour if abs(mean) > half else 'white',
        capsize=3,
    )


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
    names = names or {}
    width = 0.84 / max(1, len(levels))
    axes = panels.own(ax)
    inches = 1.25 * axes.bbox.width / axes.figure.dpi  # the layout has yet to widen them
    places = np.arange(len(groups))
    for place, (label, look) in enumerate(looks(levels).items()):
        values = np.asarray(levels[label], np.float64)
        if values.ndim != 2 or len(values) != len(groups):
            shape = f'shape {list(values.shape)} for {label!r}'
            raise errors.invalid('levels', f'be of shape [{len(groups)}, S]', shape)
        bar = evaluation.seed_interval(values, axis=1)
        axes.bar(
            places + (place - (len(levels) - 1) / 2) * width,
            bar.mean,
            width,
            yerr=np.nan_to_num(bar.half_width),
            color=look.colour,
            edgecolor='white',
            linewidth=0,
            hatch=look.hatch,
            error_kw={'linewidth': 0.8, 'capsize': 2},
            label=names.get(label, label),
        )
    letters = max(8, int(LETTERS_PER_INCH * inches / max(1, len(groups))))
    axes.set_xticks(places, [textwrap.fill(group, letters) for group in groups])
    axes.set_ylabel(panels.words(metric))
    if panels.is_share(metric):
        axes.set_ylim(0, min(axes.get_ylim()[1], 1))
        panels.in_per_cent(axes.yaxis)
    axes.grid(axis='y', alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        panels.legend(axes, outside=True)
    return axes
