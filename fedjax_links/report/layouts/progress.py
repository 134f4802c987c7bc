"""How runs went: learning curves, an overview of them, when levels are reached."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.core import checks, errors, reprs
from fedjax_links.pages import tables
from fedjax_links.plot import panels
from fedjax_links.plot.curves import BANDS
from fedjax_links.report.layouts.page import Page, labels, limit_series, with_panels
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

_WIDTH = 10.0  # inches, of the overview


def curves(
    source: RunView,
    *,
    metrics: Sequence[str] = (),
    lines: str = 'algorithms',
    smoothing: float = 0.0,
    band: str = 'interval',
    above: float = 0.0,
    log: bool = False,
    log_rounds: bool = False,
    columns: int = 3,
    tail: float | None = None,
    against: tuple[str, Mapping[tuple[str, str], np.ndarray]] | None = None,
) -> Page:
    """Curves against the round, or what it cost.

    Args:
      source: what ran.
      metrics: which ones, one block of panels each; that of the run by default.
      lines: ``'algorithms'`` (one panel per pattern) or ``'patterns'`` (one per algorithm).
      smoothing: share of the evaluations that a moving average spans; 0 for none.
      band: ``'interval'`` of the mean over seeds (95 %), or standard ``'deviation'`` of everything
        that the mean is taken over: seeds, and the evaluations that a moving average spans.
      above: what is subtracted from the metrics, such as a known minimum.
      log: logarithmic axis of values.
      log_rounds: logarithmic axis of rounds, which shows the first ones; round 0 is left out.
      columns: panels side by side.
      tail: share of the evaluations, the last ones, by whose mean in the first metric a point is
        best.
      against: another horizontal axis, as the layout ``price`` makes it: its name, and float[E] by
        pattern and series.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown choice or metric, or numbers out of range.
    """
    checks.choice('lines', lines, ('algorithms', 'patterns'))
    checks.choice('band', band, BANDS)
    checks.within('smoothing', smoothing, 0, 1)
    checks.static_int('columns', columns)
    metrics = [source.metric(metric, 'metrics').name for metric in metrics or (None,)]
    heading = f'Learning curves of {lines}'
    source, heading = limit_series(source, heading, source.ends(metrics[0], tail))
    by_pattern, models = lines == 'algorithms', source.main_models
    every, labels = source.patterns, list(models)
    if not by_pattern:
        every, labels = labels, every
    looks = {label: models[label] if by_pattern else 'server' for label in labels}
    names = list(
        dict.fromkeys(panels.name_of(source.name(k), look) for k, look in looks.items())
    )
    window = dataset.num_last(len(source.rounds), smoothing)
    options: dict[str, Any] = {
        'model': dataset.ALL,
        'rounds': source.rounds,
        'legend': False,
    }
    options |= {'names': {label: source.name(label) for label in labels}, 'band': band}
    options |= {'window': window, 'above': above, 'log': log, 'log_rounds': log_rounds}
    options |= {'x_name': against[0] if against else 'round'}

    def draw(axes: Any, shown: tuple[str, str]) -> None:
        metric, panel = shown
        keys = {k: (panel, k) if by_pattern else (k, panel) for k in labels}
        found = {
            k: {looks[k]: source.curve(metric, (*key, models[key[1]]))}
            for k, key in keys.items()
        }
        costs = against and {k: against[1][key] for k, key in keys.items()}
        plot.learning_curves(found, metric, **options, against=costs, ax=axes)
        look = (
            'server' if by_pattern else models[panel]
        )  # a series' lines are like all others
        axes.set_title(panels.name_of(source.name(panel), look), fontsize=10)

    form: dict[str, Any] = {'columns': columns, 'around': (0.6, 0.7), 'legend': names}
    form |= {'sharex': True, 'sharey': len(metrics) == 1}
    page = Page(heading, [], caption=_drawn(source, band, window))
    return with_panels(page, list(itertools.product(metrics, every)), draw, **form)


def _drawn(source: RunView, band: str, window: int = 1) -> str:
    """What lines and bands are."""
    if source.num_seeds == 1:
        text = 'Lines: one seed.'
    elif band == 'deviation':
        text = f'Lines: means over {source.seeds}. Bands: standard deviations.'
    elif source.num_seeds == 2:
        text = 'Lines: means over 2 seeds. Bands: from one to the other, which is no interval.'
    else:
        text = f'Lines: means over {source.seeds}. Bands: 95 % intervals over seeds (Student t).'
    return text if window == 1 else f'{text} Both over the last {window} evaluations.'


def overview(
    source: RunView, *, pattern: str | None = None, tail: float | None = None
) -> Page:
    """Curves of the main metric and of a training loss, with all candidate models; links below.

    Args:
      source: what ran.
      pattern: which links; the first by default.
      tail: share of the evaluations, the last ones, by whose mean a point is best.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown pattern or a share that is none.
    """
    pattern = source.patterns[0] if pattern is None else pattern
    checks.choice('pattern', pattern, source.patterns)
    shown, heading = limit_series(
        source, 'Overview', source.ends(None, tail), [pattern]
    )
    metrics = [source.metric().name]
    metrics += [name for name in ('train_loss', 'loss') if name in source.metrics][:1]
    metrics, kept = list(dict.fromkeys(metrics)), source.links.get(pattern)

    def draw(figure: Any) -> None:
        rows = [[metric for metric in metrics for _ in range(6 // len(metrics))]]
        rows += [['the links'] * 4 + ['their rates'] * 2] if kept else []
        axes = figure.subplot_mosaic(rows)
        for metric in metrics:
            data, ends = (
                shown.data.sel(pattern=[pattern]),
                _expected(shown, pattern, metric),
            )
            shown_as: Any = {'model': dataset.ALL, 'legend': False, 'ax': axes[metric]}
            plot.learning_curves(data, metric, levels=ends, **shown_as)
        panels.legend_below(
            figure, axes[metrics[0]].get_legend_handles_labels()[1], _WIDTH
        )
        if kept:
            plot.link_map(kept.mask, ax=axes['the links'])
            plot.participation_rates(kept.mask, kept.mean_prob, ax=axes['their rates'])

    drawn = _drawn(source, 'interval')
    if any(_expected(shown, pattern, metric) for metric in metrics):
        drawn += ' Dotted: where algorithms were predicted to end.'
    if kept:
        drawn += (
            ' Below: the links of the first seed, clients with the most rounds first, and the '
            'share of rounds in which each took part beside its mean probability.'
        )
    return Page(heading, [], draw, (_WIDTH, 7.0 if kept else 4.0), drawn)


def _expected(source: RunView, pattern: str, metric: str) -> dict[str, float]:
    """Where algorithms were expected to end, before the run."""
    is_held_out = any(name.startswith('eval_') for name in source.metrics)
    known = metric.removeprefix('eval_' if is_held_out else 'train_')
    expected = source.clients[pattern].expected if pattern in source.clients else {}
    return {
        label: expected[algorithm][known]
        for label, (algorithm, _) in source.members.items()
        if known in expected.get(algorithm, {})
    }


def first_rounds(
    source: RunView,
    *,
    targets: Sequence[float] = (),
    shares: Sequence[float] = (),
    metric: str | None = None,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """First evaluated round at which the mean over seeds reaches each level.

    Args:
      source: what ran.
      targets: levels of the metric.
      shares: levels as shares of the best final level of all algorithms under a pattern, above 1
        for a loss; either these or targets.
      metric: which metric; that of the run by default.
      published: a ``module:factory`` that returns texts by (pattern, algorithm, target), and its
        options; ``paper / ours`` then.

    Returns:
      One row per pattern and algorithm; in brackets the range over seeds.

    Raises:
      ValueError: if both or none of targets and shares are given, or a metric or printed table is
        unknown.
    """
    ends = source.ends(metric)
    kind = ends.metric
    if bool(targets) == bool(shares):
        raise errors.invalid(
            'targets', 'be given, or `shares`, not both', (targets, shares)
        )
    paper, rows = tables.load_levels(published), []
    for key in source.rows():
        row = labels(source, key)
        levels = {}
        if shares:
            best = max(
                (own for own in source.rows() if own[0] == key[0]), key=ends.score
            )
            top = ends.choices[best].mean
            row['best'] = kind.number(top)
            levels = {f'{100 * share:g} % of it': share * top for share in shares}
        levels |= {kind.number(target): float(target) for target in targets}
        for title, level in levels.items():
            ours = say_when(
                kind, level, source.curve(kind.name, key), source.rounds, '.0f'
            )
            theirs = paper.get((row['pattern'], row['algorithm'], level))
            row[title] = ours if theirs is None else f'{theirs} / {ours}'
        rows.append(row)
    table = tables.of_rows(
        rows,
        f'First multiple of {np.gcd.reduce(source.rounds)} rounds at which {kind.title}, averaged '
        f'over {source.seeds}, reaches the level above; in brackets the range over seeds.'
        f'{f" Best: of all algorithms, {ends.span}." if shares else ""}'
        f'{" Paper / ours." if paper else ""}',
    )
    return Page('First round to reach a level', [table])


def say_when(
    kind: Metric, level: float, values: np.ndarray, costs: np.ndarray, form: str
) -> str:
    """``300 (150 to 450)``: when a level is reached.

    Args:
      kind: what the level is of.
      level: which.
      values: float[S, E], evaluations.
      costs: float[S, E] or float[E], when each was made.
      form: how a cost is written.

    Returns:
      That of the means over seeds, and the range over seeds; no range for one seed.
    """

    def first(curve: np.ndarray, cost: np.ndarray) -> float:
        there = kind.reached(curve, level)
        return float(cost[np.argmax(there)]) if there.any() else np.inf

    costs = np.broadcast_to(costs, values.shape)
    every = list(map(first, values, costs))
    ends = first(values.mean(axis=0), costs.mean(axis=0)), min(every), max(every)
    shown = ['never' if np.isinf(end) else format(end, form) for end in ends]
    return shown[0] if len(every) == 1 else f'{shown[0]} ({reprs.span(*shown[1:])})'
