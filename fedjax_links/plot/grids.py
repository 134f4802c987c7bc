"""A run over a grid as a heat map: levels of an algorithm, or differences to another."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.core import checks, errors
from fedjax_links.plot import heat, panels
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric


def grid_map(
    run: runs.Results,
    x: str,
    y: str,
    *,
    algorithm: str,
    baseline: str | None = None,
    metric: str | None = None,
    model: str | None = None,
    pattern: str | None = None,
    at: Mapping[str, Any] | None = None,
    tail: float = 0.1,
    texts: str | None = None,
    ax: Any = None,
) -> Any:
    """Where on a grid an algorithm stands, or is ahead of another: see `heat_map`.

    ::

      run = fl.runs.read('runs/map')
      fl.plot.grid_map(run, 'links.probs.sigma', 'problem.bayes_accuracy', algorithm='fedpbc',
                       baseline='fedavg', at={'problem.alpha': 0.1, 'client.learning_rate': 0.02})

    Args:
      run: what `runs.read` or `Experiment.run` returns.
      x: the column of the grid along the horizontal axis.
      y: the column along the vertical axis.
      algorithm: a label of the run.
      baseline: the label that it is compared with, paired by seed; hatched where the 95 % interval
        (Student t) includes zero, and everywhere for a single seed. Levels without.
      metric: that of the run by default.
      model: of the algorithm. By default, as for the baseline, the one that the papers evaluate,
        ``'client_mean'`` where there is one.
      pattern: needed where there are several.
      at: values of the grid's other columns.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      texts: a format for the numbers in the cells; nothing by default.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, NaN where nothing ran or a seed diverged.

    Raises:
      ValueError: for an unknown label, column or metric, and for a column or patterns left open.
    """
    metric = run.facts['metric'] if metric is None else metric
    checks.choice('metric', metric, run.facts['directions'])
    checks.within('tail', tail, 0, 1)
    for name, label in (('algorithm', algorithm), ('baseline', baseline)):
        if label is not None:
            checks.choice(name, label, run.facts['algorithms'])
    labels = [algorithm] if baseline is None else [algorithm, baseline]
    found = _part(run, (x, y), labels, pattern, dict(at or {}))
    axes = {name: sorted(set(_values(found, name))) for name in (y, x)}
    chosen = {label: dataset.main_model(run.facts['models'][label]) for label in labels}
    if model is not None:
        checks.choice('model', model, run.facts['models'][algorithm])
        chosen[algorithm] = model
    means = dataset.tail(found[metric].values[:, :, 0], tail)
    models, shown = found['model'].values.tolist(), dataset.names(found)

    def levels(label: str) -> np.ndarray:
        """float[S, Y, X]."""
        values = means[:, models.index(chosen[label])]
        return np.moveaxis(dataset.over_grid(found, label, axes, values), -1, 0)

    def named(label: str) -> str:
        return panels.named(shown[label], chosen[label])

    kind = Metric(metric)
    if baseline is None:
        values, unclear = levels(algorithm).mean(axis=0), None
        label = f'{named(algorithm)}: {kind.title}'
    else:
        interval = evaluation.paired_interval(levels(algorithm), levels(baseline))
        values, unclear = interval.mean, ~interval.excludes_zero
        label = f'{named(algorithm)} minus {named(baseline)}: {kind.words}'
        label = kind.difference_title(label)
    return heat.heat_map(
        kind.scale * values,
        x=(x.rsplit('.', 1)[-1].replace('_', ' '), axes[x]),
        y=(y.rsplit('.', 1)[-1].replace('_', ' '), axes[y]),
        label=label,
        around_zero=baseline is not None,
        texts=texts,
        unclear=unclear,
        reverse=run.facts['directions'][metric] == 'min',
        ax=ax,
    )


def _part(
    run: runs.Results,
    axes: Sequence[str],
    labels: Sequence[str],
    pattern: str | None,
    at: Mapping[str, Any],
) -> Any:
    """Some algorithms under one pattern, at one value of each column but the axes."""
    patterns, grid = list(run.facts['patterns']), list(run.facts['grid'])
    for name, column in zip('xy', axes, strict=True):
        checks.choice(name, column, grid)
    if pattern is None and len(patterns) > 1:
        raise errors.invalid('pattern', f'be one of {", ".join(patterns)}', None)
    if pattern is not None:
        checks.choice('pattern', pattern, patterns)
    found = run.select(at, algorithms=labels, patterns=pattern or patterns[0]).dataset
    for column in grid:
        if column not in (*axes, *at) and len(set(_values(found, column))) > 1:
            raise errors.invalid('at', f'have a value of {column}', list(at))
    if not found['begun'].any():
        raise errors.invalid('at', 'leave evaluations', dict(at))
    for name, column in zip('xy', axes, strict=True):
        if not _values(found, column):
            raise errors.invalid(name, f'be a column of {" or ".join(labels)}', column)
    return found


def _values(found: Any, column: str) -> list[Any]:
    """What there is of a column of the grid."""
    points = [point for _, point in dataset.points(found).values()]
    return [point[column] for point in points if column in point]
