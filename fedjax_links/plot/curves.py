"""Runs: learning curves, their ends beside those of a baseline, and levels as grouped bars."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors, student
from fedjax_links.plot import panels
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric

BANDS = ('interval', 'deviation')
LETTERS_PER_INCH = 9

_MOST_NAMED = 60
_MARKERS_OF_A_LINE = 7


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
    ax: Any = None,
) -> Any:
    """Curves of a metric against the round, one line per algorithm and candidate model.

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
    results = recorded.of(data, metric, rounds, names)
    of_metric, shown = Metric(results.attrs['metric']), dataset.names(results)
    every = dataset.curves(results, model)
    most = max(sum(map(len, found.values())) for found in every.values())
    if legend and most > _MOST_NAMED:
        requirement = (
            f'be False for more than {_MOST_NAMED} curves (`run.select` takes a part)'
        )
        raise errors.invalid('legend', requirement, f'{legend} for {most:,}')
    look_of = panels.looks(
        dict.fromkeys(label for found in every.values() for label in found)
    )
    limits = (0, 1) if of_metric.is_share and not above else (-np.inf, np.inf)
    minus = f' minus {above:g}' if above else ''
    drawn_on = panels.several(ax, len(every))
    for axes, (pattern, found) in zip(drawn_on, every.items(), strict=True):
        drawn, count = 0, sum(map(len, found.values()))
        for label, models in found.items():
            look, along = (
                look_of[label],
                np.asarray((against or {}).get(label, results['round'])),
            )
            kept = along > 0 if log_rounds else slice(None)
            places, colour = along[kept], {'color': look.colour}
            for kind, values in models.items():
                mean, half = (
                    part[kept] for part in _band(values - above, window, band)
                )
                name = panels.name_of(shown[label], kind, always=len(models) > 1)
                line: Any = {**colour, 'linestyle': look.line(kind), 'linewidth': 1.3}
                line |= {'marker': look.marker if count > 1 else '', 'markersize': 4}
                line['markevery'] = _marked(places, log_rounds, drawn, count)
                axes.plot(places, mean, label=name, **line)
                if np.isfinite(half).any():
                    low, high = np.clip([mean - half, mean + half], *limits)
                    low = (
                        np.maximum(low, mean / 10) if log else low
                    )  # such an axis has no zero
                    axes.fill_between(
                        places, low, high, alpha=0.15, linewidth=0, **colour
                    )
                drawn += 1
            if levels is not None and label in levels:
                line = {
                    'linestyle': _dots([*levels].index(label), len(levels)),
                    'linewidth': 1.2,
                }
                line['label'] = panels.literal(f'{shown[label]}, predicted')
                axes.axhline(levels[label] - above, **colour, **line)
        _name_panel(axes, results, pattern)
        whole = 'x' * (x_name == 'round')
        panels.finish(axes, x_name, f'{of_metric.words}{minus}', whole=whole, grid=True)
        axes.yaxis.label.set_size(9)
        if log:
            panels.logarithmic(axes.yaxis, per_cent=of_metric.is_share)
        elif of_metric.is_share:
            panels.in_per_cent(axes.yaxis)
        if log_rounds:
            panels.logarithmic(axes.xaxis)
        elif axes.get_xlim()[1] >= 1e5:
            axes.xaxis.set_major_formatter(lambda value, _: f'{value / 1000:g}k')
    if legend:
        panels.legend(drawn_on[-1])
    return panels.as_returned(drawn_on)


def _dots(place: int, count: int) -> Any:
    """Returns the dashes of one of several horizontal lines, so that equal ones show each other."""
    return ':' if count == 1 else (4 * place, (4, 4 * count - 4))


def _name_panel(axes: Any, results: Any, pattern: str) -> None:
    """Titles tell several panels apart."""
    if results.sizes['pattern'] > 1:
        axes.set_title(panels.literal(dataset.names(results)[pattern]), fontsize=10)


def _marked(places: np.ndarray, log: bool, line: int, count: int) -> list[int]:
    """Which points of a line have markers, so that those of a line below another one are seen.

    Args:
      places: float[E], ascending: of the points along the axis.
      log: whether the axis is logarithmic.
      line: which of the lines of a panel; markers of different lines stand beside each other.
      count: how many lines there are.
    """
    if not len(places):
        return []
    along = np.log(places) if log else places
    wanted = np.linspace(along[0], along[-1], _MARKERS_OF_A_LINE * count)[line::count]
    return list(np.unique(np.searchsorted(along, wanted).clip(max=len(along) - 1)))


def _band(values: np.ndarray, window: int, band: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and half width of float[S, E] over seeds and the last evaluations."""
    padded = np.pad(values, ((0, 0), (window - 1, 0)))
    spans = np.lib.stride_tricks.sliding_window_view(
        padded, window, axis=1
    )  # [S, E, window]
    sizes = np.minimum(np.arange(1, values.shape[1] + 1), window)
    levels = spans.sum(axis=2) / sizes
    mean, half, _ = evaluation.seed_interval(levels)
    if band == 'interval' and len(values) == 2:
        return mean, np.ptp(levels, axis=0) / 2
    if (
        band == 'interval'
    ):  # where all seeds agree, as at the start, a band has no width
        return mean, np.where(np.ptp(levels, axis=0) == 0, 0.0, half) if len(
            values
        ) > 1 else half
    is_there, count = np.arange(window) >= window - sizes[:, None], len(values) * sizes
    apart = np.where(is_there, spans - mean[:, None], 0.0)
    variance = (apart**2).sum(axis=(0, 2)) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, np.sqrt(variance), np.nan)


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
    """Draws differences to a baseline with the same seeds, and their 95 % intervals.

    Filled where the intervals exclude zero. Shares are in points of a per cent. Of a run whose
    seeds went on until decided, intervals are those of `evaluation.decide` at the run's level, as
    in its tables; a dashed line through the panel is one without end.

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
    if isinstance(data, Mapping) and not hasattr(
        data, 'data_vars'
    ):  # [S] is one evaluation
        data = {
            k: np.asarray(v)[:, None] if _is_vector(v) else v for k, v in data.items()
        }
    results = recorded.of(data, metric, names=names)
    shown, of_metric = dataset.names(results), Metric(results.attrs['metric'])
    members, baseline = (
        dataset.points(results),
        baseline or results.attrs.get('baseline'),
    )
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in members.values()))
    if baseline is None:
        baseline = algorithms[0] if len(algorithms) > 1 else next(iter(members))
    checks.choice('baseline', baseline, [*algorithms, *members])
    against = {
        label: dataset.counterpart(members, label, baseline) for label in members
    }
    if baseline in members:
        against = dict.fromkeys(members, baseline)
    rows = {label: base for label, base in against.items() if base not in (None, label)}
    every = dataset.curves(results, model)
    kinds = {
        label: next(iter(m)) for found in every.values() for label, m in found.items()
    }
    titles = {
        label: panels.name_of(shown[label], kind) for label, kind in kinds.items()
    }
    look_of = panels.looks(titles)
    longest = max((len(titles[label]) for label in rows), default=0)
    drawn_on = panels.several(ax, len(every), len(rows), longest)
    for axes, (pattern, found) in zip(drawn_on, every.items(), strict=True):
        ends = {k: dataset.tail(models[kinds[k]], tail) for k, models in found.items()}
        for place, (label, base) in enumerate(rows.items()):
            if label not in ends or base not in ends:
                continue  # an empty row
            pair = [ends[label], ends[base]]
            if dataset.attribute(
                results, 'until'
            ):  # the first seeds, as many as both have
                pair = [own[: min(map(len, pair))] for own in pair]
            ours, theirs = pair
            difference = _difference(ours, theirs, results.attrs.get('until') or {})
            beyond = (wide or {}).get(label, 0.0)
            colour = look_of[label].colour
            _draw_difference(axes, place, difference, beyond, of_metric.scale, colour)
        axes.axvline(0, color='#888888', linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(rows)), [titles[label] for label in rows])
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.grid(axis='x', alpha=0.25)
        _name_panel(axes, results, pattern)
    kind = next((kinds[base] for base in rows.values()), 'server')
    whose = panels.name_of(shown[baseline], kind)
    label = of_metric.difference_title(
        f'{of_metric.words or "value"} minus that of {whose}'
    )
    if (
        alone := ax is None and len(drawn_on) > 1
    ):  # one label, and names at the left alone
        drawn_on[0].figure.supxlabel(label, fontsize=10)
    for axes in drawn_on:
        axes.set_xlabel('' if alone else label)
        axes.tick_params(labelleft=not alone or axes.get_subplotspec().is_first_col())
    return panels.as_returned(drawn_on)


def _difference(
    ours: np.ndarray, theirs: np.ndarray, until: Mapping[str, Any]
) -> evaluation.Interval:
    """Returns the paired difference; its interval holds at any number of seeds where it must."""
    found = evaluation.paired_interval(ours, theirs)
    if 'level' not in until:
        return found
    verdict = evaluation.decide(student.paired(ours, theirs), level=until['level'])
    return found._replace(half_width=np.asarray(verdict.half_width))


def _draw_difference(
    axes: Any,
    place: int,
    found: evaluation.Interval,
    beyond: float,
    scale: float,
    colour: str,
) -> None:
    """Draws a point with its bar, and a thin one for a wider interval of half width ``beyond``."""
    mean, half = scale * float(found.mean), scale * float(found.half_width)
    look: dict[str, Any] = {'fmt': 'o', 'markersize': 6, 'capsize': 3, 'color': colour}
    if not found.excludes_zero or scale * beyond >= abs(mean):
        look['markerfacecolor'] = 'white'
    if math.isinf(half):
        axes.axhline(place, color=colour, linestyle='--', linewidth=0.7)
    elif math.isfinite(beyond) and scale * beyond > half:
        axes.errorbar(
            mean, place, xerr=scale * beyond, fmt='none', elinewidth=0.7, color=colour
        )
    axes.errorbar(mean, place, xerr=half if math.isfinite(half) else None, **look)


def _is_vector(entry: Any) -> bool:
    return not isinstance(entry, Mapping | tuple) and np.ndim(entry) == 1


def level_bars(
    levels: Mapping[str, Any],
    groups: Sequence[str],
    metric: str = '',
    *,
    names: Mapping[str, str] | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draws levels as bars with 95 % intervals over seeds: groups of bars, one per label.

    Of two seeds, whose interval is wider than most pictures, both are drawn as dots.

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
    inches = (
        1.25 * axes.bbox.width / axes.figure.dpi
    )  # the layout has yet to widen them
    places = np.arange(len(groups))
    for place, (label, look) in enumerate(panels.looks(levels).items()):
        values = np.asarray(levels[label], np.float64)
        if values.ndim != 2 or len(values) != len(groups):
            shape = f'shape {list(values.shape)} for {label!r}'
            raise errors.invalid('levels', f'be of shape [{len(groups)}, S]', shape)
        mean, half, _ = evaluation.seed_interval(values, axis=1)
        style = {
            'color': look.colour,
            'edgecolor': 'white',
            'linewidth': 0,
            'hatch': look.hatch,
        }
        middle = places + (place - (len(levels) - 1) / 2) * width
        if values.shape[1] > 2:
            style['yerr'] = np.nan_to_num(half)
            style['error_kw'] = {'linewidth': 0.8, 'capsize': 2}
        axes.bar(
            middle,
            mean,
            width,
            label=panels.literal((names or {}).get(label, label)),
            **style,
        )
        if values.shape[1] == 2:
            axes.plot(
                np.repeat(middle, 2), values.ravel(), '.', color='black', markersize=3
            )
    letters = max(8, int(LETTERS_PER_INCH * inches / max(1, len(groups))))
    axes.set_xticks(
        places, [panels.literal(textwrap.fill(each, letters)) for each in groups]
    )
    axes.set_ylabel(Metric(metric).words)
    if Metric(metric).is_share:
        axes.set_ylim(0, min(axes.get_ylim()[1], 1))
        panels.in_per_cent(axes.yaxis)
    axes.grid(axis='y', alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        panels.legend(axes, outside=True)
    return axes
