"""Shows how runs went: learning curves, an overview, and when levels are reached."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.core import checks, errors, reprs
from fedjax_links.core.records import Section
from fedjax_links.pages import printed_numbers, tables
from fedjax_links.plot import panels
from fedjax_links.plot.curves import BANDS
from fedjax_links.plot.panels import Axes, Figure
from fedjax_links.report.comparisons import FinalKey, FinalMetrics
from fedjax_links.report.layouts.page import Page, labels, limit_series, with_panels
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

_WIDTH = 10.0  # inches, of the overview
_LINK_WIDTHS = (4, 2)  # columns of the map of links and of their rates, out of six


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
    """Draws curves against the round, or against what it cost.

    Args:
      source: what ran.
      metrics: which ones, one block of panels each; that of the run by default.
      lines: ``'algorithms'`` (one panel per pattern) or ``'patterns'`` (one per algorithm).
      smoothing: share of the evaluations that a moving average spans; 0 for none.
      band: ``'interval'`` of the mean over seeds (95 %), or standard ``'deviation'`` of all that
        the mean is taken over: seeds, and the evaluations that a moving average spans.
      above: what is subtracted from the metrics, such as a known minimum.
      log: logarithmic axis of values.
      log_rounds: logarithmic axis of rounds, which shows the first ones; round 0 is left out.
      columns: panels side by side.
      tail: share of the evaluations, the last ones, by whose mean in the first metric a point is
        best.
      against: another horizontal axis, as the layout ``price`` gives it: its name, and float[E] by
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
    source, heading = limit_series(
        source, heading, source.final_metrics(metrics[0], tail)
    )
    models = source.main_models
    by_pattern = lines == 'algorithms'
    panel_labels = source.patterns if by_pattern else list(models)
    line_labels = list(models) if by_pattern else source.patterns
    # Lines of patterns look alike, whichever model the panel's series shows.
    model_of_line = {k: models[k] if by_pattern else 'server' for k in line_labels}
    names = [
        panels.name_of(source.name(label), model)
        for label, model in model_of_line.items()
    ]
    window = dataset.num_last(len(source.rounds), smoothing)
    x_name, costs = against or ('round', None)

    def draw(axes: Axes, shown: tuple[str, str]) -> None:
        metric, panel = shown
        values = {}
        x_values = {}
        for label, model in model_of_line.items():
            pattern, series = (panel, label) if by_pattern else (label, panel)
            key = pattern, series, models[series]
            values[label] = {model: source.curve(metric, key)}
            if costs is not None:
                x_values[label] = costs[pattern, series]
        plot.learning_curves(
            values,
            metric,
            model=dataset.ALL,
            rounds=source.rounds,
            names={label: source.name(label) for label in line_labels},
            band=band,
            window=window,
            above=above,
            log=log,
            log_rounds=log_rounds,
            against=x_values,
            x_name=x_name,
            legend=False,
            ax=axes,
        )
        panel_model = 'server' if by_pattern else models[panel]
        axes.set_title(panels.name_of(source.name(panel), panel_model), fontsize=10)

    page = Page(heading, [], caption=_describe_lines(source, band, window))
    return with_panels(
        page,
        list(itertools.product(metrics, panel_labels)),
        draw,
        columns=columns,
        around=(0.6, 0.7),
        legend=list(dict.fromkeys(names)),
        sharex=True,
        sharey=len(metrics) == 1,
    )


def _describe_lines(source: RunView, band: str, window: int = 1) -> str:
    """Says what lines and bands are."""
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
    """Draws the main metric and a training loss, with all candidate models; links below.

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
        source, 'Overview', source.final_metrics(None, tail), [pattern]
    )
    metrics = [source.metric().name]
    for name in ('train_loss', 'loss'):
        if name in source.metrics:
            metrics.append(name)
            break
    metrics = list(dict.fromkeys(metrics))
    predictions = {name: _predictions(shown, pattern, name) for name in metrics}
    links = source.links.get(pattern)

    def draw(figure: Figure) -> None:
        rows: list[list[Any]] = [
            [metric for metric in metrics for _ in range(6 // len(metrics))]
        ]
        if links:
            map_width, rates_width = _LINK_WIDTHS
            rows.append(['the links'] * map_width + ['their rates'] * rates_width)
        axes = figure.subplot_mosaic(rows)
        for metric in metrics:
            plot.learning_curves(
                shown.data.sel(pattern=[pattern]),
                metric,
                model=dataset.ALL,
                levels=predictions[metric],
                legend=False,
                ax=axes[metric],
            )
        curve_names = axes[metrics[0]].get_legend_handles_labels()[1]
        panels.legend_below(figure, curve_names, _WIDTH)
        if links:
            plot.link_map(links.mask, ax=axes['the links'])
            plot.participation_rates(
                links.mask, links.mean_prob, ax=axes['their rates']
            )

    caption = _describe_lines(source, 'interval')
    if any(predictions.values()):
        caption += ' Dotted: where algorithms were predicted to end.'
    if links:
        caption += (
            ' Below: the links of the first seed, clients with the most rounds first, and the '
            'share of rounds in which each took part beside its mean probability.'
        )
    return Page(heading, [], draw, (_WIDTH, 7.0 if links else 4.0), caption)


def _predictions(source: RunView, pattern: str, metric: str) -> dict[str, float]:
    """Returns the predicted final metrics of the series, as far as there are any."""
    if pattern not in source.clients:
        return {}
    predicted = source.clients[pattern].expected
    is_held_out = any(name.startswith('eval_') for name in source.metrics)
    name = metric.removeprefix('eval_' if is_held_out else 'train_')
    return {
        label: predicted[algorithm][name]
        for label, (algorithm, _) in source.members.items()
        if name in predicted.get(algorithm, {})
    }


def first_rounds(
    source: RunView,
    *,
    targets: Sequence[float] = (),
    shares: Sequence[float] = (),
    metric: str | None = None,
    published: Section | None = None,
) -> Page:
    """Shows the first evaluated round at which the mean over seeds reaches each level.

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
    final_metrics = source.final_metrics(metric)
    shown_metric = final_metrics.metric
    if bool(targets) == bool(shares):
        raise errors.invalid(
            'targets', 'be given, or `shares`, not both', (targets, shares)
        )
    paper = printed_numbers.load(published)
    best_of = _best_levels(source, final_metrics) if shares else {}
    rows = []
    for key in source.rows():
        pattern = key[0]
        row = labels(source, key)
        levels = {shown_metric.number(target): float(target) for target in targets}
        if shares:
            best = best_of[pattern]
            row['best'] = shown_metric.number(best)
            levels = {f'{100 * share:g} % of it': share * best for share in shares}
        values = source.curve(shown_metric.name, key)
        for title, level in levels.items():
            round_text = say_when(shown_metric, level, values, source.rounds, '.0f')
            printed = paper.get((row['pattern'], row['algorithm'], level))
            row[title] = round_text if printed is None else f'{printed} / {round_text}'
        rows.append(row)
    caption = (
        f'First multiple of {np.gcd.reduce(source.rounds)} rounds at which {shown_metric.title}, '
        f'averaged over {source.seeds}, reaches the level above; in brackets the range over seeds.'
    )
    if shares:
        caption += f' Best: of all algorithms, {final_metrics.span}.'
    if paper:
        caption += ' Paper / ours.'
    return Page('First round to reach a level', [tables.of_rows(rows, caption)])


def _best_levels(source: RunView, final_metrics: FinalMetrics) -> dict[str, float]:
    """Returns the best final metric of all algorithms, by pattern."""
    best: dict[str, FinalKey] = {}
    for key in source.rows():
        pattern = key[0]
        best[pattern] = max(best.get(pattern, key), key, key=final_metrics.score)
    return {k: final_metrics.choices[key].mean for k, key in best.items()}


def say_when(
    metric: Metric, level: float, values: np.ndarray, costs: np.ndarray, form: str
) -> str:
    """Writes when a level is reached: ``300 (150 to 450)``.

    Args:
      metric: of the level.
      level: which.
      values: float[S, E], evaluations.
      costs: float[S, E] or float[E], the round of each evaluation, or its cost.
      form: the format of a cost.

    Returns:
      When the means over seeds reach it, and the range over seeds; no range for one seed.
    """

    def first(curve: np.ndarray, cost: np.ndarray) -> float:
        is_reached = metric.reached(curve, level)
        return float(cost[np.argmax(is_reached)]) if is_reached.any() else np.inf

    def text(cost: float) -> str:
        return 'never' if np.isinf(cost) else format(cost, form)

    costs = np.broadcast_to(costs, values.shape)
    of_mean = text(first(values.mean(axis=0), costs.mean(axis=0)))
    by_seed = list(map(first, values, costs))
    if len(by_seed) == 1:
        return of_mean
    return f'{of_mean} ({reprs.span(text(min(by_seed)), text(max(by_seed)))})'
