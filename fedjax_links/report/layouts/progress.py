"""Shows how runs went: learning curves, and an overview."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.core import checks
from fedjax_links.plot import panels
from fedjax_links.plot.curves import BANDS
from fedjax_links.plot.panels import Axes, Figure
from fedjax_links.report import completion
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.layouts.page import (
    MOST_LEGEND_ROWS,
    PAPER_SCALE,
    Page,
    limit_series,
    rounds_of_map,
    with_panels,
)
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset

_WIDTH = 10.0  # inches, of the overview
_NARROW = 6.0  # inches, below which its panels stand one below another
_EXACT = (
    'Black dashes, exact before the run: the mean of a loss, the root mean square of a distance. '
    'Between thin dots: all models within two standard deviations of the mean model.'
)
_LINK_MAP = 'the links'
_LINK_RATES = 'their rates'
_LINK_WIDTHS = (4, 2)  # columns of the map of links and of their rates, out of six


def curves(
    view: RunView,
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
    """Draws curves against the round, or against a cost.

    Args:
      view: what ran.
      metrics: the metrics to draw, one block of panels each; the run's metric by default.
      lines: ``'algorithms'`` (one panel per pattern) or ``'patterns'`` (one per algorithm).
      smoothing: fraction of the evaluations that a moving average spans; 0 for none.
      band: ``'interval'`` of the mean over seeds (95 %), or standard ``'deviation'``. The deviation
        is over all that the mean is taken over: seeds, and the evaluations of a moving average.
      above: what is subtracted from the metrics, such as a known minimum.
      log: logarithmic axis of values.
      log_rounds: logarithmic axis of rounds, which shows the first rounds; round 0 is left out.
      columns: panels side by side.
      tail: fraction of the evaluations, the last ones. A point is best by the mean of the first
        metric over these evaluations.
      against: another horizontal axis, as the layout ``cost`` gives it: its name, and float[E] by
        pattern and series.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown choice or metric, or numbers out of range.
    """
    checks.choice('lines', lines, ('algorithms', 'patterns'))
    checks.choice('band', band, BANDS)
    checks.number_within('smoothing', smoothing, 0, 1)
    checks.finite('above', above)
    checks.static_int('columns', columns)
    metrics = [view.metric(metric, 'metrics').name for metric in metrics or (None,)]
    heading = f'Learning curves of {lines}'
    view, heading = limit_series(view, heading, view.final_metrics(metrics[0], tail))
    models = view.main_models
    by_pattern = lines == 'algorithms'
    panel_labels = view.patterns if by_pattern else list(models)
    line_labels = list(models) if by_pattern else view.patterns
    # Lines of patterns have the same looks, whichever model the panel's series shows.
    model_of_line = {k: models[k] if by_pattern else 'server' for k in line_labels}
    names = [
        panels.name_of(view.name(label), model)
        for label, model in model_of_line.items()
    ]
    window = dataset.num_last(len(view.rounds), smoothing)
    x_name, costs = against or ('round', None)

    exact_of = {
        (pattern, metric): _exact_curves(view, pattern, metric)
        for pattern, metric in itertools.product(view.patterns, metrics)
    }

    def draw(axes: Axes, shown: tuple[str, str]) -> None:
        metric, panel = shown
        values = {}
        x_values = {}
        exact = {}
        for label, model in model_of_line.items():
            pattern, series = (panel, label) if by_pattern else (label, panel)
            key = FinalKey(pattern, series, models[series])
            values[label] = {model: view.curve(metric, key)}
            exact_curves = exact_of[pattern, metric].get(series, {})
            if models[series] in exact_curves:
                exact[label] = {model: exact_curves[models[series]]}
            if costs is not None:
                x_values[label] = costs[pattern, series]
        plot.learning_curves(
            values,
            metric,
            model=dataset.ALL,
            rounds=view.rounds,
            names={label: view.name(label) for label in line_labels},
            exact=exact,
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
        axes.set_title(panels.name_of(view.name(panel), panel_model), fontsize='medium')

    caption = _describe_lines(view, band, window)
    caption += _describe_ends(view, metrics, view.patterns)
    if any(exact_of.values()):
        caption += f' {_EXACT}'
    page = Page(heading, [], caption=caption)
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


def _describe_lines(view: RunView, band: str, window: int = 1) -> str:
    """Says what lines and bands are."""
    span = f'over the last {window} evaluations'
    if view.num_seeds == 1:
        if window == 1:
            return 'Lines: one seed.'
        text = f'Lines: one seed, means {span}.'
        return f'{text} Bands: standard deviations.' if band == 'deviation' else text
    if band == 'deviation':
        text = f'Lines: means over {view.seeds}. Bands: standard deviations.'
    elif view.num_seeds == 2:
        text = 'Lines: means over 2 seeds. Bands: from one to the other, which is no interval.'
    else:
        text = f'Lines: means over {view.seeds}. Bands: 95 % intervals over seeds (Student t).'
    return text if window == 1 else f'{text} Both {span}.'


def _describe_ends(
    view: RunView,
    metrics: Sequence[str],
    patterns: Sequence[str],
    *,
    every_model: bool = False,
) -> str:
    """Says that lines end where a run diverged, if one did.

    Args:
      view: the series that are drawn.
      metrics: which metrics are drawn.
      patterns: labels of the patterns that are drawn.
      every_model: whether all candidate models are drawn.
    """
    keys = [k for k in view.rows(every_model=every_model) if k.pattern in patterns]
    for metric, key in itertools.product(metrics, keys):
        if np.isnan(view.curve(metric, key)).any():
            return ' A line ends where a run diverged.'
    return ''


def overview(
    view: RunView, *, pattern: str | None = None, tail: float | None = None
) -> Page:
    """Draws the main metric and a training loss, with all candidate models; links below.

    Args:
      view: what ran.
      pattern: label of the pattern; the first by default.
      tail: fraction of the evaluations, the last ones, by whose mean a point is best.

    Returns:
      A page without tables. Of more than 24 series each algorithm's best is drawn.

    Raises:
      ValueError: for an unknown pattern or a ``tail`` out of range.
    """
    pattern = view.patterns[0] if pattern is None else pattern
    checks.choice('pattern', pattern, view.patterns)
    shown, heading = limit_series(
        view, 'Overview', view.final_metrics(None, tail), [pattern]
    )
    metrics = [view.metric().name]
    for name in ('train_loss', 'loss'):
        if name in view.metrics:
            metrics.append(name)
            break
    metrics = list(dict.fromkeys(metrics))
    predictions = {name: _predictions(shown, pattern, name) for name in metrics}
    exact = {name: _exact_curves(shown, pattern, name) for name in metrics}
    links = view.links.get(pattern)

    def draw_rows(figure: Figure, rows: list[list[Any]]) -> None:
        axes = figure.subplot_mosaic(rows)
        for metric in metrics:
            plot.learning_curves(
                shown.data.sel(pattern=[pattern]),
                metric,
                model=dataset.ALL,
                levels=predictions[metric],
                exact=exact[metric],
                legend=False,
                ax=axes[metric],
            )
        curve_names = axes[metrics[0]].get_legend_handles_labels()[1]
        panels.legend_below(figure, curve_names)
        if links:
            plot.link_map(links.mask, ax=axes[_LINK_MAP])
            plot.participation_rates(links.mask, links.mean_prob, ax=axes[_LINK_RATES])

    def draw(figure: Figure) -> None:
        rows = [np.repeat(metrics, 6 // len(metrics)).tolist()]
        if links:
            map_width, rates_width = _LINK_WIDTHS
            rows.append([_LINK_MAP] * map_width + [_LINK_RATES] * rates_width)
        draw_rows(figure, rows)

    caption = _describe_overview(view, shown, metrics, pattern)
    if any(predictions.values()):
        caption += _describe_predictions(view)
    if any(exact.values()):
        caption += f' {_EXACT}'
    if links:
        caption += (
            f' Below: the links in {rounds_of_map(view, len(links.mask))}, clients with the most '
            'rounds first, and the share of all rounds in which each took part beside its mean '
            'probability.'
        )
    height = 7.0 if links else 4.0
    height += panels.legend_height(
        _curve_names(shown), _WIDTH, has_room_for=MOST_LEGEND_ROWS
    )
    page = Page(heading, [], draw, (_WIDTH, height), caption)

    def resize(width: float) -> Page:
        if width > PAPER_SCALE * _NARROW:
            return page._replace(size=(width, PAPER_SCALE * page.size[1]))
        names = [*metrics, _LINK_MAP, _LINK_RATES] if links else metrics
        num_legend_rows = sum(map(len, shown.models.values()))  # at most
        height = PAPER_SCALE * (2.6 * len(names) + 0.22 * num_legend_rows)
        draw_below = functools.partial(draw_rows, rows=[[name] for name in names])
        return page._replace(draw=draw_below, size=(width, height))

    return page._replace(resize=resize)


def _describe_overview(
    view: RunView, shown: RunView, metrics: Sequence[str], pattern: str
) -> str:
    """Says what lines and bands of an overview are, and which of several patterns it shows.

    Args:
      view: what ran.
      shown: the series that are drawn.
      metrics: which metrics are drawn.
      pattern: the label of the pattern that is drawn.
    """
    caption = _describe_lines(view, 'interval')
    caption += _describe_ends(shown, metrics, [pattern], every_model=True)
    if len(view.patterns) > 1:
        caption = f'Links: {view.name(pattern)}. {caption}'
    return caption


def _curve_names(view: RunView) -> list[str]:
    """Returns the names of the curves of all series and models."""
    names: list[str] = []
    for label, models in view.models.items():
        always = len(models) > 1
        name = view.name(label)
        names += [panels.name_of(name, model, always=always) for model in models]
    return names


def _describe_predictions(view: RunView) -> str:
    """Says what dotted lines are."""
    is_of_one_seed = view.num_seeds > 1 and completion.redrawn_streams(view.run)
    seed = ' of the first seed' if is_of_one_seed else ''
    return f' Dotted: predicted final values{seed}, or else limits of a long run.'


def _predictions(view: RunView, pattern: str, metric: str) -> dict[str, float]:
    """Returns the predicted final metrics of the series, as far as there are any."""
    if pattern not in view.clients:
        return {}
    predicted = view.clients[pattern].expected
    is_held_out = any(name.startswith('eval_') for name in view.metrics)
    name = metric.removeprefix('eval_' if is_held_out else 'train_')
    return {
        label: predicted[algorithm][name]
        for label, (algorithm, _) in view.members.items()
        if name in predicted.get(algorithm, {})
    }


def _exact_curves(
    view: RunView, pattern: str, metric: str
) -> dict[str, dict[str, np.ndarray]]:
    """Returns the exact curves of a metric by series and model, as far as there are any.

    Args:
      view: what ran.
      pattern: the label of a pattern.
      metric: the name of a metric.

    Returns:
      float64[3, E], as `plot.learning_curves` takes them.
    """
    by_series: dict[str, dict[str, np.ndarray]] = {}
    clients = view.clients.get(pattern)
    if clients is None:
        return by_series
    for label, (algorithm, _) in view.members.items():
        for model, metrics in clients.exact.get(algorithm, {}).items():
            values = metrics.get(metric)
            # A run that was extended since has more evaluations.
            if values is not None and values.shape == (3, len(view.rounds)):
                by_series.setdefault(label, {})[model] = values
    return by_series
