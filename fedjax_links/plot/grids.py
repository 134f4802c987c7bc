"""A run over a grid as a heat map: levels of an algorithm, or differences to another."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, errors, evaluation, runs, series
from fedjax_links.plot import heat, panels, reading


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
    rows = _rows(run, (x, y), labels, pattern, dict(at or {}))
    axes = [(name.rsplit('.', 1)[-1], series.values(rows, name)) for name in (x, y)]
    lanes = np.unique(rows['pattern']).tolist(), run.facts['seeds'], np.unique(rows['round'])

    chosen = {label: reading.main_model(series.models(run.facts, label)) for label in labels}
    if model is not None:
        checks.choice('model', model, series.models(run.facts, algorithm))
        chosen[algorithm] = model

    def levels(label: str) -> np.ndarray:
        """float[S, Y, X]."""
        found = np.full((len(lanes[1]), len(axes[1][1]), len(axes[0][1])), np.nan)
        of_label = series.where(rows, algorithm=label)
        for row, at_y in enumerate(axes[1][1]):
            of_row = series.at(of_label, {y: at_y})
            for column, at_x in enumerate(axes[0][1]):
                cell = series.at(of_row, {x: at_x})
                values = series.array(cell, f'{chosen[label]}/{metric}', *lanes)
                found[:, row, column] = reading.ends(values[0], tail)
        return found

    def named(label: str) -> str:
        return panels.named(dict(run.facts['names']).get(label, label), chosen[label])

    scale = 100 if panels.is_share(metric) else 1
    if baseline is None:
        values, unclear = levels(algorithm).mean(axis=0), None
        label = f'{named(algorithm)}: {panels.unit(metric)}'
    else:
        found = evaluation.paired_interval(levels(algorithm), levels(baseline))
        values, unclear = found.mean, ~found.excludes_zero
        label = f'{named(algorithm)} minus {named(baseline)}: {panels.words(metric)}'
        label = panels.in_points(label, metric)
    return heat.heat_map(
        scale * values,
        x=(axes[0][0].replace('_', ' '), axes[0][1]),
        y=(axes[1][0].replace('_', ' '), axes[1][1]),
        label=label,
        around_zero=baseline is not None,
        texts=texts,
        unclear=unclear,
        reverse=run.facts['directions'][metric] == 'min',
        ax=ax,
    )


def _rows(
    run: runs.Results,
    axes: Sequence[str],
    labels: Sequence[str],
    pattern: str | None,
    at: Mapping[str, Any],
) -> series.Rows:
    """Evaluations of some algorithms and one pattern, of one value of each column but the axes."""
    patterns, grid = list(run.facts['patterns']), list(run.facts['grid'])
    for name, column in zip('xy', axes, strict=True):
        checks.choice(name, column, grid)
    if pattern is None and len(patterns) > 1:
        raise errors.invalid('pattern', f'be one of {", ".join(patterns)}', None)
    if pattern is not None:
        checks.choice('pattern', pattern, patterns)
    part = run.select(at, algorithms=labels, patterns=pattern or patterns[0])
    rows = series.where(part.columns, stage='main')
    for column in grid:
        if column not in (*axes, *at) and len(series.values(rows, column)) > 1:
            raise errors.invalid('at', f'have a value of {column}', list(at))
    if not series.num_rows(rows):
        raise errors.invalid('at', 'leave evaluations', dict(at))
    for name, column in zip('xy', axes, strict=True):
        if not series.is_given(rows, column):
            raise errors.invalid(name, f'be a column of {" or ".join(labels)}', column)
    return rows
