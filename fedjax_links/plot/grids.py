"""A run over a grid as a heat map: levels of an algorithm, or differences to another."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import checks, errors, evaluation, runs
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
        (Student t) includes zero. Levels without.
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
    rows = _rows(run, x, y, pattern, dict(at or {}))
    axes = [(column.rsplit('.', 1)[-1], np.unique(run.columns[column][rows])) for column in (x, y)]
    places = [
        np.searchsorted(values, run.columns[c]) for c, (_, values) in zip((x, y), axes, strict=True)
    ]
    shape = len(axes[1][1]), len(axes[0][1]), len(run.facts['seeds'])

    def levels(label: str, model: str | None = None) -> np.ndarray:
        """float[S, Y, X]."""
        models = run.facts['models'][label]
        chosen = model or ('client_mean' if 'client_mean' in models else models[0])
        checks.choice('model', chosen, models)
        found = np.full(shape, np.nan)
        of_label = rows & (run.columns['algorithm'] == label)
        for at_y, at_x, seed in np.ndindex(shape):
            own = of_label & (places[0] == at_x) & (places[1] == at_y)
            own &= run.columns['seed'] == run.facts['seeds'][seed]
            order = np.argsort(run.columns['round'][own])
            values = run.columns[f'{chosen}/{metric}'][own][order].astype(np.float64)
            if values.size:
                found[at_y, at_x, seed] = reading.ends(values[None], tail)[0]
        return np.moveaxis(found, -1, 0)

    scale = 100 if panels.is_share(metric) else 1
    names = dict(run.facts['names'])
    shown = names.get(algorithm, algorithm)
    if baseline is None:
        values, unclear = levels(algorithm, model).mean(axis=0), None
        label = f'{shown}: {panels.unit(metric)}'
    else:
        found = evaluation.paired_interval(levels(algorithm, model), levels(baseline))
        values, unclear = found.mean, np.abs(found.mean) <= found.half_width
        label = f'{shown} minus {names.get(baseline, baseline)}: {panels.unit(metric)}'
    return heat.heat_map(
        scale * values,
        x=(axes[0][0].replace('_', ' '), axes[0][1].tolist()),
        y=(axes[1][0].replace('_', ' '), axes[1][1].tolist()),
        label=label,
        around_zero=baseline is not None,
        texts=texts,
        unclear=unclear,
        reverse=run.facts['directions'][metric] == 'min',
        ax=ax,
    )


def _rows(
    run: runs.Results, x: str, y: str, pattern: str | None, at: Mapping[str, Any]
) -> np.ndarray:
    """bool[rows], the evaluations of one pattern where all columns but two have one value."""
    patterns, grid = list(run.facts['patterns']), list(run.facts['grid'])
    for name, column in (('x', x), ('y', y), *(('at', column) for column in at)):
        checks.choice(name, column, grid)
    if pattern is None and len(patterns) > 1:
        raise errors.invalid('pattern', f'be one of {", ".join(patterns)}', None)
    if pattern is not None:
        checks.choice('pattern', pattern, patterns)
    rows: np.ndarray = (run.columns['stage'] == 'main') & (
        run.columns['pattern'] == (pattern or patterns[0])
    )
    for column, value in at.items():
        rows &= run.columns[column] == value
    for column in grid:
        values = np.unique(run.columns[column][rows])
        if column not in (x, y, *at) and len(values) > 1:
            raise errors.invalid('at', f'have a value of {column}', list(at))
    if not rows.any():
        raise errors.invalid('at', 'leave evaluations', dict(at))
    return rows
