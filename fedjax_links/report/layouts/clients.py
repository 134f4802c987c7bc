"""Shows participation, realised links, and losses and metrics by client."""

import itertools
import math
import re
from collections.abc import Mapping

import numpy as np

from fedjax_links import analysis, evaluation, plot
from fedjax_links.core import errors
from fedjax_links.pages import tables
from fedjax_links.plot import panels
from fedjax_links.plot.panels import Axes
from fedjax_links.report.client_stats import Clients
from fedjax_links.report.comparisons import SEED_INTERVAL
from fedjax_links.report.layouts.page import (
    Page,
    lane_of_links,
    rounds_of_map,
    with_panels,
)
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.clients import PARTICIPATIONS
from fedjax_links.results.metric import Metric

_MOST_NAMED = 8
"""Clients that a cell lists, so that the table fits a terminal."""
_NOT_RECORDED = Clients(np.zeros(0), 'not recorded')
_SPREAD = (
    "{title} of final models on every client's own evaluation data (the clients' mean model where "
    'clients keep models, unless the server was tuned; first point of a grid). Each client counts '
    'the same. Mean, {quantile} and standard deviation (spread) are over clients. Took part least, '
    'most: means over the training clients with at most the lower quartile of participations, and '
    "with at least the upper one. Own: the same at every client's own model.{interval}"
)


def link_maps(view: RunView) -> Page:
    """Shows client x round maps of the links, and their statistics.

    Args:
      view: what ran, with the links that were recorded.

    Returns:
      Maps of the first rounds, and a table over all rounds. The table has the distance of FedAvg's
      weights from equal weights: of the realised weights, and of the expected ones where their law
      is exact.
    """

    def draw(axes: Axes, pattern: str) -> None:
        plot.link_map(view.links[pattern].mask, ax=axes)
        axes.set_title(panels.literal(view.name(pattern)), fontsize='medium')

    rows = [_link_row(view, label) for label in view.links]
    caption = (
        f'{lane_of_links(view).capitalize()}, all rounds. Distance: L1, from equal weights to the '
        'realised ones of FedAvg, for client i the mean of 1{i in A} / |A| over rounds. Exact: to '
        'their expected values'
    )
    if not view.clients:
        caption += (
            '. Exact weights and losses of clients are recorded at the end of a run of the '
            'command `simulate`, or by `report.write(results, experiment)`'
        )
    if not rows:
        caption = 'No links are recorded in this folder; an archive has none'
    table = tables.from_rows(rows, f'{caption}.')
    num_rounds = max((len(links.mask) for links in view.links.values()), default=0)
    picture_caption = (
        f'Dark where a client takes part, in {rounds_of_map(view, num_rounds)}.'
    )
    page = Page('Realised links', [table], caption=picture_caption, of_links=True)
    return with_panels(page, [*view.links], draw)


def _link_row(view: RunView, label: str) -> dict[str, str]:
    """Writes the statistics of a pattern's links."""
    mask = view.links[label].mask
    num_rounds, num_clients = mask.shape
    report = analysis.participation_report(mask)
    law = view.clients.get(label, _NOT_RECORDED)
    active = f'{report.counts.sum() / num_rounds:.1f} of {num_clients}'
    distance = f'{report.distance_to_uniform:.3f}' if report.counts.any() else '-'
    exact_distance = ''
    if law.weights.size:
        exact_distance = f'{np.abs(law.weights - 1 / num_clients).sum():.3f}'
    return {
        'pattern': view.name(label),
        'active per round': active,
        'empty rounds': f'{100 * report.empty_rounds / num_rounds:.1f} %',
        'clients never active': f'{100 * (report.counts == 0).mean():.1f} %',
        'distance': distance,
        'exact': exact_distance,
        'law': law.source,
    }


def participation(view: RunView) -> Page:
    """Shows how often clients took part, and which clients fare worst.

    Args:
      view: what ran, with the links that were recorded.

    Returns:
      A table of participation. If losses of clients were recorded, a table and a picture of the
      losses too.
    """
    counts = {label: links.mask.sum(axis=0) for label, links in view.links.items()}
    recorded = {label: view.clients[label] for label in counts if label in view.clients}
    shown = [_participations(view)]
    if any(clients.losses or clients.missing for clients in recorded.values()):
        shown.append(_losses(view, recorded))
    losses = {
        label: clients.losses for label, clients in recorded.items() if clients.losses
    }
    picture_caption = (
        'A point is a client, with its rounds and its training loss at the final model; '
        f'{lane_of_links(view)}.'
    )
    page = Page('Participation', shown, caption=picture_caption, of_links=True)
    return _with_scatter(view, page, counts, losses)


def _with_scatter(
    view: RunView,
    page: Page,
    counts: Mapping[str, np.ndarray],
    values: Mapping[str, Mapping[str, np.ndarray]],
    value_name: str = 'loss of the client',
) -> Page:
    """Draws values of clients against their participations, a panel per pattern.

    Args:
      view: what ran.
      page: the page with its tables.
      counts: int[N] by pattern, rounds in which a client took part.
      values: float[N] by pattern and algorithm.
      value_name: the name of the values.
    """
    # An algorithm without values under a pattern has a colour and a name in its panel too, so that
    # all panels have the same.
    measured: set[str] = set().union(*values.values())
    names = {label: view.name(label) for label in view.algorithms if label in measured}

    def draw(axes: Axes, pattern: str) -> None:
        no_values = np.full(counts[pattern].shape, np.nan)
        plot.participation_loss(
            counts[pattern],
            {label: values[pattern].get(label, no_values) for label in names},
            names=names,
            value_name=value_name,
            legend=False,
            ax=axes,
        )
        axes.set_title(panels.literal(view.name(pattern)), fontsize='medium')

    legend = [panels.literal(name) for name in names.values()]
    return with_panels(page, [*values], draw, panel=(3.6, 2.8), legend=legend)


def _participations(view: RunView) -> tables.Table:
    """Shows how often clients took part and how long the gaps were; a row per pattern."""
    rows = []
    for label, links in view.links.items():
        num_rounds, num_clients = links.mask.shape
        report = analysis.participation_report(links.mask)
        counts = report.counts
        has_participated = counts > 0
        rounds_since_last = np.flip(links.mask, axis=0).argmax(axis=0) + 1
        age = np.where(has_participated, rounds_since_last, num_rounds + 1)
        gaps = report.mean_gaps[~np.isnan(report.mean_gaps)]
        effective = f'{report.effective_sample_size:.1f} of {num_clients}'
        row = {
            'pattern': view.name(label),
            'participations': f'{counts.min()}, {np.median(counts):g}, {counts.max()}',
            'mean gap': f'{gaps.mean():.3g}' if gaps.size else '-',
            'longest': f'{np.nanmax(report.max_gaps):.0f}' if gaps.size else '-',
            'age at end': f'{np.median(age):g}, {age.max()}',
            'effective': effective if has_participated.any() else '-',
        }
        rows.append(row)
    return tables.from_rows(
        rows,
        f'{lane_of_links(view).capitalize()}, by client. Participations: least, median, most. Gap: '
        'rounds from one participation to the next; mean over the clients with two, and the '
        'longest. Age: rounds since the last participation, median and most. Effective: the number '
        "of equally weighted clients with the variance of FedAvg's realised weights.",
    )


def _losses(view: RunView, recorded: Mapping[str, Clients]) -> tables.Table:
    """Shows which clients fare worst at final models; a row per pattern and algorithm."""
    rows = []
    for label, algorithm in itertools.product(recorded, view.algorithms):
        row = {'pattern': view.name(label), 'algorithm': view.name(algorithm)}
        losses = recorded[label].losses.get(algorithm)
        if losses is None:
            row['loss'] = recorded[label].missing.get(algorithm, 'not recorded')
        else:
            row |= _loss_cells(losses, view.links[label].mask.sum(axis=0))
        rows.append(row)
    return tables.from_rows(
        rows,
        'Training losses of the clients at the final model of the first seed (their mean model '
        'where clients keep models, unless the server was tuned; first point of a grid): mean over '
        'clients, and over the tenth with the largest. Active, others: mean participations of that '
        "tenth and of all others; rank: Spearman's correlation of participation and loss over "
        'clients, negative where clients that are active less fare worse. Clients: those of the '
        'tenth, largest loss first.',
    )


def _loss_cells(losses: np.ndarray, counts: np.ndarray) -> dict[str, str]:
    """Writes losses of clients, and their correlation with participation.

    Args:
      losses: float[N].
      counts: int[N], rounds in which a client took part.
    """
    import pandas

    largest_first = np.argsort(-losses, kind='stable')
    num_worst = math.ceil(losses.size / 10)
    worst = largest_first[:num_worst]
    rest = largest_first[num_worst:]
    ranks = pandas.DataFrame({'counts': counts, 'losses': losses}).rank()
    correlation = ranks.corr().iloc[0, 1]
    has_correlation = losses.size > 2 and not math.isnan(correlation)
    ids = ', '.join(map(str, worst[:_MOST_NAMED].tolist()))
    return {
        'loss': f'{losses.mean():.4g}',
        'worst tenth': f'{losses[worst].mean():.4g}',
        'active': f'{counts[worst].mean():.4g}',
        'others': f'{counts[rest].mean():.4g}' if rest.size else '',
        'rank': f'{correlation:+.2f}' if has_correlation else '',
        'clients': f'{ids}, ...' if worst.size > _MOST_NAMED else ids,
    }


def clients(view: RunView) -> Page:
    """Shows how a metric is spread over the clients.

    Args:
      view: what ran, of a problem whose evaluation data have owners.

    Returns:
      A row per pattern and algorithm. The picture has each client's value against its
      participations.

    Raises:
      ValueError: if evaluation data have no owners.
    """
    _check_owners(view)
    measured = {
        pattern: stats.measured
        for pattern, stats in view.clients.items()
        if stats.measured
    }
    metric = _client_metric(view, measured)
    rows = []
    counts = {}
    values = {}
    for pattern, by_algorithm in measured.items():
        for label in view.algorithms:
            if label not in by_algorithm:
                continue
            row = {'pattern': view.name(pattern), 'algorithm': view.name(label)}
            rows.append(row | _client_cells(by_algorithm[label], metric))
        first_algorithm = next(iter(by_algorithm.values()))
        counts[pattern] = np.nan_to_num(first_algorithm[PARTICIPATIONS][0])
        values[pattern] = {
            label: metric.scale * metrics[metric.name][0]
            for label, metrics in by_algorithm.items()
        }
    quantile = (
        'tenth percentile' if metric.direction == 'max' else 'ninetieth percentile'
    )
    interval = f' ± is {SEED_INTERVAL}.' if view.num_seeds > 1 else ''
    caption = _SPREAD.format(title=metric.title, quantile=quantile, interval=interval)
    picture_caption = (
        f'A point is a client, with its rounds and its {metric.title}; '
        'first seed; clients that do not train are at 0.'
    )
    if not rows:
        caption = (
            'No metrics of clients are recorded in this folder. Runs of the command `simulate` and '
            '`report.write(results, experiment)` record them, if evaluation data have owners.'
        )
    page = Page('Clients', [tables.from_rows(rows, caption)], caption=picture_caption)
    return _with_scatter(view, page, counts, values, metric.title)


def _check_owners(view: RunView) -> None:
    """Raises if the experiment is at hand and its evaluation data have no owners."""
    experiment = view.experiment
    if experiment is None:
        return
    first_point = experiment.plan.points[0]
    for pattern in view.patterns:
        if experiment.problem_at(pattern, first_point).eval_owned is None:
            requirement = 'be of a problem that holds out examples of its clients'
            raise errors.invalid('config.reports', requirement, 'clients')


def _client_metric(
    view: RunView, measured: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]
) -> Metric:
    """Returns the metric to show: the run's metric if clients have it, else the clients' loss."""
    recorded_names: set[str] = set()
    for by_algorithm in measured.values():
        for metrics in by_algorithm.values():
            recorded_names |= metrics.keys()
    name = re.sub('^(train|eval)_|_(clients|p10|p90|spread)$', '', view.metric().name)
    if name not in recorded_names:
        name = 'loss'  # A metric over all examples together, such as r2, has no client values.
    directions = dataset.read_attribute(view.data, 'directions')
    return Metric(name, directions.get(f'eval_{name}'))


def _client_cells(metrics: Mapping[str, np.ndarray], metric: Metric) -> dict[str, str]:
    """Writes a metric over clients, with its interval over seeds.

    Args:
      metrics: float[S, N] by name of a metric, and ``participations``.
      metric: the one to show.
    """
    import pandas

    percentile = 10 if metric.direction == 'max' else 90
    values = metrics[metric.name]
    counts = metrics[PARTICIPATIONS]
    is_rare = counts <= np.nanquantile(counts, 0.25, axis=1, keepdims=True)
    is_frequent = counts >= np.nanquantile(counts, 0.75, axis=1, keepdims=True)
    has_diverged = np.isnan(values).all(axis=1)

    # Columns are seeds. Statistics of a column leave out clients without a value.
    by_seed = pandas.DataFrame(values.T)

    def cell(statistics: pandas.Series) -> str:
        return metric.interval(evaluation.seed_interval(statistics.to_numpy()))

    def mean_over(group: np.ndarray) -> str:
        means = by_seed.where(group.T).mean()
        # Each seed needs a value in the group, unless it diverged.
        is_complete = (means.notna() | has_diverged).all()
        if not group.any() or not is_complete:
            return ''
        return cell(means)

    cells = {
        'mean': cell(by_seed.mean()),
        f'p{percentile}': cell(by_seed.quantile(percentile / 100)),
        'spread': cell(by_seed.std(ddof=0)),
        'took part least': mean_over(is_rare),
        'most': mean_over(is_frequent),
        'do not train': mean_over(np.isnan(counts)),
    }
    personal = pandas.DataFrame(metrics.get(f'personal_{metric.name}', [])).T
    if personal.notna().any(axis=None):
        cells['own mean'] = cell(personal.mean())
        cells[f'own p{percentile}'] = cell(personal.quantile(percentile / 100))
    return cells
