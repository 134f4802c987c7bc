"""Learning curves: the mean over seeds, and a band around it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels
from fedjax_links.plot.looks import looks
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric

BANDS = ('interval', 'deviation')

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
      band: ``'interval'``, of the mean over seeds (95 %, Student t), or ``'deviation'``, the
        standard deviation of all that the mean is taken over.
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
        requirement = f'be False for more than {_MOST_NAMED} curves (`run.select` takes a part)'
        raise errors.invalid('legend', requirement, f'{legend} for {most:,}')
    look_of = looks(dict.fromkeys(label for found in every.values() for label in found))
    limits = (0, 1) if of_metric.is_share and not above else (-np.inf, np.inf)
    at = results['round'].values
    drawn_on = panels.several(ax, len(every))
    for axes, (pattern, found) in zip(drawn_on, every.items(), strict=True):
        drawn, count = 0, sum(map(len, found.values()))
        for label, models in found.items():
            look, name = look_of[label], shown[label]
            along = at if against is None else np.asarray(against[label])
            kept = along > 0 if log_rounds else slice(None)
            places, colour = along[kept], {'color': look.colour}
            for kind, values in models.items():
                mean, half = (part[kept] for part in _band(values - above, window, band))
                line: Any = {**colour, 'linestyle': look.line(kind), 'linewidth': 1.3}
                line['label'] = panels.name_of(name, kind, always=len(models) > 1)
                line['marker'] = look.marker if count > 1 else ''
                marked = _marked(places, log_rounds, drawn, count)
                axes.plot(places, mean, markersize=4, markevery=marked, **line)
                if np.isfinite(half).any():
                    low, high = np.clip([mean - half, mean + half], *limits)
                    low = np.maximum(low, mean / 10) if log else low  # such an axis has no zero
                    axes.fill_between(places, low, high, alpha=0.15, linewidth=0, **colour)
                drawn += 1
            if levels is not None and label in levels:
                line = {'linestyle': ':', 'linewidth': 1.2, 'label': f'{name}, predicted'}
                axes.axhline(levels[label] - above, **colour, **line)
        if pattern and results.sizes['pattern'] > 1:
            axes.set_title(shown[pattern], fontsize=10)
        minus = f' minus {above:g}' if above else ''
        panels.finish(axes, x_name, f'{of_metric.words}{minus}', grid=True)
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
    """Mean and half width of float[S, E] over seeds and the last ``window`` evaluations."""
    stop = np.arange(1, values.shape[1] + 1)
    start = np.maximum(stop - window, 0)

    def smooth(values: np.ndarray) -> np.ndarray:
        if window == 1:
            return values
        sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
        means: np.ndarray = (sums[:, stop] - sums[:, start]) / (stop - start)
        return means

    over_seeds = evaluation.seed_interval(smooth(values))
    if band == 'interval':
        return over_seeds.mean, over_seeds.half_width
    count = len(values) * (stop - start)
    centre = values[:, :1].mean()  # where rounding of the difference below is small
    variance = smooth((values - centre) ** 2).mean(axis=0) - (over_seeds.mean - centre) ** 2
    unbiased = np.maximum(variance, 0) * count / np.maximum(count - 1, 1)
    return over_seeds.mean, np.where(count > 1, np.sqrt(unbiased), np.nan)
