"""Who took part, by the links that the first seed met, and who is hurt: losses and metrics."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import analysis, evaluation, plot
from fedjax_links.core import errors
from fedjax_links.pages import tables
from fedjax_links.plot import panels
from fedjax_links.plot.links import MAP_ROUNDS
from fedjax_links.report.client_stats import Clients
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

_MOST_NAMED = 8
_NOT_KEPT = Clients(np.zeros(0), 'not kept')
_SPREAD = (
    "{title} of final models on every client's own evaluation data (the clients' mean model where "
    'clients keep models, unless the server was tuned; first point of a grid), each client '
    'counting the same: mean, {worst} and standard deviation over clients; means over the fourth '
    'of those who train that took part least, over the fourth that did most, and over clients '
    "that do not train. Own: of every client's own model. ± is the 95 % interval over seeds "
    '(Student t). Drawn: the first seed, clients that do not train at 0.'
)


def link_maps(source: RunView) -> Page:
    """Client x round maps and what they amounted to.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Maps of the first rounds, and a table over all rounds, with how far FedAvg's weights are from
      equal ones, realised and by their exact law.
    """

    def draw(axes: Any, label: str) -> None:
        plot.link_map(source.links[label].mask, ax=axes)
        axes.set_title(panels.literal(source.name(label)), fontsize=10)

    rows = []
    for label, (mask, _) in source.links.items():
        law, found = (
            source.clients.get(label, _NOT_KEPT),
            analysis.participation_report(mask),
        )
        num_rounds, num_clients = mask.shape
        exact = (
            np.abs(law.weights - 1 / num_clients).sum() if law.weights.size else None
        )
        is_heard = found.counts.any()
        row = {'pattern': source.name(label)}
        row['active per round'] = (
            f'{found.counts.sum() / num_rounds:.1f} of {num_clients}'
        )
        row['empty rounds'] = f'{100 * found.empty_rounds / num_rounds:.1f} %'
        row['clients never heard'] = f'{100 * (found.counts == 0).mean():.1f} %'
        row['distance'] = f'{found.distance_to_uniform:.3f}' if is_heard else '-'
        row |= {'exact': '' if exact is None else f'{exact:.3f}', 'law': law.source}
        rows.append(row)
    caption = (
        "First seed, all rounds; L1 distance of FedAvg's weights E[1{i in A}/|A|] "
        'from equal ones'
    )
    if not source.clients:
        caption += (
            '. Exact weights and losses of clients are kept at the end of a run of the command '
            '`simulate`, or by `report.write(results, experiment)`'
        )
    table = tables.of_rows(rows, f'{caption}.')
    drawn = f'The first {MAP_ROUNDS} rounds of the first seed; dark where a client takes part.'
    page = Page('Realised links', [table], caption=drawn, of_links=True)
    return with_panels(page, [*source.links], draw)


def participation(source: RunView) -> Page:
    """Who took part, and who was left behind.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Participation; losses of clients, drawn too, where they were kept.
    """
    counts = {label: links.mask.sum(axis=0) for label, links in source.links.items()}
    known = {
        label: source.clients[label] for label in counts if label in source.clients
    }
    found = [_participations(source)]
    if any(own.losses or own.missing for own in known.values()):
        found.append(_losses(source, known))
    losses = {label: own.losses for label, own in known.items() if own.losses}
    drawn = 'A point: a client, its rounds and its training loss at the final model; first seed.'
    page = Page('Participation', found, caption=drawn, of_links=True)
    return _beside_participation(source, page, counts, losses)


def _beside_participation(
    source: RunView,
    page: Page,
    counts: Mapping[str, np.ndarray],
    values: Mapping[str, Mapping[str, np.ndarray]],
    **options: Any,
) -> Page:
    """Draws values of clients, float[N] by pattern and algorithm, against their participations."""

    def draw(axes: Any, pattern: str) -> None:
        own = {k: values[pattern][k] for k in source.algorithms if k in values[pattern]}
        names, is_last = {k: source.name(k) for k in own}, pattern == [*values][-1]
        look: dict[str, Any] = {**options, 'names': names, 'legend': is_last}
        plot.participation_loss(counts[pattern], own, **look, ax=axes)
        axes.set_title(panels.literal(source.name(pattern)), fontsize=10)

    return with_panels(page, [*values], draw, panel=(3.6, 2.8))


def _participations(source: RunView) -> tables.Table:
    """How often, and after which gaps, clients were heard; a row per pattern."""
    rows = []
    for label, (mask, _) in source.links.items():
        found, (num_rounds, num_clients) = (
            analysis.participation_report(mask),
            mask.shape,
        )
        counts, heard = found.counts, found.counts > 0
        age = np.where(heard, mask[::-1].argmax(axis=0) + 1, num_rounds + 1)
        gaps = found.mean_gaps[~np.isnan(found.mean_gaps)]
        row = {'pattern': source.name(label)}
        row['participations'] = f'{counts.min()}, {np.median(counts):g}, {counts.max()}'
        row['mean gap'] = f'{gaps.mean():.3g}' if gaps.size else '-'
        row['longest'] = f'{np.nanmax(found.max_gaps):.0f}' if gaps.size else '-'
        row['age at end'] = f'{np.median(age):.0f}, {age.max()}'
        effective = f'{found.effective_sample_size:.1f} of {num_clients}'
        rows.append({**row, 'effective': effective if heard.any() else '-'})
    return tables.of_rows(
        rows,
        'First seed, by client. Participations: least, median, most. Gaps: rounds from one '
        'participation to the next, mean over the clients with two. Age: rounds since the last '
        'participation when training ended, median and most. Effective: the number of equally '
        "weighted clients with the variance of FedAvg's realised weights.",
    )


def _losses(source: RunView, known: Mapping[str, Clients]) -> tables.Table:
    """Who fares worst under the final model of every algorithm; a row per pattern and algorithm."""
    import pandas

    rows = []
    for label, algorithm in itertools.product(known, source.algorithms):
        row = {'pattern': source.name(label), 'algorithm': source.name(algorithm)}
        rows.append(row)
        losses, mask = known[label].losses.get(algorithm), source.links[label].mask
        if losses is None:
            row['loss'] = known[label].missing.get(algorithm, 'not kept')
            continue
        counts = mask.sum(axis=0)
        worst, rest = np.split(
            np.argsort(-losses, kind='stable'), [-(-losses.size // 10)]
        )
        rank = (
            pandas.DataFrame({'counts': counts, 'losses': losses})
            .rank()
            .corr()
            .iloc[0, 1]
        )
        more = ', ...' if worst.size > _MOST_NAMED else ''
        row |= {
            'loss': f'{losses.mean():.4g}',
            'worst tenth': f'{losses[worst].mean():.4g}',
            'heard': f'{counts[worst].mean():.4g}',
            'others': f'{counts[rest].mean():.4g}' if rest.size else '',
            'rank': f'{rank:+.2f}' if losses.size > 2 and rank == rank else '',
            'clients': ', '.join(map(str, worst[:_MOST_NAMED].tolist())) + more,
        }
    return tables.of_rows(
        rows,
        'Training losses of the clients at the final model of the first seed (their mean model '
        'where clients keep models, unless the server was tuned; first point of a grid): mean over '
        'clients, and over the tenth with the largest. Heard, others: mean participations of that '
        "tenth and of everyone else; rank: Spearman's correlation of participation and loss over "
        'clients, negative where who is heard less fares worse. Clients: the worst, largest '
        'loss first.',
    )


def clients(source: RunView) -> Page:
    """How a metric is spread over the clients, and over whom.

    Args:
      source: what ran, of a problem whose evaluation data have owners.

    Returns:
      A row per pattern and algorithm; every client's value against its participations is drawn.

    Raises:
      ValueError: if evaluation data have no owners.
    """
    experiment = source.experiment
    if experiment is not None:
        problems = [
            experiment.problem_at(k, experiment.plan.points[0]) for k in source.patterns
        ]
        if any(problem.eval_owned is None for problem in problems):
            requirement = 'be of a problem that holds out examples of its clients'
            raise errors.invalid('config.reports', requirement, 'clients')
    measured = {
        label: own.measured for label, own in source.clients.items() if own.measured
    }
    known = {
        name for every in measured.values() for own in every.values() for name in own
    }
    plain = re.sub(
        '^(train|eval)_|_(clients|p10|p90|spread)$', '', source.metric().name
    )
    name = plain if plain in known else 'loss'  # of which clients have none, as of r2
    metric = Metric(
        name, dataset.attribute(source.data, 'directions').get(f'eval_{name}')
    )
    rows, counts, values = [], {}, {}
    for pattern, every in measured.items():
        for label in (label for label in source.algorithms if label in every):
            row = {'pattern': source.name(pattern), 'algorithm': source.name(label)}
            rows.append({**row, **_cells(every[label], metric)})
        counts[pattern] = np.nan_to_num(next(iter(every.values()))['participations'][0])
        values[pattern] = {
            label: metric.scale * own[name][0] for label, own in every.items()
        }
    worst = 'tenth percentile' if metric.direction == 'max' else 'ninetieth percentile'
    caption = _SPREAD.format(title=metric.title, worst=worst)
    drawn = f'A point: a client, its rounds and its {metric.title}; first seed, 0 without training.'
    page = Page(
        'Clients', [tables.of_rows(rows, caption)] if rows else [], caption=drawn
    )
    return _beside_participation(source, page, counts, values, value_name=metric.title)


def _cells(own: Mapping[str, np.ndarray], metric: Metric) -> dict[str, str]:
    """A row of the table."""
    worst = 10 if metric.direction == 'max' else 90
    values, times = own[metric.name], own['participations']
    least = times <= np.nanquantile(times, 0.25, axis=1, keepdims=True)
    most = times >= np.nanquantile(times, 0.75, axis=1, keepdims=True)

    def cell(numbers: Any) -> str:
        return metric.interval(evaluation.seed_interval(numbers))

    def mean(who: np.ndarray) -> str:
        has = who & ~np.isnan(values)
        return (
            cell(np.nanmean(np.where(has, values, np.nan), axis=1))
            if has.any(1).all()
            else ''
        )

    cells = {
        'mean': cell(np.nanmean(values, axis=1)),
        f'p{worst}': cell(np.nanpercentile(values, worst, axis=1)),
        'spread': cell(np.nanstd(values, axis=1)),
        'took part least': mean(least),
        'most': mean(most),
        'do not train': mean(np.isnan(times)),
    }
    personal = own.get(f'personal_{metric.name}')
    if personal is not None and not np.isnan(personal).all():
        cells['own mean'] = cell(np.nanmean(personal, axis=1))
        cells[f'own p{worst}'] = cell(np.nanpercentile(personal, worst, axis=1))
    return cells
