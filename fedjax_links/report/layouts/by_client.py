"""Who is hurt: how a metric is spread over clients, by how often they took part."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.core import errors
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.source import Source
from fedjax_links.results.metric import Metric

_CAPTION = (
    "{title} of final models on every client's own evaluation data (the clients' mean model where "
    'clients keep models; first point of a grid), each client counting the same: mean, {worst} and '
    'standard deviation over clients; means over the fourth of those who train that took part '
    'least, over the fourth that did most, and over clients that do not train. Own: of every '
    "client's own model. ± is the 95 % interval over seeds (Student t). Drawn: the first seed, "
    'clients that do not train at 0.'
)


def clients(source: Source) -> Page:
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
        problems = [experiment.problem_at(k, experiment.plan.points[0]) for k in source.patterns]
        if any(problem.eval_owned is None for problem in problems):
            requirement = 'be of a problem that holds out examples of its clients'
            raise errors.invalid('config.reports', requirement, 'clients')
    measured = {label: own.measured for label, own in source.clients.items() if own.measured}
    known = {name for every in measured.values() for own in every.values() for name in own}
    metric = _of_clients(source, known)
    rows = []
    for pattern, every in measured.items():
        for label in source.algorithms:
            if label in every:
                about = {'pattern': source.name(pattern), 'algorithm': source.name(label)}
                rows.append(about | _cells(every[label], metric))

    def draw(axes: Any, pattern: str) -> None:
        own = {k: v for k, v in measured[pattern].items() if k in source.algorithms}
        counts = np.nan_to_num(next(iter(own.values()))['participations'][0])
        values = {label: metric.scale * every[metric.name][0] for label, every in own.items()}
        names = {label: source.name(label) for label in own}
        options: dict[str, Any] = {'names': names, 'value_name': metric.title}
        is_last = pattern == list(measured)[-1]
        plot.participation_loss(counts, values, **options, legend=is_last, ax=axes)
        axes.set_title(source.name(pattern), fontsize=10)

    worst = 'tenth percentile' if metric.direction == 'max' else 'ninetieth percentile'
    caption = _CAPTION.format(title=metric.title, worst=worst)
    page = Page('Clients', [tables.of_rows(rows, caption)] if rows else [])
    return with_panels(page, [*measured], draw, panel=(3.6, 2.8))


def _of_clients(source: Source, known: Collection[str]) -> Metric:
    """The run's metric as clients have it; the loss where they have none, as with ``r2``."""
    plain = re.sub('^(train|eval)_|_(clients|p10|p90|spread)$', '', source.metric().name)
    name = plain if plain in known else 'loss'
    return Metric(name, source.data.attrs['directions'].get(f'eval_{name}'))


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
        return cell(np.nanmean(np.where(has, values, np.nan), axis=1)) if has.any(1).all() else ''

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
